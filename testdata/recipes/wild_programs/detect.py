# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="a one-stage detector: frozen first stage and frozen norms, feature pyramid, images of changing sizes, anchors made on the GPU, SGD with momentum")
class FrozenBN(nn.Module):
    def __init__(s, c): super().__init__(); [s.register_buffer(n, t) for n, t in (("w", torch.ones(c)), ("b", torch.zeros(c)), ("m", torch.zeros(c)), ("v", torch.ones(c)))]
    def forward(s, x): sc = s.w * (s.v + 1e-5).rsqrt(); return x * sc.view(1, -1, 1, 1) + (s.b - s.m * sc).view(1, -1, 1, 1)
class Blk(nn.Module):
    def __init__(s, i, o, st): super().__init__(); s.c1, s.n1, s.c2, s.n2, s.d = nn.Conv2d(i, o, 3, st, 1, bias=False), FrozenBN(o), nn.Conv2d(o, o, 3, 1, 1, bias=False), FrozenBN(o), nn.Conv2d(i, o, 1, st)
    def forward(s, x): return F.relu_(s.n2(s.c2(F.relu_(s.n1(s.c1(x))))) + s.d(x))
class Det(nn.Module):
    def __init__(s, k=80): super().__init__(); s.stem = nn.Conv2d(3, 64, 7, 4, 3); s.layers = nn.ModuleList([Blk(a, b, st) for a, b, st in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))]); s.lat = nn.ModuleList([nn.Conv2d(c, 256, 1) for c in (128, 256, 512)]); s.cls = nn.Sequential(nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), nn.Conv2d(256, 9 * k, 3, 1, 1)); s.box = nn.Sequential(nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), nn.Conv2d(256, 36, 3, 1, 1)); s.k = k
    def anchors(s, f): h, w = f.shape[-2:]; y, x = torch.meshgrid(torch.arange(h, device=f.device), torch.arange(w, device=f.device), indexing="ij"); return torch.stack([x, y, x + 1, y + 1], -1).float().repeat(1, 1, 9).view(-1, 4)
    def forward(s, x):
        x = s.stem(x); fs = []
        for k, l in enumerate(s.layers):
            x = l(x)
            if k: fs.append(x)
        p = [l(f) for l, f in zip(s.lat, fs)]
        for k in (1, 0): p[k] = p[k] + F.interpolate(p[k + 1], size=p[k].shape[-2:])
        return torch.cat([s.cls(f).permute(0, 2, 3, 1).reshape(len(f), -1, s.k) for f in p], 1), torch.cat([s.box(f).permute(0, 2, 3, 1).reshape(len(f), -1, 4) for f in p], 1), torch.cat([s.anchors(f) for f in p])
m = Det().to(dev)
for p in list(m.stem.parameters()) + list(m.layers[0].parameters()): p.requires_grad_(False)
opt = torch.optim.SGD([p for p in m.parameters() if p.requires_grad], .01, momentum=.9)
for i in rec.steps(5):
    h, w = ((448, 608), (512, 512), (384, 640), (480, 576), (448, 448))[i]; img = torch.rand(4, 3, h, w).to(dev); boxes = [torch.rand(n, 4).to(dev) for n in (3, 8, 5, 2)]
    with rec.keep():
        c, b, a = m(img); t = F.one_hot(torch.zeros(c.shape[:2], dtype=torch.long, device=dev), 80).float(); pr = c.sigmoid(); focal = (F.binary_cross_entropy_with_logits(c, t, reduction="none") * (1 - (pr * t + (1 - pr) * (1 - t))) ** 2).sum() / 100; loss = focal + F.smooth_l1_loss(b, a.expand_as(b))
    rec.mark(f"forward{i}", m, opt, (img, boxes))
    opt.zero_grad(); loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", m, opt, (img, boxes))
    opt.step()
    rec.mark(f"step{i}", m, opt, (img, boxes))
