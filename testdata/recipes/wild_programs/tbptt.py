# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F, math, copy
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="GRU language model, truncated back-propagation: the hidden state is kept and detached; RMSprop with momentum, centered")
class G(nn.Module):
    def __init__(s, v=12000, d=512, h=1024): super().__init__(); s.e = nn.Embedding(v, d); s.r = nn.GRU(d, h, 2); s.o = nn.Linear(h, v)
    def forward(s, x, h): y, h = s.r(s.e(x), h); return s.o(y), h
m = G().to(dev); o = torch.optim.RMSprop(m.parameters(), 1e-3, momentum=.9, centered=True); data = torch.randint(0, 12000, (4000, 24), device=dev); h = None
for i in rec.steps(6):
    x, y = data[i * 64:i * 64 + 64], data[i * 64 + 1:i * 64 + 65]
    if h is not None: h = h.detach()
    with rec.keep(): q, h = m(x, h); loss = F.cross_entropy(q.flatten(0, 1), y.flatten())
    rec.mark(f"forward{i}", m, o, data); o.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, o, data); o.step(); rec.mark(f"step{i}", m, o, data)
