# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="an inference server: one tensor of pages for all layers made in the engine's constructor, requests come and go", inference=True, loop=None)
class Attention(nn.Module):
    def __init__(s, d, h): super().__init__(); s.h = h; s.qkv, s.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
    def forward(s, x, kv, table, pos):
        b, t, d = x.shape; q, k, v = s.qkv(x).view(b, t, 3, s.h, d // s.h).unbind(2)
        for r in range(b):
            for j in range(t): pg, off = table[r][(pos + j) // 16], (pos + j) % 16; kv[0, pg, off], kv[1, pg, off] = k[r, j], v[r, j]
        n = (pos + t + 15) // 16; pages = [torch.stack([kv[:, p] for p in table[r][:n]], 1).flatten(1, 2)[:, :pos + t] for r in range(b)]; K, V = torch.stack([p[0] for p in pages]).transpose(1, 2), torch.stack([p[1] for p in pages]).transpose(1, 2)
        return s.o(F.scaled_dot_product_attention(q.transpose(1, 2), K, V, is_causal=t > 1).transpose(1, 2).reshape(b, t, d))
class Layer(nn.Module):
    def __init__(s, d, h): super().__init__(); s.n1, s.at, s.n2, s.u, s.dn = nn.LayerNorm(d), Attention(d, h), nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(s, x, *a): x = x + s.at(s.n1(x), *a); return x + s.dn(F.gelu(s.u(s.n2(x))))
class Model(nn.Module):
    def __init__(s, v=12000, d=768, n=6, h=12): super().__init__(); s.e = nn.Embedding(v, d); s.l = nn.ModuleList([Layer(d, h) for _ in range(n)]); s.f = nn.LayerNorm(d); s.lm = nn.Linear(d, v, bias=False)
    def forward(s, x, kv, table, pos):
        h = s.e(x)
        for i, l in enumerate(s.l): h = l(h, kv[i], table, pos)
        return s.lm(s.f(h[:, -1:]))
class Engine:
    def __init__(self, pages=600):
        self.model = Model().half().to(dev).eval(); self.kv = torch.zeros(6, 2, pages, 16, 12, 64, dtype=torch.half, device=dev); self.free = list(range(pages))
    @torch.inference_mode()
    def serve(self, b, t, new):
        table = [[self.free.pop() for _ in range((t + new + 15) // 16)] for _ in range(b)]; x = torch.randint(0, 12000, (b, t)).to(dev); out = []
        y = self.model(x, self.kv, table, 0).argmax(-1)
        for k in range(new): out.append(y); y = self.model(y, self.kv, table, t + k).argmax(-1)
        for r in table: self.free += r
        return torch.cat(out, 1).tolist()
e = Engine(); rec.point(lambda: e.serve(1, 8, 2))
for b, t, n in ((2, 20, 4), (3, 33, 3)):
    e.serve(b, t, n); rec.mark(f"served{b}", e.model, (), (), e.kv)
rec.finish()
