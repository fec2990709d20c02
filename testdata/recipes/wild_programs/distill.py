# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="distillation: frozen teacher in half precision under no_grad, a student trained by SGD with momentum; the teacher is in `parameter` and in other.teacher")
class Basic(nn.Module):
    def __init__(self, a, b, s=1): super().__init__(); self.f = nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True), nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)); self.g = nn.Sequential() if a == b and s == 1 else nn.Sequential(nn.Conv2d(a, b, 1, s, bias=False), nn.BatchNorm2d(b))
    def forward(self, x): return F.relu(self.f(x) + self.g(x), inplace=True)
def resnet(w, depth, classes=1000): return nn.Sequential(nn.Conv2d(3, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w), nn.ReLU(True), nn.MaxPool2d(3, 2, 1), *[Basic(w * (1 if i == 0 else 2 ** (i - (j == 0))), w * 2 ** i, 2 if i and j == 0 else 1) for i in range(4) for j in range(depth)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * w, classes))
half = torch.float32 if rec.CPU else torch.float16
teacher = resnet(112 // SHRINK, 3).to(dev, half).eval(); student = resnet(48 // (1 if SHRINK == 1 else 4), 2).to(dev)
for p in teacher.parameters(): p.requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
def kd(s, t, y, T=4.0): return F.kl_div(F.log_softmax(s / T, 1), F.softmax(t.float() / T, 1), reduction="batchmean") * T * T * 0.9 + F.cross_entropy(s, y) * 0.1
def train_one_batch(i, x, y):
    with torch.no_grad(): t = teacher(x.to(half))
    with rec.keep(): loss = kd(student(x), t, y)
    rec.mark(f"forward{i}", [student, teacher], opt, (x, y), teacher=teacher, teacher_logits=[t])
    opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", [student, teacher], opt, (x, y), teacher=teacher)
    opt.step(); rec.mark(f"step{i}", [student, teacher], opt, (x, y), teacher=teacher)
for i in rec.steps(5): train_one_batch(i, torch.randn(48 // SHRINK, 3, 192, 192, device=dev), torch.randint(1000, (48 // SHRINK,), device=dev))
