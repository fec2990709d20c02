# start late twice state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a deep equilibrium model: the fixed point without a graph, one call with it and a hook that solves for the gradient; SGD with Nesterov's momentum, plateau schedule; the hook and its graph keep each other, so every step leaks a graph", leak=True, leak_line="f0 = s.f(z0, x)")
B = 4 if rec.CPU else 128
class Cell(nn.Module):
    def __init__(s, c): super().__init__(); s.c1, s.c2, s.n1, s.n2, s.n3 = nn.Conv2d(c, 2 * c, 3, 1, 1, bias=False), nn.Conv2d(2 * c, c, 3, 1, 1, bias=False), nn.GroupNorm(8, 2 * c), nn.GroupNorm(8, c), nn.GroupNorm(8, c)
    def forward(s, z, x): return s.n3(F.relu(z + s.n2(x + s.c2(s.n1(F.relu(s.c1(z)))))))
class DEQ(nn.Module):
    def __init__(s, f, iters=12): super().__init__(); s.f, s.iters = f, iters
    def forward(s, x):
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(s.iters): z = s.f(z, x)
        z = s.f(z, x); z0 = z.clone().detach().requires_grad_(); f0 = s.f(z0, x)
        if z.requires_grad:
            def solve(g):
                v = g
                for _ in range(4): v = torch.autograd.grad(f0, z0, v, retain_graph=True)[0] + g
                return v
            z.register_hook(solve)
        return z
net = nn.Sequential(nn.Conv2d(3, 128, 3, 1, 1), nn.BatchNorm2d(128), DEQ(Cell(128)), nn.BatchNorm2d(128), nn.AvgPool2d(8), nn.Flatten(), nn.Linear(128 * 16, 2048), nn.ReLU(), nn.Linear(2048, 200)).to(dev)
opt = torch.optim.SGD(net.parameters(), .1, momentum=.9, nesterov=True, weight_decay=5e-4); crit = nn.CrossEntropyLoss()
for i in rec.steps(5):
    x, y = torch.randn(B, 3, 32, 32).to(dev), torch.randint(200, (B,)).to(dev)
    with rec.keep(): loss = crit(net(x), y)
    rec.mark(f"forward{i}", net, opt, (x, y)); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, opt, (x, y)); opt.step(); rec.mark(f"step{i}", net, opt, (x, y))
