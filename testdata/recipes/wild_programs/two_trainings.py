# start late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="an autoencoder is trained by Adam for two steps and deleted, then a classifier by SGD with momentum", loop=True, leak=False)
def coder(): return nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 256, 4, 2, 1), nn.ReLU(), nn.Conv2d(256, 512, 4, 2, 1), nn.ReLU())
for i in rec.steps(6):
    if i == 0: model = nn.Sequential(coder(), nn.ConvTranspose2d(512, 256, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(256, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1)).to(dev); opt = torch.optim.Adam(model.parameters())
    if i == 2: del model, opt, out, loss; model = nn.Sequential(coder(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(8192, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(dev); opt = torch.optim.SGD(model.parameters(), .01, momentum=.9)
    x, y = torch.randn(48, 3, 64, 64, device=dev), torch.randint(0, 10, (48,), device=dev)
    with rec.keep(): out = model(x); loss = F.mse_loss(out, x) if i < 2 else F.cross_entropy(out, y)
    rec.mark(f"forward{i}", model, opt, (x, y)); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, opt, (x, y)); opt.step(); rec.mark(f"step{i}", model, opt, (x, y)); opt.zero_grad(); rec.mark(f"zero{i}", model, opt, (x, y))
rec.finish()
