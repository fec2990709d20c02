"""Programs with a habit (v=0) and without it (v=1), in plain torch: recordings of v=0 in each style, peaks of both.
usage: finding_pairs.py OUT NAME V STYLE | finding_pairs.py OUT --all
styles: python (from the start, Python stacks), all (from the start, C++ stacks too), late (after two iterations, C++ stacks too), state (no trace)
No GPU is needed: `highwater dryrun --gpu h200 [--gpus 2] finding_pairs.py …` leaves the same. `two_devices` needs two; it is left out with one."""
import gzip, json, math, os, subprocess, sys
PROGRAMS = {}; STYLE = "python"; BEGUN = False
def program(**k):
    def add(fn): PROGRAMS[fn.__name__] = (fn, k); return fn
    return add
def begin(i=0):
    """recording begins: before all, or before the third iteration"""
    global BEGUN
    if BEGUN or (STYLE == "late" and i < 2) or (STYLE == "state" and i < 2): return
    import torch
    BEGUN = True; torch.cuda.synchronize()
    if STYLE == "state": torch.cuda.memory._record_memory_history("state", stacks="all")
    else: torch.cuda.memory._record_memory_history(max_entries=400000, stacks="python" if STYLE == "python" else "all")

@program(styles=("python", "all", "late"))
def attention_own(v, it=4):
    """attention of its own, softmax a method of the scores, a mask made in each call"""
    import torch; from torch import nn; F = nn.functional
    class Attention(nn.Module):
        def __init__(s, d, h): super().__init__(); s.qkv, s.out, s.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h
        def forward(s, x):
            b, t, d = x.shape; q, k, u = (y.view(b, t, s.h, d // s.h).transpose(1, 2) for y in s.qkv(x).chunk(3, -1))
            if v: y = F.scaled_dot_product_attention(q, k, u, is_causal=True)
            else:
                w = (q @ k.transpose(-1, -2)) / math.sqrt(d // s.h)
                w = w.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf")).softmax(-1)
                y = w @ u
            return s.out(y.transpose(1, 2).reshape(b, t, d))
    class Block(nn.Module):
        def __init__(s, d, h): super().__init__(); s.n1, s.a, s.n2, s.m = nn.LayerNorm(d), Attention(d, h), nn.LayerNorm(d), nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        def forward(s, x): x = x + s.a(s.n1(x)); return x + s.m(s.n2(x))
    m = nn.Sequential(*[Block(512, 8) for _ in range(6)]).cuda(); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        begin(i); x = torch.randn(4, 768, 512, device="cuda", dtype=torch.float32); loss = m(x).square().mean(); loss.backward(); o.step(); o.zero_grad(); del loss

@program(styles=("python", "all"))
def attention_functions(v, it=3):
    """attention in functions, with a softmax of its own, under autocast"""
    import torch; from torch import nn; F = nn.functional
    def softmax(x): e = torch.exp(x - x.max(-1, keepdim=True).values); return e / e.sum(-1, keepdim=True)
    def attend(q, k, u):
        if v: return F.scaled_dot_product_attention(q, k, u)
        return torch.einsum("bhqk,bhkd->bhqd", softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -.5), u)
    class Block(nn.Module):
        def __init__(s, d, h): super().__init__(); s.n, s.qkv, s.out, s.h = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), h
        def forward(s, x):
            b, t, d = x.shape; q, k, u = (y.view(b, t, s.h, d // s.h).transpose(1, 2) for y in s.qkv(s.n(x)).chunk(3, -1))
            return x + s.out(attend(q, k, u).transpose(1, 2).reshape(b, t, d))
    m = nn.Sequential(*[Block(384, 6) for _ in range(8)]).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    for i in range(it):
        begin(i); x = torch.randn(2, 1024, 384, device="cuda")
        with torch.autocast("cuda", torch.bfloat16): loss = m(x).float().square().mean()
        loss.backward(); o.step(); o.zero_grad(); del loss

@program(styles=("python", "all"))
def attention_weights(v, it=3):
    """nn.MultiheadAttention that is asked for its weights, which nobody looks at"""
    import torch; from torch import nn
    class Block(nn.Module):
        def __init__(s, d, h): super().__init__(); s.n, s.a = nn.LayerNorm(d), nn.MultiheadAttention(d, h, batch_first=True)
        def forward(s, x): y = s.n(x); return x + s.a(y, y, y, need_weights=not v)[0]
    m = nn.Sequential(*[Block(256, 8) for _ in range(6)]).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    for i in range(it):
        begin(i); x = torch.randn(8, 512, 256, device="cuda"); loss = m(x).square().mean(); loss.backward(); o.step(); o.zero_grad(); del loss

@program(styles=("python", "all", "late"))
def one_hot_loss(v, it=4):
    """a loss with the classes as one-hot rows"""
    import torch; from torch import nn; F = nn.functional
    m = nn.Sequential(nn.Embedding(20000, 256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 20000)).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    for i in range(it):
        begin(i); x = torch.randint(0, 20000, (4, 512), device="cuda"); p = m(x).log_softmax(-1)
        if v: loss = -p.gather(-1, x.unsqueeze(-1)).mean()
        else: loss = -(F.one_hot(x, 20000) * p).sum(-1).mean()
        loss.backward(); o.step(); o.zero_grad(); del loss, p

@program(styles=("python", "all"))
def one_hot_embedding(v, it=3):
    """rows of a table by a product with one-hot rows"""
    import torch; from torch import nn; F = nn.functional
    table = nn.Parameter(torch.randn(30000, 64, device="cuda")); m = nn.Linear(64, 64).cuda()
    for i in range(it):
        begin(i); x = torch.randint(0, 30000, (2048,), device="cuda")
        rows = F.embedding(x, table) if v else F.one_hot(x, 30000).float() @ table
        loss = m(rows).square().mean(); loss.backward(); table.grad = None; m.zero_grad(); del loss, rows

@program(styles=("python", "all", "late"))
def autocast_cache(v, it=3):
    """a forward pass under autocast with no graph: each weight is cast once, and its copy kept"""
    import torch; from torch import nn
    m = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(12)]).cuda().eval()
    for i in range(it):
        begin(i); x = torch.randn(256, 1024, device="cuda")
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, cache_enabled=not v): y = m(x)
        del y

@program(styles=("python", "all"))
def large_tensor(v, it=3):
    """distances of all pairs at once; v=1: in eight parts"""
    import torch
    x = torch.randn(8192, 64, device="cuda"); y = torch.randn(12288, 64, device="cuda")
    for i in range(it):
        begin(i); best = torch.cat([(a @ y.T).amax(1) for a in x.chunk(8 if v else 1)]); del best

@program(styles=("python", "late"))
def lengths_late(v, it=16):
    """lengths that vary; v=1: with expandable segments"""
    import torch, random; from torch import nn
    if v: torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    random.seed(2); m = nn.Sequential(*[nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(8)]).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    lens = [200, 230] + [random.randrange(300, 9000) for _ in range(it - 2)]
    for i, n in enumerate(lens):
        begin(i); x = torch.randn(n, 512, device="cuda"); loss = m(x).square().mean(); loss.backward(); o.step(); o.zero_grad(); del loss

@program(styles=("python", "late"))
def retries(v, it=12):
    """lengths that vary under a limit: the cache is given back inside an allocation (v=1: no limit)"""
    import torch, random; from torch import nn
    random.seed(3); m = nn.Sequential(*[nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(8)]).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    if not v: torch.cuda.set_per_process_memory_fraction(1000 * 2**20 / torch.cuda.get_device_properties(0).total_memory)
    for i in range(it):
        begin(i); x = torch.randn(random.randrange(2000, 5500), 512, device="cuda"); loss = m(x).square().mean(); loss.backward(); o.step(); o.zero_grad(); del loss

@program(styles=("python", "late"), devices=2)
def two_devices(v, it=4):
    """the same model on two devices, a small batch and a large one; v=1: dealt out evenly"""
    import torch; from torch import nn
    ms = [nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6)]).to(f"cuda:{d}") for d in (0, 1)]
    for i in range(it):
        begin(i)
        for d, b in ((0, 13 if v else 2), (1, 13 if v else 24)):
            loss = ms[d](torch.randn(b * 512, 256, device=f"cuda:{d}")).square().mean(); loss.backward(); ms[d].zero_grad(); del loss

@program(styles=("state",))
def state_free(v, it=4):
    """what is free at the dump; v=1: given back right before"""
    import torch; from torch import nn
    m = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda(); o = torch.optim.Adam(m.parameters())
    for i in range(it):
        begin(i); m(torch.randn(16384, 1024, device="cuda")).square().mean().backward(); o.step(); o.zero_grad()
    if v: torch.cuda.empty_cache()
    return m, o  # there at the dump

@program(styles=("python",))
def side_stream(v, it=4):
    """weights are brought on a side stream, and allocated there (v=1: allocated on the stream that computes, and only copied on the other)"""
    import torch
    host = [torch.randn(4096, 4096) for _ in range(8)]; side = torch.cuda.Stream(); main = torch.cuda.current_stream()
    for i in range(it):
        begin(i); x = torch.randn(4096, 4096, device="cuda"); weights = []
        for h in host:
            w = torch.empty_like(h, device="cuda") if v else None
            with torch.cuda.stream(side):
                if v: side.wait_stream(main); w.copy_(h, non_blocking=True); w.record_stream(side)
                else: w = h.to("cuda", non_blocking=True)
            main.wait_stream(side); w.record_stream(main); weights.append(w)
        for w in weights: x = x @ w
        torch.cuda.synchronize(); del w, weights
        y = [x * k for k in range(9)]; z = sum(y); torch.cuda.synchronize(); del x, y, z

def one(out, name, v, style):
    global STYLE; STYLE = style
    import torch
    torch.manual_seed(0)
    if style in ("python", "all"): begin()
    kept = PROGRAMS[name][0](v); torch.cuda.synchronize(); ss = [torch.cuda.memory_stats(d) for d in range(torch.cuda.device_count())]
    os.makedirs(out, exist_ok=True); p = f"{out}/{name}.{style}.{v}.pickle"; torch.cuda.memory._dump_snapshot(p); raw = open(p, "rb").read(); os.remove(p)
    with gzip.GzipFile(p + ".gz", "wb", compresslevel=9, mtime=0) as f: f.write(raw)
    s = max(ss, key=lambda s: s["allocated_bytes.all.peak"])
    json.dump(dict(name=name, v=v, style=style, peak_allocated=s["allocated_bytes.all.peak"], peak_reserved=s["reserved_bytes.all.peak"], reserved=s["reserved_bytes.all.current"], retries=s["num_alloc_retries"]), open(f"{out}/{name}.{style}.{v}.json", "w"))
    print(name, style, v, f"{len(raw)/1e6:.1f} MB, peak {s['allocated_bytes.all.peak']/2**20:.1f} MiB allocated, {s['reserved_bytes.all.peak']/2**20:.0f} MiB reserved, {s['num_alloc_retries']} retries", flush=True)
def main():
    out = sys.argv[1]
    if sys.argv[2] != "--all": return one(out, sys.argv[2], int(sys.argv[3]), sys.argv[4])
    import torch
    for name, (_, k) in PROGRAMS.items():
        if k.get("devices", 1) > torch.cuda.device_count(): print("left out:", name); continue
        for style in k["styles"]:
            for v in (0, 1) if style == k["styles"][0] else (0,):
                r = subprocess.run([sys.executable, os.path.abspath(__file__), out, name, str(v), style], capture_output=True, text=True)
                print((r.stdout.strip() or "-") if r.returncode == 0 else f"FAILED {name} {style} {v}: {(r.stderr or r.stdout)[-800:]}", flush=True)
if __name__ == "__main__": main()
