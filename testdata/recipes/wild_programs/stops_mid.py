# late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="recording was begun ten times and stopped ten times at different places within steps, then begun in the forward pass of the eleventh step; convolutions and layer norm, RMSprop with momentum")
class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw, self.norm, self.a, self.b = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
    def forward(self, x):
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        return x + self.b(F.gelu(self.a(y))).permute(0, 3, 1, 2)
class Net(nn.Module):
    def __init__(self, c=160, n=5):
        super().__init__()
        self.stem, self.blocks, self.head, self.on = nn.Conv2d(3, c, 4, 4), nn.ModuleList(Block(c) for _ in range(n)), nn.Linear(c, 1000), {}
    def forward(self, x):
        x = self.stem(x)
        for k, b in enumerate(self.blocks):
            if k in self.on: self.on[k]()
            x = b(x)
        return self.head(x.mean((2, 3)))
net = Net().to(dev); opt = torch.optim.RMSprop(net.parameters(), 1e-3, momentum=0.9)
def step(i, stop=-1):
    x, y = torch.randn(24, 3, 128, 128).to(dev), torch.randint(0, 1000, (24,)).to(dev)
    if stop == 0: rec.H(None)
    with rec.keep(): loss = F.cross_entropy(net(x), y)
    rec.mark(f"forward{i}", net, opt, (x, y))
    if stop == 1: rec.H(None)
    opt.zero_grad(); loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", net, opt, (x, y))
    if stop == 2: rec.H(None)
    opt.step(); rec.mark(f"step{i}", net, opt, (x, y))
for i in range(10): rec.begin(); step(i, i % 3)
rec.marks.clear(); net.on = {2: lambda: (rec.begin(), net.on.clear())}; rec.begun = False
for i in range(10, 14): step(i)
rec.facts.update(loop=True, recorded_steps=4); rec.finish()
