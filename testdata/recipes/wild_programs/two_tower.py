# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="retrieval: two towers with embedding bags, in-batch negatives and a queue of item vectors held by the trainer, Adagrad")
class Tower(nn.Module):
    def __init__(self, vocab, dim, hidden, out):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(.1), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, out))
    def forward(self, ids): return F.normalize(self.mlp(self.bag(ids)), dim=-1)
class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.item = Tower(60000, 128, 1024, 256), Tower(90000, 128, 1024, 256)
        self.log_t = nn.Parameter(torch.tensor(2.6))
    def forward(self, q, d): return self.query(q), self.item(d)
class Trainer:
    def __init__(self):
        self.model = Retrieval().cuda()
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=.02)
        self.queue = F.normalize(torch.randn(8192, 256, device=dev), dim=1)
        self.at = 0
    def step(self, i):
        q, d = torch.randint(0, 60000, (1024, 24)).to(dev), torch.randint(0, 90000, (1024, 48)).to(dev)
        with rec.keep():
            u, v = self.model(q, d)
            logits = u @ torch.cat([v, self.queue]).t() * self.model.log_t.exp()
            loss = F.cross_entropy(logits, torch.arange(len(q), device=dev))
        rec.mark(f"forward{i}", self.model, self.opt, (q, d))
        self.opt.zero_grad(); loss.backward(); rec.saved.clear()
        rec.mark(f"backward{i}", self.model, self.opt, (q, d))
        self.opt.step()
        with torch.no_grad():
            self.queue[self.at:self.at + 1024] = v.detach(); self.at = (self.at + 1024) % 8192
        rec.mark(f"step{i}", self.model, self.opt, (q, d))
t = Trainer()
for i in rec.steps(5): t.step(i)
