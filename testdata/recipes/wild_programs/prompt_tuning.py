# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="parameter-efficient: a frozen half-precision decoder with trained prefixes, biases and a low-rank part beside two projections of each layer, in half precision too; gradients zeroed in place, two micro-batches to a step, AdamW")
class Ad(nn.Module):
    def __init__(s, lin, r=32): super().__init__(); s.base = lin; s.a, s.b = nn.Linear(lin.in_features, r, bias=False), nn.Linear(r, lin.out_features, bias=False)
    def forward(s, x): return s.base(x) + s.b(s.a(x))
class L(nn.Module):
    def __init__(s, d): super().__init__(); s.n, s.q, s.o, s.m, s.u, s.d = nn.LayerNorm(d), Ad(nn.Linear(d, 3 * d)), nn.Linear(d, d), nn.LayerNorm(d), Ad(nn.Linear(d, 4 * d)), nn.Linear(4 * d, d)
    def forward(s, x): q, k, v = (t.unflatten(-1, (8, -1)).transpose(1, 2) for t in s.q(s.n(x)).chunk(3, -1)); x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)); return x + s.d(F.gelu(s.u(s.m(x))))
class Net(nn.Module):
    def __init__(s, d=1024 // SHRINK, v=16000): super().__init__(); s.e, s.prefix, s.ls, s.n, s.h = nn.Embedding(v, d), nn.Parameter(torch.zeros(1, 20, d)), nn.ModuleList(L(d) for _ in range(12)), nn.LayerNorm(d), nn.Linear(d, v, bias=False)
    def forward(s, x):
        x = torch.cat([s.prefix.expand(len(x), -1, -1), s.e(x)], 1)
        for l in s.ls: x = l(x)
        return s.h(s.n(x)[:, 20:])
net = Net().to(dev).bfloat16()
for k, p in net.named_parameters(): p.requires_grad_(".a." in k or ".b." in k or "prefix" in k or k.endswith("bias"))
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], 1e-3)
for i in rec.steps(5):
    for j in range(2):
        x = torch.randint(16000, (4, 257 if SHRINK == 1 else 33), device=dev)
        with rec.keep(): loss = F.cross_entropy(net(x[:, :-1]).float().flatten(0, 1), x[:, 1:].flatten())
        rec.mark(f"forward{i}.{j}", net, opt, x); (loss / 2).backward(); rec.saved.clear(); rec.mark(f"backward{i}.{j}", net, opt, x)
    opt.step(); rec.mark(f"step{i}", net, opt, x); opt.zero_grad(set_to_none=False); rec.mark(f"zero{i}", net, opt, x)
