# start late twice one state
import functools, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="members of an ensemble are called from a list comprehension, their layers by functools.reduce; Adamax")
class Member(nn.Module):
    def __init__(self, d, w, n): super().__init__(); self.layers = nn.ModuleList([nn.Linear(d, w)] + [nn.Linear(w, w) for _ in range(n)]); self.out = nn.Linear(w, 40)
    def forward(self, x): return self.out(functools.reduce(lambda h, l: F.elu(l(h)), self.layers, x))
class Ensemble(nn.Module):
    def __init__(self, k=6): super().__init__(); self.members = nn.ModuleList(Member(200, 900, 3) for _ in range(k))
    def forward(self, x): return torch.stack([m(x) for m in self.members])
net = Ensemble().to(dev); opt = torch.optim.Adamax(net.parameters())
for i in rec.steps(5):
    x, y = torch.randn(3000, 200).to(dev), torch.randn(3000, 40).to(dev)
    with rec.keep(): loss = sum([F.smooth_l1_loss(p, y) for p in net(x)])
    rec.mark(f"forward{i}", net, opt, (x, y)); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, opt, (x, y)); opt.step(); rec.mark(f"step{i}", net, opt, (x, y))
