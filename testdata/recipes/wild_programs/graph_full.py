# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a graph network on the whole graph: features, edges and labels are there before recording; messages by index_select and index_add; dropout; Adam with weight decay")
N, E = 20000, 120000
x, edges, y = torch.rand(N, 500, device=dev), torch.randint(N, (2, E), device=dev), torch.randint(40, (N,), device=dev); train = torch.rand(N, device=dev) < 0.6
degree = torch.zeros(N, device=dev).index_add_(0, edges[1], torch.ones(E, device=dev)).clamp(min=1)
class SAGE(nn.Module):
    def __init__(self, a, b): super().__init__(); self.own, self.other = nn.Linear(a, b), nn.Linear(a, b, bias=False)
    def forward(self, h): m = torch.zeros(N, h.size(1), device=h.device).index_add(0, edges[1], h.index_select(0, edges[0])) / degree[:, None]; return self.own(h) + self.other(m)
class Net(nn.Module):
    def __init__(self): super().__init__(); self.l = nn.ModuleList([SAGE(500, 256), SAGE(256, 256), SAGE(256, 40)])
    def forward(self, h):
        for l in self.l[:-1]: h = F.dropout(F.relu(l(h)), 0.5, self.training)
        return self.l[-1](h)
net = Net().to(dev); opt = torch.optim.Adam(net.parameters(), 0.01, weight_decay=5e-4)
for epoch in rec.steps(6):
    net.train(); opt.zero_grad()
    with rec.keep(): out = net(x); loss = F.cross_entropy(out[train], y[train])
    rec.mark(f"forward{epoch}", net, opt, (x, edges, y, train, degree)); loss.backward(); rec.saved.clear(); opt.step(); rec.mark(f"step{epoch}", net, opt, (x, edges, y, train, degree))
