# start late state
import threading, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a thread trains a model while another thread serves a frozen one, both on the default stream")
B, D = (2 if rec.CPU else 64), 768
def net(k, o): return nn.Sequential(nn.Linear(256, D), *[nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.LayerNorm(D)) for _ in range(k)], nn.Linear(D, o))
student, server = net(6, 64).to(dev), net(10, 500).to(dev).requires_grad_(False); opt = torch.optim.Adam(student.parameters(), 1e-3)
go, done, stop = threading.Event(), threading.Event(), False
def serve():
    with torch.no_grad():
        while True:
            go.wait(); go.clear()
            if stop: return
            for _ in range(3): q = torch.randn(B, 256).to(dev); a = server(q).softmax(-1); a.max().item()
            done.set()
t = threading.Thread(target=serve, daemon=True); t.start()
for i in rec.steps(5, end=False):
    x, y = torch.randn(B, 256).to(dev), torch.randn(B, 64).to(dev); go.set()
    with rec.keep(): loss = F.mse_loss(student(x), y)
    done.wait(); done.clear(); rec.mark(f"forward{i}", (student, server), opt, (x, y)); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", (student, server), opt, (x, y)); opt.step(); rec.mark(f"step{i}", (student, server), opt, (x, y))
stop = True; go.set(); t.join(); rec.finish()
