# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="an image classifier with metrics: a confusion matrix and running sums as buffers of a metric module, and the logits of the last 6 batches for a curve (bounded); SGD with Nesterov's momentum")
class Confusion(nn.Module):
    def __init__(self, n): super().__init__(); self.n = n; self.register_buffer("matrix", torch.zeros(n, n)); self.register_buffer("hits", torch.zeros(()))
    @torch.no_grad()
    def update(self, logits, y): p = logits.argmax(1); self.matrix += torch.bincount(y * self.n + p, minlength=self.n ** 2).view(self.n, self.n).float(); self.hits += (p == y).sum()
class Curve:
    def __init__(self, most=6): self.kept, self.most = [], most
    def update(self, logits, y):
        self.kept.append((logits.detach().softmax(-1), y))
        if len(self.kept) > self.most: self.kept.pop(0)
class Down(nn.Module):
    def __init__(self, i, o): super().__init__(); self.conv, self.bn, self.pool = nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.MaxPool2d(2)
    def forward(self, x): return self.pool(F.gelu(self.bn(self.conv(x))))
model = nn.Sequential(Down(3, 64), Down(64, 128), Down(128, 256), Down(256, 512), nn.Flatten(), nn.Linear(512 * 64, 1500)).to(dev)
cm, curve = Confusion(1500).to(dev), Curve(); opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, nesterov=True)
class Trainer:
    def __init__(self): self.model, self.opt = model, opt
    def training_step(self, batch, i):
        x, y = batch
        with rec.keep(): logits = self.model(x); loss = F.cross_entropy(logits, y, label_smoothing=0.1)
        cm.update(logits, y); curve.update(logits, y)
        rec.mark(f"forward{i}", [self.model, cm], self.opt, (x, y), metric=curve.kept); return loss
    def fit(self):
        for i in rec.steps(9):
            batch = [t.to(dev) for t in (torch.rand(32, 3, 128, 128), torch.randint(1500, (32,)))]
            loss = self.training_step(batch, i); self.opt.zero_grad(); loss.backward(); rec.saved.clear(); self.opt.step()
            rec.mark(f"step{i}", [self.model, cm], self.opt, batch, metric=curve.kept)
Trainer().fit()
