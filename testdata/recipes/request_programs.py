#!/usr/bin/env python3
"""Seedable generators of request programs (docs/request-programs.md).

    request_programs.py fuzz  --seed N [--ops N] [--streams N] [--pools] [--events] [--max-mib N] [--live N]
                              [--fraction F] [--toggle CONF]... > program.csv
    request_programs.py train --seed N [--ops N] [--variable] [--streams N] [--layers N] [--width N] > program.csv

The same arguments give the same bytes on every Python from 3.10 on: only `random.Random(seed).random()` is drawn from.
"""

import argparse
import random
import sys

MIB = 1 << 20
HEADER = "op,id,bytes,stream,pool,value"
# Thresholds of the allocator and of the settings, hit exactly, one byte and one step of 512 bytes to either side.
SMALL_EDGES = [1, 2, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4096, 65536]
LARGE_EDGES_MIB = [0.5, 1, 2, 4, 8, 10, 12, 16, 20, 21, 32, 33, 64, 100, 128, 200, 256, 512]
STEPS = [-513, -512, -511, -1, 0, 1, 511, 512, 513]


class Program:
    """Rows of a request program, and how many requested bytes are live if nothing fails."""

    def __init__(self):
        self.rows, self.live, self.now, self.peak, self.ids = [], {}, 0, 0, 0

    def op(self, name, id="", bytes="", stream="", pool="", value=""):
        self.rows.append(f"{name},{id},{bytes},{stream},{pool},{value}")

    def alloc(self, size, stream=0):
        self.ids += 1
        self.live[self.ids] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        self.op("alloc", self.ids, size, stream)
        return self.ids

    def free(self, id):
        self.now -= self.live.pop(id)
        self.op("free", id)

    def text(self):
        return "\n".join([HEADER, *self.rows]) + "\n"


class Draw:
    """Every choice goes through random(), whose stream Python guarantees across versions."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, n):
        return int(self.random() * n)

    def choice(self, items):
        return items[self.below(len(items))]

    def chance(self, p):
        return self.random() < p


def fuzz(
    seed,
    ops=4000,
    streams=1,
    pools=False,
    events=False,
    max_mib=96,
    live=60,
    fraction=None,
    toggle=(),
    empty_cache=0.002,
):
    """Sizes: edges and log-uniform. Lifetimes: phases of stack, queue and random order around a moving target.

    What torch <= 2.11 does with record_stream under an open pool depends on heap addresses, and so does the order in
    which several blocks in use on other streams, freed under an open pool, complete. So that programs have one outcome,
    record_stream is only called while no pool is open, and at most one such free is made until no pool is open."""
    draw, p = Draw(seed), Program()
    edges = SMALL_EDGES + [int(m * MIB) + d for m in LARGE_EDGES_MIB if m <= max_mib for d in STEPS]
    if fraction is not None:
        p.op("memory_fraction", value=fraction)
    order = []  # live ids, oldest first
    mode, target, blocked = "random", live, 0
    open_pools, held_pools, next_pool = [], [], 1
    recorded, postponed = set(), False  # ids used on another stream; whether one was freed under an open pool

    def may_free(id):
        nonlocal postponed
        if not open_pools or id not in recorded:
            return True
        first, postponed = not postponed, True
        return first

    while len(p.rows) < ops:
        n = len(p.rows)
        if draw.chance(0.008):
            mode = draw.choice(["stack", "queue", "random"])
            target = 2 + draw.below(2 * live)
        if draw.chance(0.12):
            size = draw.choice(edges)
        elif draw.chance(0.5):
            size = 1 + int((2 * MIB) ** draw.random())
        else:
            size = 1 + int((max_mib * MIB) ** (0.7 + 0.3 * draw.random()))
        stream = draw.below(streams)
        order.append(p.alloc(size, stream))
        postponed = postponed and bool(open_pools)
        if events and streams > 1:
            for _ in range(2):
                if draw.chance(0.15) and not open_pools:
                    id = draw.choice(order)
                    recorded.add(id)
                    p.op("record_stream", id, stream=draw.below(streams))
            if draw.chance(0.01):
                p.op("events_ready", stream=draw.choice(["", draw.below(streams)]), value=0)
                blocked = len(p.rows) + draw.below(150)
            elif blocked and len(p.rows) > blocked:
                p.op("events_ready", value=1)
                blocked = 0
        while len(order) > target or (order and draw.chance(0.25)):
            at = {"stack": len(order) - 1, "queue": 0, "random": draw.below(len(order))}[mode]
            if not may_free(order[at]):
                break
            p.free(order.pop(at))
        if draw.chance(0.003):
            while order and draw.chance(0.97):
                at = draw.below(len(order))
                if may_free(order[at]):
                    p.free(order.pop(at))
        if draw.chance(empty_cache):
            p.op("empty_cache")
        if draw.chance(0.0007):
            p.op("reset_peak")
        if pools:
            if len(open_pools) < 2 and draw.chance(0.01):
                # A released pool is gone: its number is not used again. A held one may be entered again.
                again = [k for k in held_pools if k not in open_pools]
                pool = draw.choice(again) if again and draw.chance(0.4) else next_pool
                next_pool += pool == next_pool
                open_pools.append(pool)
                held_pools.append(pool)
                p.op("pool_begin", pool=pool, stream="" if draw.chance(0.5) else draw.below(streams))
            elif open_pools and draw.chance(0.03):
                p.op("pool_end", pool=open_pools.pop(draw.below(len(open_pools))))
            closed = [k for k in held_pools if k not in open_pools]
            if closed and draw.chance(0.02):
                pool = draw.choice(closed)
                held_pools.remove(pool)
                p.op("pool_release", pool=pool)
        if toggle and n // 500 != len(p.rows) // 500:
            p.op("set_config", value=toggle[len(p.rows) // 500 % len(toggle)])
        if n // 1500 != len(p.rows) // 1500:
            p.op("snapshot")
    for pool in open_pools:
        p.op("pool_end", pool=pool)
    return p


def train(seed, ops=5000, variable=False, streams=1, layers=6, width=768, vocab=16384, batch=4, low=64, high=768):
    """Decoder-only training: parameters, saved activations, stack-order backward, gradients, Adam state; optionally a
    stream that gathers weights and one that reduces gradients, with record_stream, as sharded training does."""
    draw, p = Draw(seed), Program()
    a, d, V = p.alloc, width, vocab
    layer = (6 * d * d, 2 * d * d, 8 * d * d, 8 * d * d, 2 * d, 2 * d)
    weights = [2 * V * d, *layers * layer]
    for w in weights:
        a(w)
    state, tokens = None, high
    while len(p.rows) < ops:
        if variable:
            tokens = low + draw.below(high - low)
        n = batch * tokens
        gathered = lambda: a(24 * d * d, 1) if streams > 1 else None

        def done(g):
            if g is not None:
                p.op("record_stream", g, stream=0)
                p.free(g)

        ids = a(8 * n)
        x, saved = a(2 * n * d), []
        for _ in range(layers):
            g = gathered()
            ln, st, qkv, o, lse = a(2 * n * d), a(8 * n), a(6 * n * d), a(2 * n * d), a(4 * n * max(1, d // 128))
            proj = a(2 * n * d); r = a(2 * n * d); p.free(proj)
            ln2, h, act = a(2 * n * d), a(8 * n * d), a(8 * n * d)
            y = a(2 * n * d); r2 = a(2 * n * d); p.free(y)
            saved.append((ln, st, qkv, o, lse, r, ln2, h, act, x))
            x = r2
            done(g)
        final = a(2 * n * d); logits = a(2 * n * V); logits32 = a(4 * n * V)
        loss = a(4); grad32 = a(4 * n * V); p.free(logits32)
        grad16 = a(2 * n * V); p.free(grad32); p.free(logits)
        dx = a(2 * n * d); grads = [a(2 * V * d)]; p.free(grad16); p.free(final); p.free(x)
        for ln, st, qkv, o, lse, r, ln2, h, act, xin in reversed(saved):
            g = gathered()
            reduced = a(24 * d * d, 2) if streams > 2 else None
            dact = a(8 * n * d); w2 = a(8 * d * d); p.free(act)
            dh = a(8 * n * d); p.free(dact); p.free(h); w1 = a(8 * d * d)
            d2 = a(2 * n * d); p.free(dh); p.free(ln2); d3 = a(2 * n * d); p.free(d2); p.free(dx); p.free(r)
            wo = a(2 * d * d); do = a(2 * n * d); p.free(o); dqkv = a(6 * n * d); p.free(do); p.free(qkv); p.free(lse)
            wq = a(6 * d * d); d4 = a(2 * n * d); p.free(dqkv); p.free(ln); p.free(st)
            dx = a(2 * n * d); p.free(d4); p.free(d3); p.free(xin)
            grads += [w2, w1, wo, wq, a(2 * d), a(2 * d)]
            done(g)
            if reduced is not None:
                p.op("record_stream", reduced, stream=0)
                if draw.chance(0.3):
                    p.op("events_ready", stream=0, value=0)
                p.free(reduced)
                if draw.chance(0.5):
                    p.op("events_ready", value=1)
        if streams > 1:
            p.op("events_ready", value=1)
        p.free(dx); p.free(ids); p.free(loss)
        if state is None:
            state = [(a(4 * w), a(4 * w)) for w in weights]
        for w in weights[::7]:
            t1, t2 = a(4 * w), a(4 * w)
            p.free(t1); p.free(t2)
        for g in grads:
            p.free(g)
    p.op("snapshot")
    return p


def classes(seed, ops=2500, streams=1, max_mib=96, live=40, small=0.25, middle=0.5, fractions=(), confs=(), every=300):
    """Sizes by class rather than by edge: `small` up to 1 MiB, `middle` 1-12 MiB (where a request takes a segment much
    larger than itself), the rest up to max_mib. Every `every` rows the memory fraction and the settings change, in
    turn."""
    draw, p, order = Draw(seed), Program(), []
    turn = -1
    while len(p.rows) < ops:
        if len(p.rows) // every != turn:
            turn = len(p.rows) // every
            if fractions:
                p.op("memory_fraction", value=fractions[turn % len(fractions)])
            if confs:
                p.op("set_config", value=confs[turn % len(confs)])
        kind = draw.random()
        if kind < small:
            if draw.chance(0.8):
                size = 1 + int(MIB ** draw.random())
            else:
                size = max(1, 512 * (1 << draw.below(8)) + draw.below(3) - 1)
        elif kind < small + middle:
            size = MIB + draw.below(11 * MIB)
        else:
            size = 10 * MIB + draw.below((max_mib - 10) * MIB)
        order.append(p.alloc(size, draw.below(streams)))
        while len(order) > live or (order and draw.chance(0.45)):
            p.free(order.pop(draw.below(len(order))))
        if draw.chance(0.004):
            while len(order) > live // 8:
                p.free(order.pop(draw.below(len(order))))
        if draw.chance(0.004):
            p.op("empty_cache")
    p.op("snapshot")
    return p


def limits(seed, capacity_mib, fractions, rounds=3):
    """Fills the device exactly up to each fraction of capacity_mib and one step beyond, with whole segments. Fractions
    for which fraction * capacity is a multiple of 2 MiB only after rounding to nearest tell truncated and rounded
    limits apart."""
    draw, p = Draw(seed), Program()
    for _ in range(rounds):
        for fraction in fractions:
            p.op("memory_fraction", value=fraction)
            left, ids = round(float(fraction) * capacity_mib) // 2, []
            while left:
                pairs = min(left, 1 + draw.below(40))
                pairs = pairs if pairs == 1 or pairs >= 5 else 1
                ids.append(p.alloc(2 * MIB * pairs - (0 if pairs > 1 else MIB + draw.below(1000))))
                left -= pairs
            ids += [p.alloc(MIB), p.alloc(MIB // 2 + 1)]
            while ids:
                p.free(ids.pop(draw.below(len(ids))))
            p.op("empty_cache")
    p.op("snapshot")
    return p


def lifecycle(seed, ops=2500, streams=1, events=False, flags=False, max_mib=48, numbers=12, stride=1):
    """Private pools that are entered, filled, released, emptied and, once gone, begun again under the same number. At
    most one pool is open at a time. With flags, pools are created with `no_split`, `use_on_oom` or both (such numbers
    are used once; the first few `use_on_oom` pools are never released, as torch fails an assertion when it searches one
    without uses); with events, blocks are used on other streams before a pool is opened and at most one of them is
    freed inside (see fuzz)."""
    draw, p = Draw(seed), Program()
    # id -> pool; ids outside pools; pool -> uses; ids used on another stream
    where, default, held, recorded = {}, [], {}, set()
    once, kept = 1000, set()

    def size():
        kind = draw.random()
        if kind < 0.3:
            return 1 + int(MIB ** draw.random())
        return MIB + draw.below(11 * MIB) if kind < 0.75 else 1 + draw.below(max_mib * MIB)

    def free(id):
        recorded.discard(id)
        where.pop(id, None)
        p.free(id)

    while len(p.rows) < ops:
        for _ in range(draw.below(25)):
            default.append(p.alloc(size(), draw.below(streams)))
            while default and draw.chance(0.45):
                free(default.pop(draw.below(len(default))))
        if events:
            p.op("events_ready", value=draw.below(2))
            for id in default:
                if draw.chance(0.2):
                    recorded.add(id)
                    p.op("record_stream", id, stream=draw.below(streams))
        # Fill a new or a held pool; only numbers of pools that are certainly gone are begun again.
        in_use = {*held, *where.values()}
        free_numbers = [stride * k for k in range(1, numbers + 1) if stride * k not in in_use]
        again = [k for k in sorted(held) if k < 1000]
        pool = draw.choice(again) if again and draw.chance(0.4) else draw.choice(free_numbers) if free_numbers else None
        if flags and draw.chance(0.4):
            pool, once = once, once + stride
            on_oom = ["no_split", "use_on_oom", "use_on_oom no_split", ""]
            value = draw.choice(on_oom if len(kept) < 4 else ["no_split", ""])
            if "use_on_oom" in value:
                kept.add(pool)
            p.op("pool_create", pool=pool, value=value)
            held[pool] = 1
        if pool is not None:
            only = draw.choice(["", draw.below(streams)])
            p.op("pool_begin", pool=pool, stream=only)
            held[pool] = held.get(pool, 0) + 1
            postponed = False
            for _ in range(5 + draw.below(20)):
                stream = draw.below(streams)
                id = p.alloc(size(), stream)
                if only == "" or only == stream:
                    where[id] = pool
                else:
                    default.append(id)
                for id in [i for i in [*where, *default] if draw.chance(0.02)]:
                    if id in recorded:
                        if postponed:
                            continue
                        postponed = True
                    if id in default:
                        default.remove(id)
                    free(id)
                if draw.chance(0.02):
                    p.op("empty_cache")
            p.op("pool_end", pool=pool)
        for id in [i for i, k in where.items() if k in kept and draw.chance(0.6)]:
            free(id)
        for pool in [k for k in sorted(held) if k not in kept and draw.chance(0.3)]:
            if draw.chance(0.7):
                for id in [i for i, k in where.items() if k == pool and draw.chance(0.9)]:
                    free(id)
            for _ in range(held.pop(pool)):
                p.op("pool_release", pool=pool)
            if draw.chance(0.3):
                p.op("empty_cache", pool=pool)
        for id in [i for i, k in where.items() if k not in held and draw.chance(0.5)]:
            free(id)
        if events:
            p.op("events_ready", value=1)
            p.alloc(1)
            free(p.ids)
        # Everything free is returned here: pools without uses and without blocks are gone.
        p.op("empty_cache")
        if draw.chance(0.1):
            p.op("snapshot")
    p.op("snapshot")
    return p


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("kind", choices=["fuzz", "train"])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--ops", type=int)
    parser.add_argument("--streams", type=int)
    parser.add_argument("--pools", action="store_true")
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--max-mib", type=int)
    parser.add_argument("--live", type=int)
    parser.add_argument("--fraction")
    parser.add_argument("--toggle", action="append")
    parser.add_argument("--variable", action="store_true")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--width", type=int)
    options = {k: v for k, v in vars(parser.parse_args()).items() if v not in (None, False)}
    kind = options.pop("kind")
    program = {"fuzz": fuzz, "train": train}[kind](**options)
    sys.stdout.write(program.text())
    print(f"{len(program.rows)} ops, peak live {program.peak / MIB:.1f} MiB requested", file=sys.stderr)


if __name__ == "__main__":
    main()
