# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="bfloat16 weights with one flat float32 buffer of gradients: param.main_grad is a view of it, hooks add into it in the backward pass; float32 master weights and both moments in flat buffers, Adam by hand")
class Attn(nn.Module):
    def __init__(self, d): super().__init__(); self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
    def forward(self, x): q, k, v = self.qkv(x).unflatten(-1, (3, 12, -1)).permute(2, 0, 3, 1, 4); return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
class Block(nn.Module):
    def __init__(self, d): super().__init__(); self.n1, self.n2, self.att = nn.LayerNorm(d), nn.LayerNorm(d), Attn(d); self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x): x = x + self.att(self.n1(x)); return x + self.down(F.gelu(self.up(self.n2(x))))
class GPT(nn.Module):
    def __init__(self, d=768, n=6, v=16000): super().__init__(); self.emb = nn.Embedding(v, d); self.blocks = nn.ModuleList(Block(d) for _ in range(n)); self.out = nn.Linear(d, v, bias=False)
    def forward(self, t):
        x = self.emb(t)
        for b in self.blocks: x = b(x)
        return self.out(x)
class FlatBuffer:
    def __init__(self, params):
        self.params = list(params); n = sum(p.numel() for p in self.params); self.grad = torch.zeros(n, dtype=torch.float32, device=dev); at = 0
        for p in self.params: p.main_grad = self.grad[at:at + p.numel()].view_as(p); at += p.numel(); p.register_post_accumulate_grad_hook(self.collect)
    @staticmethod
    def collect(p): p.main_grad.add_(p.grad.float()); p.grad = None
    def reset(self): self.grad.zero_()
class FlatAdam:
    def __init__(self, buffer):
        self.b = buffer; self.master = torch.cat([p.detach().float().flatten() for p in buffer.params]); self.m, self.v, self.t = torch.zeros_like(self.master), torch.zeros_like(self.master), 0
    @torch.no_grad()
    def step(self, lr=1e-4):
        self.t += 1; g = self.b.grad; g.mul_(torch.clamp(1.0 / (g.norm() + 1e-6), max=1.0)); self.m.lerp_(g, 0.1); self.v.mul_(0.95).addcmul_(g, g, value=0.05)
        self.master.addcdiv_(self.m / (1 - 0.9 ** self.t), (self.v / (1 - 0.95 ** self.t)).sqrt_().add_(1e-8), value=-lr); at = 0
        for p in self.b.params: p.copy_(self.master[at:at + p.numel()].view_as(p)); at += p.numel()
model = GPT().to(dev, torch.bfloat16); buffer = FlatBuffer(model.parameters()); optimizer = FlatAdam(buffer); held = dict(state=(optimizer.master, optimizer.m, optimizer.v), grads=buffer.grad)
for i in rec.steps(5):
    buffer.reset()
    for micro in range(2):
        tokens = torch.randint(16000, (6, 385), device=dev)
        with rec.keep(): loss = F.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten()) / 2
        rec.mark(f"forward{i}.{micro}", model, inputs=tokens, **held); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}.{micro}", model, inputs=tokens, **held)
    optimizer.step(); rec.mark(f"step{i}", model, inputs=tokens, **held)
