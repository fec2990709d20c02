# start late state twice one
import torch, torch.nn as nn
import recorder as rec
from recorder import dev
rec.facts.update(note="a radiance field: origins, directions and colours of all rays of the pictures on the GPU, shuffled once and read by slices, a mean-teacher copy of the network made by hand, Adam")
class Field(nn.Module):
    def __init__(self, h=512): super().__init__(); self.a = nn.Sequential(nn.Linear(63, h), nn.ReLU(), *[m for _ in range(5) for m in (nn.Linear(h, h), nn.ReLU())]); self.sigma, self.mid, self.rgb = nn.Linear(h, 1), nn.Linear(h + 27, h // 2), nn.Linear(h // 2, 3)
    def enc(self, x, n): f = 2.0 ** torch.arange(n, device=x.device); y = (x[..., None, :] * f[:, None]).flatten(-2); return torch.cat([x, y.sin(), y.cos()], -1)
    def forward(self, p, d): h = self.a(self.enc(p, 10)); return self.sigma(h), self.rgb(torch.relu(self.mid(torch.cat([h, self.enc(d, 4)], -1))))
N = 31 * 200 * 200
rays_o, rays_d, rgb = torch.randn(N, 3).to(dev), torch.randn(N, 3).to(dev), torch.rand(N, 3).to(dev)
order = torch.randperm(N, device=dev)
net = Field().to(dev); opt = torch.optim.Adam(net.parameters(), 5e-4)
teacher = [p.detach().clone() for p in net.parameters()]
for i in rec.steps(5):
    at = order[i * 1500:(i + 1) * 1500]; o, d, c = rays_o[at], rays_d[at], rgb[at]
    t = torch.linspace(2, 6, 48, device=dev).expand(1500, 48) + torch.rand(1500, 48, device=dev) * 0.08
    pts = o[:, None] + d[:, None] * t[..., None]; dirs = d[:, None].expand_as(pts); held = (rays_o, rays_d, rgb, order, o, d, c, t, pts)
    with rec.keep():
        s, col = net(pts, dirs); a = 1 - torch.exp(-torch.relu(s.squeeze(-1)) * 0.08); w = a * torch.cumprod(torch.cat([torch.ones_like(a[:, :1]), 1 - a + 1e-10], 1), 1)[:, :-1]
        loss = (((w[..., None] * col.sigmoid()).sum(1) - c) ** 2).mean()
    rec.mark(f"forward{i}", (net, teacher), opt, held); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", (net, teacher), opt, held); opt.step()
    with torch.no_grad():
        for q, p in zip(teacher, net.parameters()): q.lerp_(p, 0.01)
    rec.mark(f"step{i}", (net, teacher), opt, held)
