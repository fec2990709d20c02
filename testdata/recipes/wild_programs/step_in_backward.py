# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="each parameter is stepped and its gradient dropped by a hook in the backward pass (register_post_accumulate_grad_hook), one Adam for each; a transformer encoder for masked words")
enc = nn.Sequential(nn.Embedding(12000, 640 // SHRINK), nn.TransformerEncoder(nn.TransformerEncoderLayer(640 // SHRINK, 8, 2560 // SHRINK, dropout=0., batch_first=True, norm_first=True), 8, enable_nested_tensor=False), nn.Linear(640 // SHRINK, 12000)).to(dev)
opts = {p: torch.optim.Adam([p], 1e-4, foreach=False) for p in enc.parameters()}
def hook(p): opts[p].step(); opts[p].zero_grad()
for p in enc.parameters(): p.register_post_accumulate_grad_hook(hook)
for i in rec.steps(5):
    x = torch.randint(12000, (12, 256 // SHRINK), device=dev); y = torch.where(torch.rand(x.shape, device=dev) < .15, x, -100)
    with rec.keep(): loss = F.cross_entropy(enc(x).flatten(0, 1), y.flatten(), ignore_index=-100)
    rec.mark(f"forward{i}", enc, list(opts.values()), (x, y)); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", enc, list(opts.values()), (x, y))
