# start late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(inference=True, leak=False, note="requests, of which each takes other branches and another number of calls; a step is a request")
class Net(nn.Module):
    def __init__(s, d=512, n=4): super().__init__(); s.e, s.ls, s.h = nn.Embedding(8000, d), nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(n)), nn.Linear(d, 8000)
    def forward(s, x):
        x = s.e(x)
        for layer in s.ls: x = x + layer(x)
        return s.h(x)
def accept(logits): return logits.softmax(-1)[:, -1].argmax(-1, keepdim=True)
def refuse(logits): kept = (logits[:, -1] - logits[:, -1].mean(-1, keepdim=True)).clamp(min=0); return (kept / kept.sum(-1, keepdim=True)).argmax(-1, keepdim=True)
def answer(model, ids, pattern):
    for is_accepted in pattern:
        logits = model(ids); ids = torch.cat([ids, (accept if is_accepted else refuse)(logits)], 1)
    return ids
torch.set_grad_enabled(False); model = Net().to(dev).eval()
for i, pattern in zip(rec.steps(5), ((1, 0, 1, 1), (0, 0, 1), (1, 1, 1, 0, 1, 0), (0, 1), (1, 0, 0, 1, 1))):
    prompt = torch.randint(0, 8000, (2, 100 + 40 * i)).to(dev); out = answer(model, prompt, pattern)
    rec.mark(f"request{i}", model, (), prompt, sequence=[out])
