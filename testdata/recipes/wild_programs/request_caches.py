# state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(inference=True, loop=True, note="an inference server: each request gets keys and values of its own for each layer, of a size for its longest answer, which are dropped as it finishes; prompts come between tokens; bfloat16")
D, H, V, L = 1024, 8, 16000, 10
class Rope(nn.Module):
    def __init__(s): super().__init__(); s.register_buffer("f", 10000 ** (-torch.arange(0, D // H, 2).float() / (D // H)))
    def forward(s, x, pos): a = pos[:, None] * s.f; c, n = a.cos().to(x.dtype), a.sin().to(x.dtype); u, v = x.chunk(2, -1); return torch.cat([u * c - v * n, u * n + v * c], -1)
class Attn(nn.Module):
    def __init__(s): super().__init__(); s.qkv, s.o, s.rope = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False), Rope()
    def forward(s, x, kv, at):
        t = x.shape[0]; q, k, v = s.qkv(x).view(t, 3, H, D // H).permute(1, 2, 0, 3); pos = torch.arange(at, at + t, device=x.device).float(); q, k = s.rope(q, pos), s.rope(k, pos)
        kv[0, :, at:at + t], kv[1, :, at:at + t] = k, v
        return s.o(F.scaled_dot_product_attention(q[None], kv[0, :, :at + t][None], kv[1, :, :at + t][None], is_causal=t > 1)[0].transpose(0, 1).reshape(t, D))
class Block(nn.Module):
    def __init__(s): super().__init__(); s.n1, s.a, s.n2, s.u, s.d = nn.RMSNorm(D), Attn(), nn.RMSNorm(D), nn.Linear(D, 2816, bias=False), nn.Linear(2816, D, bias=False)
    def forward(s, x, kv, at): x = x + s.a(s.n1(x), kv, at); return x + s.d(F.gelu(s.u(s.n2(x))))
class LM(nn.Module):
    def __init__(s): super().__init__(); s.e, s.bs, s.n, s.h = nn.Embedding(V, D), nn.ModuleList(Block() for _ in range(L)), nn.RMSNorm(D), nn.Linear(D, V, bias=False)
    def forward(s, ids, kvs, at):
        x = s.e(ids)
        for b, kv in zip(s.bs, kvs): x = b(x, kv, at)
        return s.h(s.n(x[-1:]))
class Request:
    def __init__(s, n, m): s.n, s.left, s.at = n, m, 0; s.kvs = [torch.empty(2, H, n + m, D // H, device=dev, dtype=torch.bfloat16) for _ in range(L)]; s.ids = torch.randint(0, V, (n,)).to(dev)
class Server:
    def __init__(s, m): s.m, s.live, s.todo = m, [], []
    @torch.inference_mode()
    def tick(s):
        while s.todo and len(s.live) < 6: s.live.append(s.todo.pop(0))
        for r in s.live:
            nxt = s.m(r.ids, r.kvs, r.at).argmax(-1); r.at += len(r.ids); r.ids = nxt; r.left -= 1
        s.live = [r for r in s.live if r.left > 0]
m = LM().to(dev, torch.bfloat16).eval(); s = Server(m)
def more(k): s.todo += [Request(200 + 60 * ((k + j) % 5), 6 + 7 * ((k * 3 + j) % 4)) for j in range(3)]
more(0); more(1)
def state(): rs = s.live + s.todo; return [r.kvs for r in rs], [r.ids for r in rs]
for k in range(3): s.tick()
rec.point(lambda: s.tick())
for k in range(24):
    if k % 8 == 4: more(k)
    s.tick()
    if k % 6 == 5: c, ids = state(); rec.mark(f"tick{k}", m, (), ids, cache=c); del c, ids
rec.finish()
