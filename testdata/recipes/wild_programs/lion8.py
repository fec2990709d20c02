# start late twice one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="an optimizer of its own whose momentum is one byte an element with a scale for each 256, gradients accumulated over two passes and zeroed in place")
class Lion8(torch.optim.Optimizer):
    def __init__(s, ps, lr): super().__init__(ps, dict(lr=lr))
    @torch.no_grad()
    def step(s):
        for g in s.param_groups:
            for p in g["params"]:
                st = s.state[p]; n = -(-p.numel() // 256)
                if not st: st["q"], st["scale"] = torch.zeros(n * 256, dtype=torch.int8, device=p.device), torch.zeros(n, 1, device=p.device)
                m = (st["q"].view(n, 256).float() * st["scale"]).flatten()[:p.numel()].view_as(p); p.sub_(torch.sign(0.9 * m + 0.1 * p.grad), alpha=g["lr"]); m = 0.99 * m + 0.01 * p.grad
                f = F.pad(m.flatten(), (0, n * 256 - p.numel())).view(n, 256); st["scale"].copy_(f.abs().amax(1, True) / 127); st["q"].copy_((f / st["scale"].clamp_min(1e-9)).round().flatten())
class Res(nn.Module):
    def __init__(s, d): super().__init__(); s.n, s.a, s.b = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)
    def forward(s, x): return x + s.b(F.gelu(s.a(s.n(x))))
m = nn.Sequential(nn.Linear(320, 640), *[Res(640) for _ in range(5)], nn.Linear(640, 50)).to(dev); opt = Lion8(m.parameters(), 1e-4)
for i in rec.steps(5):
    for k in range(2):
        x, y = torch.randn(700, 320).to(dev), torch.randint(0, 50, (700,)).to(dev)
        with rec.keep(): l = F.cross_entropy(m(x), y) / 2
        rec.mark(f"forward{i}.{k}", m, opt, (x, y)); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}.{k}", m, opt, (x, y))
    opt.step(); rec.mark(f"step{i}", m, opt, (x, y)); opt.zero_grad(set_to_none=False)
