# late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(inference=True, leak=False, note="a chat server: each conversation has keys and values of its own that grow by pages; some from before the recording end in it")
D, PAGE, L = 768, 64, 4
class Block(nn.Module):
    def __init__(s): super().__init__(); s.n = nn.RMSNorm(D); s.qkv, s.o, s.up, s.down = (nn.Linear(a, b, bias=False) for a, b in ((D, 3 * D), (D, D), (D, 4 * D), (4 * D, D)))
    def forward(s, x, k, v, at):
        t = x.size(1); q, a, b = s.qkv(s.n(x)).unflatten(-1, (-1, 64)).chunk(3, 2); k[:, :, at:at + t], v[:, :, at:at + t] = a.transpose(1, 2), b.transpose(1, 2)
        x = x + s.o(F.scaled_dot_product_attention(q.transpose(1, 2), k[:, :, :at + t], v[:, :, :at + t], is_causal=at == 0).transpose(1, 2).flatten(2)); return x + s.down(F.gelu(s.up(x)))
class LM(nn.Module):
    def __init__(s): super().__init__(); s.e, s.bs, s.h = nn.Embedding(16000, D), nn.ModuleList(Block() for _ in range(L)), nn.Linear(D, 16000, bias=False)
    def forward(s, ids, kv, at):
        x = s.e(ids)
        for b, (k, v) in zip(s.bs, kv): x = b(x, k, v, at)
        return s.h(x[:, -1])
class Conversation:
    def __init__(s): s.kv, s.at = [], 0
    def grow(s, need):
        size = -(-need // PAGE) * PAGE; old = s.kv or [(None, None)] * L
        if not s.kv or size > s.kv[0][0].size(2): s.kv = [tuple(longer(t, size) for t in pair) for pair in old]
def longer(old, size):
    new = torch.zeros(1, D // 64, size, 64, dtype=torch.bfloat16, device=dev)
    if old is not None: new[:, :, :old.size(2)] = old
    return new
torch.set_grad_enabled(False)
model, open_ = LM().to(torch.bfloat16).to(dev).eval(), []
def reply(c, n):
    ids = torch.randint(0, 16000, (1, n)).to(dev)
    for _ in range(3): c.grow(c.at + ids.size(1)); nxt = model(ids, c.kv, c.at).argmax(-1, keepdim=True); c.at += ids.size(1); ids = nxt
    return ids
for i in rec.steps(6):
    open_.append(Conversation()); ids = reply(open_[-1], 400 + 40 * i)
    ids = reply(open_[0], 70)
    rec.mark(f"round{i}", model, (), ids, [c.kv for c in open_])
    if len(open_) > 2: open_.pop(0)
    rec.mark(f"idle{i}", model, (), ids, [c.kv for c in open_])
