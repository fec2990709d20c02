# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F, math, copy
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="bidirectional LSTM tagger, Adam")
class Tagger(nn.Module):
    def __init__(s, v=30000, d=384, h=768): super().__init__(); s.emb = nn.Embedding(v, d, padding_idx=0); s.rnn = nn.LSTM(d, h, 3, batch_first=True, bidirectional=True, dropout=.1); s.out = nn.Linear(2 * h, 50)
    def forward(s, x): return s.out(s.rnn(s.emb(x))[0])
m = Tagger().to(dev); o = torch.optim.Adam(m.parameters(), 1e-3)
def fit():
    for i in rec.steps(5):
        x, y = torch.randint(0, 30000, (32, 120)).to(dev), torch.randint(0, 50, (32, 120)).to(dev)
        o.zero_grad()
        with rec.keep(): loss = F.cross_entropy(m(x).flatten(0, 1), y.flatten())
        rec.mark(f"forward{i}", m, o, (x, y)); loss.backward(); rec.saved.clear(); nn.utils.clip_grad_norm_(m.parameters(), 1.); rec.mark(f"backward{i}", m, o, (x, y)); o.step(); rec.mark(f"step{i}", m, o, (x, y))
fit()
