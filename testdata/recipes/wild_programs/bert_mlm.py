# start late one state twice
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="masked language modelling: a BERT of the program's own, decoder tied to the embedding, AdamW with foreach, linear warm-up, gradients zeroed in place, a running loss as a detached tensor")
V, D, L, B = 20000, 640, 8, (2 if rec.CPU else 24)
class BertSelfAttention(nn.Module):
    def __init__(s): super().__init__(); s.query, s.key, s.value, s.dense, s.LayerNorm = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), nn.LayerNorm(D)
    def forward(s, x, m):
        b, t, _ = x.shape; q, k, v = (f(x).view(b, t, 10, 64).transpose(1, 2) for f in (s.query, s.key, s.value)); a = (q @ k.transpose(2, 3)) / 8 + m; a = F.dropout(a.softmax(-1), .1, s.training)
        return s.LayerNorm(x + F.dropout(s.dense((a @ v).transpose(1, 2).reshape(b, t, D)), .1, s.training))
class BertLayer(nn.Module):
    def __init__(s): super().__init__(); s.attention, s.intermediate, s.output, s.LayerNorm = BertSelfAttention(), nn.Linear(D, 4 * D), nn.Linear(4 * D, D), nn.LayerNorm(D)
    def forward(s, x, m): x = s.attention(x, m); return s.LayerNorm(x + F.dropout(s.output(F.gelu(s.intermediate(x))), .1, s.training))
class BertForMLM(nn.Module):
    def __init__(s):
        super().__init__(); s.word, s.position, s.ln = nn.Embedding(V, D), nn.Embedding(512, D), nn.LayerNorm(D); s.layer = nn.ModuleList([BertLayer() for _ in range(L)]); s.transform = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.LayerNorm(D)); s.decoder = nn.Linear(D, V); s.decoder.weight = s.word.weight
    def forward(s, ids, mask, labels):
        m = (1 - mask[:, None, None].float()) * -1e9; h = F.dropout(s.ln(s.word(ids) + s.position(torch.arange(ids.shape[1], device=ids.device))), .1, s.training)
        for l in s.layer: h = l(h, m)
        return F.cross_entropy(s.decoder(s.transform(h)).view(-1, V), labels.view(-1), ignore_index=-100)
model = BertForMLM().to(dev).train(); opt = torch.optim.AdamW(model.parameters(), 1e-4, foreach=True); sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 100)); running = torch.zeros((), device=dev)
for i in rec.steps(4):
    ids, mask = torch.randint(0, V, (B, 192)).to(dev), torch.ones(B, 192, dtype=torch.long).to(dev); labels = torch.where(torch.rand(B, 192, device=dev) < .15, ids, -100); ids = torch.where(labels != -100, 103, ids)
    with rec.keep(): loss = model(ids, mask, labels)
    rec.mark(f"forward{i}", model, opt, (ids, mask, labels)); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, opt, (ids, mask, labels))
    opt.step(); sched.step(); opt.zero_grad(set_to_none=False); running += loss.detach(); rec.mark(f"step{i}", model, opt, (ids, mask, labels))
