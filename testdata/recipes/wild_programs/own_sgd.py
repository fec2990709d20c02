# start late state twice one
import torch, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="no nn.Module and no torch.optim: weights in a dict, SGD with momentum written by hand on p.data; the velocities are optimizer_state")
def init(sizes, g):
    W = {}
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        W[f"w{i}"] = (torch.randn(a, b, generator=g) * a ** -0.5).to(dev).requires_grad_(); W[f"b{i}"] = torch.zeros(b, device=dev, requires_grad=True)
    return W
def net(W, x):
    n = len(W) // 2
    for i in range(n):
        x = torch.addmm(W[f"b{i}"], x, W[f"w{i}"])
        if i < n - 1: x = torch.tanh(x)
    return x
@torch.no_grad()
def sgd_momentum(W, V, lr=0.01, mu=0.9, wd=1e-4):
    for k, p in W.items():
        g = p.grad.data + wd * p.data
        if k not in V: V[k] = torch.zeros_like(p.data)
        V[k].mul_(mu).add_(g)
        p.data -= lr * V[k]
        p.grad = None
W = init([2048 // SHRINK] + [6000 // SHRINK] * 6 + [500], torch.Generator().manual_seed(3)); V = {}
for i in rec.steps(6):
    x = torch.randn(3000 // SHRINK, 2048 // SHRINK, device=dev); y = torch.randint(500, (x.shape[0],), device=dev)
    with rec.keep(): loss = F.cross_entropy(net(W, x), y)
    rec.mark(f"forward{i}", W, (), (x, y), state=V)
    loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", W, (), (x, y), state=V)
    sgd_momentum(W, V); rec.mark(f"step{i}", W, (), (x, y), state=V)
