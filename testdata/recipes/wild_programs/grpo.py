# start late state twice one
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="GRPO: each iteration generates a group of answers with a cache that grows, judges them, then takes two epochs of three micro-batches, one step of AdamW to each epoch; a frozen reference")
V, D, N, H, T0, T1, G = 12000, 512, 3, 8, 32, 12, 12

class Attn(nn.Module):
    def __init__(self):
        super().__init__(); self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
    def forward(self, x, past=None):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, H, D // H).permute(2, 0, 3, 1, 4)
        if past is not None: k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.out(y.transpose(1, 2).reshape(b, t, D)), (k, v)

class Layer(nn.Module):
    def __init__(self):
        super().__init__(); self.ln1, self.attn, self.ln2 = nn.LayerNorm(D), Attn(), nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
    def forward(self, x, past=None):
        a, present = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.mlp(self.ln2(x)), present

class Policy(nn.Module):
    def __init__(self):
        super().__init__(); self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(128, D)
        self.h = nn.ModuleList(Layer() for _ in range(N)); self.ln_f = nn.LayerNorm(D); self.head = nn.Linear(D, V, bias=False)
    def forward(self, ids, past=None):
        start = 0 if past is None else past[0][0].shape[2]
        x = self.wte(ids) + self.wpe.weight[start:start + ids.shape[1]]
        presents = []
        for i, layer in enumerate(self.h):
            x, p = layer(x, None if past is None else past[i]); presents.append(p)
        return self.head(self.ln_f(x)), presents

def logps(model, ids):
    logits = model(ids)[0][:, T0 - 1:-1]
    return torch.gather(logits.log_softmax(-1), 2, ids[:, T0:, None]).squeeze(-1)

policy = Policy().to(dev)
reference = copy.deepcopy(policy).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)

@torch.no_grad()
def rollout(prompts, note):
    ids, past, cur = prompts, None, prompts
    for t in range(T1):
        logits, past = policy(cur, past)
        cur = logits[:, -1:].argmax(-1)
        ids = torch.cat((ids, cur), 1)
    note("generated", cache=past, ins=(ids, prompts))
    return ids

def note(label, ins=(), cache=()): rec.mark(label, (policy, reference), optimizer, ins, cache)

for it in rec.steps(4):
    prompts = torch.randint(0, V, (2, T0)).to(dev).repeat_interleave(G // 2, 0)
    ids = rollout(prompts, lambda l, **k: note(f"{l}{it}", **k))
    reward = torch.randn(G).to(dev)
    adv = (reward.view(2, -1) - reward.view(2, -1).mean(1, keepdim=True)).flatten()
    with torch.no_grad(): old, ref = logps(policy, ids), logps(reference, ids)
    ins = (prompts, ids, reward, adv)
    for epoch in range(2):
        for part in torch.arange(G, device=dev).split(4):
            with rec.keep():
                new = logps(policy, ids[part])
                ratio = (new - old[part]).exp(); a = adv[part, None]
                kl = (ref[part] - new).exp() - (ref[part] - new) - 1
                loss = (-torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a) + 0.04 * kl).mean() / 3
            note(f"forward{it}.{epoch}", ins)
            loss.backward(); rec.saved.clear()
        note(f"backward{it}.{epoch}", ins)
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    note(f"step{it}", ins)
