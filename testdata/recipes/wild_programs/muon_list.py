# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="two optimizers of one model in each step: Muon, a class of the program's own whose constructor makes a list of momenta for the matrices, and AdamW for the rest; bfloat16 autocast")
class Muon:
    def __init__(self, params, lr=.02, momentum=.95): self.params, self.lr, self.momentum = list(params), lr, momentum; self.buffers = [torch.zeros_like(p) for p in self.params]
    @torch.no_grad()
    def step(self):
        for p, b in zip(self.params, self.buffers):
            b.mul_(self.momentum).add_(p.grad); x = p.grad.add(b, alpha=self.momentum).bfloat16(); x = x / (x.norm() + 1e-7); t = x.size(0) > x.size(1); x = x.T if t else x
            for _ in range(3): a = x @ x.T; x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
            p.add_((x.T if t else x).to(p.dtype), alpha=-self.lr)
class Block(nn.Module):
    def __init__(self, d): super().__init__(); self.n1, self.n2, self.qkv, self.o, self.up, self.down = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (6, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1)); x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)); return x + self.down(F.gelu(self.up(self.n2(x))))
class Decoder(nn.Module):
    def __init__(self, d=576, n=5, v=7000): super().__init__(); self.emb, self.blocks, self.norm, self.head = nn.Embedding(v, d), nn.ModuleList(Block(d) for _ in range(n)), nn.LayerNorm(d), nn.Linear(d, v)
    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks: x = block(x)
        return self.head(self.norm(x))
model = Decoder().to(dev); matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "blocks" in n]; others = [p for p in model.parameters() if not any(p is q for q in matrices)]
muon, adam = Muon(matrices), torch.optim.AdamW(others, 3e-4)
for i in rec.steps(5):
    x = torch.randint(7000, (4, 193), device=dev)
    with rec.keep(), torch.autocast("cuda", torch.bfloat16): loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1).float(), x[:, 1:].flatten())
    rec.mark(f"forward{i}", model, adam, x, state=muon.buffers); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, adam, x, state=muon.buffers)
    muon.step(); adam.step(); rec.mark(f"step{i}", model, adam, x, state=muon.buffers); model.zero_grad(set_to_none=True); rec.mark(f"zero{i}", model, adam, x, state=muon.buffers)
