# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="generation with caches registered as buffers in each attention when the model is built, filled in place", inference=True, loop=None)
class Cache(nn.Module):
    def __init__(s, b, h, n, d): super().__init__(); s.register_buffer("k", torch.zeros(b, h, n, d, dtype=torch.bfloat16), persistent=False); s.register_buffer("v", torch.zeros(b, h, n, d, dtype=torch.bfloat16), persistent=False)
    def update(s, pos, k, v): s.k[:, :, pos] = k; s.v[:, :, pos] = v; return s.k, s.v
class Att(nn.Module):
    def __init__(s, d, h): super().__init__(); s.wqkv, s.wo, s.h, s.cache = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False), h, None
    def forward(s, x, pos, mask):
        b, t, d = x.shape; q, k, v = (y.view(b, t, s.h, -1).transpose(1, 2) for y in s.wqkv(x).split(d, -1))
        if s.cache is not None: k, v = s.cache.update(pos, k, v)
        return s.wo(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(b, t, d))
class Blk(nn.Module):
    def __init__(s, d, h): super().__init__(); s.a, s.n1, s.n2, s.w1, s.w2, s.w3 = Att(d, h), nn.RMSNorm(d), nn.RMSNorm(d), nn.Linear(d, 2816, bias=False), nn.Linear(2816, d, bias=False), nn.Linear(d, 2816, bias=False)
    def forward(s, x, pos, mask): x = x + s.a(s.n1(x), pos, mask); y = s.n2(x); return x + s.w2(F.silu(s.w1(y)) * s.w3(y))
class Tr(nn.Module):
    def __init__(s, v=16000, d=1024, n=8, h=16): super().__init__(); s.tok, s.layers, s.norm, s.out = nn.Embedding(v, d), nn.ModuleList([Blk(d, h) for _ in range(n)]), nn.RMSNorm(d), nn.Linear(d, v, bias=False)
    def setup_caches(s, b, n):
        for l in s.layers: l.a.cache = Cache(b, 16, n, 64)
        s.mask = torch.tril(torch.ones(n, n, dtype=torch.bool))
    def forward(s, x, pos):
        m = s.mask[pos][None, None]; x = s.tok(x)
        for l in s.layers: x = l(x, pos, m)
        return s.out(s.norm(x))
with torch.device(dev): model = Tr()
model = model.to(torch.bfloat16)
def generate(prompt, new):
    b, t = prompt.shape
    with torch.device(prompt.device): model.setup_caches(b, 512)
    pos = torch.arange(0, t, device=dev); y = model(prompt, pos)[:, -1].argmax(-1, keepdim=True); pos = torch.tensor([t], device=dev); out = [y]
    for k in range(new): y = model(y, pos)[:, -1].argmax(-1, keepdim=True); pos = pos + 1; out.append(y)
    return torch.cat(out, 1)
with torch.no_grad():
    p = torch.randint(0, 16000, (4, 96), device=dev); rec.point(lambda: model(p[:, :4], torch.arange(4, device=dev)) if hasattr(model, "mask") else None)
    generate(p, 24); rec.mark("generated", [p for p in model.parameters()], (), p, [(l.a.cache.k, l.a.cache.v) for l in model.layers])
rec.finish()
