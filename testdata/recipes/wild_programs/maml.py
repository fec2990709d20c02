# start late twice one state
import torch, torch.nn as nn, torch.nn.functional as F
from torch.func import functional_call
import recorder as rec
from recorder import dev
rec.facts.update(note="MAML: three tasks a step, two inner steps each with create_graph, functional_call, Adam outside")
net = nn.Sequential(nn.Linear(256, 1200), nn.ReLU(), nn.Linear(1200, 1200), nn.ReLU(), nn.Linear(1200, 900), nn.ReLU(), nn.Linear(900, 5)).to(dev); opt = torch.optim.Adam(net.parameters(), 1e-3)
for i in rec.steps(5):
    xs = torch.randn(3, 2, 150, 256).to(dev); ys = torch.randint(0, 5, (3, 2, 150)).to(dev)
    opt.zero_grad(); total = 0
    with rec.keep():
        for t in range(3):
            w = dict(net.named_parameters())
            for _ in range(2):
                l = F.cross_entropy(functional_call(net, w, (xs[t, 0],)), ys[t, 0]); g = torch.autograd.grad(l, list(w.values()), create_graph=True)
                w = {k: v - 0.01 * d for (k, v), d in zip(w.items(), g)}
            total = total + F.cross_entropy(functional_call(net, w, (xs[t, 1],)), ys[t, 1])
    del w, g, l
    rec.mark(f"forward{i}", net, opt, (xs, ys)); total.backward(); rec.saved.clear(); del total; rec.mark(f"backward{i}", net, opt, (xs, ys)); opt.step(); rec.mark(f"step{i}", net, opt, (xs, ys))
