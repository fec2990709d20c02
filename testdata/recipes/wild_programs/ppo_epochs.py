# start late state twice one
import torch, torch.nn as nn
from torch.distributions import Normal
import recorder as rec
from recorder import dev
rec.facts.update(note="proximal policy optimisation in the one-file style: storage tensors allocated once, 16 acting calls, 2 epochs of 4 minibatches by shuffled index, Adam")
def layer(a, b): l = nn.Linear(a, b); nn.init.orthogonal_(l.weight); return l
class Agent(nn.Module):
    def __init__(self, obs=1200, act=12):
        super().__init__()
        self.critic = nn.Sequential(layer(obs, 512), nn.Tanh(), layer(512, 512), nn.Tanh(), layer(512, 1))
        self.actor_mean = nn.Sequential(layer(obs, 512), nn.Tanh(), layer(512, 512), nn.Tanh(), layer(512, act))
        self.actor_logstd = nn.Parameter(torch.zeros(1, act))
    def get_action_and_value(self, x, action=None):
        mean = self.actor_mean(x)
        probs = Normal(mean, self.actor_logstd.expand_as(mean).exp())
        if action is None: action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)
STEPS, ENVS, OBS = 16, 256, 1200
agent = Agent().to(dev)
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
obs = torch.zeros((STEPS, ENVS, OBS), device=dev)
actions, logprobs = torch.zeros((STEPS, ENVS, 12), device=dev), torch.zeros((STEPS, ENVS), device=dev)
rewards, dones, values = (torch.zeros((STEPS, ENVS), device=dev) for _ in range(3))
storage = (obs, actions, logprobs, rewards, dones, values)
for i in rec.steps(4):
    next_obs, next_done = torch.rand(ENVS, OBS).to(dev), torch.zeros(ENVS).to(dev)
    for step in range(STEPS):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        next_obs, rewards[step] = torch.rand(ENVS, OBS).to(dev), torch.rand(ENVS).to(dev)
    with torch.no_grad():
        advantages, last = torch.zeros_like(rewards).to(dev), 0
        for t in reversed(range(STEPS - 1)):
            delta = rewards[t] + .99 * values[t + 1] - values[t]
            advantages[t] = last = delta + .99 * .95 * last
        returns = advantages + values
    b_obs, b_act, b_lp, b_adv, b_ret = obs.reshape(-1, OBS), actions.reshape(-1, 12), logprobs.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
    rec.mark(f"rollout{i}", agent, optimizer, (storage, next_obs))
    for epoch in range(2):
        inds = torch.randperm(STEPS * ENVS)
        for start in range(0, STEPS * ENVS, 1024):
            mb = inds[start:start + 1024]
            _, newlp, entropy, newv = agent.get_action_and_value(b_obs[mb], b_act[mb])
            ratio = (newlp - b_lp[mb]).exp()
            adv = b_adv[mb]; adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg = torch.max(-adv * ratio, -adv * torch.clamp(ratio, .8, 1.2)).mean()
            loss = pg - .01 * entropy.mean() + .5 * ((newv.view(-1) - b_ret[mb]) ** 2).mean()
            optimizer.zero_grad(); loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), .5)
            optimizer.step()
    rec.mark(f"learnt{i}", agent, optimizer, storage)
