# start late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="three passes to each step, clipped norms, AdamW fused, which allocates in its first step alone; no annotations, as before torch 2.8")
torch.autograd._enable_record_function(False)
net = nn.Sequential(nn.Embedding(2000, 256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256), nn.LayerNorm(256), nn.Linear(256, 2000)).to(dev); opt = torch.optim.AdamW(net.parameters(), fused=True)
for i in rec.steps(5):
    for _ in range(3):
        x, y = torch.randint(0, 2000, (4, 64)).to(dev), torch.randint(0, 2000, (256,)).to(dev)
        with rec.keep(): loss = F.cross_entropy(net(x).flatten(0, 1), y) / 3
        rec.mark(f"forward{i}", net, opt, (x, y)); loss.backward(); del loss
    if rec.style == "start": nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    rec.mark(f"backward{i}", net, opt, (x, y)); opt.step(); rec.mark(f"step{i}", net, opt, (x, y)); opt.zero_grad()
