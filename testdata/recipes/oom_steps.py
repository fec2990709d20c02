"""A step of a language model (or a network for images) that runs out of memory under a limit; no library but torch.
usage: oom_steps.py out=FILE limit=GIB [b=ROWS] [t=TOKENS] [n=LAYERS] [warm=2x64: steps before, ROWSxTOKENS] [begin=late] [eager=1] …
With limit=0 nothing fails, and FILE.json has the peak of the whole step."""
import sys, json, math, gzip, os
import torch, torch.nn as nn, torch.nn.functional as F
a = dict(x.split("=") for x in sys.argv[1:])
D, N, V, B, T = int(a.get("d", 256)), int(a.get("n", 8)), int(a.get("v", 4000)), int(a.get("b", 24)), int(a.get("t", 512))
H = int(a.get("h", D // 64)); eager = a.get("eager", "0") == "1"; limit = float(a.get("limit", 0)); begin = a.get("begin", "start")
warm = [tuple(map(int, w.split("x"))) for w in a.get("warm", "").split("+") if w]; opt = a.get("opt", "adamw"); stacks = a.get("stacks", "python")
ckpt = a.get("ckpt", "0") == "1"; amp = a.get("amp", "0") == "1"; mode = a.get("mode", "train"); out = a["out"]; dev = "cuda"
class Attention(nn.Module):
    def __init__(s, d, h): super().__init__(); s.qkv, s.proj, s.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h
    def forward(s, x):
        b, t, d = x.shape; q, k, v = (y.view(b, t, s.h, d // s.h).transpose(1, 2) for y in s.qkv(x).chunk(3, -1))
        if eager: w = (q @ k.transpose(-1, -2)) / math.sqrt(d // s.h); w = w.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf")).softmax(-1); y = w @ v
        else: y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return s.proj(y.transpose(1, 2).reshape(b, t, d))
class Layer(nn.Module):
    def __init__(s, d, h): super().__init__(); s.ln1, s.attn, s.ln2, s.fc, s.out = nn.LayerNorm(d), Attention(d, h), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(s, x): x = x + s.attn(s.ln1(x)); return x + s.out(F.gelu(s.fc(s.ln2(x))))
class LM(nn.Module):
    def __init__(s): super().__init__(); s.tok, s.pos = nn.Embedding(V, D), nn.Embedding(4096, D); s.blocks = nn.ModuleList([Layer(D, H) for _ in range(N)]); s.ln, s.head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
    def forward(s, x):
        h = s.tok(x) + s.pos(torch.arange(x.shape[1], device=x.device))
        for b in s.blocks: h = torch.utils.checkpoint.checkpoint(b, h, use_reentrant=False) if ckpt else b(h)
        return s.head(s.ln(h))
class Stage(nn.Module):
    def __init__(s, i, o, stride): super().__init__(); s.c1, s.n1, s.c2, s.n2, s.k = nn.Conv2d(i, o, 3, stride, 1), nn.BatchNorm2d(o), nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o), nn.Conv2d(i, o, 1, stride)
    def forward(s, x): return F.relu(s.n2(s.c2(F.relu(s.n1(s.c1(x))))) + s.k(x))
class Conv(nn.Module):
    def __init__(s, c=64): super().__init__(); s.i = nn.Conv2d(3, c, 7, 2, 3); s.st = nn.Sequential(*[Stage(c, c, 1) for _ in range(N)], Stage(c, 2 * c, 2), Stage(2 * c, 4 * c, 2)); s.o = nn.Linear(4 * c, 200)
    def forward(s, x): return s.o(s.st(s.i(x)).mean((2, 3)))
rec = lambda: torch.cuda.memory._record_memory_history(stacks=stacks, max_entries=400000)
if begin == "start": rec()
conv = a.get("model") == "conv"
with torch.device("cuda"): m = Conv() if conv else LM()
o = {"adamw": torch.optim.AdamW, "sgd": lambda p: torch.optim.SGD(p, lr=.1), "mom": lambda p: torch.optim.SGD(p, lr=.1, momentum=.9)}[opt](m.parameters())
def one(b, t):
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
        if conv: l = F.cross_entropy(m(torch.randn(b, 3, t, t, device=dev)), torch.randint(0, 200, (b,), device=dev))
        else:
            x = torch.randint(0, V, (b, t), device=dev); y = m(x[:, :-1]).flatten(0, 1); l = F.cross_entropy(y, x[:, 1:].flatten()); del y
    l.backward(); o.step(); o.zero_grad()
def infer(b, t):
    with torch.no_grad(): m(torch.randint(0, V, (b, t), device=dev))
step = infer if mode == "infer" else one
for b, t in warm: step(b, t)
if begin == "late": rec()
torch.cuda.reset_peak_memory_stats(); base = torch.cuda.memory_allocated(); facts = dict(args=a, base=base)
if limit: torch.cuda.set_per_process_memory_fraction(limit * 2**30 / torch.cuda.get_device_properties(0).total_memory)
try: step(B, T); facts["oom"] = False
except torch.OutOfMemoryError as e: facts.update(oom=True, message=str(e))
facts["max_allocated"] = torch.cuda.max_memory_allocated(); facts["max_reserved"] = torch.cuda.max_memory_reserved()
if limit:
    torch.cuda.memory._dump_snapshot(out + ".pickle"); raw = open(out + ".pickle", "rb").read(); os.remove(out + ".pickle")
    with gzip.GzipFile(out + ".pickle.gz", "wb", 6, mtime=0) as f: f.write(raw)
json.dump(facts, open(out + ".json", "w"))
