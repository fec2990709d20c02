# start late one state
import torch, torch.nn as nn, torch.utils.checkpoint, torch.nn.functional as F
import recorder as rec
from recorder import dev
class Blk(nn.Module):
    def __init__(s, d, h, r=4, norm=nn.LayerNorm): super().__init__(); s.n1, s.q, s.k, s.v, s.o, s.n2, s.up, s.dn, s.h = norm(d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), norm(d), nn.Linear(d, r * d), nn.Linear(r * d, d), h
    def forward(s, x):
        b, t, d = x.shape; y = s.n1(x); f = lambda z: z.view(b, t, s.h, -1).transpose(1, 2)
        x = x + s.o(F.scaled_dot_product_attention(f(s.q(y)), f(s.k(y)), f(s.v(y)), is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + s.dn(F.gelu(s.up(s.n2(x))))
class GPT(nn.Module):
    def __init__(s, v=8000, d=512, n=6, h=8, tie=False, ckpt=False, L=512):
        super().__init__(); s.e, s.p, s.b, s.n, s.hd, s.ckpt = nn.Embedding(v, d), nn.Embedding(L, d), nn.ModuleList(Blk(d, h) for _ in range(n)), nn.LayerNorm(d), nn.Linear(d, v, bias=False), ckpt
        if tie: s.hd.weight = s.e.weight
    def forward(s, x):
        h = s.e(x) + s.p(torch.arange(x.shape[1], device=x.device))
        for b in s.b: h = torch.utils.checkpoint.checkpoint(b, h, use_reentrant=False) if s.ckpt and s.training else b(h)
        return s.hd(s.n(h))
rec.facts.update(note="checkpointed decoder, Adagrad")
m = GPT(16000, 1024, 8, 16, ckpt=True).to(dev); o = torch.optim.Adagrad(m.parameters(), 1e-2)
for i in rec.steps(5):
    x = torch.randint(0, 16000, (8, 257)).to(dev)
    with rec.keep(): l = F.cross_entropy(m(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    rec.mark(f"forward{i}", m, o, x); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, o, x); o.step(); rec.mark(f"step{i}", m, o, x); o.zero_grad(); rec.mark(f"zero{i}", m, o, x)
