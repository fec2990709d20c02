# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="an agent whose target network moves softly towards the trained one in every step, by a dictionary of copies that the loop still holds at the end; AdamW with amsgrad")
class Net(nn.Module):
    def __init__(self, d=1280, actions=12):
        super().__init__(); self.body = nn.Sequential(nn.Linear(96, d), nn.ReLU()); self.value = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1)); self.advantage = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, actions))
    def forward(self, x): h = self.body(x); a = self.advantage(h); return self.value(h) + a - a.mean(1, keepdim=True)
policy, target = Net().to(dev), Net().to(dev); target.load_state_dict(policy.state_dict())
opt = torch.optim.AdamW(policy.parameters(), 1e-4, amsgrad=True)
for i in rec.steps(5):
    s, s2, a, r = torch.randn(256, 96, device=dev), torch.randn(256, 96, device=dev), torch.randint(12, (256, 1), device=dev), torch.randn(256, device=dev)
    with torch.no_grad(): y = r + .99 * target(s2).max(1).values
    with rec.keep(): loss = F.smooth_l1_loss(policy(s).gather(1, a).squeeze(1), y)
    rec.mark(f"forward{i}", (policy, target), opt, (s, s2, a, r)); opt.zero_grad(); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", (policy, target), opt, (s, s2, a, r))
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100); opt.step()
    moved = target.state_dict(); trained = policy.state_dict()
    for key in trained: moved[key] = trained[key] * .005 + moved[key] * .995
    target.load_state_dict(moved); rec.mark(f"soft{i}", (policy, target), opt, (s, s2, a, r))
