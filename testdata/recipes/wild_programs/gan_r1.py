# start late one state
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a convolutional GAN: lazy R1 penalty every second step (double backward), an exponential average of the generator, two Adams with beta1 = 0")
B = 2 if rec.CPU else 32
def up(i, o): return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.LeakyReLU(.2))
def down(i, o): return nn.Sequential(nn.Conv2d(i, o, 4, 2, 1), nn.LeakyReLU(.2))
class Gen(nn.Module):
    def __init__(s): super().__init__(); s.fc = nn.Linear(256, 512 * 16); s.body = nn.Sequential(up(512, 512), up(512, 256), up(256, 128), up(128, 64)); s.rgb = nn.Conv2d(64, 3, 1)
    def forward(s, z): return torch.tanh(s.rgb(s.body(s.fc(z).view(-1, 512, 4, 4))))
class Dis(nn.Module):
    def __init__(s): super().__init__(); s.body = nn.Sequential(down(3, 64), down(64, 128), down(128, 256), down(256, 512)); s.fc1, s.fc2 = nn.Linear(512 * 16, 1024), nn.Linear(1024, 1)
    def forward(s, x): return s.fc2(F.leaky_relu(s.fc1(s.body(x).flatten(1)), .2))
G, D = Gen().to(dev), Dis().to(dev); G_ema = copy.deepcopy(G).eval()
g_opt, d_opt = torch.optim.Adam(G.parameters(), 2e-4, betas=(0., .99)), torch.optim.Adam(D.parameters(), 2e-4, betas=(0., .99)); mods, opts = (G, D, G_ema), [g_opt, d_opt]
def d_loss(real, i):
    with torch.no_grad(): fake = G(torch.randn(B, 256, device=dev))
    loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
    if i % 2 == 0:
        x = real.detach().requires_grad_(); g, = torch.autograd.grad(D(x).sum(), x, create_graph=True); loss = loss + 5 * g.square().sum((1, 2, 3)).mean()
    return loss
for i in rec.steps(5):
    real = torch.rand(B, 3, 64, 64).to(dev)
    ld = d_loss(real, i); d_opt.zero_grad(); ld.backward(); d_opt.step(); rec.mark(f"d{i}", mods, opts, real)
    with rec.keep(): lg = F.softplus(-D(G(torch.randn(B, 256, device=dev)))).mean()
    rec.mark(f"forward{i}", mods, opts, real)
    g_opt.zero_grad(); lg.backward(); rec.saved.clear(); g_opt.step(); rec.mark(f"g{i}", mods, opts, real)
    with torch.no_grad():
        for a, b in zip(G_ema.parameters(), G.parameters()): a.copy_(b.lerp(a, .999))
        for a, b in zip(G_ema.buffers(), G.buffers()): a.copy_(b)
