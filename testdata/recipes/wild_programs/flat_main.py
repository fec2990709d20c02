# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="Megatron-like: bfloat16 weights, main_grad views into one flat float32 buffer that hooks add to, flat master weights and moments, own Adam")
class Layer(nn.Module):
    def __init__(s, d): super().__init__(); s.ln1, s.qkv, s.proj, s.ln2, s.fc1, s.fc2 = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(s, x):
        b, t, d = x.shape; q, k, v = s.qkv(s.ln1(x)).view(b, t, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
        x = x + s.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)); return x + s.fc2(F.gelu(s.fc1(s.ln2(x))))
class GPT(nn.Module):
    def __init__(s, v=10000, d=512, n=6): super().__init__(); s.wte, s.wpe = nn.Embedding(v, d), nn.Embedding(512, d); s.h = nn.ModuleList([Layer(d) for _ in range(n)]); s.f = nn.LayerNorm(d)
    def forward(s, x):
        h = s.wte(x) + s.wpe.weight[:x.shape[1]]
        for l in s.h: h = l(h)
        return s.f(h) @ s.wte.weight.t()
class FlatAdam:
    def __init__(self, params, lr=1e-4):
        self.params = list(params); n = sum(p.numel() for p in self.params); self.grad = torch.zeros(n, dtype=torch.float32, device=dev); at = 0
        for p in self.params:
            p.main_grad = self.grad[at:at + p.numel()].view_as(p); at += p.numel()
            def hook(p):
                p.main_grad.add_(p.grad); p.grad = None
            p.register_post_accumulate_grad_hook(hook)
        self.master = torch.cat([p.detach().float().flatten() for p in self.params]); self.m, self.v = torch.zeros_like(self.master), torch.zeros_like(self.master)
    @torch.no_grad()
    def step(self):
        self.m.lerp_(self.grad, .1); self.v.mul_(.99).addcmul_(self.grad, self.grad, value=.01)
        self.master.addcdiv_(self.m, self.v.sqrt().add_(1e-8), value=-1e-4); at = 0
        for p in self.params: p.copy_(self.master[at:at + p.numel()].view_as(p)); at += p.numel()
    def zero_grad(self): self.grad.zero_()
model = GPT().to(dev, torch.bfloat16); opt = FlatAdam(model.parameters())
for i in rec.steps(4):
    opt.zero_grad()
    for k in range(2):
        x = torch.randint(0, 10000, (8, 257), device=dev)
        with rec.keep(): loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1).float(), x[:, 1:].flatten())
        if k: rec.mark(f"forward{i}", model, (), x, state=(opt.master, opt.m, opt.v), grads=opt.grad)
        loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", model, (), x, state=(opt.master, opt.m, opt.v), grads=opt.grad)
    opt.step()
    rec.mark(f"step{i}", model, (), x, state=(opt.master, opt.m, opt.v), grads=opt.grad)
