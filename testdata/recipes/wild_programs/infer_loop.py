# start late state twice one
import torch
from torch import nn
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(inference=True, note="six batches through a depthwise convolutional network under inference_mode, channels_last half; predictions kept on the CPU")
def conv_bn(i, o, k, s, g=1): return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), nn.Hardswish())
class InvertedResidual(nn.Module):
    def __init__(self, i, o, stride, expand=4):
        super().__init__(); self.body = nn.Sequential(conv_bn(i, i * expand, 1, 1), conv_bn(i * expand, i * expand, 5, stride, i * expand), nn.Conv2d(i * expand, o, 1, bias=False), nn.BatchNorm2d(o)); self.same = i == o and stride == 1
    def forward(self, x): return x + self.body(x) if self.same else self.body(x)
def build(w=48):
    layers, c = [conv_bn(3, w, 3, 2)], w
    for o, n, s in ((w, 2, 1), (2 * w, 3, 2), (4 * w, 4, 2), (8 * w, 3, 2)):
        for j in range(n): layers.append(InvertedResidual(c, o, s if j == 0 else 1)); c = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))
@torch.inference_mode()
def predict(net, n):
    preds = []
    for b in rec.steps(n, end=False):
        batch = torch.rand(32 // SHRINK, 3, 256, 256).to(dev).to(torch.float32 if rec.CPU else torch.half).contiguous(memory_format=torch.channels_last)
        logits = net(batch)
        rec.mark(f"batch{b}", net, (), batch, outputs=[logits])
        preds.append(logits.argmax(1).cpu())
    rec.finish()
net = build().to(dev, memory_format=torch.channels_last).eval()
predict(net if rec.CPU else net.half(), 6)
