# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="GraphSAGE with neighbours sampled on the GPU: features, labels and a graph in compressed rows are there for good, every step samples two hops, Adam")
N, E, D, C = 60000, 1200000, 128, 47
class Graph:
    def __init__(self):
        deg = torch.randint(1, 2 * E // N, (N,)); self.ptr = torch.cat([torch.zeros(1, dtype=torch.long), deg.cumsum(0)]).to(dev); self.adj = torch.randint(0, N, (int(deg.sum()),)).to(dev)
        self.x, self.y = torch.randn(N, D).to(dev), torch.randint(0, C, (N,)).to(dev); self.train = torch.randperm(N)[:20000].to(dev)
    def sample(self, nodes, k):
        start, deg = self.ptr[nodes], self.ptr[nodes + 1] - self.ptr[nodes]
        off = (torch.rand(len(nodes), k, device=dev) * deg[:, None]).long(); return self.adj[start[:, None] + off]
class SageConv(nn.Module):
    def __init__(self, i, o): super().__init__(); self.own, self.nb = nn.Linear(i, o), nn.Linear(i, o, bias=False)
    def forward(self, h, n): return self.own(h) + self.nb(n.mean(-2))
class Sage(nn.Module):
    def __init__(self, h=1024): super().__init__(); self.l1, self.l2, self.mid, self.cls = SageConv(D, h), SageConv(h, h), nn.Sequential(nn.Linear(h, 2 * h), nn.ReLU(), nn.Dropout(0.3), nn.Linear(2 * h, h)), nn.Linear(h, C)
    def forward(self, g, seeds):
        a = g.sample(seeds, 10); b = g.sample(a.flatten(), 5).view(len(seeds), 10, 5)
        hs, ha = F.relu(self.l1(g.x[seeds], g.x[a])), F.relu(self.l1(g.x[a], g.x[b]))
        return self.cls(self.mid(F.relu(self.l2(hs, ha))))
graph = Graph(); net = Sage().to(dev); optim = torch.optim.Adam(net.parameters(), 3e-3)
for it in rec.steps(5):
    seeds = graph.train[torch.randint(0, len(graph.train), (1024,), device=dev)]
    with rec.keep(): out = net(graph, seeds); loss = F.cross_entropy(out, graph.y[seeds])
    rec.mark(f"forward{it}", net, optim, (vars(graph), seeds)); optim.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{it}", net, optim, (vars(graph), seeds)); optim.step(); rec.mark(f"step{it}", net, optim, (vars(graph), seeds))
