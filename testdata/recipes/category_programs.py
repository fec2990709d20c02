"""Programs with the truth about every live block beside the recording. usage: category_programs.py OUTDIR NAME | category_programs.py OUTDIR --all JOBS SECONDS"""
import gzip, json, os, subprocess, sys, time, weakref
PROGRAMS = {}
def program(fn): PROGRAMS[fn.__name__] = fn; return fn

class Box:
    __slots__ = ("t", "__weakref__")
    def __init__(self, t): self.t = t

class Truth:
    def __init__(self):
        self.models, self.optimizers, self.fed, self.other, self.marks, self.count = [], [], [], {}, [], {}
        self.boxes = weakref.WeakSet(); self.busy = False
    def begin(self, **kw):
        import torch
        kw = dict(dict(max_entries=300000, stacks="python"), **kw)
        torch.cuda.memory._record_memory_history(**kw)
    def hooks(self):
        import torch
        def pack(t):
            if not t.is_cuda: return t
            b = Box(t); self.boxes.add(b); return b
        self.ctx = torch.autograd.graph.saved_tensors_hooks(pack, lambda b: b.t if isinstance(b, Box) else b); self.ctx.__enter__()
        from torch.optim.optimizer import register_optimizer_step_pre_hook as pre, register_optimizer_step_post_hook as post
        pre(lambda o, a, k: self.mark("backward"))
        post(lambda o, a, k: self.mark("step"))
    def watch(self, model, middle=True):
        self.models.append(model)
        model.register_forward_hook(lambda m, a, o: self.mark("forward"))
        ps = [p for p in model.parameters() if p.requires_grad]
        if middle and ps: ps[len(ps) // 2].register_post_accumulate_grad_hook(lambda p: self.mark("amid"))
        return model
    def mark(self, label, most=4):
        import torch
        if torch.compiler.is_compiling(): return
        n = self.count[label] = self.count.get(label, 0) + 1
        if n > most and n % 97: return
        torch.cuda.synchronize()
        def local(t):
            if hasattr(t, "to_local"): t = t.to_local()
            return t
        def storages(ts):
            out = set()
            for t in ts:
                if not torch.is_tensor(t): continue
                t = local(t)
                if t.is_cuda and t.untyped_storage().nbytes(): out.add((t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()))
            return sorted(out)
        def leaves(v, deep=0):
            if torch.is_tensor(v): yield v
            elif isinstance(v, dict) and deep < 6:
                for x in v.values(): yield from leaves(x, deep + 1)
            elif isinstance(v, (list, tuple)) and deep < 6:
                for x in v: yield from leaves(x, deep + 1)
        ps = {id(p): p for m in self.models for p in m.parameters()}
        for o in self.optimizers:
            for g in o.param_groups:
                for p in g["params"]: ps[id(p)] = p
        bufs = [b for m in self.models for b in m.buffers()]
        now = int(time.time() * 1e6)
        self.marks.append(dict(label=f"{label}{n}", time_us=now, parameter=storages(list(ps.values()) + bufs), gradient=storages([p.grad for p in ps.values()]),
            optimizer_state=storages(leaves([dict(o.state) for o in self.optimizers])), input=storages(leaves(self.fed)), saved=storages([b.t for b in list(self.boxes)]),
            other={k: storages(leaves(v())) for k, v in self.other.items()}, allocated=torch.cuda.memory_allocated()))
    def save(self, out, name):
        import torch
        self.mark("end", 9)
        p = f"{out}/{name}.pickle"; torch.cuda.memory._dump_snapshot(p); raw = open(p, "rb").read(); os.remove(p)
        with gzip.GzipFile(p + ".gz", "wb", compresslevel=9, mtime=0) as f: f.write(raw)
        with gzip.GzipFile(f"{out}/{name}.truth.json.gz", "wb", compresslevel=9, mtime=0) as f: f.write(json.dumps(dict(name=name, marks=self.marks)).encode())
        print(name, f"{len(raw)/1e6:.1f} MB, {len(self.marks)} marks, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)

def llama(h=512, l=6, v=8000, **k):
    import transformers as T
    return T.LlamaForCausalLM(T.LlamaConfig(hidden_size=h, num_hidden_layers=l, num_attention_heads=8, num_key_value_heads=2, intermediate_size=3 * h, vocab_size=v, **k))


def dist1():
    import torch, torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000), RANK="0", WORLD_SIZE="1"); torch.cuda.set_device(0); dist.init_process_group("nccl", device_id=torch.device("cuda", 0))

@program
def denoiser_fused_scaler(T):
    import torch, math; from torch import nn
    T.begin(); T.hooks()
    class Att(nn.Module):
        def __init__(s, c): super().__init__(); s.g = nn.GroupNorm(8, c); s.qkv = nn.Conv1d(c, 3 * c, 1); s.p = nn.Conv1d(c, c, 1)
        def forward(s, x):
            b, c, h, w = x.shape; q, k, v = s.qkv(s.g(x).flatten(2)).chunk(3, 1); a = torch.softmax(q.mT @ k / math.sqrt(c), -1); return x + s.p(v @ a.mT).view(b, c, h, w)
    class Res(nn.Module):
        def __init__(s, a, b): super().__init__(); s.a = nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1)); s.t = nn.Linear(128, b); s.b = nn.Sequential(nn.GroupNorm(8, b), nn.SiLU(), nn.Dropout(.1), nn.Conv2d(b, b, 3, padding=1)); s.k = nn.Conv2d(a, b, 1)
        def forward(s, x, t): return s.k(x) + s.b(s.a(x) + s.t(t)[..., None, None])
    class UNet(nn.Module):
        def __init__(s): super().__init__(); s.i = nn.Conv2d(3, 64, 3, padding=1); s.d1 = Res(64, 128); s.d2 = Res(128, 256); s.m = Att(256); s.u2 = Res(384, 128); s.u1 = Res(192, 64); s.o = nn.Conv2d(64, 3, 3, padding=1); s.register_buffer("freq", torch.exp(-torch.arange(64) / 10))
        def forward(s, x, t):
            e = t[:, None] * s.freq; t = torch.cat([e.sin(), e.cos()], 1); a = s.i(x); b = s.d1(nn.functional.avg_pool2d(a, 2), t); c = s.m(s.d2(nn.functional.avg_pool2d(b, 2), t)); up = lambda z: nn.functional.interpolate(z, scale_factor=2)
            return s.o(s.u1(torch.cat([up(s.u2(torch.cat([up(c), b], 1), t)), a], 1), t))
    net = T.watch(UNet().cuda()); opt = torch.optim.AdamW(net.parameters(), fused=True); T.optimizers.append(opt); sc = torch.amp.GradScaler(); betas = torch.linspace(1e-4, .02, 1000, device="cuda"); ab = (1 - betas).cumprod(0)
    for i in range(4):
        x0 = torch.rand(8, 3, 64, 64, device="cuda"); t = torch.randint(0, 1000, (8,), device="cuda"); eps = torch.randn_like(x0); a = ab[t][:, None, None, None]; xt = a.sqrt() * x0 + (1 - a).sqrt() * eps; T.fed[:] = [x0, t, eps, xt]
        with torch.autocast("cuda", torch.float16): pred = net(xt, t.float()); loss = ((pred - eps) ** 2).mean()
        opt.zero_grad(); sc.scale(loss).backward(); sc.unscale_(opt); nn.utils.clip_grad_norm_(net.parameters(), 1.); sc.step(opt); sc.update()

@program
def vae_context_alloc_momentum(T):
    import torch; from torch import nn
    T.begin(context="alloc"); T.hooks()
    class VAE(nn.Module):
        def __init__(s): super().__init__(); s.e = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 128)); s.d = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 784))
        def forward(s, x): mu, lv = s.e(x).chunk(2, 1); z = mu + torch.randn_like(mu) * (.5 * lv).exp(); return s.d(z), mu, lv
    v = T.watch(VAE().cuda()); o = torch.optim.SGD(v.parameters(), lr=.1, momentum=.9); T.optimizers.append(o)
    for i in range(5):
        x = torch.rand(1024, 784).cuda(); T.fed[:] = [x]; r, mu, lv = v(x); loss = nn.functional.binary_cross_entropy_with_logits(r, x, reduction="sum") - .5 * (1 + lv - mu ** 2 - lv.exp()).sum(); o.zero_grad(); loss.backward(); o.step()

@program
def bert_ring_wrapped(T):
    import torch, transformers
    T.begin(max_entries=4000); T.hooks(); m = transformers.BertForMaskedLM(transformers.BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)).cuda(); T.watch(m); m.train(); o = torch.optim.AdamW(m.parameters()); T.optimizers.append(o)
    for i in range(6):
        if i == 4: T.count.clear(); T.marks.clear()
        x = torch.randint(0, 30000, (8, 128), device="cuda"); T.fed[:] = [x]; m(input_ids=x, labels=x).loss.backward(); o.step(); o.zero_grad()

@program
def functional_mlp(T):
    """no nn.Module: weights in a list, a loop in a function"""
    import torch
    F = torch.nn.functional; T.begin(); T.hooks(); sizes = [784, 1500, 1200, 900, 10]
    weights = [(torch.randn(b, a, device="cuda") / a ** .5).requires_grad_() for a, b in zip(sizes, sizes[1:])]; biases = [torch.zeros(b, device="cuda", requires_grad=True) for b in sizes[1:]]; T.optimizers.append(o := torch.optim.Adam(weights + biases))
    def net(x):
        for w, b in zip(weights[:-1], biases[:-1]): x = torch.tanh(F.linear(x, w, b))
        return F.linear(x, weights[-1], biases[-1])
    for i in range(4):
        x = torch.randn(2048, 784, device="cuda"); y = torch.randint(0, 10, (2048,), device="cuda"); T.fed[:] = [x, y]; loss = F.cross_entropy(net(x), y); T.mark("forward"); loss.backward(); o.step(); o.zero_grad()

@program
def mixtral_reentrant_checkpoint(T):
    import torch, transformers
    T.begin(); T.hooks(); m = transformers.MixtralForCausalLM(transformers.MixtralConfig(hidden_size=384, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, intermediate_size=768, num_local_experts=4, vocab_size=12000)).cuda(); T.watch(m); m.train()
    m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=True)); m.enable_input_require_grads(); o = torch.optim.AdamW(m.parameters(), amsgrad=True); T.optimizers.append(o)
    for i in range(3):
        x = torch.randint(0, 12000, (4, 256), device="cuda"); T.fed[:] = [x]
        with torch.autocast("cuda", dtype=torch.bfloat16): out = m(input_ids=x, labels=x, use_cache=False)
        out.loss.backward(); o.step(); o.zero_grad()

@program
def gpt2_ddp_bucket_view(T):
    import torch, transformers
    dist1(); T.begin(); T.hooks(); m = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=384, n_layer=5, n_head=6, vocab_size=10000)).cuda(); T.watch(m, middle=False); d = torch.nn.parallel.DistributedDataParallel(m, gradient_as_bucket_view=True); o = torch.optim.AdamW(d.parameters()); T.optimizers.append(o)
    for i in range(4):
        x = torch.randint(0, 10000, (8, 256), device="cuda"); T.fed[:] = [x]; l = d(input_ids=x, labels=x).loss; l.backward(); o.step(); o.zero_grad()

@program
def wgan_gp(T):
    import torch; from torch import nn
    T.begin(); T.hooks(); G = T.watch(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 3072), nn.Tanh()).cuda()); D = T.watch(nn.Sequential(nn.Linear(3072, 1024), nn.LeakyReLU(.2), nn.Linear(1024, 512), nn.LeakyReLU(.2), nn.Linear(512, 1)).cuda(), middle=False)
    oG = torch.optim.RMSprop(G.parameters(), 1e-4); oD = torch.optim.RMSprop(D.parameters(), 1e-4); T.optimizers += [oG, oD]
    for i in range(4):
        for k in range(2):
            real = torch.randn(512, 3072, device="cuda"); z = torch.randn(512, 64, device="cuda"); T.fed[:] = [real, z]
            with torch.no_grad(): fake = G(z)
            a = torch.rand(512, 1, device="cuda"); mix = (a * real + (1 - a) * fake).requires_grad_(); g, = torch.autograd.grad(D(mix).sum(), mix, create_graph=True); loss = D(fake).mean() - D(real).mean() + 10 * ((g.norm(dim=1) - 1) ** 2).mean(); oD.zero_grad(); loss.backward(); oD.step()
        oG.zero_grad(); (-D(G(torch.randn(512, 64, device="cuda"))).mean()).backward(); oG.step()

@program
def bert_late(T):
    import torch, transformers
    m = transformers.BertForMaskedLM(transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)).cuda(); m.train(); o = torch.optim.AdamW(m.parameters()); T.optimizers.append(o)
    def step():
        x = torch.randint(0, 30000, (8, 128), device="cuda"); T.fed[:] = [x]; m(input_ids=x, labels=x).loss.backward(); o.step(); o.zero_grad()
    step(); step(); T.begin(); T.hooks(); T.watch(m)
    for i in range(3): step()

@program
def gpt2_no_stacks(T):
    import torch, transformers
    T.begin(context=None); T.hooks(); m = T.watch(transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=384, n_layer=6, n_head=6, vocab_size=16000)).cuda()); m.train(); o = torch.optim.AdamW(m.parameters()); T.optimizers.append(o)
    for i in range(4):
        x = torch.randint(0, 16000, (8, 256), device="cuda"); T.fed[:] = [x]; m(input_ids=x, labels=x).loss.backward(); o.step(); o.zero_grad()

def main():
    out = sys.argv[1]; os.makedirs(out, exist_ok=True)
    if sys.argv[2] != "--all":
        T = Truth(); PROGRAMS[sys.argv[2]](T); T.save(out, sys.argv[2]); return
    jobs, deadline = int(sys.argv[3]), time.time() + float(sys.argv[4]); todo = list(PROGRAMS); running = {}; failed = []
    while (todo or running) and time.time() < deadline:
        while todo and len(running) < jobs:
            n = todo.pop(0); running[n] = subprocess.Popen([sys.executable, __file__, out, n], env=dict(os.environ, OMP_NUM_THREADS="2", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1"), stdout=open(f"{out}/{n}.log", "w"), stderr=subprocess.STDOUT)
        for n, p in list(running.items()):
            if p.poll() is not None:
                text = open(f"{out}/{n}.log").read(); print(text[-1500:] if p.returncode else text.splitlines()[-1], flush=True)
                if p.returncode: failed.append(n)
                else: os.remove(f"{out}/{n}.log")
                del running[n]
        time.sleep(.2)
    for n, p in running.items(): p.kill(); failed.append(n + "(deadline)")
    print("FAILED:", failed, "NOT RUN:", todo, flush=True)
if __name__ == "__main__": main()
