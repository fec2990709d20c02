# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="two optimizers of one model in each step: one of the user's own (momentum, orthogonalised by Newton-Schulz) for matrices, AdamW fused for the rest; gradients cleared after both; rotary decoder")
class Orth(torch.optim.Optimizer):
    def __init__(s, ps, lr=.02, mu=.95): super().__init__(ps, dict(lr=lr, mu=mu))
    @torch.no_grad()
    def step(s):
        for g in s.param_groups:
            for p in g["params"]:
                if p.grad is None: continue
                st = s.state[p]
                if "buf" not in st: st["buf"] = torch.zeros_like(p)
                st["buf"].mul_(g["mu"]).add_(p.grad); x = st["buf"].bfloat16(); x = x / (x.norm() + 1e-7); t = x.size(0) > x.size(1); x = x.T if t else x
                for _ in range(3): a = x @ x.T; x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
                p.add_((x.T if t else x).to(p.dtype), alpha=-g["lr"])
class Blk(nn.Module):
    def __init__(s, d): super().__init__(); s.n1, s.n2, s.qkv, s.o, s.w1, s.w2, s.w3 = nn.RMSNorm(d), nn.RMSNorm(d), nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False), nn.Linear(3 * d, d, bias=False)
    def forward(s, x, cos, sin):
        q, k, v = (t.unflatten(-1, (8, -1)).transpose(1, 2) for t in s.qkv(s.n1(x)).chunk(3, -1)); rot = lambda t: t * cos + torch.cat([-t[..., t.size(-1) // 2:], t[..., :t.size(-1) // 2]], -1) * sin
        x = x + s.o(F.scaled_dot_product_attention(rot(q), rot(k), v, is_causal=True).transpose(1, 2).flatten(2)); y = s.n2(x); return x + s.w3(F.silu(s.w1(y)) * s.w2(y))
class Dec(nn.Module):
    def __init__(s, d=640 // SHRINK, n=8, v=9000):
        super().__init__(); s.emb, s.blocks, s.norm, s.head = nn.Embedding(v, d), nn.ModuleList(Blk(d) for _ in range(n)), nn.RMSNorm(d), nn.Linear(d, v, bias=False); f = torch.outer(torch.arange(512.), 1e4 ** -torch.linspace(0, 1, d // 16)).repeat(1, 2); s.register_buffer("cos", f.cos(), persistent=False); s.register_buffer("sin", f.sin(), persistent=False)
    def forward(s, ids):
        x, t = s.emb(ids), ids.size(1)
        for b in s.blocks: x = b(x, s.cos[:t], s.sin[:t])
        return s.head(s.norm(x))
m = Dec().to(dev); mats = [p for n, p in m.named_parameters() if p.dim() == 2 and "blocks" in n]; rest = [p for n, p in m.named_parameters() if not (p.dim() == 2 and "blocks" in n)]
opts = [Orth(mats), torch.optim.AdamW(rest, 3e-4, betas=(.9, .95), fused=not rec.CPU)]
for i in rec.steps(5):
    x = torch.randint(9000, (8, 257 if SHRINK == 1 else 33), device=dev)
    with rec.keep(): l = F.cross_entropy(m(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    rec.mark(f"forward{i}", m, opts, x); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, opts, x)
    for o in opts: o.step()
    rec.mark(f"step{i}", m, opts, x); m.zero_grad(set_to_none=True); rec.mark(f"zero{i}", m, opts, x)
