# late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(leak=True, leak_line="history.append(F.huber_loss(model(vx), vy))", note="validation runs under autograd, and a list keeps its losses with their graphs, from before the recording on")
class Forecast(nn.Module):
    def __init__(s, n, d): super().__init__(); s.first = nn.Linear(n, d); s.layers = nn.ModuleList([nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d)) for _ in range(3)]); s.last = nn.Linear(d, 48)
    def forward(s, x):
        h = s.first(x)
        for l in s.layers: h = h + l(h)
        return s.last(h)
N = 336 // SHRINK; model = Forecast(N, 384 // SHRINK).to(dev); opt = torch.optim.AdamW(model.parameters(), lr=1e-3); history, kept = [], []
class Keep:
    """the tensors that graphs hold, for as long as these do"""
    def __init__(s, t): s.t = t; kept.append(s)
def batch(n): return torch.randn(n, N, device=dev), torch.randn(n, 48, device=dev)
for i in rec.steps(5):
    x, y = batch(6100 // SHRINK)
    with rec.keep(): loss = F.huber_loss(model(x), y)
    of_batch = set(rec.saved); rec.saved.update(t for h in kept for t in [rec.st(h.t)]); rec.mark(f"forward{i}", model, opt, (x, y))
    loss.backward(); rec.saved.clear(); rec.saved.update(rec.st(h.t) for h in kept); rec.mark(f"backward{i}", model, opt, (x, y))
    opt.step(); opt.zero_grad(); rec.mark(f"zero{i}", model, opt, (x, y))
    vx, vy = batch(4700 // SHRINK)
    with torch.autograd.graph.saved_tensors_hooks(Keep, lambda h: h.t): history.append(F.huber_loss(model(vx), vy))
