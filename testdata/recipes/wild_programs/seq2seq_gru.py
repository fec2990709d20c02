# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="encoder and decoder objects with GRU cells, additive attention, a token at a time, two optimizers (SGD, momentum in one)")
class Encoder(nn.Module):
    def __init__(s, v, h): super().__init__(); s.emb, s.rnn = nn.Embedding(v, h), nn.GRU(h, h, batch_first=True)
    def forward(s, x): return s.rnn(s.emb(x))
class Decoder(nn.Module):
    def __init__(s, v, h): super().__init__(); s.emb, s.cell, s.W1, s.W2, s.v, s.out = nn.Embedding(v, h), nn.GRUCell(2 * h, h), nn.Linear(h, h), nn.Linear(h, h), nn.Linear(h, 1), nn.Linear(2 * h, v)
    def forward(s, tok, hid, mem): a = s.v(torch.tanh(s.W1(mem) + s.W2(hid).unsqueeze(1))).softmax(1); c = (a * mem).sum(1); hid = s.cell(torch.cat([s.emb(tok), c], 1), hid); return s.out(torch.cat([hid, c], 1)), hid
V, Hd = 8000, 512
enc, dec = Encoder(V, Hd).to(dev), Decoder(V, Hd).to(dev); oe, od = torch.optim.SGD(enc.parameters(), .1), torch.optim.SGD(dec.parameters(), .1, momentum=.9)
def train_step(i):
    src, tgt = torch.randint(0, V, (48, 25), device=dev), torch.randint(0, V, (48, 22), device=dev)
    oe.zero_grad(); od.zero_grad(); loss = 0.
    with rec.keep():
        mem, h = enc(src); h = h[0]; tok = tgt[:, 0]
        for t in range(1, 22): o, h = dec(tok, h, mem); loss = loss + F.cross_entropy(o, tgt[:, t]); tok = tgt[:, t] if t % 2 else o.argmax(1).detach()
    rec.mark(f"forward{i}", (enc, dec), (oe, od), (src, tgt))
    loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", (enc, dec), (oe, od), (src, tgt))
    oe.step(); od.step()
    rec.mark(f"step{i}", (enc, dec), (oe, od), (src, tgt))
for i in rec.steps(4): train_step(i)
