# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="PPO: 24 environment steps appended to lists, stacked, generalised advantages, 2 epochs of 4 shuffled minibatches, Adam")
class AC(nn.Module):
    def __init__(self, o=640, a=12): super().__init__(); self.body = nn.Sequential(nn.Linear(o, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh()); self.pi, self.vf = nn.Linear(1024, a), nn.Linear(1024, 1)
    def forward(self, x): h = self.body(x); return self.pi(h), self.vf(h).squeeze(-1)
class Env:
    def __init__(self, n=256): self.n = n
    def reset(self): return torch.randn(self.n, 640, device=dev)
    def step(self, a): return torch.randn(self.n, 640).to(dev), torch.randn(self.n).to(dev)
env, net = Env(), AC().to(dev); opt = torch.optim.Adam(net.parameters(), 3e-4, eps=1e-5); obs = env.reset()
for it in rec.steps(4):
    O, A, L, V, R = [], [], [], [], []
    for t in range(24):
        with torch.no_grad():
            logits, v = net(obs); d = torch.distributions.Categorical(logits=logits, validate_args=False); a = logits.argmax(-1)
        O.append(obs); A.append(a); L.append(d.log_prob(a)); V.append(v); obs, r = env.step(a); R.append(r)
    with torch.no_grad(): last = net(obs)[1]
    adv, g = [], 0.
    for t in reversed(range(24)): nxt = V[t + 1] if t < 23 else last; g = R[t] + .99 * nxt - V[t] + .95 * .99 * g; adv.insert(0, g)
    bo, ba, bl, bv, badv = (torch.stack(x).flatten(0, 1) for x in (O, A, L, V, adv)); ret = badv + bv
    ins = (O, A, R, L, V, bo, ba, bl, bv, badv, ret)
    for ep in range(2):
        perm = torch.randperm(len(bo), device=dev)
        for k in range(4):
            mb = perm[k * 1536:(k + 1) * 1536]; x = bo[mb]
            with rec.keep():
                logits, v = net(x); lp = torch.distributions.Categorical(logits=logits, validate_args=False).log_prob(ba[mb]); ratio = (lp - bl[mb]).exp(); ad = badv[mb]; loss = torch.max(-ad * ratio, -ad * ratio.clamp(.8, 1.2)).mean() + .5 * F.mse_loss(v, ret[mb])
            if k == 3: rec.mark(f"forward{it}.{ep}", net, opt, (ins, x))
            opt.zero_grad(); loss.backward(); rec.saved.clear(); nn.utils.clip_grad_norm_(net.parameters(), .5); opt.step()
    rec.mark(f"step{it}", net, opt, (ins, obs, x))
