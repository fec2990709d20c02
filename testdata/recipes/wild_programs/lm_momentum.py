# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a decoder trained by SGD with momentum and clipping, one block per layer module")
B = 2 if rec.CPU else 16
class Dec(nn.Module):
    def __init__(s, d=512): super().__init__(); s.n1 = nn.LayerNorm(d); s.at = nn.MultiheadAttention(d, 8, batch_first=True, bias=False); s.n2 = nn.LayerNorm(d); s.up, s.down = nn.Linear(d, 2048), nn.Linear(2048, d)
    def forward(s, x, m): h = s.n1(x); x = x + s.at(h, h, h, attn_mask=m, need_weights=False)[0]; return x + s.down(F.gelu(s.up(s.n2(x))))
class LM(nn.Module):
    def __init__(s, v=9000, d=512): super().__init__(); s.tok, s.pos = nn.Embedding(v, d), nn.Embedding(128, d); s.dec = nn.ModuleList([Dec(d) for _ in range(6)]); s.fin = nn.LayerNorm(d); s.lm = nn.Linear(d, v, bias=False)
    def forward(s, x):
        t = x.shape[1]; h = s.tok(x) + s.pos.weight[:t]; m = torch.full((t, t), float("-inf"), device=x.device).triu(1)
        for l in s.dec: h = l(h, m)
        return s.lm(s.fin(h))
m = LM().to(dev); opt = torch.optim.SGD(m.parameters(), .1, momentum=.9, weight_decay=1e-4)
for i in rec.steps(5):
    ids = torch.randint(0, 9000, (B, 129)).to(dev)
    with rec.keep(): loss = F.cross_entropy(m(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    rec.mark(f"forward{i}", m, opt, ids)
    opt.zero_grad(); loss.backward(); rec.saved.clear(); nn.utils.clip_grad_norm_(m.parameters(), 1.)
    rec.mark(f"backward{i}", m, opt, ids)
    opt.step(); rec.mark(f"step{i}", m, opt, ids)
