# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F, math, copy
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(leak=True, leak_line="self.seen.append(out)", note="a forward hook keeps every output of a layer with its graph")
class Probe:
    def __init__(self): self.seen = []
    def __call__(self, mod, inp, out):
        self.seen.append(out)
class Res(nn.Module):
    def __init__(s, c): super().__init__(); s.f = nn.Sequential(nn.Conv2d(c, c, 3, 1, 1), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, 1, 1), nn.BatchNorm2d(c))
    def forward(s, x): return F.relu(x + s.f(x))
m = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), *[Res(64) for _ in range(6)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100)).to(dev); pr = Probe(); m[4].register_forward_hook(pr); o = torch.optim.SGD(m.parameters(), .1, momentum=.9)
for i in rec.steps(8):
    x, y = torch.rand(16, 3, 128, 128).to(dev), torch.randint(0, 100, (16,)).to(dev)
    with rec.keep(): l = F.cross_entropy(m(x), y)
    rec.mark(f"forward{i}", m, o, (x, y)); l.backward(); rec.saved.clear(); o.step(); o.zero_grad(); rec.mark(f"step{i}", m, o, (x, y), leaked=pr.seen)
