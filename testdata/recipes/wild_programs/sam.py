# start late twice one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="sharpness-aware minimisation: an optimizer around SGD with momentum that keeps each perturbation, two passes to a step")
class SAM(torch.optim.Optimizer):
    def __init__(s, ps, **k): super().__init__(ps, dict(rho=0.05)); s.base = torch.optim.SGD(s.param_groups, **k)
    @torch.no_grad()
    def first_step(s):
        n = torch.stack([p.grad.norm() for g in s.param_groups for p in g["params"]]).norm()
        for g in s.param_groups:
            for p in g["params"]: s.state[p]["old"] = p.data.clone(); p.add_(p.grad * (0.05 / (n + 1e-12)))
        s.zero_grad()
    @torch.no_grad()
    def second_step(s):
        for g in s.param_groups:
            for p in g["params"]: p.data.copy_(s.state[p]["old"])
        s.base.step(); s.zero_grad()
class B(nn.Module):
    def __init__(s, i, o, t): super().__init__(); s.a, s.n, s.b, s.m, s.k = nn.Conv2d(i, o, 3, t, 1, bias=False), nn.BatchNorm2d(o), nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o), nn.Conv2d(i, o, 1, t, bias=False)
    def forward(s, x): return F.relu(s.m(s.b(F.relu(s.n(s.a(x))))) + s.k(x))
m = nn.Sequential(B(3, 64, 1), B(64, 128, 2), B(128, 256, 2), B(256, 384, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(384, 100)).to(dev); opt = SAM(m.parameters(), lr=0.1, momentum=0.9)
for i in rec.steps(5):
    x, y = torch.randn(32, 3, 32, 32).to(dev), torch.randint(0, 100, (32,)).to(dev)
    with rec.keep(): l = F.cross_entropy(m(x), y)
    rec.mark(f"forward{i}", m, (opt, opt.base), (x, y)); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, (opt, opt.base), (x, y)); opt.first_step()
    with rec.keep(): l = F.cross_entropy(m(x), y)
    l.backward(); rec.saved.clear(); rec.mark(f"second{i}", m, (opt, opt.base), (x, y)); opt.second_step(); rec.mark(f"step{i}", m, (opt, opt.base), (x, y))
