# one late
import copy
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, note="a transformer, an optimizer of the program's own that keeps one momentum (Lion), and an average of the weights that is copied right behind the model")
class Block(nn.Module):
    def __init__(s, d): super().__init__(); s.n1, s.n2 = nn.LayerNorm(d), nn.LayerNorm(d); s.qkv, s.o, s.up, s.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(s, x):
        q, k, v = s.qkv(s.n1(x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        x = x + s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)); return x + s.down(F.gelu(s.up(s.n2(x))))
class Net(nn.Module):
    def __init__(s, d=640, n=5): super().__init__(); s.i, s.bs, s.o = nn.Linear(48, d), nn.ModuleList(Block(d) for _ in range(n)), nn.Linear(d, 48)
    def forward(s, x):
        x = s.i(x)
        for b in s.bs: x = b(x)
        return s.o(x)
class Lion(torch.optim.Optimizer):
    def __init__(s, params, lr=1e-4): super().__init__(params, dict(lr=lr))
    @torch.no_grad()
    def step(s):
        for p in s.param_groups[0]["params"]:
            m = s.state[p].setdefault("exp_avg", torch.zeros_like(p)) if not s.state[p] else s.state[p]["exp_avg"]
            p.add_((m * .9 + p.grad * .1).sign_(), alpha=-1e-4); m.mul_(.99).add_(p.grad, alpha=.01)
model = Net().to(dev); ema = copy.deepcopy(model).requires_grad_(False); opt = Lion(model.parameters())
for i in rec.steps(4):
    x = torch.randn(16, 256, 48).to(dev)
    with rec.keep(): loss = F.mse_loss(model(x), x)
    rec.mark(f"forward{i}", (model, ema), opt, x); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", (model, ema), opt, x)
    opt.step(); torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), .001); rec.mark(f"step{i}", (model, ema), opt, x)
    opt.zero_grad(); rec.mark(f"zero{i}", (model, ema), opt, x)
