# start late state twice one
import threading, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="two models train in turns in two threads, SGD with momentum and Adam; a scoring model in a third place is only evaluated")
def mk(h): return nn.Sequential(nn.Linear(600, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 10))
a, b, scorer = mk(1800).to(dev), mk(1400).to(dev), mk(2200).to(dev).eval(); oa, ob = torch.optim.SGD(a.parameters(), .1, momentum=.9), torch.optim.Adam(b.parameters())
def run(m, o, x, y):
    o.zero_grad(); loss = F.cross_entropy(m(x), y); loss.backward(); o.step()
for i in rec.steps(4):
    x, y = torch.randn(1024, 600).to(dev), torch.randint(0, 10, (1024,)).to(dev)
    for m, o in ((a, oa), (b, ob)):
        t = threading.Thread(target=run, args=(m, o, x, y)); t.start(); t.join()
    with torch.no_grad(): scorer(x).argmax(1)
    rec.mark(f"step{i}", (a, b, scorer), (oa, ob), (x, y))
