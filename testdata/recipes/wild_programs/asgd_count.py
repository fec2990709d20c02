# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="crowd counting: a frozen convolutional front in eval mode under no_grad, a trained density head, ASGD (an average in the optimizer), losses at three scales")
B = 2 if rec.CPU else 12
def cbr(i, o, d=1): return nn.Sequential(nn.Conv2d(i, o, 3, 1, d, d), nn.ReLU(inplace=True))
class Front(nn.Module):
    def __init__(s): super().__init__(); s.a, s.b, s.c = nn.Sequential(cbr(3, 64), cbr(64, 64)), nn.Sequential(cbr(64, 128), cbr(128, 128)), nn.Sequential(cbr(128, 256), cbr(256, 256), cbr(256, 512))
    def forward(s, x): x = F.max_pool2d(s.a(x), 2); x = F.max_pool2d(s.b(x), 2); return F.max_pool2d(s.c(x), 2)
class Head(nn.Module):
    def __init__(s): super().__init__(); s.ds = nn.Sequential(*[cbr(512, 512, 2) for _ in range(3)], cbr(512, 256, 2), cbr(256, 128, 2)); s.outs = nn.ModuleList(nn.Conv2d(128, 1, 1) for _ in range(3))
    def forward(s, f): h = s.ds(f); return [o(F.avg_pool2d(h, 2 ** k) if k else h) for k, o in enumerate(s.outs)]
front, head = Front().to(dev).eval().requires_grad_(False), Head().to(dev); opt = torch.optim.ASGD(head.parameters(), 1e-4, t0=10)
for i in rec.steps(5):
    x, y = torch.rand(B, 3, 256, 256).to(dev), torch.rand(B, 1, 32, 32).to(dev)
    with torch.no_grad(): f = front(x)
    with rec.keep(): loss = sum(F.mse_loss(o, F.avg_pool2d(y, 2 ** k) * 4 ** k if k else y) for k, o in enumerate(head(f)))
    rec.mark(f"forward{i}", (front, head), opt, (x, y)); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", (front, head), opt, (x, y)); opt.step(); rec.mark(f"step{i}", (front, head), opt, (x, y))
