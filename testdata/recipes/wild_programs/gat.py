# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="graph attention with scatter softmax by index_add_, sampled subgraphs of a graph whose features are on the GPU, Adam with weight decay")
class GATLayer(nn.Module):
    def __init__(self, i, o, h):
        super().__init__(); self.w = nn.Parameter(torch.empty(i, h * o)); self.a_src = nn.Parameter(torch.empty(1, h, o)); self.a_dst = nn.Parameter(torch.empty(1, h, o)); self.h, self.o = h, o
        for p in self.parameters(): nn.init.xavier_uniform_(p)
    def forward(self, x, src, dst):
        n = x.shape[0]; z = (x @ self.w).view(n, self.h, self.o); e = F.leaky_relu(((z * self.a_src).sum(-1))[src] + ((z * self.a_dst).sum(-1))[dst], .2)
        e = torch.exp(e - e.max()); den = torch.zeros(n, self.h, device=x.device).index_add_(0, dst, e); a = e / (den[dst] + 1e-9)
        out = torch.zeros_like(z).index_add_(0, dst, z[src] * a.unsqueeze(-1)); return out.flatten(1)
class GAT(nn.Module):
    def __init__(self, i=602, hid=64, heads=8, classes=41): super().__init__(); self.l1, self.l2, self.l3 = GATLayer(i, hid, heads), GATLayer(hid * heads, hid, heads), GATLayer(hid * heads, classes, 1)
    def forward(self, x, src, dst): x = F.elu(self.l1(x, src, dst)); x = F.dropout(F.elu(self.l2(x, src, dst)), .5, self.training); return self.l3(x, src, dst)
N = 30013
features, labels = torch.randn(N, 602).to(dev), torch.randint(0, 41, (N,)).to(dev)
model = GAT().to(dev); opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
model.train()
for i in rec.steps(5):
    n = (4000, 4400, 3900, 4200, 4100)[i]; nodes = torch.randperm(N)[:n].to(dev); src, dst = torch.randint(0, n, (2, 12 * n)).to(dev)
    x, y = features[nodes], labels[nodes]
    with rec.keep(): out = model(x, src, dst); loss = F.cross_entropy(out, y)
    rec.mark(f"forward{i}", model, opt, (features, labels, nodes, src, x, y))
    opt.zero_grad(); loss.backward(); rec.saved.clear(); opt.step()
    rec.mark(f"step{i}", model, opt, (features, labels, nodes, src, x, y))
