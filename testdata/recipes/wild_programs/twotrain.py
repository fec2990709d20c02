# start late twice one state
import threading, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="two threads train a model each, in step with each other, Adam and SGD with momentum")
def net(d, n): return nn.Sequential(nn.Linear(200, d), *[nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.LayerNorm(d)) for _ in range(n)], nn.Linear(d, 30))
A, B = net(900, 4).to(dev), net(900, 6).to(dev); oa, ob = torch.optim.Adam(A.parameters()), torch.optim.SGD(B.parameters(), 0.1, momentum=0.9)
bar = threading.Barrier(2); ctl = {}; cur = {}
def meet(): bar.wait()
def worker():
    while True:
        meet()
        if ctl.get("stop"): return
        half(B, ob, "b")
def half(m, o, n):
    x, y = torch.randn(500, 200).to(dev), torch.randint(0, 30, (500,)).to(dev); cur[n] = (x, y)
    with torch.autograd.graph.saved_tensors_hooks(rec.pack, lambda t: t): l = F.cross_entropy(m(x), y)
    meet()
    if n == "a": rec.mark(f"forward{ctl['i']}", (A, B), (oa, ob), cur); rec.saved.clear()
    meet(); o.zero_grad(); l.backward(); meet()
    if n == "a": rec.mark(f"backward{ctl['i']}", (A, B), (oa, ob), cur)
    meet(); o.step(); meet()
t = threading.Thread(target=worker, daemon=True); t.start()
for i in rec.steps(5, end=False):
    ctl["i"] = i; meet(); half(A, oa, "a"); rec.mark(f"step{i}", (A, B), (oa, ob), cur)
ctl["stop"] = True; meet(); t.join(); rec.finish()
