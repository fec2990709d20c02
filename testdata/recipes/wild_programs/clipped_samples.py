# start late
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(leak=False, note="diffusion with an average of the weights, clipped gradients and AdamW; every third step draws samples, which are as many in all as the images of the steps between")
class Block(nn.Module):
    def __init__(s, a, b): super().__init__(); s.norm, s.conv, s.time, s.out, s.skip = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1), nn.Linear(192, b), nn.Conv2d(b, b, 3, padding=1), nn.Conv2d(a, b, 1)
    def forward(s, x, t): h = s.conv(F.silu(s.norm(x))) + s.time(t)[:, :, None, None]; return s.skip(x) + s.out(F.silu(h))
class Net(nn.Module):
    def __init__(s):
        super().__init__(); s.time = nn.Sequential(nn.Linear(1, 192), nn.SiLU(), nn.Linear(192, 192)); s.head = nn.Conv2d(3, 96, 3, padding=1)
        s.blocks = nn.ModuleList(Block(a, b) for a, b in ((96, 160), (160, 224), (224, 288), (288, 160), (160, 96))); s.tail = nn.Conv2d(96, 3, 3, padding=1)
    def forward(s, x, t):
        t, h = s.time(t[:, None]), s.head(x)
        for block in s.blocks: h = block(h, t)
        return s.tail(h)
net = Net().to(dev); average = copy.deepcopy(net).requires_grad_(False); opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
@torch.no_grad()
def sample(model, n, steps=4):
    x = torch.randn(n, 3, 32, 32, device=dev)
    for t in range(steps, 0, -1):
        e = model(x, torch.full((n,), t / steps, device=dev)); e = 1.5 * e - .5 * model(x, torch.zeros(n, device=dev)); x = (x - .2 * e).clamp(-1, 1)
    return x
for i in rec.steps(8):
    images = torch.rand(64, 3, 32, 32).to(dev); opt.zero_grad()
    with rec.keep():
        noise, t = torch.randn_like(images), torch.rand(64, device=dev); loss = F.mse_loss(net(images + t[:, None, None, None] * noise, t), noise)
    rec.mark(f"forward{i}", net, opt, images, average=average)
    loss.backward(); rec.saved.clear(); nn.utils.clip_grad_norm_(net.parameters(), 1.)
    rec.mark(f"backward{i}", net, opt, images, average=average)
    opt.step(); torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), .01)
    rec.mark(f"step{i}", net, opt, images, average=average)
    if i % 3 == 2: picture = sample(average, 8).cpu()
