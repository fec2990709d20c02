# start late one state
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="preference training: a frozen copy of the policy as reference, chosen and rejected sequences in one pass, RMSprop")
class Block(nn.Module):
    def __init__(s, d, h): super().__init__(); s.n1, s.q, s.k, s.v, s.o, s.n2, s.up, s.dn, s.h = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d), h
    def forward(s, x):
        b, t, d = x.shape; y = s.n1(x); q, k, v = (p(y).view(b, t, s.h, -1).transpose(1, 2) for p in (s.q, s.k, s.v))
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + s.dn(F.gelu(s.up(s.n2(x))))
class Policy(nn.Module):
    def __init__(s, v=8000, d=640, n=6): super().__init__(); s.e, s.p, s.b, s.n, s.hd = nn.Embedding(v, d), nn.Embedding(512, d), nn.Sequential(*[Block(d, 10) for _ in range(n)]), nn.LayerNorm(d), nn.Linear(d, v, bias=False)
    def forward(s, x): return s.hd(s.n(s.b(s.e(x) + s.p(torch.arange(x.shape[1], device=x.device)))))
m = Policy().to(dev); ref = copy.deepcopy(m).requires_grad_(False); o = torch.optim.RMSprop(m.parameters(), 1e-6)
def lp(n, x): return -F.cross_entropy(n(x[:, :-1]).transpose(1, 2), x[:, 1:], reduction="none").sum(1)
for i in rec.steps(5):
    x = torch.randint(0, 8000, (8, 161)).to(dev)
    with torch.no_grad(): r = lp(ref, x)
    with rec.keep(): d = lp(m, x) - r; l = -F.logsigmoid(.1 * (d[:4] - d[4:])).mean()
    rec.mark(f"forward{i}", [m, ref], o, (x,)); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}", [m, ref], o, (x,)); o.step(); rec.mark(f"step{i}", [m, ref], o, (x,)); o.zero_grad(); rec.mark(f"zero{i}", [m, ref], o, (x,))
