# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(inference=True, loop=True, note="speculative decoding in half precision: draft and target with caches of a fixed length, a list of tensors per layer")

class Config:
    def __init__(self, dim, layers, heads, vocab=32000, max_len=1024): self.dim, self.layers, self.heads, self.vocab, self.max_len = dim, layers, heads, vocab, max_len

class RMSNorm(nn.Module):
    def __init__(self, dim): super().__init__(); self.weight = nn.Parameter(torch.ones(dim))
    def forward(self, x): return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * self.weight

class Block(nn.Module):
    def __init__(self, c):
        super().__init__(); self.heads = c.heads
        self.n1, self.n2 = RMSNorm(c.dim), RMSNorm(c.dim)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(c.dim, c.dim, bias=False) for _ in range(4))
        self.w1, self.w2, self.w3 = nn.Linear(c.dim, 3 * c.dim, bias=False), nn.Linear(3 * c.dim, c.dim, bias=False), nn.Linear(c.dim, 3 * c.dim, bias=False)
    def forward(self, x, cache, pos):
        b, t, d = x.shape
        h = self.n1(x)
        q, k, v = (w(h).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        ck, cv = cache
        ck[:, :, pos:pos + t] = k
        cv[:, :, pos:pos + t] = v
        y = F.scaled_dot_product_attention(q, ck[:, :, :pos + t], cv[:, :, :pos + t])
        x = x + self.wo(y.transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

class Llama(nn.Module):
    def __init__(self, c):
        super().__init__(); self.c = c
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm, self.out = RMSNorm(c.dim), nn.Linear(c.dim, c.vocab, bias=False)
    def forward(self, tokens, caches, pos):
        x = self.tok(tokens)
        for block, cache in zip(self.blocks, caches): x = block(x, cache, pos)
        return self.out(self.norm(x))

def new_cache(c, batch):
    shape = (batch, c.heads, c.max_len, c.dim // c.heads)
    return [(torch.zeros(shape, device=dev, dtype=torch.half), torch.zeros(shape, device=dev, dtype=torch.half)) for _ in range(c.layers)]

big, small = Config(768, 8, 12), Config(256, 3, 4)
target, draft = Llama(big).half().to(dev).eval(), Llama(small).half().to(dev).eval()
prompt = torch.randint(0, 32000, (4, 64), device=dev)

@torch.no_grad()
def speculate(prompt, rounds=10, gamma=4):
    tc, dc = new_cache(big, 4), new_cache(small, 4)
    nxt = target(prompt, tc, 0)[:, -1:].argmax(-1)
    draft(prompt, dc, 0)
    pos = prompt.shape[1]
    for r in rec.steps(rounds, end=False):
        guess, token = [], nxt
        for g in range(gamma):
            token = draft(token, dc, pos + g)[:, -1:].argmax(-1)
            guess.append(token)
        rec.mark(f"draft{r}", (target, draft), (), (prompt, nxt, guess), (tc, dc))
        checked = target(torch.cat([nxt] + guess, 1), tc, pos).argmax(-1)
        nxt = checked[:, -1:]
        pos += gamma
        rec.mark(f"check{r}", (target, draft), (), (prompt,), (tc, dc))
    del guess, token, checked, nxt; rec.facts["recorded_steps"] = None; rec.finish()
speculate(prompt)
