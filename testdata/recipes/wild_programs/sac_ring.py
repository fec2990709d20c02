# start late state twice one
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="soft actor-critic: a ring of transitions allocated by a function before the networks, twin critics, targets by Polyak averages, a temperature, three Adams")
device = dev
STATE, ACTION, CAPACITY, BATCH = 376, 17, 60000, 512

def make_buffer(capacity):
    return dict(obs=torch.empty(capacity, STATE, device=device), act=torch.empty(capacity, ACTION, device=device),
                rew=torch.empty(capacity, 1, device=device), nxt=torch.empty(capacity, STATE, device=device), done=torch.empty(capacity, 1, device=device))

def mlp(sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2: layers.append(nn.ReLU())
    return nn.Sequential(*layers)

class Actor(nn.Module):
    def __init__(self):
        super().__init__(); self.trunk = mlp([STATE, 1024, 1024, 2 * ACTION])
    def forward(self, obs):
        mu, log_std = self.trunk(obs).chunk(2, dim=-1)
        std = log_std.clamp(-10, 2).exp()
        u = mu + std * torch.randn_like(mu)
        a = torch.tanh(u)
        logp = (-0.5 * ((u - mu) / std) ** 2 - log_std - torch.log(1 - a ** 2 + 1e-6)).sum(-1, keepdim=True)
        return a, logp

class Critic(nn.Module):
    def __init__(self):
        super().__init__(); self.q1 = mlp([STATE + ACTION, 1024, 1024, 1]); self.q2 = mlp([STATE + ACTION, 1024, 1024, 1])
    def forward(self, obs, act):
        x = torch.cat([obs, act], -1); return self.q1(x), self.q2(x)

buffer = make_buffer(CAPACITY); filled = 20000
actor, critic = Actor().to(device), Critic().to(device)
target = copy.deepcopy(critic)
for p in target.parameters(): p.requires_grad_(False)
log_alpha = torch.zeros(1, requires_grad=True, device=device)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-4)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-4)
alpha_opt = torch.optim.Adam([log_alpha], lr=1e-4)
models, opts = (actor, critic, target, log_alpha), (actor_opt, critic_opt, alpha_opt)

def sample(n):
    idx = torch.randint(0, filled, (n,), device=device)
    return {k: v[idx] for k, v in buffer.items()}

obs = torch.randn(1, STATE, device=device)
for step in rec.steps(5):
    with torch.no_grad():
        act, _ = actor(obs)
    nxt = torch.randn(1, STATE).to(device)
    i = filled % CAPACITY
    buffer["obs"][i] = obs[0]; buffer["act"][i] = act[0]; buffer["nxt"][i] = nxt[0]
    filled += 1; obs = nxt
    b = sample(BATCH)
    with torch.no_grad():
        a2, logp2 = actor(b["nxt"])
        q = torch.min(*target(b["nxt"], a2)) - log_alpha.exp() * logp2
        y = b["rew"] + 0.99 * (1 - b["done"]) * q
    with rec.keep():
        q1, q2 = critic(b["obs"], b["act"])
        critic_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
    rec.mark(f"critic{step}", models, opts, (buffer, b, obs))
    critic_opt.zero_grad(); critic_loss.backward(); rec.saved.clear(); critic_opt.step()
    with rec.keep():
        a, logp = actor(b["obs"])
        actor_loss = (log_alpha.exp().detach() * logp - torch.min(*critic(b["obs"], a))).mean()
    rec.mark(f"actor{step}", models, opts, (buffer, b, obs))
    actor_opt.zero_grad(); actor_loss.backward(); rec.saved.clear(); actor_opt.step()
    alpha_loss = -(log_alpha * (logp.detach() - ACTION)).mean()
    alpha_opt.zero_grad(); alpha_loss.backward(); alpha_opt.step()
    with torch.no_grad():
        for p, t in zip(critic.parameters(), target.parameters()): t.lerp_(p, 0.005)
    rec.mark(f"step{step}", models, opts, (buffer, b, obs))
