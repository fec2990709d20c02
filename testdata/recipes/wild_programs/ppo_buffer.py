# start late state twice one
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="proximal policy optimisation: each iteration writes 12 observations into a tensor that is allocated once, then takes 2 epochs of 3 parts of it; Adam")
ACTS, ENVS = 12, 24
class Policy(nn.Module):
    def __init__(self): super().__init__(); self.body = nn.Sequential(nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 81, 768), nn.ReLU()); self.actor, self.critic = nn.Linear(768, 6), nn.Linear(768, 1)
    def forward(self, seen): h = self.body(seen); return self.actor(h), self.critic(h).squeeze(-1)
policy = Policy().to(dev); optimizer = torch.optim.Adam(policy.parameters(), 3e-4)
observations = torch.zeros(ACTS, ENVS, 3, 84, 84, device=dev)
def collect():
    for t in range(ACTS):
        seen = torch.rand(ENVS, 3, 84, 84, device=dev)
        with torch.no_grad(): policy(seen)
        observations[t] = seen
def learn(part):
    logits, values = policy(part)
    loss = values.pow(2).mean() - logits.log_softmax(-1)[:, 0].mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
for i in rec.steps(4):
    collect(); rec.mark(f"rollout{i}", policy, optimizer, observations)
    for _ in range(2):
        for index in torch.randperm(ACTS * ENVS, device=dev).chunk(3): learn(observations.flatten(0, 1)[index])
    rec.mark(f"learnt{i}", policy, optimizer, observations)
