# start late state twice one
import copy, torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="contrastive learning with a momentum encoder and a queue of keys in a buffer, SGD with momentum")

def conv_bn(a, b, s): return nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
def encoder(dim=128):
    return nn.Sequential(conv_bn(3, 48, 2), conv_bn(48, 96, 2), conv_bn(96, 192, 2), conv_bn(192, 384, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, dim))

class MoCo(nn.Module):
    def __init__(self, dim=128, K=16384, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = encoder(dim); self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters(): p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.ptr = 0
    @torch.no_grad()
    def _momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * self.m + q.data * (1. - self.m)
    @torch.no_grad()
    def _enqueue(self, keys):
        n = keys.shape[0]
        self.queue[:, self.ptr:self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.K
    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        self._enqueue(k)
        return logits, torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)

model = MoCo().to(dev)
optimizer = torch.optim.SGD(model.encoder_q.parameters(), .03, momentum=.9, weight_decay=1e-4)
for i in rec.steps(5):
    a, b = torch.rand(64, 3, 96, 96).to(dev), torch.rand(64, 3, 96, 96).to(dev)
    with rec.keep():
        output, target = model(a, b)
        loss = F.cross_entropy(output, target)
    rec.mark(f"forward{i}", model, optimizer, (a, b))
    optimizer.zero_grad()
    loss.backward(); rec.saved.clear()
    rec.mark(f"backward{i}", model, optimizer, (a, b))
    optimizer.step()
    rec.mark(f"step{i}", model, optimizer, (a, b))
