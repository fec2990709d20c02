# start late state twice one
import torch
import torch.nn as nn
import torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="mixture of 8 experts, two chosen for a token: list comprehension over experts with index_select and index_add; sizes differ from step to step; NAdam")
class Expert(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.up = nn.Linear(d, f); self.down = nn.Linear(f, d)
    def forward(self, x):
        return self.down(F.gelu(self.up(x)))
class SparseMoE(nn.Module):
    def __init__(self, d, f, n=8, k=2):
        super().__init__()
        self.gate = nn.Linear(d, n, bias=False); self.experts = nn.ModuleList([Expert(d, f) for _ in range(n)]); self.k = k
    def forward(self, x):
        shape = x.shape; x = x.reshape(-1, shape[-1])
        probs = self.gate(x).softmax(-1); w, idx = probs.topk(self.k, -1); w = w / w.sum(-1, keepdim=True)
        rows = [torch.where(idx == e) for e in range(len(self.experts))]
        outs = [expert(x.index_select(0, r)) * w[r, c].unsqueeze(1) for expert, (r, c) in zip(self.experts, rows)]
        y = torch.zeros_like(x)
        for o, (r, _) in zip(outs, rows):
            y = y.index_add(0, r, o)
        aux = (probs.mean(0) * F.one_hot(idx[:, 0], len(self.experts)).float().mean(0)).sum() * len(self.experts)
        return y.view(shape), aux
class MoEModel(nn.Module):
    def __init__(self, v=9000, d=512 // SHRINK, n=5):
        super().__init__()
        self.tok = nn.Embedding(v, d); self.rnn = nn.ModuleList([nn.Conv1d(d, d, 4, padding=3, groups=d) for _ in range(n)]); self.moe = nn.ModuleList([SparseMoE(d, 3 * d) for _ in range(n)]); self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(n)]); self.head = nn.Linear(d, v)
    def forward(self, x):
        h, aux = self.tok(x), 0.0
        for c, m, n in zip(self.rnn, self.moe, self.norms):
            h = h + c(h.transpose(1, 2))[..., :h.shape[1]].transpose(1, 2); y, a = m(n(h)); h = h + y; aux = aux + a
        return self.head(h), aux
def train_epoch(model, opt, steps):
    for b in steps:
        toks = torch.randint(9000, (10, 400 // SHRINK), device=dev)
        with rec.keep():
            logits, aux = model(toks[:, :-1])
            loss = F.cross_entropy(logits.transpose(1, 2), toks[:, 1:]) + 0.01 * aux
        rec.mark(f"forward{b}", model, opt, toks)
        loss.backward(); rec.saved.clear()
        rec.mark(f"backward{b}", model, opt, toks)
        opt.step()
        rec.mark(f"step{b}", model, opt, toks)
        for p in model.parameters(): p.grad = None
model = MoEModel().to(dev)
train_epoch(model, torch.optim.NAdam(model.parameters(), lr=1e-3), rec.steps(5))
