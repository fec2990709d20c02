# state
import torch, torch.nn as nn
import recorder as rec
from recorder import dev
rec.facts.update(leak=True, leak_line="kept.append(out.detach())", note="hooks of every other layer keep its output, of training and of validation on smaller batches; SGD with momentum")
D = 448
class Block(nn.Module):
    def __init__(s): super().__init__(); s.norm, s.up, s.down = nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    def forward(s, x): return x + s.down(torch.relu(s.up(s.norm(x))))
net = nn.Sequential(*[Block() for _ in range(8)], nn.Linear(D, 50)).to(dev); opt, kept = torch.optim.SGD(net.parameters(), .01, momentum=.9), []
for block in net[1:8:2]: block.register_forward_hook(lambda module, args, out: kept.append(out.detach()))
for i in rec.steps(8):
    x = torch.randn(2000, D).to(dev)
    with rec.keep(): loss = nn.functional.cross_entropy(net(x), torch.randint(0, 50, (2000,)).to(dev))
    opt.zero_grad(); loss.backward(); rec.saved.clear(); opt.step()
    if i % 3 == 2:
        with torch.no_grad(): net(torch.randn(900, D).to(dev))
    rec.mark(f"step{i}", net, opt, x, kept=kept)
