# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
import recorder as rec
from recorder import dev
rec.facts.update(note="a decoder in half precision, every layer checkpointed, a norm after the last; a class holds a copy of the weights in 32 bits and Adam for it, two micro-batches to each step")

class DecoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__(); self.h = h
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.kv, self.proj = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        b, t, d = x.shape; y = self.norm1(x)
        q = self.q(y).view(b, t, self.h, -1).transpose(1, 2)
        k, v = self.kv(y).view(b, t, 2, self.h, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

class Decoder(nn.Module):
    def __init__(self, vocab=16000, d=640, n=8, h=10, length=512):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocab, d), nn.Parameter(torch.zeros(1, length, d))
        self.layers = nn.ModuleList([DecoderLayer(d, h) for _ in range(n)])
        self.final_norm, self.lm_head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
    def forward(self, ids):
        x = self.embed(ids) + self.position[:, : ids.shape[1]]
        for layer in self.layers: x = checkpoint(layer, x, use_reentrant=False)
        return self.lm_head(self.final_norm(x))

class FP16Optimizer:
    def __init__(self, model, lr=1e-4, scale=1024.0):
        self.model_params = [p for p in model.parameters() if p.requires_grad]
        self.master_params = [p.detach().clone().float() for p in self.model_params]
        for p in self.master_params: p.requires_grad = True
        self.optimizer = torch.optim.Adam(self.master_params, lr=lr); self.scale = scale
    def zero_grad(self):
        self.optimizer.zero_grad()
        for p in self.model_params:
            if p.grad is not None: p.grad.detach_(); p.grad.zero_()
    def backward(self, loss): (loss.float() * self.scale).backward()
    def step(self):
        for m, p in zip(self.master_params, self.model_params):
            if m.grad is None: m.grad = torch.empty_like(m)
            m.grad.copy_(p.grad); m.grad.mul_(1.0 / self.scale)
        nn.utils.clip_grad_norm_(self.master_params, 1.0)
        self.optimizer.step()
        for m, p in zip(self.master_params, self.model_params): p.data.copy_(m.data)

model = Decoder().to(dev).half()
opt = FP16Optimizer(model)
held = (model, opt.master_params)
for i in rec.steps(4):
    opt.zero_grad()
    for micro in range(2):
        ids = torch.randint(0, 16000, (4, 257)).to(dev)
        with rec.keep(): loss = F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten()) / 2
        rec.mark(f"forward{i}.{micro}", held, opt.optimizer, ids)
        opt.backward(loss); rec.saved.clear()
    rec.mark(f"backward{i}", held, opt.optimizer, ids)
    opt.step()
    rec.mark(f"step{i}", held, opt.optimizer, ids)
