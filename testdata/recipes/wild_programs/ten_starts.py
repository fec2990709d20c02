# start late
import torch, torch.nn as nn
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="recording was begun and stopped ten times, each time around one step, and begun once more for the last four; a regression network, Adadelta; `start` had also recorded from the start of the process")
net = nn.Sequential(nn.Linear(1024 // SHRINK, 4096 // SHRINK), nn.Tanh(), *[l for _ in range(5) for l in (nn.Linear(4096 // SHRINK, 4096 // SHRINK), nn.Tanh(), nn.Dropout(0.2))], nn.Linear(4096 // SHRINK, 64)).to(dev); opt = torch.optim.Adadelta(net.parameters()); lossf = nn.HuberLoss()
def step(i):
    x, y = torch.randn(4096 // SHRINK, 1024 // SHRINK, device=dev), torch.randn(4096 // SHRINK, 64, device=dev)
    with rec.keep(): l = lossf(net(x), y)
    rec.mark(f"forward{i}", net, opt, (x, y)); opt.zero_grad(); l.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, opt, (x, y)); opt.step(); rec.mark(f"step{i}", net, opt, (x, y))
for i in range(10): rec.begin(); step(i); rec.H(None)
rec.begin(); rec.marks.clear()
for i in range(10, 14): rec.sync(); rec.starts.append(int(rec.time.time() * 1e6)); step(i)
rec.facts.update(loop=True, recorded_steps=4); rec.finish()
