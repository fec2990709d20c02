# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="zero-order optimisation: the weights are moved along a random direction, two forward passes without a graph, no backward pass; half precision")
class Layer(nn.Module):
    def __init__(s, d): super().__init__(); s.n1, s.n2 = nn.LayerNorm(d), nn.LayerNorm(d); s.q, s.k, s.v, s.o = (nn.Linear(d, d) for _ in range(4)); s.f1, s.f2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(s, x): z = s.n1(x); q, k, v = (f(z).unflatten(-1, (16, -1)).transpose(1, 2) for f in (s.q, s.k, s.v)); x = x + s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)); return x + s.f2(F.relu(s.f1(s.n2(x))))
class Classifier(nn.Module):
    def __init__(s, d=768, n=8): super().__init__(); s.e = nn.Embedding(20000, d); s.l = nn.ModuleList(Layer(d) for _ in range(n)); s.c = nn.Linear(d, 5)
    def forward(s, i):
        x = s.e(i)
        for l in s.l: x = l(x)
        return s.c(x[:, 0])
model = Classifier().to(dev).half()
def perturb(seed, scale):
    torch.manual_seed(seed)
    for p in model.parameters(): p.data.add_(torch.randn_like(p), alpha=scale * 1e-3)
def zo_forward(ids, labels):
    with torch.inference_mode(): return F.cross_entropy(model(ids).float(), labels)
for i in rec.steps(5):
    ids, labels = torch.randint(20000, (16, 128), device=dev), torch.randint(5, (16,), device=dev); seed = 100 + i
    perturb(seed, 1); up = zo_forward(ids, labels); perturb(seed, -2); down = zo_forward(ids, labels); perturb(seed, 1)
    rec.mark(f"measured{i}", model, (), (ids, labels)); slope = ((up - down) / 2e-3).item()
    torch.manual_seed(seed)
    for p in model.parameters(): p.data.add_(torch.randn_like(p), alpha=-1e-6 * slope)
    rec.mark(f"step{i}", model, (), (ids, labels))
