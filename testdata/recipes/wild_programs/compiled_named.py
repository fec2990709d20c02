# start one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="torch.compile of an encoder whose attention matrices are made in full by matmul and softmax, Adam", full_attention=True)
def attention(q, k, v, mask, p):
    w = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    w = w.masked_fill(mask, float("-inf")).softmax(-1)
    w = F.dropout(w, p)
    return w @ v
class Blk(nn.Module):
    def __init__(self, d, h):
        super().__init__(); self.h, self.n1, self.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x, mask):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.o(attention(q, k, v, mask, 0.1).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.n2(x))))
class Model(nn.Module):
    def __init__(self, v=6000, d=384, n=4):
        super().__init__(); self.emb = nn.Embedding(v, d); self.blocks, self.head = nn.ModuleList(Blk(d, 6) for _ in range(n)), nn.Linear(d, v)
        self.register_buffer("mask", torch.ones(512, 512, dtype=torch.bool).triu(1))
    def forward(self, x):
        h = self.emb(x)
        for b in self.blocks: h = b(h, self.mask)
        return self.head(h)
raw = Model().to(dev); model = torch.compile(raw); opt = torch.optim.Adam(raw.parameters(), 3e-4)
for i in rec.steps(4):
    x = torch.randint(6000, (8, 513)).to(dev)
    loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    rec.mark(f"forward{i}", raw, opt, x); loss.backward(); rec.mark(f"backward{i}", raw, opt, x); opt.step(); opt.zero_grad(); rec.mark(f"step{i}", raw, opt, x)
