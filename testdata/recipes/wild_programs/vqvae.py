# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="VQ-VAE: codebook kept by moving averages in buffers, a discriminator, checkpointed decoder, two Adams")
from torch.utils.checkpoint import checkpoint
class Quant(nn.Module):
    def __init__(s, k=8192, d=256): super().__init__(); s.register_buffer("code", torch.randn(k, d)); s.register_buffer("n", torch.zeros(k)); s.register_buffer("avg", torch.randn(k, d)); s.k = k
    def forward(s, z):
        b, c, h, w = z.shape; f = z.permute(0, 2, 3, 1).reshape(-1, c); d = f.pow(2).sum(1, keepdim=True) - 2 * f @ s.code.t() + s.code.pow(2).sum(1); i = d.argmin(1); q = s.code[i]
        if s.training:
            with torch.no_grad(): o = F.one_hot(i, s.k).float(); s.n.mul_(.99).add_(o.sum(0), alpha=.01); s.avg.mul_(.99).add_(o.t() @ f, alpha=.01); s.code.copy_(s.avg / s.n.clamp(min=1e-3).unsqueeze(1))
        return (f + (q - f).detach()).view(b, h, w, c).permute(0, 3, 1, 2), F.mse_loss(f, q.detach())
def res(c): return nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, 1, 1))
enc = nn.Sequential(nn.Conv2d(3, 128, 4, 2, 1), res(128), nn.Conv2d(128, 256, 4, 2, 1), res(256), nn.Conv2d(256, 256, 4, 2, 1)).to(dev); quant = Quant().to(dev)
dec = nn.ModuleList([nn.Sequential(nn.ConvTranspose2d(256, 256, 4, 2, 1), res(256)), nn.Sequential(nn.ConvTranspose2d(256, 128, 4, 2, 1), res(128)), nn.Sequential(nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.SiLU(), nn.Conv2d(64, 3, 3, 1, 1))]).to(dev)
disc = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(.2), nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(.2), nn.Conv2d(128, 1, 4)).to(dev)
og, od = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 2e-4), torch.optim.Adam(disc.parameters(), 2e-4); models, opts = (enc, quant, dec, disc), (og, od)
for i in rec.steps(4):
    x = torch.rand(8, 3, 128, 128).to(dev)
    with rec.keep():
        z, commit = quant(enc(x)); y = z
        for d in dec: y = checkpoint(d, y, use_reentrant=False)
        lg = F.l1_loss(y, x) + .25 * commit - .1 * disc(y).mean()
    rec.mark(f"forward{i}", models, opts, x)
    og.zero_grad(); lg.backward(); rec.saved.clear(); og.step()
    with rec.keep(): ld = F.relu(1 - disc(x)).mean() + F.relu(1 + disc(y.detach())).mean()
    od.zero_grad(); ld.backward(); rec.saved.clear(); od.step()
    rec.mark(f"step{i}", models, opts, x)
