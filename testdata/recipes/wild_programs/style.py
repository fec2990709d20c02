# start late twice one state
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="style transfer: the image is the parameter, a frozen network gives features, Gram matrices of a style, the last as large as a library's workspace; Adam")
seq = nn.ModuleList()
for i, o in ((3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512)): seq.append(nn.Conv2d(i, o, 3, 1, 1))
seq = seq.to(dev).eval().requires_grad_(False)
def feats(x):
    fs = []
    for k, l in enumerate(seq):
        x = F.relu(l(x)); fs.append(x)
        if k in (1, 3, 5): x = F.avg_pool2d(x, 2)
    return fs
def gram(f): f = f.flatten(2); return f @ f.transpose(1, 2) / f.shape[2]
with torch.no_grad(): content = [f.clone() for f in feats(torch.rand(1, 3, 256, 256).to(dev))[4:5]]; style = [gram(f) for f in feats(torch.rand(1, 3, 256, 256).to(dev))]
img = torch.rand(1, 3, 256, 256).to(dev).requires_grad_(); opt = torch.optim.Adam([img], 0.02)
for i in rec.steps(5):
    with rec.keep(): fs = feats(img); l = F.mse_loss(fs[4], content[0]) + sum(F.mse_loss(gram(f), g) for f, g in zip(fs, style)) * 1e4
    del fs
    rec.mark(f"forward{i}", (seq, img), opt, (content, style)); opt.zero_grad(); l.backward(); rec.saved.clear(); del l; rec.mark(f"backward{i}", (seq, img), opt, (content, style)); opt.step(); rec.mark(f"step{i}", (seq, img), opt, (content, style))
