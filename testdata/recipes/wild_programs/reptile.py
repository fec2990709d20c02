# start late state twice one
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="Reptile: each iteration clones the network for a task, takes five steps of an Adam that is new each time, and moves the network towards the clone")

class Conv4(nn.Module):
    def __init__(self, ways=20, width=96):
        super().__init__()
        def block(a): return nn.Sequential(nn.Conv2d(a, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))
        self.features = nn.Sequential(block(3), *[block(width) for _ in range(3)])
        self.hidden = nn.Linear(width * 25, 1024)
        self.classify = nn.Linear(1024, ways)
    def forward(self, x): return self.classify(F.relu(self.hidden(self.features(x).flatten(1))))

class Task:
    def __init__(self, ways, shots): self.ways, self.shots = ways, shots
    def batch(self): return torch.randn(self.ways * self.shots, 3, 80, 80).to(dev), torch.arange(self.ways).repeat(self.shots).to(dev)

meta = Conv4().to(dev)
meta_lr = 0.1

def adapt(task, i):
    fast = copy.deepcopy(meta)
    inner = torch.optim.Adam(fast.parameters(), lr=1e-3, betas=(0.0, 0.999))
    for k in range(5):
        x, y = task.batch()
        with rec.keep(): loss = F.cross_entropy(fast(x), y)
        if k == 2: rec.mark(f"forward{i}", (meta, fast), inner, (x, y))
        inner.zero_grad(); loss.backward(); rec.saved.clear(); inner.step()
        if k == 2: rec.mark(f"inner{i}", (meta, fast), inner, (x, y))
    return fast

for i in rec.steps(5):
    task = Task(20, 5)
    fast = adapt(task, i)
    with torch.no_grad():
        for p, q in zip(meta.parameters(), fast.parameters()): p.add_(q - p, alpha=meta_lr)
    rec.mark(f"moved{i}", (meta, fast))
    del fast
    rec.mark(f"step{i}", meta)
