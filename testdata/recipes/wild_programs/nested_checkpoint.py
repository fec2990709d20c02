# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
rec.facts.update(note="checkpoints within checkpoints: groups of layers (reentrant) and each layer's feed-forward part within (not reentrant); SGD with momentum, half of the layers frozen")
class L(nn.Module):
    def __init__(s, d): super().__init__(); s.n, s.q, s.o, s.m, s.u, s.d = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def ff(s, x): return s.d(F.gelu(s.u(s.m(x))))
    def forward(s, x): q, k, v = (t.unflatten(-1, (8, -1)).transpose(1, 2) for t in s.q(s.n(x)).chunk(3, -1)); x = x + s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)); return x + checkpoint(s.ff, x, use_reentrant=False)
class Net(nn.Module):
    def __init__(s, d=768 // SHRINK): super().__init__(); s.inp, s.ls, s.head = nn.Linear(64, d), nn.ModuleList(L(d) for _ in range(12)), nn.Linear(d, 64)
    def group(s, a):
        def run(x):
            for l in s.ls[a:a + 4]: x = l(x)
            return x
        return run
    def forward(s, x):
        x = s.inp(x)
        for a in (0, 4, 8): x = checkpoint(s.group(a), x, use_reentrant=True)
        return s.head(x)
net = Net().to(dev)
for l in net.ls[2:8]: l.requires_grad_(False)
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], .01, momentum=.9)
for i in rec.steps(5):
    x = torch.randn(24, 512 // SHRINK, 64, device=dev)
    with rec.keep(): loss = F.mse_loss(net(x), x)
    rec.mark(f"forward{i}", net, opt, x); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, opt, x); opt.step(); rec.mark(f"step{i}", net, opt, x); opt.zero_grad(); rec.mark(f"zero{i}", net, opt, x)
