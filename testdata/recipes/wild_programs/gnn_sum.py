# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="message passing over random molecules with index_add_, a new graph batch at each step, Adam, gradients cleared before backward")

class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * dim + 16, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.node = nn.GRUCell(dim, dim)
    def forward(self, h, src, dst, e):
        m = self.edge(torch.cat([h[src], h[dst], e], dim=1))
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return self.node(agg, h)

class MPNN(nn.Module):
    def __init__(self, dim=256, rounds=4):
        super().__init__()
        self.atom = nn.Embedding(119, dim)
        self.rounds = nn.ModuleList([MessageLayer(dim) for _ in range(rounds)])
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))
    def forward(self, z, src, dst, e, batch, n_graphs):
        h = self.atom(z)
        for layer in self.rounds:
            h = layer(h, src, dst, e)
        g = h.new_zeros(n_graphs, h.shape[1]).index_add_(0, batch, h)
        return self.readout(g).squeeze(-1)

def random_batch(graphs=128):
    sizes = torch.randint(12, 30, (graphs,))
    n = int(sizes.sum()); offsets = torch.cumsum(sizes, 0) - sizes
    batch = torch.repeat_interleave(torch.arange(graphs), sizes)
    src = torch.repeat_interleave(torch.arange(n), 4)
    dst = offsets[batch[src]] + torch.randint(0, 1 << 20, (len(src),)) % sizes[batch[src]]
    return [t.to(dev) for t in (torch.randint(1, 20, (n,)), src, dst, torch.rand(len(src), 16), batch, torch.randn(graphs))]

model = MPNN().to(dev)
optim = torch.optim.Adam(model.parameters(), lr=5e-4)
for i in rec.steps(6):
    z, src, dst, e, batch, y = data = random_batch()
    with rec.keep():
        pred = model(z, src, dst, e, batch, len(y))
        loss = F.l1_loss(pred, y)
    rec.mark(f"forward{i}", model, optim, data)
    optim.zero_grad(); loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", model, optim, data)
    optim.step()
    rec.mark(f"step{i}", model, optim, data)
