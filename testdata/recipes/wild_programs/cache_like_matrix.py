# one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(inference=True, leak=False, note="keys and values of each layer, allocated at load and as large as one of its matrices; a step is a request")
D, KV, MAX, L = 1024, 4, 4096, 6
class Block(nn.Module):
    def __init__(s): super().__init__(); s.n = nn.RMSNorm(D); s.qkv, s.o, s.up, s.down = (nn.Linear(a, b, bias=False) for a, b in ((D, D + 2 * KV * 64), (D, D), (D, 5632), (2816, D)))
    def forward(s, x, k, v, at):
        t = x.size(1); q, a, b = s.qkv(s.n(x)).unflatten(-1, (-1, 64)).split([16, KV, KV], 2); k[:, :, at:at + t], v[:, :, at:at + t] = a.transpose(1, 2), b.transpose(1, 2)
        x = x + s.o(F.scaled_dot_product_attention(q.transpose(1, 2), k[:, :, :at + t], v[:, :, :at + t], enable_gqa=True).transpose(1, 2).flatten(2)); g, u = s.up(x).chunk(2, -1); return x + s.down(F.silu(g) * u)
class LM(nn.Module):
    def __init__(s): super().__init__(); s.e, s.bs, s.h = nn.Embedding(32000, D), nn.ModuleList(Block() for _ in range(L)), nn.Linear(D, 32000, bias=False)
    def forward(s, ids, cache, at):
        x = s.e(ids)
        for b, (k, v) in zip(s.bs, cache): x = b(x, k, v, at)
        return s.h(x[:, -1])
torch.set_grad_enabled(False)
model = LM().to(torch.bfloat16).to(dev).eval(); cache = [tuple(torch.zeros(1, KV, MAX, 64, dtype=torch.bfloat16, device=dev) for _ in range(2)) for _ in range(L)]
for i in rec.steps(4):
    ids = torch.randint(0, 32000, (1, 300 + 50 * i)).to(dev); at = 0
    for _ in range(3): nxt = model(ids, cache, at).argmax(-1, keepdim=True); at += ids.size(1); ids = nxt
    rec.mark(f"request{i}", model, (), ids, cache)
