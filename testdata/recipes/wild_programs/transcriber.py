# start late
import torch, torch.nn as nn, torch.nn.functional as F
import recorder as rec
from recorder import dev
rec.facts.update(note="an encoder and a decoder for speech; an optimizer of its own whose constructor makes two moments in bytes and their scales; after each second step it transcribes, with keys and values that grow and those of the encoder's output, which stay", loop=True, leak=False)
D, V, L = 448, 3000, 3
class Adam8:
    def __init__(s, ps): s.ps, s.t = list(ps), 0; s.state = [dict(m=torch.zeros(-(-p.numel() // 256), 256, dtype=torch.int8, device=dev), a=torch.zeros(-(-p.numel() // 256), 1, device=dev), v=torch.zeros(-(-p.numel() // 256), 256, dtype=torch.uint8, device=dev), b=torch.zeros(-(-p.numel() // 256), 1, device=dev)) for p in s.ps]
    @torch.no_grad()
    def step(s):
        for p, q in zip(s.ps, s.state):
            g = F.pad(p.grad.flatten(), (0, -p.numel() % 256)).view(-1, 256); m = (q["m"].float() * q["a"]).mul_(.9).add_(g, alpha=.1); v = (q["v"].float() * q["b"]).pow_(2).mul_(.99).addcmul_(g, g, value=.01)
            p.sub_((m / (v.sqrt() + 1e-6)).view(-1)[:p.numel()].view_as(p), alpha=1e-4); q["a"].copy_(m.abs().amax(1, keepdim=True) / 127); q["m"].copy_((m / q["a"].clamp_min(1e-12)).round()); v.sqrt_(); q["b"].copy_(v.amax(1, keepdim=True) / 255); q["v"].copy_((v / q["b"].clamp_min(1e-12)).round())
    def zero_grad(s):
        for p in s.ps: p.grad = None
class Attention(nn.Module):
    def __init__(s): super().__init__(); s.q, s.k, s.v, s.o = (nn.Linear(D, D) for _ in range(4))
    def forward(s, x, of=None, kept=None, causal=False):
        heads = lambda y: y.view(y.shape[0], y.shape[1], 7, -1).transpose(1, 2); q = heads(s.q(x))
        if of is not None and kept is not None and s in kept: k, v = kept[s]
        else:
            k, v = heads(s.k(x if of is None else of)), heads(s.v(x if of is None else of))
            if kept is not None and of is None and s in kept: k = torch.cat([kept[s][0], k], 2); v = torch.cat([kept[s][1], v], 2)
            if kept is not None: kept[s] = (k, v)
        return s.o(F.scaled_dot_product_attention(q, k, v, is_causal=causal and q.shape[2] > 1).transpose(1, 2).flatten(2))
class Layer(nn.Module):
    def __init__(s, cross): super().__init__(); s.n1, s.a, s.n2, s.f = nn.LayerNorm(D), Attention(), nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D)); s.n3, s.c = (nn.LayerNorm(D), Attention()) if cross else (None, None)
    def forward(s, x, of=None, kept=None):
        x = x + s.a(s.n1(x), kept=kept, causal=s.c is not None)
        if s.c is not None: x = x + s.c(s.n3(x), of, kept)
        return x + s.f(s.n2(x))
class Speech(nn.Module):
    def __init__(s): super().__init__(); s.i, s.enc, s.e, s.p, s.dec, s.n = nn.Conv1d(80, D, 3, 2, 1), nn.ModuleList(Layer(False) for _ in range(L)), nn.Embedding(V, D), nn.Embedding(256, D), nn.ModuleList(Layer(True) for _ in range(L)), nn.LayerNorm(D)
    def encode(s, mel):
        x = F.gelu(s.i(mel)).transpose(1, 2)
        for l in s.enc: x = l(x)
        return x
    def forward(s, tokens, of, kept=None, at=0):
        x = s.e(tokens) + s.p(torch.arange(at, at + tokens.shape[1], device=dev))
        for l in s.dec: x = l(x, of, kept)
        return s.n(x) @ s.e.weight.T
model = Speech().to(dev); opt = Adam8(model.parameters())
@torch.no_grad()
def transcribe(i, mel, batch):
    kept, of = {}, model.encode(mel); tokens = torch.zeros(len(mel), 1, dtype=torch.long, device=dev)
    for t in range(12): tokens = torch.cat([tokens, model(tokens[:, -1:], of, kept, t)[:, -1:].argmax(-1)], 1)
    rec.mark(f"transcribe{i}", model, (), (batch, tokens), list(kept.values()), opt.state, encoded=of)
for i in rec.steps(4):
    mel, text = torch.randn(16, 80, 800, device=dev), torch.randint(0, V, (16, 40), device=dev); batch = (mel, text)
    with rec.keep(): loss = F.cross_entropy(model(text[:, :-1], model.encode(mel)).flatten(0, 1), text[:, 1:].flatten())
    rec.mark(f"forward{i}", model, (), batch, (), opt.state); loss.backward(); rec.saved.clear(); rec.mark(f"backward{i}", model, (), batch, (), opt.state); opt.step(); rec.mark(f"step{i}", model, (), batch, (), opt.state); opt.zero_grad()
    if i % 2 == 0: transcribe(i, mel[:8], batch)
rec.finish()
