# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="torch.compile of a decoder, bfloat16 autocast, fused AdamW")
class Blk(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.n1, self.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.n2(x))))
class Model(nn.Module):
    def __init__(self, v=9000, d=512, n=5):
        super().__init__()
        self.emb, self.pos = nn.Embedding(v, d), nn.Parameter(torch.zeros(1, 256, d))
        self.blocks, self.norm, self.head = nn.ModuleList(Blk(d, 8) for _ in range(n)), nn.LayerNorm(d), nn.Linear(d, v)
    def forward(self, x):
        h = self.emb(x) + self.pos[:, :x.shape[1]]
        for b in self.blocks: h = b(h)
        return self.head(self.norm(h))
raw = Model().to(dev)
model = torch.compile(raw)
opt = torch.optim.AdamW(raw.parameters(), 3e-4, fused=True)
for i in rec.steps(4):
    x = torch.randint(9000, (8, 257)).to(dev)
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    rec.mark(f"forward{i}", raw, opt, x)
    loss.backward()
    rec.mark(f"backward{i}", raw, opt, x)
    opt.step(); opt.zero_grad()
    rec.mark(f"step{i}", raw, opt, x)
