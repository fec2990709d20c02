# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a tabular network of equal wide layers, SGD with momentum")
B = 8 if rec.CPU else 512
class Tab(nn.Module):
    def __init__(s): super().__init__(); s.inp = nn.Linear(300, 1280); s.hid = nn.ModuleList([nn.Linear(1280, 1280) for _ in range(8)]); s.norm = nn.ModuleList([nn.BatchNorm1d(1280) for _ in range(8)]); s.out = nn.Linear(1280, 2)
    def forward(s, x):
        x = F.relu(s.inp(x))
        for l, n in zip(s.hid, s.norm): x = x + F.relu(n(l(x)))
        return s.out(x)
m = Tab().to(dev); opt = torch.optim.SGD(m.parameters(), lr=.05, momentum=.9)
for i in rec.steps(5):
    x, y = torch.randn(B, 300).to(dev), torch.randint(0, 2, (B,)).to(dev)
    opt.zero_grad()
    with rec.keep(): loss = F.cross_entropy(m(x), y)
    rec.mark(f"forward{i}", m, opt, (x, y))
    loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, opt, (x, y))
    opt.step(); rec.mark(f"step{i}", m, opt, (x, y))
