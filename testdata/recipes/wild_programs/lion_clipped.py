# start
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, note="an optimizer of the program's own, no subclass of PyTorch's, whose constructor makes a momentum for each parameter; gradients are clipped")
class Lion:
    def __init__(s, params): s.params = list(params); s.momenta = [torch.zeros_like(p) for p in s.params]
    @torch.no_grad()
    def step(s):
        for p, m in zip(s.params, s.momenta): p.add_((m * .9).add_(p.grad, alpha=.1).sign_(), alpha=-1e-4); m.lerp_(p.grad, .01); p.grad = None
class Mixer(nn.Module):
    def __init__(s, d): super().__init__(); s.n, s.a, s.c, s.b = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Conv1d(2 * d, 2 * d, 4, groups=2 * d, padding=3), nn.Linear(2 * d, d)
    def forward(s, x): h = F.silu(s.c(s.a(s.n(x)).transpose(1, 2))[..., :x.size(1)]).transpose(1, 2); return x + s.b(h.cumsum(1) / 16)
model = nn.Sequential(nn.Embedding(8000, 512), *[Mixer(512) for _ in range(6)], nn.Linear(512, 8000)).to(dev); opt = Lion(model.parameters())
for i in rec.steps(3):
    x = torch.randint(0, 8000, (4, 257)).to(dev)
    with rec.keep(): loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    rec.mark(f"forward{i}", model, (), x, state=opt.momenta); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, (), x, state=opt.momenta)
    nn.utils.clip_grad_norm_(model.parameters(), 1.); opt.step(); rec.mark(f"step{i}", model, (), x, state=opt.momenta)
