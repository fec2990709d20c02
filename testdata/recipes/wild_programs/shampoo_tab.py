# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a residual tabular network with feature tokenisation; an optimizer of its own keeps two preconditioners and a momentum for each matrix, a diagonal for the rest")
B = 16 if rec.CPU else 2048
class Shampoo(torch.optim.Optimizer):
    def __init__(s, ps, lr=1e-2, beta=.9): super().__init__(ps, dict(lr=lr, beta=beta))
    @torch.no_grad()
    def step(s):
        for g in s.param_groups:
            for p in g["params"]:
                if p.grad is None: continue
                st = s.state[p]
                if not st:
                    st["m"] = torch.zeros_like(p)
                    if p.dim() == 2: st["l"], st["r"] = torch.eye(p.shape[0], device=p.device) * 1e-4, torch.eye(p.shape[1], device=p.device) * 1e-4
                    else: st["d"] = torch.zeros_like(p)
                gr = p.grad
                if p.dim() == 2:
                    st["l"].add_(gr @ gr.T); st["r"].add_(gr.T @ gr)
                    upd = (gr / (st["l"].diagonal().sqrt()[:, None] + 1e-6)) / (st["r"].diagonal().sqrt()[None] + 1e-6)
                else: st["d"].addcmul_(gr, gr); upd = gr / (st["d"].sqrt() + 1e-6)
                st["m"].mul_(g["beta"]).add_(upd); p.add_(st["m"], alpha=-g["lr"])
class Block(nn.Module):
    def __init__(s, d, h): super().__init__(); s.n, s.a, s.b = nn.BatchNorm1d(d), nn.Linear(d, h), nn.Linear(h, d)
    def forward(s, x): return x + s.b(F.dropout(F.relu(s.a(s.n(x))), .1, s.training))
class Tab(nn.Module):
    def __init__(s, cats=(1000, 50, 7000, 300), num=64, d=768):
        super().__init__(); s.cat = nn.ModuleList(nn.Embedding(c, 48) for c in cats); s.w = nn.Parameter(torch.randn(num, 16) * .1); s.b = nn.Parameter(torch.zeros(num, 16)); s.inp = nn.Linear(48 * len(cats) + 16 * num, d)
        s.blocks = nn.Sequential(*[Block(d, 1536) for _ in range(5)]); s.out = nn.Sequential(nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, 12))
    def forward(s, c, x): e = torch.cat([m(c[:, i]) for i, m in enumerate(s.cat)] + [F.relu(x[..., None] * s.w + s.b).flatten(1)], 1); return s.out(s.blocks(s.inp(e)))
net = Tab().to(dev); opt = Shampoo(net.parameters()); lossf = nn.CrossEntropyLoss(label_smoothing=.1)
for i in rec.steps(5):
    c, x, y = torch.randint(50, (B, 4)).to(dev), torch.randn(B, 64).to(dev), torch.randint(12, (B,)).to(dev)
    with rec.keep(): loss = lossf(net(c, x), y)
    rec.mark(f"forward{i}", net, opt, (c, x, y)); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, opt, (c, x, y))
    opt.step(); opt.zero_grad(); rec.mark(f"step{i}", net, opt, (c, x, y))
