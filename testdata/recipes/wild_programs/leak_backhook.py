# start, late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(leak=True, leak_line="flow[name].append(grad_output[0])", note="a backward hook of two layers keeps the gradients of their outputs")
class Tagger(nn.Module):
    def __init__(s, d):
        super().__init__(); s.embed = nn.Embedding(5000 // SHRINK, d); s.rnn = nn.ModuleList([nn.Sequential(nn.Linear(d, 2 * d), nn.Tanh(), nn.Linear(2 * d, d)) for _ in range(4)])
        s.norm = nn.LayerNorm(d); s.tags = nn.Linear(d, 37)
    def forward(s, x):
        h = s.embed(x)
        for l in s.rnn: h = h + l(h)
        return s.tags(s.norm(h))
D = 416 // SHRINK; model = Tagger(D).to(dev); opt = torch.optim.Adam(model.parameters(), lr=1e-3); flow = {"tags": [], "rnn": []}
def watch(name, layer): layer.register_full_backward_hook(lambda module, grad_input, grad_output: flow[name].append(grad_output[0]))
watch("rnn", model.rnn[1]); watch("tags", model.norm)
for i in rec.steps(6):
    x, y = torch.randint(5000 // SHRINK, (57, 130 // SHRINK), device=dev), torch.randint(37, (57, 130 // SHRINK), device=dev)
    with rec.keep(): loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    rec.mark(f"forward{i}", model, opt, (x, y))
    loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, opt, (x, y))
    opt.step(); opt.zero_grad(); rec.mark(f"zero{i}", model, opt, (x, y))
