# start
import torch, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, note="a network of functions over a dictionary of tensors, and an Adam of its own with moments in 8 bits, which each step replaces")
widths = [300, 700, 500, 350, 600, 420, 520, 380, 640, 20]
P = {f"w{i}": (torch.randn(b, a, device=dev) * .05).requires_grad_() for i, (a, b) in enumerate(zip(widths, widths[1:]))}
def forward(x):
    for i in range(len(P)): x = F.linear(x, P[f"w{i}"]) if i + 1 == len(P) else torch.relu(F.linear(x, P[f"w{i}"]))
    return x
def packed(t): scale = t.abs().amax(1, keepdim=True).clamp(min=1e-12); return (t / scale * 127).round().to(torch.int8), scale
def unpacked(q, scale): return q.float() * (scale / 127)
S = {n: [packed(torch.zeros_like(p)) for _ in range(2)] for n, p in P.items()}
@torch.no_grad()
def step():
    for n, p in P.items():
        m, v = (unpacked(*s) for s in S[n]); m.lerp_(p.grad, .1); v.lerp_(p.grad.square(), .01)
        p.sub_(m / (v.sqrt() + 1e-6), alpha=1e-3); S[n] = [packed(m), packed(v)]; p.grad = None
for i in rec.steps(5):
    x, y = torch.randn(256, 300).to(dev), torch.randint(0, 20, (256,)).to(dev)
    with rec.keep(): loss = F.cross_entropy(forward(x), y)
    rec.mark(f"forward{i}", P, (), (x, y), state=S); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", P, (), (x, y), state=S)
    step(); rec.mark(f"step{i}", P, (), (x, y), state=S)
