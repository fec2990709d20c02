# start late state twice
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(inference=True, loop=True, note="beam search, 4 beams, 24 tokens: cache grows by torch.cat and is reordered by index_select at every token; a step here is a token; float32")
class Dec(nn.Module):
    def __init__(self, v=12000, d=768 // SHRINK, n=8, h=12):
        super().__init__(); self.h = h; self.emb, self.pos = nn.Embedding(v, d), nn.Embedding(512, d); self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(n)); self.o = nn.ModuleList(nn.Linear(d, d) for _ in range(n)); self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(n)); self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
    def forward(self, ids, past):
        start = past[0][0].size(2) if past else 0; x = self.emb(ids) + self.pos(torch.arange(start, start + ids.size(1), device=ids.device)); new = []
        for i, (qkv, o, ff, ln) in enumerate(zip(self.qkv, self.o, self.ff, self.ln)):
            q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in qkv(ln(x)).chunk(3, -1))
            if past: k, v = torch.cat((past[i][0], k), dim=2), torch.cat((past[i][1], v), dim=2)
            new.append((k.contiguous(), v.contiguous())); x = x + o(F.scaled_dot_product_attention(q, k, v, is_causal=not past).transpose(1, 2).flatten(2)); x = x + ff(x)
        return F.linear(x[:, -1], self.emb.weight), new
def reorder_cache(past, idx): return [tuple(t.index_select(0, idx) for t in layer) for layer in past]
def beam_search(model, prompt, beams, n):
    B = prompt.size(0); ids = prompt.repeat_interleave(beams, 0); logits, past = model(ids, None); scores = torch.full((B, beams), -1e9, device=dev); scores[:, 0] = 0; rec.mark("prompt", model, (), prompt, past)
    for t in range(n):
        rec.sync(); rec.starts.append(int(rec.time.time() * 1e6))
        total = scores.view(-1, 1) + logits.log_softmax(-1); scores, pick = total.view(B, -1).topk(beams); src = (pick // logits.size(-1) + torch.arange(B, device=dev)[:, None] * beams).view(-1)
        ids = torch.cat([ids[src], (pick % logits.size(-1)).view(-1, 1)], 1); past = reorder_cache(past, src); logits, past = model(ids[:, -1:], past)
        if t in (0, n // 2, n - 1): rec.mark(f"token{t}", model, (), prompt, past, sequences=[ids], scores=[scores, logits])
    rec.facts["recorded_steps"] = 0 if rec.style == "state" else n; rec.finish()
torch.set_grad_enabled(False); model = Dec().to(dev).eval(); prompt = torch.randint(12000, (8, 160), device=dev)
rec.point(lambda: model(prompt[:1], None)); beam_search(model, prompt, 4, 24)
