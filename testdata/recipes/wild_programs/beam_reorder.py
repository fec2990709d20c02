# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="translation: encoder, decoder with cached self- and cross-attention in dictionaries, beam search of width 5", inference=True, loop=None)
class MHA(nn.Module):
    def __init__(s, d, h): super().__init__(); s.h = h; s.q, s.k, s.v, s.o = (nn.Linear(d, d) for _ in range(4))
    def split(s, x): return x.view(x.shape[0], -1, s.h, x.shape[-1] // s.h).transpose(1, 2)
    def forward(s, x, kv=None, cache=None, static=False):
        q = s.split(s.q(x))
        if static and cache is not None and "k" in cache: k, v = cache["k"], cache["v"]
        else:
            k, v = s.split(s.k(x if kv is None else kv)), s.split(s.v(x if kv is None else kv))
            if cache is not None:
                if not static and "k" in cache: k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
                cache["k"], cache["v"] = k, v
        return s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
class EncL(nn.Module):
    def __init__(s, d, h): super().__init__(); s.a, s.f, s.n1, s.n2 = MHA(d, h), nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d)), nn.LayerNorm(d), nn.LayerNorm(d)
    def forward(s, x): x = s.n1(x + s.a(x)); return s.n2(x + s.f(x))
class DecL(nn.Module):
    def __init__(s, d, h): super().__init__(); s.a, s.c, s.f, s.n1, s.n2, s.n3 = MHA(d, h), MHA(d, h), nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d)), nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
    def forward(s, x, mem, c): x = s.n1(x + s.a(x, cache=c["self"])); x = s.n2(x + s.c(x, mem, c["cross"], True)); return s.n3(x + s.f(x))
class S2S(nn.Module):
    def __init__(s, v=16000, d=512, n=3, h=8): super().__init__(); s.e = nn.Embedding(v, d); s.enc = nn.ModuleList([EncL(d, h) for _ in range(n)]); s.dec = nn.ModuleList([DecL(d, h) for _ in range(n)]); s.out = nn.Linear(d, v)
    def encode(s, x):
        x = s.e(x)
        for l in s.enc: x = l(x)
        return x
    def decode(s, y, mem, caches):
        x = s.e(y)
        for l, c in zip(s.dec, caches): x = l(x, mem, c)
        return s.out(x[:, -1]).log_softmax(-1)
def reorder(caches, idx): return [{k: {n: t.index_select(0, idx) for n, t in c[k].items()} for k in c} for c in caches]
@torch.no_grad()
def translate(m, src, beam=5, steps=6, tag=None):
    b = src.shape[0]; mem = m.encode(src).repeat_interleave(beam, 0); caches = [{"self": {}, "cross": {}} for _ in m.dec]; y = torch.ones(b * beam, 1, dtype=torch.long, device=dev); scores = torch.zeros(b, beam, device=dev)
    for t in range(steps):
        lp = m.decode(y[:, -1:], mem, caches); s, i = (scores.unsqueeze(-1) + lp.view(b, beam, -1)).flatten(1).topk(beam); scores = s; src_beam = (i // lp.shape[-1] + torch.arange(b, device=dev)[:, None] * beam).flatten(); y = torch.cat([y[src_beam], (i % lp.shape[-1]).view(-1, 1)], 1); caches = reorder(caches, src_beam)
    if tag: rec.mark(tag, m, (), src, caches)
    return y
model = S2S().to(dev).eval(); rec.point(lambda: translate(model, torch.randint(0, 16000, (1, 10)).to(dev), steps=2))
for k in range(2):
    src = torch.randint(0, 16000, (8, 60)).to(dev); out = translate(model, src, tag=f"sentence{k}")
rec.finish()
