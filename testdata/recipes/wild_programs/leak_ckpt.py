# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=True, leak_line="snapshots.append({k: v.detach().clone() for k, v in model.state_dict().items()})", note="a copy of the weights is kept on the GPU after every step, to be averaged later; GRU classifier, AdamW")
class Classifier(nn.Module):
    def __init__(self, v=12000, d=192, h=384):
        super().__init__()
        self.emb, self.gru, self.fc = nn.Embedding(v, d), nn.GRU(d, h, 2, batch_first=True, bidirectional=True), nn.Linear(2 * h, 20)
    def forward(self, x):
        h, _ = self.gru(self.emb(x))
        return self.fc(h.max(1).values)
model = Classifier().to(dev)
opt = torch.optim.AdamW(model.parameters(), 1e-3)
snapshots = []
for i in rec.steps(6):
    x, y = torch.randint(12000, (32, 80)).to(dev), torch.randint(20, (32,)).to(dev)
    with rec.keep(): loss = F.cross_entropy(model(x), y)
    rec.mark(f"forward{i}", model, opt, (x, y))
    loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", model, opt, (x, y))
    opt.step(); opt.zero_grad()
    snapshots.append({k: v.detach().clone() for k, v in model.state_dict().items()})
    rec.mark(f"step{i}", model, opt, (x, y), leaked=snapshots)
