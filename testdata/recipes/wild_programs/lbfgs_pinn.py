# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F, math, copy
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="physics-informed network, double backward, LBFGS with a closure")
m = nn.Sequential(nn.Linear(2, 1024), nn.Tanh(), *[z for _ in range(5) for z in (nn.Linear(1024, 1024), nn.Tanh())], nn.Linear(1024, 1)).to(dev); o = torch.optim.LBFGS(m.parameters(), max_iter=4, history_size=6); P = torch.rand(8192, 2, device=dev)
def loss_fn():
    p = P.detach().requires_grad_(); u = m(p); g = torch.autograd.grad(u.sum(), p, create_graph=True)[0]; gg = torch.autograd.grad(g[:, 0].sum(), p, create_graph=True)[0]; return ((g[:, 1] - gg[:, 0]) ** 2).mean()
for i in rec.steps(4):
    def closure(): o.zero_grad(); l = loss_fn(); l.backward(); return l
    o.step(closure); rec.mark(f"step{i}", m, o, P)
