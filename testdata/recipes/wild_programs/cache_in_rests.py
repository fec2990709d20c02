# late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, inference=True, note="a model is made on the GPU in 32 bits and halved there; keys and values of its layers are then made once, and fill what that left")
D, FF, H, L, V, T, B = 2048, 5632, 8, 12, 32000, 1024, 16
class Layer(nn.Module):
    def __init__(s, i):
        super().__init__(); s.i = i; s.n1, s.n2 = nn.LayerNorm(D), nn.LayerNorm(D); s.q, s.o = nn.Linear(D, D, False), nn.Linear(D, D, False); s.k, s.v = nn.Linear(D, D // 2, False), nn.Linear(D, D // 2, False)
        s.gate, s.up, s.down = nn.Linear(D, FF, False), nn.Linear(D, FF, False), nn.Linear(FF, D, False)
    def forward(s, x, at, keys, values):
        b, t, _ = x.shape; h = s.n1(x)
        q = s.q(h).view(b, t, H, D // H).transpose(1, 2)
        keys[s.i][:, :, at:at + t] = s.k(h).view(b, t, H // 2, D // H).transpose(1, 2); values[s.i][:, :, at:at + t] = s.v(h).view(b, t, H // 2, D // H).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, keys[s.i][:, :, :at + t], values[s.i][:, :, :at + t], is_causal=t > 1, enable_gqa=True)
        x = x + s.o(a.transpose(1, 2).reshape(b, t, D)); h = s.n2(x)
        return x + s.down(F.silu(s.gate(h)) * s.up(h))
class Model(nn.Module):
    def __init__(s): super().__init__(); s.embed, s.layers, s.norm, s.head = nn.Embedding(V, D), nn.ModuleList(Layer(i) for i in range(L)), nn.LayerNorm(D), nn.Linear(D, V, False)
    def forward(s, ids, at, keys, values):
        x = s.embed(ids)
        for layer in s.layers: x = layer(x, at, keys, values)
        return s.head(s.norm(x[:, -1]))
with torch.device(dev): model = Model()
model = model.half().eval().requires_grad_(False)
keys, values = ([torch.zeros(B, H // 2, T, D // H, dtype=torch.half, device=dev) for _ in range(L)] for _ in range(2))
with torch.no_grad():
    for i in rec.steps(5):
        prompt = torch.randint(0, V, (B, 40 + i)).to(dev)
        token = model(prompt, 0, keys, values).argmax(-1, keepdim=True)
        rec.mark(f"prompt{i}", model, (), prompt, cache=(keys, values))
        for at in range(40 + i, 48 + i): token = model(token, at, keys, values).argmax(-1, keepdim=True)
        rec.mark(f"decoded{i}", model, (), prompt, cache=(keys, values)); token.cpu()
