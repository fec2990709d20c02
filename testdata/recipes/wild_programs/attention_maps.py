# late state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="an image transformer whose last layer keeps the attention of every step, AdamW", loop=True, leak=True, leak_line="kept.append(w)")
D, kept = 320, []
class Layer(nn.Module):
    def __init__(s, keeps): super().__init__(); s.n1, s.qkv, s.o, s.n2, s.f, s.keeps = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D), nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D)), keeps
    def forward(s, x):
        q, k, v = (y.unflatten(2, (5, -1)).transpose(1, 2) for y in s.qkv(s.n1(x)).chunk(3, -1)); w = q @ k.transpose(2, 3) / 8
        w = w.softmax(-1)
        if s.keeps: kept.append(w)
        x = x + s.o((w @ v).transpose(1, 2).flatten(2)); return x + s.f(s.n2(x))
model = nn.Sequential(nn.Conv2d(3, D, 16, 16), nn.Flatten(2), *[Layer(i == 5) for i in range(6)], nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(196, 100))
model[1].register_forward_hook(lambda m, i, o: o.transpose(1, 2)); model.to(dev); opt = torch.optim.AdamW(model.parameters())
for i in rec.steps(7):
    x, y = torch.randn(24, 3, 224, 224, device=dev), torch.randint(0, 100, (24,), device=dev)
    with rec.keep(): loss = F.cross_entropy(model(x), y)
    rec.mark(f"forward{i}", model, opt, (x, y), collected=kept); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, opt, (x, y), collected=kept); opt.step(); opt.zero_grad(); rec.mark(f"zero{i}", model, opt, (x, y), collected=kept)
rec.finish()
