# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a forecaster whose data set is one tensor: it is made and normalised before the model, and windows are cut from it, NAdam")
data = torch.randn(1500, 900, 6, device=dev); mean, std = data.mean((0, 1), keepdim=True), data.std((0, 1), keepdim=True); data = (data - mean) / std
class Net(nn.Module):
    def __init__(self, d=512): super().__init__(); self.convs, self.gru, self.head = nn.Sequential(nn.Conv1d(6, 64, 3), nn.ReLU(), nn.Conv1d(64, 128, 3), nn.ReLU()), nn.GRU(128, d, 2, batch_first=True, dropout=.1), nn.Sequential(nn.Linear(d, 256), nn.ELU(), nn.Linear(256, 28))
    def forward(self, x): return self.head(self.gru(self.convs(x.transpose(1, 2)).transpose(1, 2))[0][:, -1])
model = Net().to(dev); opt = torch.optim.NAdam(model.parameters(), 2e-3); order = torch.randperm(1500, device=dev)
for i in rec.steps(5):
    rows = order[i * 256:(i + 1) * 256]; columns = torch.randint(0, 900 - 148, (len(rows), 1), device=dev) + torch.arange(148, device=dev); window = data[rows[:, None], columns]; x, y = window[:, :120], window[:, 120:, 0]
    with rec.keep(): loss = F.smooth_l1_loss(model(x), y)
    rec.mark(f"forward{i}", model, opt, (data, order, x, y)); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, opt, (data, order, x, y)); nn.utils.clip_grad_norm_(model.parameters(), 1.); opt.step(); opt.zero_grad(); rec.mark(f"zero{i}", model, opt, (data, order, x, y))
