# start late state twice one
import copy, math, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="diffusion training: a small U-Net with time embedding and skip connections, EMA copy by deepcopy and lerp, AdamW, cosine schedule")

def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)

class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, cout)
        self.norm2, self.conv2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(F.silu(e))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)

class SelfAttn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(8, c), nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1)
    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2)).chunk(3, 1)
        a = torch.einsum("bci,bcj->bij", q, k).mul(c ** -0.5).softmax(-1)
        return x + self.out(torch.einsum("bij,bcj->bci", a, v)).view(b, c, h, w)

class UNet(nn.Module):
    def __init__(self, ch=64, mults=(1, 2, 4)):
        super().__init__()
        emb = ch * 4
        self.ch = ch
        self.time = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(3, ch, 3, padding=1)
        self.downs, self.pools, c, chans = nn.ModuleList(), nn.ModuleList(), ch, [ch]
        for m in mults:
            self.downs.append(ResBlock(c, ch * m, emb)); c = ch * m; chans.append(c)
            self.pools.append(nn.Conv2d(c, c, 3, stride=2, padding=1))
        self.mid1, self.attn, self.mid2 = ResBlock(c, c, emb), SelfAttn(c), ResBlock(c, c, emb)
        self.ups = nn.ModuleList()
        for m in reversed(mults):
            self.ups.append(ResBlock(c + chans.pop(), ch * m, emb)); c = ch * m
        self.out = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))
    def forward(self, x, t):
        e = self.time(timestep_embedding(t, self.ch))
        h, skips = self.inp(x), []
        for d, p in zip(self.downs, self.pools):
            h = d(h, e); skips.append(h); h = p(h)
        h = self.mid2(self.attn(self.mid1(h, e)), e)
        for u in self.ups:
            h = F.interpolate(h, scale_factor=2, mode="nearest")
            h = u(torch.cat([h, skips.pop()], 1), e)
        return self.out(h)

class EMA:
    def __init__(self, model, decay=0.999):
        self.model, self.decay = copy.deepcopy(model).eval().requires_grad_(False), decay
    @torch.no_grad()
    def update(self, model):
        for a, b in zip(self.model.parameters(), model.parameters()):
            a.lerp_(b, 1 - self.decay)

model = UNet().to(dev)
ema = EMA(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device=dev), 0)
for i in rec.steps(5):
    images = torch.rand(8, 3, 64, 64).to(dev)
    t = torch.randint(0, 1000, (8,), device=dev)
    noise = torch.randn_like(images)
    a = alphas[t][:, None, None, None]
    noisy = a.sqrt() * images + (1 - a).sqrt() * noise
    with rec.keep():
        loss = F.mse_loss(model(noisy, t), noise)
    rec.mark(f"forward{i}", (model, ema.model, alphas), optimizer, (images, t, noise, noisy))
    optimizer.zero_grad()
    loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", (model, ema.model, alphas), optimizer, (images, t, noise, noisy))
    optimizer.step(); sched.step(); ema.update(model)
    rec.mark(f"step{i}", (model, ema.model, alphas), optimizer, (images, t, noise, noisy))
