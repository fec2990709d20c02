# start
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a server with one tensor of pages for all layers, made by the program before the requests; block tables, half precision, requests come and go", inference=True, loop=True)
D, V, L, P, S = 512, 8000, 6, 8000, 16
class Layer(nn.Module):
    def __init__(s): super().__init__(); s.n1, s.qkv, s.o, s.n2, s.a, s.b = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    def forward(s, x, kv, slots, tables):
        b, t, d = x.shape; q, k, v = s.qkv(s.n1(x)).view(b, t, 3, 8, d // 8).unbind(2); kv[0].view(-1, 8, d // 8)[slots.flatten()] = k.flatten(0, 1); kv[1].view(-1, 8, d // 8)[slots.flatten()] = v.flatten(0, 1)
        K, W = kv[0][tables].flatten(1, 2), kv[1][tables].flatten(1, 2); y = F.scaled_dot_product_attention(q.transpose(1, 2), K.transpose(1, 2), W.transpose(1, 2)); x = x + s.o(y.transpose(1, 2).reshape(b, t, d)); return x + s.b(F.gelu(s.a(s.n2(x))))
class M(nn.Module):
    def __init__(s): super().__init__(); s.e, s.ls, s.n, s.h = nn.Embedding(V, D), nn.ModuleList(Layer() for _ in range(L)), nn.LayerNorm(D), nn.Linear(D, V, bias=False)
    def forward(s, x, pages, slots, tables):
        h = s.e(x)
        for l, kv in zip(s.ls, pages): h = l(h, kv, slots, tables)
        return s.h(s.n(h))
m = M().half().to(dev).eval(); pages = torch.zeros(L, 2, P, S, 8, D // 8, dtype=torch.half, device=dev)
rec.point(lambda: m.e(torch.zeros(1, 1, dtype=torch.long, device=dev)))
with torch.inference_mode():
    for r in range(2):
        tables = torch.randint(0, P, (12, 8), device=dev); x = torch.randint(0, V, (12, 40)).to(dev); m(x, pages, torch.randint(0, P * S, (12, 40), device=dev), tables); rec.mark(f"prompt{r}", m, (), (x, tables), pages)
        for t in range(3): x = m(torch.randint(0, V, (12, 1), device=dev), pages, torch.randint(0, P * S, (12, 1), device=dev), tables)[:, -1].argmax(-1)
        rec.mark(f"tokens{r}", m, (), (tables,), pages)
rec.finish()
