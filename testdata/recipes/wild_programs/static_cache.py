# start late state twice
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(inference=True, loop=True, note="greedy generation of 40 tokens with a static key-value cache, allocated once before the prompt and written by index_copy_; in `late` recording begins before the cache is allocated; a step here is a token (the prompt is the first)")
class StaticCache:
    def __init__(self, n, b, heads, length, hd, dtype): self.k = [torch.zeros(b, heads, length, hd, device=dev, dtype=dtype) for _ in range(n)]; self.v = [torch.zeros(b, heads, length, hd, device=dev, dtype=dtype) for _ in range(n)]
    def update(self, layer, k, v, pos): self.k[layer].index_copy_(2, pos, k); self.v[layer].index_copy_(2, pos, v); return self.k[layer], self.v[layer]
class DecoderLayer(nn.Module):
    def __init__(self, d, h, i): super().__init__(); self.i, self.h = i, h; self.ln, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d); self.qkv, self.o, self.gate_up, self.down = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, 6 * d, bias=False), nn.Linear(3 * d, d, bias=False)
    def forward(self, x, cache, pos, mask):
        q, k, v = self.qkv(self.ln(x)).view(*x.shape[:2], 3, self.h, -1).permute(2, 0, 3, 1, 4); k, v = cache.update(self.i, k, v, pos)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(x.shape)); g, u = self.gate_up(self.ln2(x)).chunk(2, -1); return x + self.down(F.silu(g) * u)
class CausalLM(nn.Module):
    def __init__(self, v=20000, d=1024 // SHRINK, n=14, h=16): super().__init__(); self.embed = nn.Embedding(v, d); self.layers = nn.ModuleList(DecoderLayer(d, h, i) for i in range(n)); self.norm = nn.LayerNorm(d); self.lm_head = nn.Linear(d, v, bias=False); self.h, self.hd = h, d // h
    def forward(self, ids, cache, pos):
        mask = torch.arange(cache.k[0].shape[2], device=ids.device)[None, :] <= pos[:, None]; x = self.embed(ids)
        for l in self.layers: x = l(x, cache, pos, mask)
        return self.lm_head(self.norm(x[:, -1:]))
@torch.inference_mode()
def generate(model, prompt, new):
    B, T = prompt.shape; cache = StaticCache(len(model.layers), B, model.h, T + new, model.hd, model.embed.weight.dtype); rec.mark("cache", model, (), prompt, vars(cache))
    out, tok, pos = [prompt], prompt, torch.arange(T, device=dev)
    for t in range(new):
        rec.sync(); rec.starts.append(int(rec.time.time() * 1e6)); tok = model(tok, cache, pos).argmax(-1); pos = pos[-1:] + 1; out.append(tok)
        if t in (0, new - 1): rec.mark(f"token{t}", model, (), prompt, vars(cache), generated=out)
    rec.facts["recorded_steps"] = 0 if rec.style == "state" else new; text = torch.cat(out, 1); rec.mark("end", model, (), prompt, vars(cache), generated=[out, text]); rec.finish()
model = CausalLM().to(dev).eval(); model = model if rec.CPU else model.half()
ids = torch.randint(20000, (16, 192), device=dev)
rec.point(lambda: model(ids[:1, :8], StaticCache(14, 1, model.h, 8, model.hd, model.embed.weight.dtype), torch.arange(8, device=dev)))
generate(model, ids, 40)
