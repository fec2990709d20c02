# start
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="training and validation run the same lines; Lion is a class of the program's own that makes its momenta in its constructor")
class Lion:
    def __init__(s, params, lr=1e-4): s.params, s.lr = list(params), lr; s.momenta = [torch.zeros_like(p) for p in s.params]
    @torch.no_grad()
    def step(s):
        for p, m in zip(s.params, s.momenta): p.add_((m * 0.9 + p.grad * 0.1).sign_(), alpha=-s.lr); m.mul_(0.99).add_(p.grad, alpha=0.01)
    def zero_grad(s):
        for p in s.params: p.grad = None
class Tagger(nn.Module):
    def __init__(s, v, d): super().__init__(); s.words = nn.Embedding(v, d); s.layers = nn.Sequential(*(nn.Sequential(nn.Linear(d, 2 * d), nn.BatchNorm1d(2 * d), nn.SiLU(), nn.Linear(2 * d, d)) for _ in range(4))); s.tags = nn.Linear(d, 90)
    def forward(s, x): return s.tags(s.layers(s.words(x).mean(1)))
model = Tagger(12000, 768 // SHRINK).to(dev); opt = Lion(model.parameters())
for i in rec.steps(4):
    for phase, rows in (("train", 6000 // SHRINK), ("val", 3000 // SHRINK)):
        model.train(phase == "train"); x = torch.randint(0, 12000, (rows, 24), device=dev); y = torch.randint(0, 90, (rows,), device=dev)
        opt.zero_grad()
        with torch.set_grad_enabled(phase == "train"), rec.keep(): loss = F.cross_entropy(model(x), y)
        rec.mark(f"{phase}{i}", model, (), (x, y), state=opt.momenta)
        if phase == "train":
            loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, (), (x, y), state=opt.momenta)
            opt.step(); rec.mark(f"step{i}", model, (), (x, y), state=opt.momenta)
