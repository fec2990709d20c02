# start late twice one state
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a policy generates with a cache, a frozen reference and a frozen reward model judge, then one update by AdamW, bfloat16 weights")
D, V = 320, 2000
class Block(nn.Module):
    def __init__(s): super().__init__(); s.n1, s.qkv, s.o, s.n2, s.a, s.b = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    def forward(s, x, past=None):
        b, t, d = x.shape; q, k, v = s.qkv(s.n1(x)).view(b, t, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
        if past is not None:
            if past: k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            past[:] = [k, v]
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=t > 1).transpose(1, 2).reshape(b, t, d)); return x + s.b(F.gelu(s.a(s.n2(x))))
class LM(nn.Module):
    def __init__(s, o=V): super().__init__(); s.e, s.bs, s.n, s.h = nn.Embedding(V, D), nn.ModuleList(Block() for _ in range(4)), nn.LayerNorm(D), nn.Linear(D, o, bias=False)
    def forward(s, x, past=None):
        h = s.e(x)
        for i, b in enumerate(s.bs): h = b(h, past[i] if past is not None else None)
        return s.h(s.n(h))
pol = LM().bfloat16().to(dev); ref = copy.deepcopy(pol).requires_grad_(False); rm = LM(1).bfloat16().to(dev).requires_grad_(False); opt = torch.optim.AdamW(pol.parameters(), 1e-5)
def lp(m, x): return torch.log_softmax(m(x[:, :-1]).float(), -1).gather(-1, x[:, 1:, None]).squeeze(-1)
for i in rec.steps(4):
    x = torch.randint(0, V, (16, 32)).to(dev)
    with torch.no_grad():
        past = [[] for _ in pol.bs]; n = x
        for _ in range(12): n = torch.multinomial(pol(n, past)[:, -1].float().softmax(-1), 1); x = torch.cat([x, n], 1)
        rec.mark(f"generated{i}", (pol, ref, rm), opt, x, past); del past
        old, r = lp(pol, x), rm(x)[:, -1, 0].float()[:, None] - 0.1 * (lp(pol, x) - lp(ref, x))
    for k in range(1):
        with rec.keep(): l = -(torch.exp(lp(pol, x) - old).clamp(0.8, 1.2) * r).mean()
        rec.mark(f"forward{i}.{k}", (pol, ref, rm), opt, (x, old, r)); opt.zero_grad(); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}.{k}", (pol, ref, rm), opt, (x, old, r)); opt.step(); rec.mark(f"step{i}.{k}", (pol, ref, rm), opt, (x, old, r))
