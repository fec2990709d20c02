"""Measures what each layer of a list asks of PyTorch's allocator, forward, for the gradient of the input and for that of the
filter: on a real card, and once more over the null GPU, which tells what PyTorch asks for itself.

usage: measure.py LAYERS.json PART PARTS OUT SECONDS    (several processes at a time, a part each, on one card)
"""
import gzip, json, os, sys, time
import torch
MARK = 33333
DT = dict(f32=torch.float32, bf16=torch.bfloat16, f16=torch.float16, f64=torch.float64)
def record():
    torch.cuda.memory._record_memory_history(context=None, max_entries=4000000, clear_history=True)
def mark():
    torch.empty(MARK, dtype=torch.uint8, device="cuda")
def split():
    torch.cuda.synchronize()
    out = []
    for e in torch.cuda.memory._snapshot()["device_traces"][0]:
        if e["action"] == "alloc":
            if e["size"] == MARK: out.append([])
            elif out: out[-1].append(e["size"])
    return out
def save(name, obj):
    with gzip.open(name, "wt", compresslevel=4) as f: json.dump(obj, f, separators=(",", ":"))

def conv(layers, part, parts, out, seconds):
    rows = json.load(open(layers))
    rows.sort(key=lambda r: (r[1] == ["grid"], r[12]))
    rows = rows[part::parts]
    t0 = time.time(); res = []; i = 0
    while i < len(rows) and time.time() - t0 < seconds:
        record(); ids = []
        for r in rows[i:i + 200]:
            if time.time() - t0 > seconds: break
            id, groups, xs, ws, st, pad, dil, tr, op, g, dt, tf32, cl, bench = r
            torch.backends.cudnn.allow_tf32 = bool(tf32); torch.backends.cudnn.benchmark = bool(bench)
            err = None
            try:
                x = torch.empty(xs, dtype=DT[dt], device="cuda"); w = torch.empty(ws, dtype=DT[dt], device="cuda")
                if cl:
                    mf = {4: torch.channels_last, 5: torch.channels_last_3d}[x.dim()]
                    x = x.to(memory_format=mf); w = w.to(memory_format=mf)
                a = (st, pad, dil, tr, op, g)
                mark(); y = torch.ops.aten.convolution(x, w, None, *a)
                gy = torch.empty_like(y)
                mark(); torch.ops.aten.convolution_backward(gy, x, w, None, *a, [True, False, False])
                mark(); torch.ops.aten.convolution_backward(gy, x, w, None, *a, [False, True, False])
                if bench:
                    mark(); y = torch.ops.aten.convolution(x, w, None, *a)
                    mark(); torch.ops.aten.convolution_backward(gy, x, w, None, *a, [True, False, False])
                    mark(); torch.ops.aten.convolution_backward(gy, x, w, None, *a, [False, True, False])
                x = w = y = gy = None
            except Exception as e: err = repr(e)[:120]
            mark(); ids.append((id, (6 if bench else 3) if not err else err))
        s = split(); k = 0
        for id, n in ids:
            if isinstance(n, str):  # rare: skip to be safe, find nothing
                res.append([id, n]); k = None; break
            res.append([id] + s[k:k + n]); k += n + 1
        if k is None: i += len(ids); torch.cuda.empty_cache(); continue
        i += len(ids); torch.cuda.empty_cache()
    save(f"{out}/conv{part}.json.gz", res)
    print("conv", part, len(res), "of", len(rows), round(time.time() - t0), "s", flush=True)


if __name__ == "__main__":
    conv(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
