# late state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="recording begins in a hook amid the backward pass of the second step; AdamW, pre-norm blocks")
B, D, L = (2 if rec.CPU else 16), 512, 6
class Blk(nn.Module):
    def __init__(s): super().__init__(); s.n1, s.n2, s.a, s.f = nn.LayerNorm(D), nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D)); s.o = nn.Linear(D, D)
    def forward(s, x): q, k, v = s.a(s.n1(x)).unflatten(-1, (3, 8, 64)).permute(2, 0, 3, 1, 4); x = x + s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)); return x + s.f(s.n2(x))
class LM(nn.Module):
    def __init__(s): super().__init__(); s.e, s.b, s.n, s.h = nn.Embedding(9000, D), nn.ModuleList(Blk() for _ in range(L)), nn.LayerNorm(D), nn.Linear(D, 9000, bias=False); s.on = None
    def forward(s, x):
        x = s.e(x)
        for k, b in enumerate(s.b):
            x = b(x)
            if k == 3 and s.on: x.register_hook(s.on)
        return s.h(s.n(x))
m = LM().to(dev); opt = torch.optim.AdamW(m.parameters(), 3e-4); n = 0
for i in range(5):
    m.on = (lambda g: rec.begin()) if i == 1 else None
    x = torch.randint(0, 9000, (B, 256)).to(dev); y = torch.randint(0, 9000, (B, 256)).to(dev)
    with rec.keep(): loss = F.cross_entropy(m(x).flatten(0, 1), y.flatten())
    rec.mark(f"forward{i}", m, opt, (x, y)); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, opt, (x, y)); opt.step(); rec.mark(f"step{i}", m, opt, (x, y))
rec.facts.update(loop=True, recorded_steps=0 if rec.style == "state" else 4); rec.finish()
