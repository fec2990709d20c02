"""Lists convolution layers to be measured: those of common networks at many batch and image sizes, and random ones beside
them. Needs torchvision; no GPU.

usage: layers.py OUT.json

A row: number, groups that have the layer (`held:…` are the networks that nothing is learned from), shapes of input and filter,
stride, padding, dilation, transposed, output padding, groups, number type, whether TF32 is allowed, channels last, benchmark.
"""
import json, random, torch, torchvision, sys
from torch.utils._python_dispatch import TorchDispatchMode
tv = torchvision.models
class Rec(TorchDispatchMode):
    def __init__(s): super().__init__(); s.seen = {}
    def __torch_dispatch__(s, f, types, args=(), kw=None):
        if f is torch.ops.aten.convolution.default:
            x, w, b, st, pad, dil, tr, op, g = args
            s.seen[(tuple(x.shape), tuple(w.shape), tuple(st), tuple(pad), tuple(dil), bool(tr), tuple(op), g)] = 1
        return f(*args, **(kw or {}))
class Unet(torch.nn.Module):
    def __init__(s, c=32, depth=4, dim=2, cin=3):
        super().__init__(); n = torch.nn; C = getattr(n, f"Conv{dim}d"); T = getattr(n, f"ConvTranspose{dim}d"); B = getattr(n, f"BatchNorm{dim}d")
        blk = lambda a, b: n.Sequential(C(a, b, 3, padding=1), B(b), n.ReLU(), C(b, b, 3, padding=1), B(b), n.ReLU())
        s.down = n.ModuleList([blk(cin if i == 0 else c * 2 ** (i - 1), c * 2 ** i) for i in range(depth)])
        s.up = n.ModuleList([T(c * 2 ** i, c * 2 ** (i - 1), 2, stride=2) for i in range(depth - 1, 0, -1)])
        s.dec = n.ModuleList([blk(c * 2 ** i, c * 2 ** (i - 1)) for i in range(depth - 1, 0, -1)])
        s.out = C(c, 2, 1); s.pool = getattr(n, f"MaxPool{dim}d")(2)
    def forward(s, x):
        k = []
        for i, d in enumerate(s.down):
            x = d(x); k.append(x)
            if i < len(s.down) - 1: x = s.pool(x)
        k.pop()
        for u, d in zip(s.up, s.dec): x = d(torch.cat([u(x), k.pop()], 1))
        return s.out(x)
class Dcgan(torch.nn.Module):
    def __init__(s, ngf=64):
        super().__init__(); n = torch.nn
        s.m = n.Sequential(n.ConvTranspose2d(100, ngf*8, 4, 1, 0, bias=False), n.ConvTranspose2d(ngf*8, ngf*4, 4, 2, 1, bias=False), n.ConvTranspose2d(ngf*4, ngf*2, 4, 2, 1, bias=False), n.ConvTranspose2d(ngf*2, ngf, 4, 2, 1, bias=False), n.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False),
          n.Conv2d(3, ngf, 4, 2, 1), n.Conv2d(ngf, ngf*2, 4, 2, 1), n.Conv2d(ngf*2, ngf*4, 4, 2, 1))
    def forward(s, x): return s.m(x)
class Tcn(torch.nn.Module):
    def __init__(s, c=128):
        super().__init__(); n = torch.nn
        s.m = n.Sequential(n.Conv1d(1, 512, 10, 5), n.Conv1d(512, 512, 3, 2), n.Conv1d(512, 512, 3, 2), n.Conv1d(512, 512, 2, 2), n.Conv1d(512, c, 1), *[n.Conv1d(c, c, 3, padding=2 ** i, dilation=2 ** i) for i in range(6)], n.Conv1d(c, c, 15, padding=7, groups=16))
    def forward(s, x): return s.m(x)
def vis(name): return lambda: getattr(tv, name)(**({"init_weights": False} if name in ("googlenet", "inception_v3") else {}))
IMG = lambda b, s: (b, 3, s, s)
small = "resnet18 resnet50 resnext50_32x4d wide_resnet50_2 vgg11 vgg16_bn densenet121 efficientnet_b0 efficientnet_b3 mobilenet_v2 mobilenet_v3_large convnext_tiny regnet_y_400mf regnet_x_1_6gf squeezenet1_1 inception_v3 shufflenet_v2_x1_0 mnasnet1_0 alexnet".split()
held = "resnet34 resnet152 resnext101_32x8d vgg19 densenet169 efficientnet_v2_s regnet_y_3_2gf convnext_small googlenet mobilenet_v3_small".split()
nets = []
for n in small:
    for b, s in [(32, 224), (8, 224), (64, 224), (16, 384), (2, 512), (128, 64), (1, 224)]:
        if n == "inception_v3":
            if s < 200: continue
            s = max(s, 299)
        nets.append((n, b, s, vis(n), IMG(b, s), n == "resnet50" or (b, s) in ((32, 224), (32, 299))))
for n in held:
    for b, s in [(32, 224), (12, 256), (64, 128), (4, 320)]:
        nets.append(("held:" + n, b, s, vis(n), IMG(b, s), (b, s) == (32, 224)))
seg = torchvision.models.segmentation
nets += [("fcn_resnet50", 4, 520, lambda: seg.fcn_resnet50(weights=None, weights_backbone=None), IMG(4, 520), True),
  ("held:deeplabv3", 4, 512, lambda: seg.deeplabv3_resnet50(weights=None, weights_backbone=None), IMG(4, 512), True),
  ("unet32", 8, 256, lambda: Unet(32), IMG(8, 256), True), ("unet64", 4, 512, lambda: Unet(64, 5), IMG(4, 512), True), ("held:unet48", 6, 384, lambda: Unet(48), IMG(6, 384), True),
  ("unet3d", 2, 64, lambda: Unet(16, 4, 3, 1), (2, 1, 64, 64, 64), True), ("held:unet3d", 2, 96, lambda: Unet(32, 3, 3, 4), (2, 4, 96, 96, 96), True), ("unet1d", 8, 4096, lambda: Unet(32, 4, 1, 2), (8, 2, 4096), True),
  ("r3d_18", 4, 112, lambda: tv.video.r3d_18(), (4, 3, 16, 112, 112), True), ("held:mc3_18", 4, 112, lambda: tv.video.mc3_18(), (4, 3, 16, 112, 112), True), ("r2plus1d_18", 2, 112, lambda: tv.video.r2plus1d_18(), (2, 3, 16, 112, 112), True),
  ("dcgan", 128, 1, lambda: Dcgan(), (128, 100, 1, 1), True), ("held:dcgan96", 64, 1, lambda: Dcgan(96), (64, 100, 1, 1), True), ("tcn", 8, 16000, lambda: Tcn(), (8, 1, 16000), True), ("held:tcn", 4, 48000, lambda: Tcn(192), (4, 1, 48000), True)]
rows = {}
def put(group, key, dtype, tf32, cl, bench=0):
    x, w, st, pad, dil, tr, op, g = key
    k = json.dumps([x, w, st, pad, dil, tr, op, g, dtype, tf32, cl, bench])
    rows.setdefault(k, []).append(group) if group not in rows.get(k, []) else None
for name, b, s, make, shape, full in nets:
    with torch.device("meta"):
        try:
            with torch.device("cpu"): m = make()
            m = m.to("meta"); m.train()
            with Rec() as r: m(torch.empty(shape))
        except Exception as e: print("skip", name, b, s, repr(e)[:150], file=sys.stderr); continue
    for key in r.seen:
        put(name, key, "f32", 1, 0)
        if full:
            put(name, key, "bf16", 1, 0); put(name, key, "bf16", 1, 1); put(name, key, "f32", 1, 1)
            if not name.startswith("held") or "resnet" in name: put(name, key, "f32", 0, 0); put(name, key, "f16", 1, 0)
    if (name, b, s) in (("resnet50", 32, 224), ("held:vgg19", 32, 224), ("efficientnet_b0", 32, 224), ("unet32", 8, 256)):
        for key in r.seen: put(name, key, "f32", 1, 0, 1); put(name, key, "bf16", 1, 1, 1)
random.seed(1)
R = random.choice
for i in range(2600):
    d = R([2] * 8 + [1, 3])
    N = R([1, 2, 3, 4, 8, 16, 24, 32, 64]); g = R([1] * 6 + [2, 4, 8, 32]); tr = R([0] * 7 + [1])
    C = g * R([1, 2, 3, 4, 8, 12, 16, 32, 64, 96, 128, 192, 256, 512] if g == 1 else [2, 4, 8, 16, 32]); K = g * R([1, 2, 3, 4, 8, 10, 16, 32, 48, 64, 128, 256, 512] if g == 1 else [2, 4, 8, 16, 32])
    sp = [R([7, 14, 15, 28, 32, 33, 56, 64, 112, 128, 224])] * 2 if d == 2 else [R([100, 1000, 4096, 16000])] if d == 1 else [R([8, 16, 17, 32])] + [R([16, 28, 56])] * 2
    if N * C * torch.Size(sp).numel() > 1.5e8 or N * K * torch.Size(sp).numel() > 1.5e8: continue
    k = R([1, 1, 2, 3, 3, 3, 3, 4, 5, 7]); st = R([1, 1, 1, 2, 2, 4]); dil = R([1, 1, 1, 1, 1, 2, 4]); pad = R([0, k // 2, (k - 1) * dil // 2])
    if min(sp) + 2 * pad < (k - 1) * dil + 1: continue
    w = ([C, K // g] if tr else [K, C // g]) + [k] * d
    key = ([N, C] + sp, w, [st] * d, [pad] * d, [dil] * d, bool(tr), [0] * d, g)
    if tr and (min(sp) - 1) * st - 2 * pad + (k - 1) * dil + 1 < 1: continue
    if tr and N * K * torch.Size(sp).numel() * st ** d > 3e8: continue
    dt, tf, cl = R([("f32", 1, 0)] * 4 + [("f32", 0, 0), ("f32", 1, 1), ("bf16", 1, 0), ("bf16", 1, 0), ("bf16", 1, 1), ("f16", 1, 0)])
    if d == 1: cl = 0
    put("grid", key, dt, tf, cl)
out = [[i, groups] + json.loads(k) for i, (k, groups) in enumerate(rows.items())]
random.shuffle(out)
# only what fits comfortably
def el(r):
    n = torch.Size(r[2]).numel()
    return n
out = [r for r in out if not (r[2][0] and len(r[2]) == 3 and r[12])]
first = out
from collections import Counter
print(len(out), Counter((r[10], r[11], r[12], r[13]) for r in out))


# Many more of the same kind.
import itertools
random.seed(7)
old = {json.dumps(r[2:14]) for r in first}
train = small + ["regnet_y_800mf", "regnet_x_3_2gf", "resnext101_64x4d", "efficientnet_b1", "efficientnet_v2_m", "mnasnet0_5", "vgg13", "densenet201", "convnext_base", "shufflenet_v2_x2_0"]
cand = {}
def add(key, w): cand[json.dumps(key)] = max(w, cand.get(json.dumps(key), 0))
NS = [1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256]
def layers(make, shape):
    m = make().to("meta"); m.train()
    with Rec() as r, torch.device("meta"): m(torch.empty(shape))
    return r.seen
for name in train:
    try: base = vis(name)().to("meta")
    except Exception as e: print(name, e); continue
    base.train()
    for s in [32, 64, 96, 112, 128, 160, 192, 224, 240, 256, 288, 299, 320, 384, 448, 512]:
        try:
            with Rec() as r, torch.device("meta"): base(torch.empty((2, 3, s, s)))
        except Exception as e: continue
        for key in r.seen:
            for N in NS: add(((N,) + key[0][1:],) + key[1:], 3 if s in (224, 256) else 1)
for c, dp, dim, cin, sizes in [(32, 4, 2, 3, (64, 128, 256, 384, 512)), (64, 5, 2, 1, (128, 256, 512, 576)), (16, 4, 2, 3, (128, 256)), (64, 4, 2, 3, (96, 192, 320)), (16, 4, 3, 1, (32, 64, 96, 128)), (24, 4, 3, 2, (48, 64)), (32, 4, 3, 1, (64, 80)), (32, 5, 1, 1, (1024, 4096, 16384)), (64, 4, 1, 2, (2048, 8000))]:
    for s in sizes:
        for key in layers(lambda: Unet(c, dp, dim, cin), (2, cin) + (s,) * dim):
            for N in NS[:12] if dim == 2 else NS[:6]: add(((N,) + key[0][1:],) + key[1:], 3)
for key in list(layers(lambda: Dcgan(32), (2, 100, 1, 1))) + list(layers(lambda: Dcgan(64), (2, 100, 1, 1))) + list(layers(lambda: Dcgan(128), (2, 100, 1, 1))):
    for N in NS: add(((N,) + key[0][1:],) + key[1:], 3)
for c in (64, 128, 256, 384):
    for L in (4000, 8000, 16000, 32000, 64000):
        for key in layers(lambda: Tcn(c), (2, 1, L)):
            for N in NS[:9]: add(((N,) + key[0][1:],) + key[1:], 2)
for key in list(layers(lambda: tv.video.r3d_18(), (2, 3, 16, 112, 112))) + list(layers(lambda: tv.video.r3d_18(), (2, 3, 8, 64, 64))) + list(layers(lambda: tv.video.r2plus1d_18(), (2, 3, 16, 112, 112))):
    for N in NS[:10]: add(((N,) + key[0][1:],) + key[1:], 3)
seg = tv.segmentation
for s in (256, 384, 480, 520):
    for key in layers(lambda: seg.fcn_resnet50(weights=None, weights_backbone=None), (2, 3, s, s)):
        for N in (1, 2, 3, 4, 6, 8, 12, 16): add(((N,) + key[0][1:],) + key[1:], 2)
# like networks: diffusion, detection, gans, and regular grids
R = random.choice
extra = {}
for i in range(60000):
    N = R(NS[:18]); k = R([1, 1, 1, 3, 3, 3, 3, 3, 5, 7, 4, 2]); st = R([1, 1, 1, 1, 2]); dil = R([1] * 9 + [2])
    C = R([3, 4, 8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 112, 128, 144, 160, 192, 224, 240, 256, 288, 320, 384, 448, 480, 512, 576, 640, 672, 768, 960, 1024, 1152, 1280, 1536, 1920, 2048]); K = R([C, C, C * 2, C // 2 or 1, C * 4, C // 4 or 1, 3, 4, 1, 21, 32, 64, 128, 256, 512, 1000])
    S = R([4, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 100, 112, 128, 160, 192, 224, 256, 320, 384, 512]); g = R([1] * 12 + [2, 4, 8, 16, 32])
    if C % g or K % g or C * K * k * k > 6e7: continue
    pad = R([k // 2 * dil] * 5 + [0])
    if S + 2 * pad < (k - 1) * dil + 1: continue
    tr = R([0] * 14 + [1]); 
    w = [C, K // g, k, k] if tr else [K, C // g, k, k]
    if tr: st = 2; 
    op = 0
    if tr and (S - 1) * st - 2 * pad + (k - 1) * dil + 1 < 1: continue
    extra[json.dumps(([N, C, S, S], w, [st, st], [pad, pad], [dil, dil], bool(tr), [0, 0], g))] = 2
def fits(key):
    x, w, st, pad, dil, tr, op, g = key
    n = torch.Size(x).numel()
    d = len(st)
    o = x[0] * (w[1] * g if tr else w[0])
    for i in range(d): o *= ((x[2 + i] - 1) * st[i] + w[2 + i]) if tr else max(1, (x[2 + i] + 2 * pad[i] - dil[i] * (w[2 + i] - 1) - 1) // st[i] + 1)
    flops = o * w[1 if not tr else 0] * torch.Size(w[2:]).numel()
    return n < 1.2e8 and o < 1.2e8 and flops < 6e11
cand = {k: v for k, v in cand.items() if fits(json.loads(k))}; extra = {k: v for k, v in extra.items() if fits(json.loads(k))}
print(len(cand), len(extra))
out = []; seen = set()
def take(pool, n, dt, tf, cl, bench=0, dims=None):
    keys = [k for k in pool if dims is None or len(json.loads(k)[0]) in dims]
    ws = [pool[k] for k in keys]
    got = 0
    for k in random.choices(keys, ws, k=int(n * 1.3)):
        if got >= n: break
        row = json.loads(k) + [dt, tf, cl, bench]
        if cl and len(row[0]) == 3: continue
        s = json.dumps(row)
        if s in seen or s in old: continue
        seen.add(s); got += 1
        out.append([100000 + len(out), ["net2" if pool is cand else "grid2"]] + row)
take(cand, 42000, "f32", 1, 0); take(extra, 16000, "f32", 1, 0)
take(cand, 15000, "bf16", 1, 0); take(extra, 6000, "bf16", 1, 0); take(cand, 2500, "f16", 1, 0)
take(cand, 13000, "bf16", 1, 1); take(extra, 5000, "bf16", 1, 1)
take(cand, 6000, "f32", 1, 1); take(extra, 2500, "f32", 1, 1)
take(cand, 5000, "f32", 0, 0); take(extra, 2000, "f32", 0, 0)
take(cand, 500, "f32", 1, 0, 1); take(cand, 300, "bf16", 1, 1, 1); take(cand, 200, "bf16", 1, 0, 1)
random.shuffle(out)
json.dump(first + out, open(sys.argv[1], "w"), separators=(",", ":"))
print(len(out))
