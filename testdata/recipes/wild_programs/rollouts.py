# start twice
import torch, torch.nn as nn
from torch.distributions import Categorical
import recorder as rec
from recorder import dev
rec.facts.update(leak=True, leak_line="clips.append(rollout.frames[:, 0])", note="PPO whose rollouts are objects, each with tensors of its own that its constructor makes; a view of each is kept, Adam")
class Agent(nn.Module):
    def __init__(s): super().__init__(); s.body = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 81, 512), nn.ReLU()); s.pi, s.v = nn.Linear(512, 6), nn.Linear(512, 1)
    def act(s, x, action=None):
        h = s.body(x / 255.); dist = Categorical(logits=s.pi(h)); action = dist.sample() if action is None else action
        return action, dist.log_prob(action), dist.entropy(), s.v(h)[:, 0]
class Rollout:
    def __init__(s, t, n): s.frames = torch.zeros(t, n, 4, 84, 84, dtype=torch.uint8, device=dev); s.actions = torch.zeros(t, n, dtype=torch.long, device=dev); s.logp, s.rewards, s.values = (torch.zeros(t, n, device=dev) for _ in range(3))
T, N = 6, 32
agent, clips = Agent().to(dev), []; opt = torch.optim.Adam(agent.parameters()); frames = torch.zeros(N, 4, 84, 84, dtype=torch.uint8, device=dev)
for i in rec.steps(5):
    rollout = Rollout(T, N)
    for t in range(T):
        rollout.frames[t] = frames
        with torch.no_grad(): rollout.actions[t], rollout.logp[t], _, rollout.values[t] = agent.act(frames)
        frames = torch.cat([frames[:, 1:], torch.randint(0, 255, (N, 1, 84, 84), dtype=torch.uint8).to(dev)], 1)
    clips.append(rollout.frames[:, 0]); held = (rollout, frames, clips)
    for part in range(2):
        idx = torch.randperm(T * N, device=dev)[: T * N // 2]
        with rec.keep():
            _, logp, entropy, value = agent.act(rollout.frames.flatten(0, 1)[idx], rollout.actions.flatten()[idx])
            loss = -(logp - rollout.logp.flatten()[idx]).exp().mean() - .01 * entropy.mean() + (value - rollout.values.flatten()[idx]).pow(2).mean()
        if part: rec.mark(f"forward{i}", agent, opt, held)
        loss.backward(); rec.saved.clear()
        if part: rec.mark(f"backward{i}", agent, opt, held)
        opt.step(); opt.zero_grad()
    rec.mark(f"zero{i}", agent, opt, held)
