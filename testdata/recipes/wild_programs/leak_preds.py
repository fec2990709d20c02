# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F, math, copy
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(leak=True, leak_line="all_preds.append(pred)", note="predictions kept on the GPU for a metric at the end: validation without a graph")
m = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 1, 1), nn.ReLU(), nn.Conv2d(128, 21, 1), nn.Upsample(scale_factor=4)).to(dev).eval(); all_preds = []; rec.facts.update(inference=True)
@torch.no_grad()
def validate():
    for i in rec.steps(9):
        x = torch.rand(4, 3, 256, 256).to(dev)
        pred = m(x).softmax(1)
        all_preds.append(pred)
        rec.mark(f"step{i}", m, (), x, leaked=all_preds)
validate()
