# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="every block under torch.utils.checkpoint(use_reentrant=False), bfloat16 weights, AdamW; `saved` at the forward marks holds what checkpoint itself saves and what is saved outside it")
class Attn(nn.Module):
    def __init__(s, c, heads): super().__init__(); s.to_qkv = nn.Linear(c, 3 * c, bias=False); s.to_out = nn.Linear(c, c); s.heads = heads
    def forward(s, x):
        q, k, v = [t.unflatten(-1, (s.heads, -1)).transpose(1, 2) for t in s.to_qkv(x).chunk(3, dim=-1)]
        return s.to_out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
class Layer(nn.Module):
    def __init__(s, c, heads): super().__init__(); s.attn = Attn(c, heads); s.mlp = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, c)); s.norm = nn.LayerNorm(c)
    def forward(s, x): x = x + s.attn(s.norm(x)); return x + s.mlp(x)
class Net(nn.Module):
    def __init__(s, v, c, depth): super().__init__(); s.emb = nn.Embedding(v, c); s.layers = nn.ModuleList(Layer(c, 16) for _ in range(depth)); s.norm = nn.LayerNorm(c); s.proj = nn.Linear(c, v)
    def forward(s, x):
        h = s.emb(x)
        for layer in s.layers: h = checkpoint(layer, h, use_reentrant=False)
        return s.proj(s.norm(h))
net = Net(8192, 1280 // SHRINK, 12).to(device=dev, dtype=torch.bfloat16); optim = torch.optim.AdamW(net.parameters(), 1e-4)
def one_step(i, x):
    with rec.keep(): out = net(x); loss = F.cross_entropy(out.float().flatten(0, 1), x.roll(-1, 1).flatten())
    rec.mark(f"forward{i}", net, optim, x)
    loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, optim, x)
    optim.step(); rec.mark(f"step{i}", net, optim, x); optim.zero_grad(); rec.mark(f"zero{i}", net, optim, x)
    return loss.item()
for i in rec.steps(5): print(end=str(one_step(i, torch.randint(8192, (10, 512 // SHRINK), device=dev)))[:0])
