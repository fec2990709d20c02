# start late state twice one
import collections, random, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev, SHRINK
rec.facts.update(note="a replay buffer of at most 8 batches on the GPU (other.buffer), which grows for the first 8 steps and is then full: no leak; each step acts under no_grad, then trains a Q network against a target network copied every 4 steps; Adam")
random.seed(0)
class QNet(nn.Module):
    def __init__(self, actions): super().__init__(); self.features = nn.Sequential(nn.Conv2d(4, 64, 8, 4), nn.ReLU(), nn.Conv2d(64, 96, 4, 2), nn.ReLU(), nn.Conv2d(96, 96, 3, 1), nn.ReLU(), nn.Flatten()); self.adv, self.val = nn.Sequential(nn.LazyLinear(1024), nn.ReLU(), nn.Linear(1024, actions)), nn.Sequential(nn.LazyLinear(1024), nn.ReLU(), nn.Linear(1024, 1))
    def forward(self, s): f = self.features(s); a = self.adv(f); return self.val(f) + a - a.mean(1, keepdim=True)
class Agent:
    def __init__(self):
        self.q, self.target = QNet(12).to(dev), QNet(12).to(dev)
        with torch.no_grad(): z = torch.zeros(1, 4, 84, 84, device=dev); self.q(z); self.target(z)
        self.sync(); self.opt = torch.optim.Adam(self.q.parameters(), 1e-4); self.memory = collections.deque(maxlen=8)
    def sync(self): self.target.load_state_dict(self.q.state_dict())
    @torch.no_grad()
    def act(self, s): return self.q(s).argmax(1)
    def collect(self):
        s = torch.rand(256 // SHRINK, 4, 84, 84, device=dev); a = self.act(s); self.memory.append((s, a, torch.randn(len(s), device=dev), torch.rand(len(s), 4, 84, 84, device=dev)))
    def learn(self, i):
        s, a, r, s2 = random.choice(self.memory)
        with torch.no_grad(): goal = r + 0.99 * self.target(s2).gather(1, self.q(s2).argmax(1, keepdim=True)).squeeze(1)
        with rec.keep(): loss = F.smooth_l1_loss(self.q(s).gather(1, a[:, None]).squeeze(1), goal)
        self.note(f"forward{i}"); self.opt.zero_grad(); loss.backward(); rec.saved.clear(); self.note(f"backward{i}"); self.opt.step(); self.note(f"step{i}")
    def note(self, label): rec.mark(label, [self.q, self.target], self.opt, (), buffer=self.memory)
agent = Agent()
for i in rec.steps(14):
    agent.collect(); agent.learn(i)
    if i % 4 == 3: agent.sync()
