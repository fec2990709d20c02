# start late twice one state
import torch, torch.nn as nn, torch.nn.functional as F
from concurrent.futures import ThreadPoolExecutor
import recorder as rec
from recorder import dev
rec.facts.update(note="a model whose branches are called from several threads, one backward pass; AdamW")
class Branch(nn.Module):
    def __init__(self, d, w): super().__init__(); self.f = nn.Sequential(nn.Linear(d, w), nn.GELU(), nn.LayerNorm(w), nn.Linear(w, w), nn.GELU(), nn.Linear(w, 256))
    def forward(self, x): return self.f(x)
class Net(nn.Module):
    def __init__(self): super().__init__(); self.branches, self.head, self.pool = nn.ModuleList(Branch(300, w) for w in (1024, 1280, 1536)), nn.Linear(768, 30), ThreadPoolExecutor(3)
    def forward(self, x): return self.head(torch.cat(list(self.pool.map(lambda b: b(x), self.branches)), 1))
net = Net().to(dev); opt = torch.optim.AdamW(net.parameters())
class AllThreads:
    def __enter__(s): rec.saved.clear()
    def __exit__(s, *a): pass
for i in rec.steps(5):
    x, y = torch.randn(2048, 300).to(dev), torch.randint(0, 30, (2048,)).to(dev)
    with rec.keep(): loss = F.cross_entropy(net(x), y)
    rec.mark(f"forward{i}", net, opt, (x, y)); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, opt, (x, y)); opt.step(); rec.mark(f"step{i}", net, opt, (x, y))
