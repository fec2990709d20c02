"""Logs, request programs, logs of `highwater top` and budgets."""

import change
import seeds


def logs(check, count):
    rng, inputs = check.rng, list(seeds.messages())
    for number, (name, log) in check.drawn(count, inputs):
        data = change.text(log[1:], rng)
        path = check.file("in.log", data)
        check.judge("logs", f"{number}-{name}", data, [("text", ["explain", path]), ("json", ["explain", path, "--format", "json"])], len(data))


ROWS = [b"empty_cache", b"reset_peak", b"snapshot", b"memory_fraction,,,,,0.1", b"set_config,,,,,expandable_segments:True", b"free,3",
        b"alloc,3,17,63", b"events_ready,,,,0", b"events_ready,,,,,0", b"record_stream,3,,5", b"pool_create,,,,9,use_on_oom",
        b"pool_begin,,,,7\nalloc,3,17,0\npool_end,,,,7", b"pool_begin,,,,7", b"pool_release,,,,7", b"memory_fraction,,,,,nan"]
SIZES = [b"0", b"1", b"512", b"1048576", b"1048577", b"20971520", b"4503599627370496", b"9223372036854775807", b"18446744073709551615"]
# What no number of a program is.
ODD = [b"-1", b"0", b"18446744073709551615", b"18446744073709551616", b"x", b"", b"1e9", b"\xff", b"\x1b[2J", b"=1+1",
       b"0x7fffffffffffffff", b"4294967296"]
CONFS = ["expandable_segments:True", "garbage_collection_threshold:0.6,max_split_size_mb:21", "roundup_power2_divisions:[256:4,>:8]"]
BAD_CONFS = ["max_split_size_mb:99999999999999999999", "roundup_power2_divisions:[1:0,>:7]", ":", ",,,", "expandable_segments:maybe", "a:b:c",
             "roundup_power2_divisions:[256:4", "\x1b[31m:1"]


def program(plain, rng):
    """A program whose rows still are rows, most of the time."""
    data = change.text(plain, rng) if rng.random() < 0.3 else plain
    lines = data.split(b"\n")
    for _ in range(rng.choice([0, 1, 5, 40])):
        at = rng.randrange(1, max(len(lines), 2)) % len(lines)
        cells = lines[at].split(b",")
        if cells[0] == b"alloc" and len(cells) > 3:
            cells[2] = rng.choice(SIZES)
            cells[3] = rng.choice([cells[3], b"0", b"1", b"63"])
        elif rng.random() < 0.1:
            cells[rng.randrange(len(cells))] = rng.choice(ODD)
        lines[at] = b",".join(cells)
        if plain.startswith(b"op,") and rng.random() < 0.6:
            lines.insert(max(at, 1), rng.choice(ROWS))
    return b"\n".join(lines)


def requests(check, count):
    rng, inputs = check.rng, list(seeds.programs())
    for number, (name, plain) in check.drawn(count, inputs):
        data = program(plain, rng)
        words = ["simulate", "--requests", check.file("in.csv", data)]
        more = rng.choice([[], ["--conf", rng.choice(CONFS)], ["--conf", rng.choice(BAD_CONFS)], ["--capacity", "1GiB"],
                           ["--capacity", "1PiB"], ["--va", "random:1"], ["--va", "descending"], ["--events", "-"], ["--stats", "-"],
                           rng.choice([["--outside", "900PiB"], ["--capacity", "0"], ["--torch", "99.99"]])])
        chosen = [("csv" if "-" in more else "text", [*words, *more])]
        if "-" not in more:
            chosen.append(("json", [*words, "--format", "json", *more]))
        check.judge("requests", f"{number}-{name}", data, chosen, len(data) + (1 << 20))


NARROW = ("index", "temperature_c", "draw_mw", "limit_mw", "gpu_percent", "memory_percent", "pid", "device")


def changed_look(index, gpus, rng):
    """A sample with other words and numbers that its fields hold, and sometimes with any."""
    look = seeds.look(index, gpus)
    for node, key in list(change.places(look)):
        old = node[key]
        if isinstance(old, str) and key != "kind" and rng.random() < 0.3:
            node[key] = rng.choice([name for name in change.HOSTILE if name != "\ud800"])
        elif type(old) is int and rng.random() < 0.25:
            node[key] = rng.choice([0, 1, 2**31, 2**32 - 1, *([] if key in NARROW else [2**63, 2**64 - 1])])
    return change.structure(look, rng) if rng.random() < 0.05 else look


def hwlog(check, count):
    rng = check.rng
    for number in check.numbers(count):
        gpus = rng.choice([1, 1, 2, 8])
        looks = [changed_look(index, gpus, rng) for index in range(rng.choice([1, 3, 10]))]
        data = seeds.log_of(looks, rng.choice([0, 1, 100_000, 100_000, 100_000, 2**64 - 1]))
        data = change.text(data, rng) if rng.random() < 0.15 else data
        words = ["top", "--replay", check.file("in.hwlog", data), "--once"]
        kinds = [("text", words), ("csv", [*words, "--format", "csv"]), ("jsonl", [*words, "--format", "json"])]
        check.judge("hwlog", str(number), data, rng.sample(kinds, 2), len(data))


def budgets(check, count):
    rng = check.rng
    plain = min((data for _, data in seeds.snapshot()), key=len)
    snapshot = check.file("last-release.pickle", plain)
    for number in check.numbers(count):
        odd = rng.choice(["-1", "1e400GiB", "99999999999999999999GiB", "\\u001b[31m", "", "NaN%", *["8GiB"] * 6])
        data = seeds.BUDGETS.replace("8GiB", odd).encode()
        data = change.text(data, rng) if rng.random() < 0.3 else data
        path = check.file("budgets.toml", data)
        kind = rng.choice(["text", "json"])
        words = ["check", snapshot, "--config", path, "--format", kind]
        check.judge("budgets", str(number), data, [(kind, words)], len(data) + len(plain))
