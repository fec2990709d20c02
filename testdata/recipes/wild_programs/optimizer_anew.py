# late
import torch, torch.nn as nn
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, note="a table of embeddings and a small network; every third step begins with a new Adam, and the old one's state goes")
class Net(nn.Module):
    def __init__(s): super().__init__(); s.table = nn.Embedding(60000, 48); s.body = nn.Sequential(nn.Linear(8 * 48, 300), nn.ReLU(), nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 1))
    def forward(s, ids): return s.body(s.table(ids).flatten(1))[:, 0]
net = Net().to(dev)
for i in rec.steps(8):
    if i % 3 == 0: opt = torch.optim.Adam(net.parameters(), lr=1e-3 / (i + 1))
    ids, y = torch.randint(0, 60000, (512, 8)).to(dev), torch.rand(512).to(dev)
    with rec.keep(): loss = nn.functional.binary_cross_entropy_with_logits(net(ids), y)
    rec.mark(f"forward{i}", net, opt, (ids, y))
    loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", net, opt, (ids, y))
    opt.step(); opt.zero_grad(); rec.mark(f"step{i}", net, opt, (ids, y))
