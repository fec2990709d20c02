# start late state twice
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="one forward pass of a segmentation U-Net under autograd; no backward pass", loop=False)
def dc(i, o): return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))
class UNet(nn.Module):
    def __init__(s, c=64): super().__init__(); s.d = nn.ModuleList([dc(3, c), dc(c, 2 * c), dc(2 * c, 4 * c), dc(4 * c, 8 * c)]); s.u = nn.ModuleList([nn.ConvTranspose2d(8 * c, 4 * c, 2, 2), nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)]); s.m = nn.ModuleList([dc(8 * c, 4 * c), dc(4 * c, 2 * c), dc(2 * c, c)]); s.o = nn.Conv2d(c, 20, 1)
    def forward(s, x):
        sk = []
        for k, d in enumerate(s.d):
            x = d(x)
            if k < 3: sk.append(x); x = F.max_pool2d(x, 2)
        for u, m in zip(s.u, s.m): x = m(torch.cat([u(x), sk.pop()], 1))
        return s.o(x)
net = UNet().to(dev); x = torch.randn(2 if rec.CPU else 6, 3, 128 if rec.CPU else 256, 128 if rec.CPU else 256).to(dev)
rec.point(lambda: net(x[:1, :, :64, :64]))
with rec.keep(): out = net(x)
rec.mark("forward", net, (), x); rec.finish()
