# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(inference=True, loop=True, recorded_steps=None, note="speculative decoding: a small model proposes four tokens, a large one checks them in one pass; both keep keys and values in tensors that grow by torch.cat")
class Attn(nn.Module):
    def __init__(s, d): super().__init__(); s.qkv, s.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
    def forward(s, x, past): q, k, v = s.qkv(x).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4); k, v = (k, v) if past is None else (torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)); return s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)), (k, v)
class Layer(nn.Module):
    def __init__(s, d): super().__init__(); s.a, s.n, s.m, s.f, s.g = Attn(d), nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(s, x, past): y, new = s.a(s.n(x), past); x = x + y; return x + s.g(F.gelu(s.f(s.m(x)))), new
class LM(nn.Module):
    def __init__(s, d, n, v=8000): super().__init__(); s.e, s.l, s.h = nn.Embedding(v, d), nn.ModuleList(Layer(d) for _ in range(n)), nn.Linear(d, v)
    def forward(s, ids, past):
        x, out = s.e(ids), []
        for l, p in zip(s.l, past or [None] * len(s.l)): x, n = l(x, p); out.append(n)
        return s.h(x[:, -4:]).argmax(-1), out
big, small = LM(1024, 12).to(dev).half().eval(), LM(512, 4).to(dev).half().eval()
with torch.inference_mode():
    prompt = torch.randint(8000, (16, 384), device=dev); rec.point(lambda: small(prompt[:, :8], None))
    t, cb = big(prompt, None); _, cs = small(prompt, None); token = t[:, -1:]; rec.mark("prompt", [big, small], (), prompt, (cb, cs))
    for r in range(8):
        proposed = [token]
        for _ in range(4): t, cs = small(proposed[-1], cs); proposed.append(t[:, -1:])
        t, cb = big(torch.cat(proposed[:4], 1), cb); token = t[:, -1:]; rec.mark(f"round{r}", [big, small], (), prompt, (cb, cs))
rec.finish()
