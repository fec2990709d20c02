# start late twice one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="two models, one training and one not: a frozen encoder in eval mode under no_grad, a denoiser trained by AdamW on its outputs")
def gn(c): return nn.GroupNorm(16, c)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 96, 3, padding=1), nn.SiLU(), nn.Conv2d(96, 192, 3, 2, 1), gn(192), nn.SiLU(), nn.Conv2d(192, 384, 3, 2, 1), gn(384), nn.SiLU(), nn.Conv2d(384, 384, 3, padding=1), nn.SiLU(), nn.Conv2d(384, 8, 1))
    def forward(self, x): return self.net(x).chunk(2, 1)[0]
class Res(nn.Module):
    def __init__(self, c, e): super().__init__(); self.a, self.b, self.e, self.n1, self.n2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.Linear(e, c), gn(c), gn(c)
    def forward(self, x, t): h = self.a(F.silu(self.n1(x))) + self.e(t)[:, :, None, None]; return x + self.b(F.silu(self.n2(h)))
class Denoiser(nn.Module):
    def __init__(self, c=256, e=512, n=7):
        super().__init__(); self.t = nn.Sequential(nn.Linear(128, e), nn.SiLU(), nn.Linear(e, e)); self.i, self.r, self.o = nn.Conv2d(4, c, 3, padding=1), nn.ModuleList(Res(c, e) for _ in range(n)), nn.Conv2d(c, 4, 3, padding=1)
    def forward(self, z, t):
        f = torch.exp(torch.arange(64, device=z.device) * -0.14)
        t = self.t(torch.cat(((t[:, None] * f).sin(), (t[:, None] * f).cos()), 1)); h = self.i(z)
        for r in self.r: h = r(h, t)
        return self.o(h)
vae, net = Encoder().to(dev).eval().requires_grad_(False), Denoiser().to(dev); opt = torch.optim.AdamW(net.parameters(), 1e-4)
for i in rec.steps(5):
    img = torch.randn(32, 3, 128, 128).to(dev)
    with torch.no_grad(): z = vae(img)
    t, eps = torch.rand(32, device=dev), torch.randn_like(z)
    noisy = (1 - t)[:, None, None, None] * z + t[:, None, None, None] * eps
    with rec.keep(): loss = F.mse_loss(net(noisy, t), eps - z)
    rec.mark(f"forward{i}", (vae, net), opt, (img, z, t, eps, noisy)); opt.zero_grad(); loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", (vae, net), opt, (img, z, t, eps, noisy)); opt.step(); rec.mark(f"step{i}", (vae, net), opt, (img, z, t, eps, noisy))
