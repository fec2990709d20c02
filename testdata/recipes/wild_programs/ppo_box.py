# start late state twice one
import torch, torch.nn as nn
import recorder as rec
from recorder import dev
rec.facts.update(note="PPO for continuous control: a class with a buffer of 12 steps, separate actor and critic, generalised advantages with the value behind the last step, 2 epochs of 2 minibatches, AdamW")
device = dev

class RolloutBuffer:
    def __init__(self, steps, envs, obs, act):
        z = lambda *s: torch.zeros(steps, envs, *s, device=device)
        self.obs, self.act, self.logp, self.rew, self.val, self.done = z(obs), z(act), z(), z(), z(), z()
        self.adv, self.ret, self.t, self.steps, self.envs = z(), z(), 0, steps, envs
    def add(self, obs, act, logp, rew, val, done):
        t = self.t
        self.obs[t], self.act[t], self.logp[t], self.rew[t], self.val[t], self.done[t] = obs, act, logp, rew, val, done
        self.t += 1
    def finish(self, last, gamma=0.99, lam=0.95):
        g = torch.zeros(self.envs, device=device)
        for t in reversed(range(self.steps)):
            nxt = last if t == self.steps - 1 else self.val[t + 1]
            delta = self.rew[t] + gamma * nxt * (1 - self.done[t]) - self.val[t]
            g = delta + gamma * lam * (1 - self.done[t]) * g
            self.adv[t] = g
        self.ret.copy_(self.adv + self.val); self.t = 0
    def batches(self, n):
        flat = lambda x: x.reshape(self.steps * self.envs, *x.shape[2:])
        for idx in torch.randperm(self.steps * self.envs, device=device).chunk(n):
            yield tuple(flat(x)[idx] for x in (self.obs, self.act, self.logp, self.adv, self.ret))

def net(i, o): return nn.Sequential(nn.Linear(i, 1280), nn.ELU(), nn.Linear(1280, 768), nn.ELU(), nn.Linear(768, o))

class ActorCritic(nn.Module):
    def __init__(self, obs, act): super().__init__(); self.actor, self.critic = net(obs, act), net(obs, 1); self.log_std = nn.Parameter(torch.zeros(act))
    def dist(self, obs): return torch.distributions.Normal(self.actor(obs), self.log_std.exp(), validate_args=False)
    def value(self, obs): return self.critic(obs).squeeze(-1)

OBS, ACT, ENVS, STEPS = 235, 12, 256, 12
buf = RolloutBuffer(STEPS, ENVS, OBS, ACT)
model = ActorCritic(OBS, ACT).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
obs = torch.randn(ENVS, OBS, device=device)
for it in rec.steps(4):
    with torch.no_grad():
        for t in range(STEPS):
            d = model.dist(obs); act = d.loc + d.scale * torch.randn_like(d.loc); val = model.value(obs)
            nxt, rew, done = torch.randn(ENVS, OBS).to(device), torch.randn(ENVS).to(device), torch.zeros(ENVS).to(device)
            buf.add(obs, act, d.log_prob(act).sum(-1), rew, val, done); obs = nxt
        buf.finish(model.value(obs))
    rec.mark(f"rollout{it}", model, opt, (buf, obs))
    for epoch in range(2):
        for k, batch in enumerate(buf.batches(2)):
            o, a, lp, adv, ret = batch
            with rec.keep():
                d = model.dist(o); ratio = (d.log_prob(a).sum(-1) - lp).exp()
                loss = torch.max(-adv * ratio, -adv * ratio.clamp(0.8, 1.2)).mean() + (model.value(o) - ret).pow(2).mean() - 0.005 * d.entropy().sum(-1).mean()
            if k == 0: rec.mark(f"forward{it}.{epoch}", model, opt, (buf, obs, batch))
            opt.zero_grad(); loss.backward(); rec.saved.clear(); nn.utils.clip_grad_norm_(model.parameters(), 1.0); opt.step()
    rec.mark(f"learnt{it}", model, opt, (buf, obs, batch))
