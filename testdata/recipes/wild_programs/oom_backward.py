# start late state twice
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(loop=False, note="fails in the backward pass of the first step; dumped by an out-of-memory observer, while the pass is still on the stack; `saved` of the mark `oom` is as at the end of the forward pass: some of it has been freed since")
class Layer(nn.Module):
    def __init__(s, d): super().__init__(); s.ln = nn.LayerNorm(d); s.conv = nn.Conv1d(d, d, 7, padding=3, groups=8); s.fc = nn.Linear(d, 3 * d); s.out = nn.Linear(3 * d, d)
    def forward(s, x): return x + s.out(F.silu(s.fc(s.conv(s.ln(x).transpose(1, 2)).transpose(1, 2))))
class LM(nn.Module):
    def __init__(s, v=26000, d=768 // SHRINK, n=8): super().__init__(); s.emb = nn.Embedding(v, d); s.layers = nn.ModuleList([Layer(d) for _ in range(n)]); s.head = nn.Linear(d, v)
    def forward(s, x):
        h = s.emb(x)
        for l in s.layers: h = l(h)
        return s.head(h)
def dump(device, alloc, device_alloc, device_free):
    rec.facts.update(oom=True, phase="backward" if done else "forward", recorded_steps=0 if rec.style == "state" else 1, asked_bytes=alloc); rec.mark("oom", net, opt, ids); rec.finish()
done = []; cap = None if rec.WHOLE else rec.measure(lambda at: (at["forward"]["reserved"], at["backward"]["reserved"])); net = LM().to(dev); opt = torch.optim.AdamW(net.parameters())
if not rec.WHOLE: rec.point(lambda: net(torch.zeros(1, 16, dtype=torch.long, device=dev)))
if cap and not rec.CPU: torch._C._cuda_attach_out_of_memory_observer(dump); rec.limit(cap)
rec.starts.append(int(rec.time.time() * 1e6)); ids = torch.randint(26000, (10, 512 // SHRINK), device=dev)
with rec.keep(): loss = F.cross_entropy(net(ids).view(-1, 26000), ids.view(-1))
done.append("forward"); rec.peaks("forward"); rec.mark("forward0", net, opt, ids)
loss.backward(); rec.saved.clear(); rec.peaks("backward"); rec.mark("backward0", net, opt, ids)
opt.step(); rec.peaks("step"); rec.mark("step0", net, opt, ids); rec.facts["oom"] = False; rec.finish()
