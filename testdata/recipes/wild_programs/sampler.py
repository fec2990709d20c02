# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F, math, copy
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(inference=True, loop=True, recorded_steps=20, note="twenty steps of a sampler with classifier-free guidance in half precision, then a decoder")
class B(nn.Module):
    def __init__(s, c): super().__init__(); s.n = nn.GroupNorm(16, c); s.c = nn.Conv2d(c, c, 3, 1, 1); s.q = nn.MultiheadAttention(c, 8, batch_first=True)
    def forward(s, x): h = x + s.c(F.silu(s.n(x))); b, c, w, k = h.shape; y = h.flatten(2).transpose(1, 2); return h + s.q(y, y, y, need_weights=False)[0].transpose(1, 2).reshape(h.shape)
unet = nn.Sequential(nn.Conv2d(4, 512, 3, 1, 1), *[B(512) for _ in range(8)], nn.Conv2d(512, 4, 3, 1, 1)).to(dev).half(); vae = nn.Sequential(nn.Conv2d(4, 256, 3, 1, 1), nn.SiLU(), nn.Upsample(scale_factor=4), nn.Conv2d(256, 128, 3, 1, 1), nn.SiLU(), nn.Upsample(scale_factor=2), nn.Conv2d(128, 3, 3, 1, 1)).to(dev).half()
rec.point(lambda: unet(torch.randn(1, 4, 16, 16, device=dev).half()))
with torch.no_grad():
    x = torch.randn(4, 4, 32, 32, device=dev, dtype=torch.half)
    for t in range(20): e = unet(torch.cat([x, x])); c, u = e.chunk(2); x = x - .05 * (u + 5 * (c - u))
    rec.mark("latents", [unet, vae]); img = vae(x); rec.mark("image", [unet, vae])
rec.finish()
