# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="half-precision weights, float32 master copies by hand, Adam on these")
m = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), *[l for _ in range(6) for l in (nn.Linear(2048, 2048), nn.ReLU())], nn.Linear(2048, 1000)).to(dev).half()
master = [p.detach().clone().float().requires_grad_() for p in m.parameters()]; o = torch.optim.Adam(master, 1e-3)
for i in rec.steps(5):
    x, y = torch.randn(2048, 512, device=dev).half(), torch.randint(0, 1000, (2048,), device=dev)
    with rec.keep(): l = F.cross_entropy(m(x).float(), y) * 128
    rec.mark(f"forward{i}", (m, master), o, (x, y)); m.zero_grad(); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}", (m, master), o, (x, y))
    for p, q in zip(m.parameters(), master): q.grad = p.grad.float() / 128
    rec.mark(f"cast{i}", (m, master), o, (x, y)); o.step()
    with torch.no_grad():
        for p, q in zip(m.parameters(), master): p.copy_(q)
    rec.mark(f"step{i}", (m, master), o, (x, y))
