# start late state twice one
import copy, random, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="double DQN: dueling network, target network, a replay memory of tensors on the GPU, environment steps between updates, Adam")
class Dueling(nn.Module):
    def __init__(self, actions=18):
        super().__init__(); self.features = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten())
        self.v = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 1)); self.a = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions))
    def forward(self, x): h = self.features(x.float() / 255); a = self.a(h); return self.v(h) + a - a.mean(1, keepdim=True)
class Replay:
    def __init__(self, size):
        self.s = torch.zeros(size, 4, 84, 84, dtype=torch.uint8, device=dev); self.s2 = torch.zeros_like(self.s); self.a = torch.zeros(size, dtype=torch.long, device=dev); self.r = torch.zeros(size, device=dev); self.d = torch.zeros(size, device=dev); self.n = 0; self.size = size
    def add(self, s, a, r, s2, d):
        k = self.n % self.size; self.s[k], self.a[k], self.r[k], self.s2[k], self.d[k] = s, a, r, s2, d; self.n += 1
    def sample(self, b):
        i = torch.randint(0, min(self.n, self.size), (b,), device=dev); return self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i]
class Agent:
    def __init__(self): self.q = Dueling().to(dev); self.t = copy.deepcopy(self.q); self.opt = torch.optim.Adam(self.q.parameters(), 1e-4); self.memory = Replay(3000)
    @torch.no_grad()
    def act(self, s): return self.q(s.unsqueeze(0)).argmax(1).item()
    def learn(self, i):
        s, a, r, s2, d = self.memory.sample(128)
        with torch.no_grad(): a2 = self.q(s2).argmax(1, keepdim=True); y = r + .99 * (1 - d) * self.t(s2).gather(1, a2).squeeze(1)
        with rec.keep(): q = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1); loss = F.smooth_l1_loss(q, y)
        rec.mark(f"forward{i}", (self.q, self.t), self.opt, (s, a, r, s2, d, self.memory))
        self.opt.zero_grad(); loss.backward(); rec.saved.clear(); nn.utils.clip_grad_norm_(self.q.parameters(), 10); self.opt.step()
        rec.mark(f"step{i}", (self.q, self.t), self.opt, (s, a, r, s2, d, self.memory))
agent = Agent(); state = torch.randint(0, 255, (4, 84, 84), dtype=torch.uint8).to(dev)
for i in rec.steps(5):
    for _ in range(4):
        a = agent.act(state); nxt = torch.randint(0, 255, (4, 84, 84), dtype=torch.uint8).to(dev); agent.memory.add(state, a, random.random(), nxt, 0.); state = nxt
    agent.learn(i)
