import os, sys, copy
import torch, torch.nn as nn, torch.nn.functional as F, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
mode = sys.argv[1]; STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 6
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dev = torch.device("cuda", int(os.environ["LOCAL_RANK"])); torch.cuda.set_device(dev); torch.manual_seed(1)
dist.init_process_group("nccl", device_id=dev)
odd = rank == world - 2 if world > 2 else rank == 1
V, D, L, H, B, S = 8000, 256, 4, 8, 8, 256
class Attn(nn.Module):
    def __init__(self): super().__init__(); self.qkv = nn.Linear(D, 3 * D); self.o = nn.Linear(D, D)
    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, H, D // H).permute(2, 0, 3, 1, 4)
        if mode == "eager":
            w = (q @ k.transpose(-1, -2)).softmax(-1)
            y = w @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, D))
class Experts(nn.Module):
    def __init__(self): super().__init__(); self.e = nn.ModuleList([nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D)) for _ in range(2)])
    def forward(self, x):
        t = x.flatten(0, 1)
        share = 0.9 if odd else 0.5
        n = int(t.shape[0] * share * (2 if odd else 1))
        idx = torch.arange(n, device=dev) % t.shape[0]
        out = torch.zeros_like(t)
        for i, e in enumerate(self.e):
            part = t[idx]
            out = out.index_add(0, idx, e(part))
        return out.view_as(x)
class Block(nn.Module):
    def __init__(self):
        super().__init__(); self.n1, self.a, self.n2 = nn.LayerNorm(D), Attn(), nn.LayerNorm(D)
        self.m = Experts() if mode == "moe" else nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
    def forward(self, x): x = x + self.a(self.n1(x)); return x + self.m(self.n2(x))
class Net(nn.Module):
    def __init__(self, v=V, n=L):
        super().__init__(); self.emb = nn.Embedding(v, D); self.pos = nn.Embedding(1024, D); self.layers = nn.ModuleList([Block() for _ in range(n)]); self.norm = nn.LayerNorm(D); self.head = nn.Linear(D, v, bias=False)
    def forward(self, x):
        x = self.emb(x) + self.pos(torch.arange(x.shape[1], device=x.device))
        for l in self.layers: x = l(x)
        return self.head(self.norm(x))
def loss_of(m, x): return F.cross_entropy(m(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten())
def loop(m, opt, steps=STEPS, b=B, s=S, each=None):
    for i in range(steps):
        x = torch.randint(0, V, (b, s)).to(dev)
        l = loss_of(m, x)
        l.backward()
        opt.step(); opt.zero_grad()
        if each: each(i, l)
def adamw(m): return torch.optim.AdamW(m.parameters(), lr=1e-4)
def ddp(m): return DDP(m, device_ids=[dev.index])
def evaluate(m):
    m.eval()
    with torch.no_grad():
        logits = [m(torch.randint(0, V, (32, S)).to(dev)) for _ in range(2)]
        torch.cat(logits).softmax(-1)
    m.train()
if mode == "even": m = ddp(Net().to(dev)); loop(m, adamw(m))
elif mode in ("batch", "eager_batch"): m = ddp(Net().to(dev)); loop(m, adamw(m), b=B * 2 if odd else B)
elif mode in ("seq", "eager"): m = ddp(Net().to(dev)); loop(m, adamw(m), s=S + 128 if odd else S)
elif mode == "smaller": m = ddp(Net().to(dev)); loop(m, adamw(m), b=B // 4 if odd else B)
elif mode == "eval":
    m = ddp(Net().to(dev)); o = adamw(m)
    def each(i, l):
        if odd and i % 3 == 2: evaluate(m.module)
    loop(m, o, each=each)
elif mode == "leak":
    m = ddp(Net().to(dev)); kept = []
    loop(m, adamw(m), each=lambda i, l: kept.append(l) if odd else None)
elif mode == "leak_big":
    m = ddp(Net().to(dev)); kept = []
    def each(i, l):
        if odd: kept.append(torch.empty(1 << 20, device=dev))
    loop(m, adamw(m), each=each)
elif mode == "vocab":
    m = Net(V * 3 if odd else V).to(dev); loop(m, adamw(m))
elif mode == "ema":
    m = Net().to(dev); ema = copy.deepcopy(m) if odd else None; mm = ddp(m); loop(mm, adamw(mm))
elif mode == "load":
    m = Net(n=8)
    if odd:
        full = {k: v.to(dev) for k, v in m.state_dict().items()}
        more = {k: v.clone() for k, v in full.items()}
    m = m.to(dev); m = ddp(m); loop(m, adamw(m), b=1, s=64)
elif mode == "fsdp" or mode == "gather" or mode == "fsdp_load":
    from torch.distributed.fsdp import fully_shard
    m = Net(n=8)
    if mode == "fsdp_load" and odd: keep = {k: v.to(dev) for k, v in m.state_dict().items()}
    m = m.to(dev)
    for l in m.layers: fully_shard(l)
    fully_shard(m)
    loop(m, adamw(m), b=2, s=64)
    if mode == "gather":
        full = {}
        for k, v in m.state_dict().items():
            t = v.full_tensor() if hasattr(v, "full_tensor") else v
            if odd: full[k] = t.clone()
            del t
        dist.barrier()
elif mode == "tp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import parallelize_module, ColwiseParallel as C, RowwiseParallel as R
    mesh = init_device_mesh("cuda", (world,)); m = Net().to(dev)
    for l in m.layers: parallelize_module(l, mesh, {"m.0": C(), "m.2": R()})
    loop(m, adamw(m))
elif mode == "pp" or mode == "pp_odd":
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, Schedule1F1B
    class Stage(nn.Module):
        def __init__(self, first, last, n):
            super().__init__(); self.emb = nn.Embedding(V, D) if first else None; self.layers = nn.ModuleList([Block() for _ in range(n)]); self.head = nn.Linear(D, V, bias=False) if last else None
        def forward(self, x):
            if self.emb is not None: x = self.emb(x)
            for l in self.layers: x = l(x)
            return self.head(x) if self.head is not None else x
    m = Stage(rank == 0, rank == world - 1, 2).to(dev)
    ce = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())
    mb = B
    meta_in = torch.empty(2, S, dtype=torch.long, device=dev) if rank == 0 else torch.empty(2, S, D, device=dev)
    meta_out = torch.empty(2, S, V, device=dev) if rank == world - 1 else torch.empty(2, S, D, device=dev)
    sch = Schedule1F1B(PipelineStage(m, rank, world, dev, input_args=(meta_in,), output_args=(meta_out,)), 4, loss_fn=ce)
    opt = adamw(m)
    for i in range(STEPS):
        x = torch.randint(0, V, (B, S)).to(dev)
        sch.step(x) if rank == 0 else sch.step(target=x) if rank == world - 1 else sch.step()
        opt.step(); opt.zero_grad()
elif mode == "extra":
    m = ddp(Net().to(dev)); o = adamw(m); loop(m, o)
    if odd:
        x = torch.randint(0, V, (B * 2, S)).to(dev)
        with m.no_sync(): loss_of(m, x).backward()
        o.step(); o.zero_grad()
elif mode == "accum":
    m = ddp(Net().to(dev)); o = adamw(m)
    for i in range(STEPS):
        with m.no_sync():
            ls = [loss_of(m, torch.randint(0, V, (B, S)).to(dev)) for _ in range(2 if odd else 1)]
            sum(ls).backward()
        o.step(); o.zero_grad()
elif mode == "moe": m = ddp(Net().to(dev)); loop(m, adamw(m))
elif mode == "oom":
    m = ddp(Net().to(dev)); o = adamw(m)
    def each(i, l):
        if odd and i == 3: torch.empty(1 << 40, device=dev)
    loop(m, o, each=each)
elif mode == "stray":
    if rank != 0: junk = torch.zeros(1000, device="cuda:0")
    m = ddp(Net().to(dev)); loop(m, adamw(m))
else: raise SystemExit("unknown " + mode)
torch.cuda.synchronize()
dist.barrier()
