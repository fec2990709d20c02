# start late one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a character model of LSTMCells whose hidden state is carried over and detached, Adagrad, the corpus on the GPU")
B, T, D, V = 4 if rec.CPU else 128, 16 if rec.CPU else 48, 1024, 900
class CharRNN(nn.Module):
    def __init__(s): super().__init__(); s.emb = nn.Embedding(V, 512); s.c1, s.c2 = nn.LSTMCell(512, D), nn.LSTMCell(D, D); s.dec = nn.Linear(D, V)
    def forward(s, x, st):
        (h1, c1), (h2, c2) = st; out = []
        for t in range(x.shape[1]):
            h1, c1 = s.c1(s.emb(x[:, t]), (h1, c1)); h2, c2 = s.c2(h1, (h2, c2)); out.append(h2)
        return s.dec(torch.stack(out, 1)), ((h1, c1), (h2, c2))
corpus = torch.randint(0, V, (B, 6 * T + 1)).to(dev); model = CharRNN().to(dev); opt = torch.optim.Adagrad(model.parameters(), 1e-2)
state = tuple((torch.zeros(B, D, device=dev), torch.zeros(B, D, device=dev)) for _ in range(2))
for i in rec.steps(5):
    x, y = corpus[:, i * T:(i + 1) * T], corpus[:, i * T + 1:(i + 1) * T + 1]
    with rec.keep(): logits, state = model(x, state); loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    rec.mark(f"forward{i}", model, opt, corpus)
    opt.zero_grad(); loss.backward(); rec.saved.clear(); nn.utils.clip_grad_value_(model.parameters(), 1.)
    rec.mark(f"backward{i}", model, opt, corpus)
    opt.step(); state = tuple(tuple(h.detach() for h in s) for s in state)
    rec.mark(f"step{i}", model, opt, corpus)
