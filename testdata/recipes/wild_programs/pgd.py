# start late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="adversarial training: two passes of an attack fill the gradient of the input and, too, those of the weights, which are cleared before the step's own pass; float16 with a GradScaler, SGD with momentum", loop=True, leak=False)
class Block(nn.Module):
    def __init__(s, a, b, stride): super().__init__(); s.n1, s.c1, s.n2, s.c2, s.k = nn.BatchNorm2d(a), nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.Conv2d(a, b, 1, stride, bias=False)
    def forward(s, x): return s.k(x) + s.c2(F.relu(s.n2(s.c1(F.relu(s.n1(x))))))
model = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), Block(64, 128, 1), Block(128, 256, 2), Block(256, 512, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100)).to(dev)
opt = torch.optim.SGD(model.parameters(), .1, momentum=.9, weight_decay=5e-4); scaler = torch.amp.GradScaler(dev, init_scale=1024)
def attacked(x, y):
    delta = torch.zeros_like(x).uniform_(-.03, .03).requires_grad_()
    for _ in range(2):
        with torch.autocast(dev, torch.float16): loss = F.cross_entropy(model(x + delta), y)
        scaler.scale(loss).backward(); delta.data = (delta + .01 * delta.grad.sign()).clamp(-.03, .03); delta.grad.zero_()
    return (x + delta).detach()
for i in rec.steps(4):
    x, y = torch.randn(80, 3, 32, 32, device=dev), torch.randint(0, 100, (80,), device=dev); worst = attacked(x, y); opt.zero_grad(); batch = (x, y, worst)
    with rec.keep(), torch.autocast(dev, torch.float16): loss = F.cross_entropy(model(worst), y)
    rec.mark(f"forward{i}", model, opt, batch); scaler.scale(loss).backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, opt, batch); scaler.step(opt); scaler.update(); rec.mark(f"step{i}", model, opt, batch)
rec.finish()
