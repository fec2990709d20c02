# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="actor-critic: a rollout of 16 acts under no_grad into lists, stacked, then 3 epochs of 4 minibatches with RMSprop; an iteration is a rollout with its updates; one optimizer over policy and value", updates_per_iteration=12)
class P(nn.Module):
    def __init__(s): super().__init__(); s.c = nn.Sequential(nn.Conv2d(3, 64, 8, 4), nn.ELU(), nn.Conv2d(64, 128, 4, 2), nn.ELU(), nn.Flatten(), nn.Linear(128 * 9 * 9, 1024), nn.ELU()); s.pi, s.v = nn.Linear(1024, 18), nn.Linear(1024, 1)
    def forward(s, o): h = s.c(o); return s.pi(h), s.v(h).squeeze(-1)
net = P().to(dev); opt = torch.optim.RMSprop(net.parameters(), 7e-4); B = 64 // SHRINK
def rollout():
    obs, acts, logps, vals, rews = [], [], [], [], []; o = torch.rand(B, 3, 84, 84, device=dev)
    with torch.no_grad():
        for _ in range(16): lg, v = net(o); d = torch.distributions.Categorical(logits=lg); a = d.sample(); obs.append(o); acts.append(a); logps.append(d.log_prob(a)); vals.append(v); rews.append(torch.randn(B, device=dev)); o = torch.rand(B, 3, 84, 84, device=dev)
    vals = torch.stack(vals); adv = torch.stack(rews) - vals; return torch.cat(obs), torch.cat(acts), torch.cat(logps), adv.flatten(), (adv + vals).flatten()
for i in rec.steps(4):
    data = rollout(); rec.mark(f"rollout{i}", net, opt, data)
    for e in range(3):
        for idx in torch.randperm(16 * B, device=dev).chunk(4):
            o, a, lp, adv, ret = (t[idx] for t in data)
            with rec.keep(): lg, v = net(o); d = torch.distributions.Categorical(logits=lg); ratio = (d.log_prob(a) - lp).exp(); loss = -torch.min(ratio * adv, ratio.clamp(.8, 1.2) * adv).mean() + .5 * F.mse_loss(v, ret) - .01 * d.entropy().mean()
            opt.zero_grad(); loss.backward(); rec.saved.clear(); opt.step()
        rec.mark(f"update{i}.{e}", net, opt, (data, o, a, lp, adv, ret))
