# start
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, inference=True, note="a server: keys and values of system prompts stay, are repeated for each batch of requests, and grow by a token, with the lengths of the keys; every kind of call keeps them at lines of its own")
D, H, L, V = 512, 8, 6, 8000
class Cache:
    def __init__(s): s.k, s.v, s.lengths = [None] * L, [None] * L, [None] * L
    def update(s, i, k, v):
        length = k.norm(dim=-1)
        if s.k[i] is None: s.k[i], s.v[i], s.lengths[i] = k, v, length
        else:
            s.k[i] = torch.cat([s.k[i], k], 2)
            s.v[i] = torch.cat([s.v[i], v], 2)
            s.lengths[i] = torch.cat([s.lengths[i], length], 2)
        return s.k[i], s.v[i]
    def repeated(s, n):
        c = Cache(); c.k, c.v, c.lengths = ([t.repeat(n, *[1] * (t.dim() - 1)) for t in of] for of in (s.k, s.v, s.lengths)); return c
class Layer(nn.Module):
    def __init__(s, i): super().__init__(); s.i = i; s.n1, s.n2 = nn.LayerNorm(D), nn.LayerNorm(D); s.q, s.k, s.v, s.o = (nn.Linear(D, D) for _ in range(4)); s.up, s.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    def forward(s, x, cache):
        b, t, _ = x.shape; h = s.n1(x)
        q, k, v = (m(h).view(b, t, H, D // H).transpose(1, 2) for m in (s.q, s.k, s.v))
        k, v = cache.update(s.i, k * 1.0, v)
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=t > 1 and k.size(2) == t).transpose(1, 2).reshape(b, t, D))
        return x + s.down(F.gelu(s.up(s.n2(x))))
class Model(nn.Module):
    def __init__(s): super().__init__(); s.embed, s.layers, s.norm, s.head = nn.Embedding(V, D), nn.ModuleList(Layer(i) for i in range(L)), nn.LayerNorm(D), nn.Linear(D, V)
    def forward(s, ids, cache):
        x = s.embed(ids)
        for layer in s.layers: x = layer(x, cache)
        return s.head(s.norm(x[:, -1]))
model, systems = Model().to(dev).eval().requires_grad_(False), {}
everything = lambda *more: [t for c in (*systems.values(), *more) for t in (*c.k, *c.v, *c.lengths)]
@torch.inference_mode()
def serve(i, name, prompts, new):
    if name not in systems:
        systems[name] = Cache()
        model(torch.randint(0, V, (1, 100 + 30 * len(systems))).to(dev), systems[name])
        if len(systems) > 2: del systems[next(iter(systems))]
    cache = systems[name].repeated(len(prompts))
    token = model(prompts, cache).argmax(-1, keepdim=True)
    rec.mark(f"prompt{i}", model, (), prompts, cache=everything(cache))
    for _ in range(new): token = model(token, cache).argmax(-1, keepdim=True)
    rec.mark(f"decoded{i}", model, (), prompts, cache=everything(cache))
for i in rec.steps(5): serve(i, "abacb"[i], torch.randint(0, V, (6 + i, 60 - 7 * i)).to(dev), 6)
