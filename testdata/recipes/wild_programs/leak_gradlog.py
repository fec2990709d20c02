# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=True, leak_line="log[n].append(", note="clones of gradients are kept after each step, SGD with momentum")
model = nn.Sequential(nn.Linear(512, 2048), nn.Tanh(), nn.Linear(2048, 2048), nn.Tanh(), nn.Linear(2048, 1024), nn.Tanh(), nn.Linear(1024, 100)).to(dev)
opt = torch.optim.SGD(model.parameters(), .01, momentum=.9, nesterov=True); log = {n: [] for n, p in model.named_parameters() if n.endswith("weight")}
for i in rec.steps(8):
    x, y = torch.randn(512, 512).to(dev), torch.randint(0, 100, (512,)).to(dev)
    with rec.keep(): loss = F.cross_entropy(model(x), y)
    rec.mark(f"forward{i}", model, opt, (x, y))
    loss.backward(); rec.saved.clear()
    for n, p in model.named_parameters():
        if n in log: log[n].append(p.grad.detach().clone())
    opt.step(); opt.zero_grad()
    rec.mark(f"step{i}", model, opt, (x, y))
