# start
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="weights in bfloat16; an optimizer of the program's own makes their copies in full precision in its constructor")
class MasterSGD:
    def __init__(s, params, lr=0.01): s.params, s.lr = list(params), lr; s.masters = [p.detach().float() for p in s.params]
    @torch.no_grad()
    def step(s):
        for p, m in zip(s.params, s.masters): m.sub_(p.grad, alpha=s.lr); p.copy_(m)
    def zero_grad(s):
        for p in s.params: p.grad = None
class Regressor(nn.Module):
    def __init__(s, d): super().__init__(); s.first = nn.Linear(90, d); s.layers = nn.ModuleList([nn.Linear(d, d) for _ in range(5)]); s.last = nn.Linear(d, 3)
    def forward(s, x):
        h = s.first(x)
        for l in s.layers: h = h + F.gelu(l(h))
        return s.last(h)
model = Regressor(1248 // SHRINK).to(dev, torch.bfloat16); opt = MasterSGD(model.parameters())
for i in rec.steps(4):
    x, y = torch.randn(5200 // SHRINK, 90, device=dev, dtype=torch.bfloat16), torch.randn(5200 // SHRINK, 3, device=dev, dtype=torch.bfloat16)
    with rec.keep(): loss = F.smooth_l1_loss(model(x), y)
    rec.mark(f"forward{i}", model, (), (x, y), state=opt.masters)
    loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, (), (x, y), state=opt.masters)
    opt.step(); rec.mark(f"step{i}", model, (), (x, y), state=opt.masters); opt.zero_grad()
