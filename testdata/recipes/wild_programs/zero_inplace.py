# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a transformer classifier; gradients are zeroed in place, AdamW, weights moved when built")
B = 4 if rec.CPU else 64
class Cls(nn.Module):
    def __init__(s, d=576): super().__init__(); s.e = nn.Embedding(14000, d); s.b = nn.ModuleList([nn.TransformerEncoderLayer(d, 8, 1536, 0., batch_first=True, norm_first=True) for _ in range(4)]); s.pool, s.o = nn.Linear(d, d), nn.Linear(d, 77)
    def forward(s, x):
        x = s.e(x)
        for b in s.b: x = b(x)
        return s.o(torch.tanh(s.pool(x[:, 0])))
m = Cls().to(dev); opt = torch.optim.AdamW(m.parameters(), 2e-4)
for i in rec.steps(5):
    x, y = torch.randint(0, 14000, (B, 64)).to(dev), torch.randint(0, 77, (B,)).to(dev)
    with rec.keep(): loss = F.cross_entropy(m(x), y)
    rec.mark(f"forward{i}", m, opt, (x, y))
    loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", m, opt, (x, y))
    opt.step(); opt.zero_grad(set_to_none=False)
    rec.mark(f"step{i}", m, opt, (x, y))
