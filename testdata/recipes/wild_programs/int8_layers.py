# start
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(inference=True, leak=False, note="each layer of a model that was built on the device is replaced by one with 8-bit weights, whose constructor makes them; then requests of three tokens")
class Int8(nn.Module):
    def __init__(s, lin):
        super().__init__(); w = lin.weight.detach().float(); scale = w.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        s.register_buffer("weight", (w / scale).round().to(torch.int8)); s.register_buffer("scale", scale.squeeze(1).half())
    def forward(s, x): return F.linear(x, s.weight.to(x.dtype)) * s.scale
def quantize(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear): setattr(module, name, Int8(child))
        else: quantize(child)
    return module
class Layer(nn.Module):
    def __init__(s, d): super().__init__(); s.ln = nn.LayerNorm(d); s.qkv, s.o, s.up, s.down = (nn.Linear(a, b, bias=False) for a, b in ((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)))
    def forward(s, x, past):
        q, k, v = (t.unflatten(-1, (16, -1)).transpose(1, 2) for t in s.qkv(s.ln(x)).chunk(3, -1))
        if past: k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        past[:] = [k.contiguous(), v.contiguous()]; x = x + s.o(F.scaled_dot_product_attention(q, *past, is_causal=q.size(2) > 1).transpose(1, 2).flatten(2)); return x + s.down(F.gelu(s.up(x)))
class GPT(nn.Module):
    def __init__(s, d=1536, n=6): super().__init__(); s.tok, s.layers, s.head = nn.Embedding(50257, d), nn.ModuleList(Layer(d) for _ in range(n)), nn.Linear(d, 50257, bias=False)
    def forward(s, ids, past):
        x = s.tok(ids)
        for layer, kv in zip(s.layers, past): x = layer(x, kv)
        return s.head(x[:, -1])
torch.set_grad_enabled(False)
with torch.device(dev): torch.set_default_dtype(torch.half); model = GPT().eval(); torch.set_default_dtype(torch.float)
model = quantize(model)
for i in rec.steps(3):
    ids = torch.randint(0, 50000, (4, 200 + 30 * i)).to(dev); past = [[] for _ in model.layers]; prompt = ids
    for _ in range(3): ids = model(ids, past).argmax(-1, keepdim=True)
    rec.mark(f"request{i}", model, (), prompt, past)
