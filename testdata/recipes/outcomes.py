"""Runs programs under other settings and limits on a GPU, for simulate to predict. Printed testdata/outcomes.

    outcomes.py OUT [JOBS]                          every program under every setting and limit, JOBS at a time (1)
    outcomes.py OUT PROGRAM CONF [LIMIT_BYTES]      one of them

Needs torch. Each program is recorded once, under the default settings and without a limit: OUT/PROGRAM.pickle.gz. OUT/outcomes.jsonl
has a line for each run, OUT/segments.jsonl.gz one for where its segments lay. Runs that share the card can fill it together, and
fail or retry far below their limits: give JOBS only if all of them fit beside each other.
"""

import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

MIB = 1 << 20
CONFS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.8",
)
SHARES = (None, 0.97, 0.9, 0.8, 0.7)


def translation(torch, choice):
    """Sentences of any length, padded to the longest of their batch; now and then a validation."""
    nn = torch.nn
    model = nn.Transformer(512, 8, 4, 4, 2048, batch_first=True).cuda()
    words, out = nn.Embedding(20000, 512).cuda(), nn.Linear(512, 20000).cuda()
    optimizer = torch.optim.Adam([*model.parameters(), *words.parameters(), *out.parameters()], foreach=False)
    for step in range(16):
        rows, source, target = choice.randint(8, 48), choice.randint(20, 180), choice.randint(20, 180)
        x = torch.randint(0, 20000, (rows, source), device="cuda")
        y = torch.randint(0, 20000, (rows, target), device="cuda")
        with torch.set_grad_enabled(step % 5 != 4):
            loss = nn.functional.cross_entropy(out(model(words(x), words(y))).flatten(0, 1), y.flatten())
        if step % 5 != 4:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def segmentation(torch, choice):
    """Pictures of any size, down and up again."""
    nn = torch.nn
    down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 32), (32, 64), (64, 128), (128, 256))).cuda()
    up = nn.ModuleList(nn.Conv2d(a, b, 3, 1, 1) for a, b in ((256 + 128, 128), (128 + 64, 64), (64 + 32, 32), (35, 21))).cuda()
    norms = nn.ModuleList(nn.BatchNorm2d(width) for width in (32, 64, 128, 256)).cuda()
    optimizer = torch.optim.SGD([*down.parameters(), *up.parameters(), *norms.parameters()], 0.01, momentum=0.9)
    for _ in range(14):
        size = [16 * choice.randint(12, 40) for _ in range(2)]
        x = torch.randn(choice.randint(2, 10), 3, *size, device="cuda")
        y, seen = torch.randint(0, 21, (len(x), *size), device="cuda"), []
        for conv, norm in zip(down, norms, strict=True):
            seen.append(x)
            x = torch.relu(norm(conv(x)))
        for conv in up:
            x = conv(torch.cat((nn.functional.interpolate(x, scale_factor=2), seen.pop()), 1))
        nn.functional.cross_entropy(x, y).backward()
        optimizer.step()
        optimizer.zero_grad()


def rollouts(torch, choice):
    """Decodes with a cache that grows by a token, then learns from what came out."""
    nn, wide, heads = torch.nn, 1024, 16
    layers = [nn.ModuleDict({"qkv": nn.Linear(wide, 3 * wide), "out": nn.Linear(wide, wide)}).cuda() for _ in range(6)]
    optimizer = torch.optim.AdamW([p for layer in layers for p in layer.parameters()])

    def attend(layer, x, cache):
        q, k, v = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in layer["qkv"](x).chunk(3, 2))
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        y = torch.softmax(q @ k.transpose(2, 3) / 8, 3) @ v
        return x + layer["out"](y.transpose(1, 2).flatten(2)), (k, v)

    for _ in range(4):
        rows, prompt = choice.randint(8, 32), choice.randint(32, 200)
        tokens = torch.randn(rows, prompt, wide, device="cuda")
        caches = [None] * len(layers)
        with torch.no_grad():
            x = tokens
            for _ in range(choice.randint(20, 60)):
                for index, layer in enumerate(layers):
                    x, caches[index] = attend(layer, x, caches[index])
                x = x[:, -1:]
                tokens = torch.cat((tokens, x), 1)
        del caches
        x = tokens
        for layer in layers:
            x, _ = attend(layer, x, None)
        x.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def graphs(torch, choice):
    """Messages along the edges of graphs of any size."""
    nn = torch.nn
    layers = nn.ModuleList(nn.Linear(2 * 256, 256) for _ in range(5)).cuda()
    optimizer = torch.optim.AdamW(layers.parameters())
    for _ in range(20):
        nodes = choice.randint(5_000, 120_000)
        edges = torch.randint(0, nodes, (2, nodes * choice.randint(2, 6)), device="cuda")
        x = torch.randn(nodes, 256, device="cuda")
        for layer in layers:
            met = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            x = torch.relu(layer(torch.cat((x, met), 1)))
        x.mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def adversaries(torch, choice):
    """Two networks against each other, at a resolution that grows."""
    nn = torch.nn
    up = [nn.Sequential(nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in ((128, 256), (256, 128), (128, 64))]
    maker = nn.Sequential(*up, nn.Conv2d(64, 3, 3, 1, 1), nn.Tanh()).cuda()
    down = [nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2)) for a, b in ((3, 64), (64, 128), (128, 256))]
    judge = nn.Sequential(*down, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1)).cuda()
    optimizers = [torch.optim.Adam(net.parameters()) for net in (maker, judge)]
    for step in range(18):
        side, rows = 8 * (1 + step // 3) + choice.randint(0, 4), choice.randint(8, 40)
        made = maker(torch.randn(rows, 128, side, side, device="cuda"))
        real = torch.randn_like(made)
        for optimizer, loss in zip(optimizers[::-1], (lambda: judge(made.detach()).mean() - judge(real).mean(), lambda: -judge(made).mean()), strict=True):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()


PROGRAMS = {f.__name__: f for f in (translation, segmentation, rollouts, graphs, adversaries)}


def one(out, name, conf, limit_bytes):
    """Runs a program in this process and prints its line."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
    import torch

    torch.manual_seed(1)
    total = torch.cuda.get_device_properties(0).total_memory
    if limit_bytes:
        torch.cuda.set_per_process_memory_fraction(limit_bytes / total)
    torch.cuda.memory._record_memory_history(context=None)
    message = None
    try:
        PROGRAMS[name](torch, random.Random(5))
    except torch.OutOfMemoryError as error:
        message = str(error)
    torch.cuda.synchronize()
    stats, snapshot = torch.cuda.memory_stats(), torch.cuda.memory._snapshot()
    if not (conf or limit_bytes):
        torch.cuda.memory._dump_snapshot(f"{out}/{name}.pickle")
    trace = snapshot["device_traces"][0]
    segments = [(event["size"], event["addr"]) for event in trace if event["action"] == "segment_alloc"]
    lowest = min((address for _, address in segments), default=0)
    segments = [[size // MIB, (address - lowest) // MIB] for size, address in segments]
    row = {"program": name, "conf": conf, "limit_bytes": limit_bytes, "fits": message is None, "oom_message": message}
    row |= {"peak_allocated_bytes": stats["allocated_bytes.all.peak"], "peak_reserved_bytes": stats["reserved_bytes.all.peak"]}
    row |= {"num_alloc_retries": stats["num_alloc_retries"], "num_ooms": stats["num_ooms"]}
    print(json.dumps({"row": row, "segments": segments}))


def main():
    out = sys.argv[1]
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 3:
        one(out, sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else None)
        return

    def run(job):
        arguments = [str(part) for part in job if part is not None]
        done = subprocess.run([sys.executable, __file__, out, *arguments], stdout=subprocess.PIPE, text=True, timeout=200)
        line = json.loads(done.stdout)
        print(line["row"], flush=True)
        return line

    with ThreadPoolExecutor(int(sys.argv[2]) if len(sys.argv) > 2 else 1) as pool:
        recorded = list(pool.map(run, [(name, "", None) for name in PROGRAMS]))
        jobs = []
        for line in recorded:
            peak = line["row"]["peak_reserved_bytes"]
            # An odd number of MiB: the driver gives an even one, so that no rounding of the fraction decides.
            limits = [None if share is None else int(peak * share) // (2 * MIB) * 2 * MIB + MIB for share in SHARES]
            jobs += [(line["row"]["program"], conf, limit) for conf in CONFS for limit in limits]
        lines = list(pool.map(run, jobs))
    with open(f"{out}/outcomes.jsonl", "w") as file:
        file.writelines(json.dumps(line["row"]) + "\n" for line in lines)
    with gzip.open(f"{out}/segments.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line["segments"], separators=(",", ":")) + "\n" for line in lines)
    for name in PROGRAMS:
        path = pathlib.Path(f"{out}/{name}.pickle")
        path.with_suffix(".pickle.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        path.unlink()


if __name__ == "__main__":
    main()
