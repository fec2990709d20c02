# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="nn.DataParallel over two devices: replicas are called from two threads; SGD with momentum")
class Res(nn.Module):
    def __init__(self, c): super().__init__(); self.a, self.b, self.n1, self.n2 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.BatchNorm2d(c)
    def forward(self, x): return F.relu(x + self.n2(self.b(F.relu(self.n1(self.a(x))))))
raw = nn.Sequential(nn.Conv2d(3, 160, 3, 2, 1), *[Res(160) for _ in range(5)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 100)).to(dev)
net = nn.DataParallel(raw, [0, 1]); opt = torch.optim.SGD(raw.parameters(), 0.1, momentum=0.9)
for i in rec.steps(5):
    x, y = torch.randn(64, 3, 96, 96).to(dev), torch.randint(0, 100, (64,)).to(dev)
    loss = F.cross_entropy(net(x), y)
    rec.mark(f"forward{i}", raw, opt, (x, y)); opt.zero_grad(); loss.backward(); rec.mark(f"backward{i}", raw, opt, (x, y)); opt.step(); rec.mark(f"step{i}", raw, opt, (x, y))
