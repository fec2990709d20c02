# start late state twice one
import torch, torch.nn as nn
import recorder as rec
from recorder import dev
rec.facts.update(note="WGAN with gradient penalty, three critic steps to a generator step, Adam")
class Generator(nn.Module):
    def __init__(self, nz=100, ngf=64):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 8, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 8), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 8, ngf * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, 3, 4, 2, 1, bias=False), nn.Tanh())
    def forward(self, z): return self.main(z)
class Critic(nn.Module):
    def __init__(self, ndf=64):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(3, ndf, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(ndf, ndf * 2, 4, 2, 1), nn.InstanceNorm2d(ndf * 2, affine=True), nn.LeakyReLU(0.2),
            nn.Conv2d(ndf * 2, ndf * 8, 4, 2, 1), nn.InstanceNorm2d(ndf * 8, affine=True), nn.LeakyReLU(0.2), nn.Conv2d(ndf * 8, 1, 4, 1, 0))
    def forward(self, x): return self.main(x).view(-1)
netG, netD = Generator().to(dev), Critic().to(dev)
optG = torch.optim.Adam(netG.parameters(), lr=1e-4, betas=(0., .9)); optD = torch.optim.Adam(netD.parameters(), lr=1e-4, betas=(0., .9))
B = 96
def gradient_penalty(real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=dev)
    x = (eps * real + (1 - eps) * fake).requires_grad_(True)
    g, = torch.autograd.grad(netD(x).sum(), x, create_graph=True)
    return ((g.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
for it in rec.steps(4):
    for _ in range(3):
        real = torch.rand(B, 3, 32, 32).to(dev)
        noise = torch.randn(B, 100, 1, 1, device=dev)
        netD.zero_grad()
        with torch.no_grad(): fake = netG(noise)
        with rec.keep():
            lossD = netD(fake).mean() - netD(real).mean() + 10 * gradient_penalty(real, fake)
        lossD.backward(); rec.saved.clear()
        optD.step()
    rec.mark(f"critic{it}", (netG, netD), (optG, optD), (real, noise))
    netG.zero_grad()
    noise = torch.randn(B, 100, 1, 1, device=dev)
    with rec.keep(): lossG = -netD(netG(noise)).mean()
    rec.mark(f"gen_fwd{it}", (netG, netD), (optG, optD), (real, noise))
    lossG.backward(); rec.saved.clear()
    optG.step()
    rec.mark(f"gen{it}", (netG, netD), (optG, optD), (real, noise))
