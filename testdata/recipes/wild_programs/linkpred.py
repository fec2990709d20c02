# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="link prediction on a heterogeneous graph that is on the GPU: an embedding for each kind of node by SparseAdam, relational convolutions by index_add, negative samples, Adam for the rest")
N = dict(user=60000, item=30000); D = 128
class RelConv(nn.Module):
    def __init__(self, rels, d): super().__init__(); self.lin = nn.ModuleDict({r: nn.Linear(d, d, bias=False) for r in rels}); self.own = nn.ModuleDict({t: nn.Linear(d, d) for t in N})
    def forward(self, h, edges):
        out = {t: self.own[t](x) for t, x in h.items()}
        for r, (src, dst, e) in edges.items():
            m = self.lin[r](h[src])[e[0]]; out[dst] = out[dst].index_add(0, e[1], m)
        return {t: F.relu(x) for t, x in out.items()}
class Net(nn.Module):
    def __init__(self, rels): super().__init__(); self.convs = nn.ModuleList(RelConv(rels, D) for _ in range(2)); self.score = nn.Bilinear(D, D, 1)
    def forward(self, h, edges, pairs):
        for conv in self.convs: h = conv(h, edges)
        return self.score(h["user"][pairs[0]], h["item"][pairs[1]]).squeeze(1)
def rand_edges(a, b, n): return torch.stack([torch.randint(0, N[a], (n,), device=dev), torch.randint(0, N[b], (n,), device=dev)])
edges = {"buys": ("user", "item", rand_edges("user", "item", 400000)), "bought": ("item", "user", rand_edges("item", "user", 400000)), "follows": ("user", "user", rand_edges("user", "user", 200000))}
emb = nn.ModuleDict({t: nn.Embedding(n, D, sparse=True) for t, n in N.items()}).to(dev); net = Net(list(edges)).to(dev)
sparse, dense = torch.optim.SparseAdam(list(emb.parameters()), 1e-2), torch.optim.Adam(net.parameters(), 1e-3)
graph = [e for _, _, e in edges.values()]
for i in rec.steps(5):
    seeds = {t: torch.randint(0, n, (n // 3,), device=dev) for t, n in N.items()}
    sub = {r: (s, d, torch.stack([e[0] % (N[s] // 3), e[1] % (N[d] // 3)])) for r, (s, d, e) in edges.items()}
    pos, neg = (torch.stack([torch.randint(0, N["user"] // 3, (20000,), device=dev), torch.randint(0, N["item"] // 3, (20000,), device=dev)]) for _ in range(2))
    feed = [graph, seeds, [e for _, _, e in sub.values()], pos, neg]
    sparse.zero_grad(); dense.zero_grad()
    with rec.keep():
        h = {t: emb[t](ids) for t, ids in seeds.items()}
        logits = net(h, sub, torch.cat([pos, neg], 1)); target = torch.cat([torch.ones(20000, device=dev), torch.zeros(20000, device=dev)])
        loss = F.binary_cross_entropy_with_logits(logits, target)
    rec.mark(f"forward{i}", [emb, net], [sparse, dense], feed); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", [emb, net], [sparse, dense], feed)
    sparse.step(); dense.step(); rec.mark(f"step{i}", [emb, net], [sparse, dense], feed)
