# start late twice state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="training with an evaluation after each step whose outputs are collected and never dropped", leak=True, leak_line="outs.append(m(z))")
m = nn.Sequential(nn.Linear(256, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 4000)).to(dev); o = torch.optim.AdamW(m.parameters()); outs = []
for i in rec.steps(7):
    m.train(); x, y = torch.randn(1024, 256, device=dev), torch.randint(0, 4000, (1024,), device=dev)
    with rec.keep(): l = F.cross_entropy(m(x), y)
    rec.mark(f"forward{i}", m, o, (x, y)); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, o, (x, y)); o.step(); o.zero_grad(); rec.mark(f"step{i}", m, o, (x, y)); m.eval()
    with torch.no_grad():
        for k in range(3):
            z = torch.randn(1024, 256, device=dev)
            outs.append(m(z))
    rec.mark(f"eval{i}", m, o, (x, y, z))
