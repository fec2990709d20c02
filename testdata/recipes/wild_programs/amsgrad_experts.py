# one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, note="a mixture of experts, all of whose matrices are of one size, AdamW with amsgrad and foreach, two groups of parameters")
D, E = 512, 8
class Experts(nn.Module):
    def __init__(s): super().__init__(); s.n, s.gate, s.e = nn.LayerNorm(D), nn.Linear(D, E, bias=False), nn.ModuleList(nn.ModuleList([nn.Linear(D, 2 * D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)]) for _ in range(E))
    def forward(s, x):
        h = s.n(x); w = s.gate(h).softmax(-1); y = 0
        for k, (a, b, c) in enumerate(s.e): part = h[:, k::E]; y = y + F.pad((c(F.silu(a(part)) * b(part)) * w[:, k::E, k:k + 1]).repeat_interleave(E, 1), (0, 0, 0, 0))
        return x + y
class Block(nn.Module):
    def __init__(s): super().__init__(); s.n, s.qkv, s.o, s.m = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D), Experts()
    def forward(s, x): q, k, v = s.qkv(s.n(x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4); return s.m(x + s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
model = nn.Sequential(nn.Embedding(12000, D), *[Block() for _ in range(4)], nn.LayerNorm(D), nn.Linear(D, 12000)).to(dev); ps = list(model.parameters())
opt = torch.optim.AdamW([dict(params=[p for p in ps if p.dim() > 1]), dict(params=[p for p in ps if p.dim() < 2], weight_decay=0.)], amsgrad=True, foreach=True)
for i in rec.steps(4):
    x = torch.randint(0, 12000, (4, 257)).to(dev)
    with rec.keep(), torch.autocast("cuda", torch.bfloat16): loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    rec.mark(f"forward{i}", model, opt, x); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, opt, x); opt.step(); rec.mark(f"step{i}", model, opt, x); opt.zero_grad(); rec.mark(f"zero{i}", model, opt, x)
