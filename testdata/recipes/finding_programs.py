"""Programs with a habit (v=0) and without it (v=1). usage: finding_programs.py OUT NAME V | finding_programs.py OUT --all JOBS SECONDS"""
import gc, gzip, json, os, subprocess, sys, time
PROGRAMS = {}; QUIET = CONTEXT_ALLOC = False
def program(fn): PROGRAMS[fn.__name__] = fn; return fn
def gpt2(h=512, l=6, v=16000, n=512, **k):
    import transformers as T
    return T.GPT2LMHeadModel(T.GPT2Config(n_embd=h, n_layer=l, n_head=8, vocab_size=v, n_positions=n, **k)).cuda()
def llama(h=512, l=6, v=16000, dtype=None, **k):
    import transformers as T
    m = T.LlamaForCausalLM(T.LlamaConfig(hidden_size=h, num_hidden_layers=l, num_attention_heads=8, num_key_value_heads=2, intermediate_size=3 * h, vocab_size=v, **k))
    return m.to("cuda", dtype) if dtype else m.cuda()

@program
def zero_grad_gpt2(v, it=5):
    import torch
    m = gpt2(); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randint(0, 16000, (2, 256), device="cuda"); loss = m(input_ids=x, labels=x).loss; loss.backward(); o.step(); o.zero_grad(set_to_none=bool(v)); del loss

@program
def zero_grad_begin_resnet(v, it=5):
    import torch, torchvision
    m = torchvision.models.resnet50().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
    for i in range(it):
        o.zero_grad(set_to_none=bool(v)); x = torch.randn(8, 3, 128, 128, device="cuda"); y = torch.randint(0, 1000, (8,), device="cuda")
        torch.nn.functional.cross_entropy(m(x), y).backward(); o.step()

@program
def zero_grad_before_backward(v, it=5):
    """clears to None, but only once the forward pass has run"""
    import torch
    m = gpt2(); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        if v: o.zero_grad()
        x = torch.randint(0, 16000, (2, 256), device="cuda"); loss = m(input_ids=x, labels=x).loss
        if not v: o.zero_grad()
        loss.backward(); o.step(); del loss

@program
def zero_by_hand_mlp(v, it=5):
    import torch; from torch import nn
    m = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    for i in range(it):
        x = torch.randn(512, 1024, device="cuda"); loss = (m(x) - x).square().mean(); loss.backward()
        with torch.no_grad():
            for p in m.parameters():
                p -= 1e-3 * p.grad
                if v: p.grad = None
                else: p.grad.zero_()
        del loss

@program
def foreach_adamw_gpt2(v, it=4):
    import torch
    m = gpt2(h=768, l=8); o = torch.optim.AdamW(m.parameters(), fused=bool(v) or None)
    for i in range(it):
        x = torch.randint(0, 16000, (2, 128), device="cuda"); loss = m(input_ids=x, labels=x).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def foreach_rmsprop_mlp(v, it=4):
    import torch; from torch import nn
    m = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda(); o = torch.optim.RMSprop(m.parameters(), lr=1e-4, **({"foreach": False} if v else {}))
    for i in range(it): m(torch.randn(64, 2048, device="cuda")).square().mean().backward(); o.step(); o.zero_grad()

@program
def foreach_sgd_clip(v, it=4):
    import torch, torchvision
    m = torchvision.models.vit_b_16().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9, weight_decay=1e-4, fused=bool(v) or None)
    for i in range(it):
        x = torch.randn(2, 3, 224, 224, device="cuda"); torch.nn.functional.cross_entropy(m(x), torch.zeros(2, dtype=torch.long, device="cuda")).backward(); torch.nn.utils.clip_grad_norm_(m.parameters(), 1.); o.step(); o.zero_grad()

def chunked_loss(h, head, labels, chunks):
    import torch; from torch.utils.checkpoint import checkpoint
    h = h[:, :-1].flatten(0, 1); t = labels[:, 1:].flatten(); f = lambda a, b: torch.nn.functional.cross_entropy(head(a).float(), b, reduction="sum")
    return sum(checkpoint(f, a, b, use_reentrant=False) for a, b in zip(h.chunk(chunks), t.chunk(chunks))) / t.numel()

@program
def logits_llama_bf16(v, it=4):
    import torch
    m = llama(h=512, l=4, v=128000, dtype=torch.bfloat16); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randint(0, 128000, (4, 512), device="cuda")
        loss = chunked_loss(m.model(input_ids=x).last_hidden_state, m.lm_head, x, 8) if v else m(input_ids=x, labels=x).loss
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def logits_own_fp32(v, it=4):
    import torch; from torch import nn
    class LM(nn.Module):
        def __init__(s): super().__init__(); s.e = nn.Embedding(50000, 256); s.r = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 512, batch_first=True), 2); s.h = nn.Linear(256, 50000)
        def body(s, x): return s.r(s.e(x))
        def forward(s, x): return s.h(s.body(x))
    m = LM().cuda(); o = torch.optim.Adam(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randint(0, 50000, (8, 256), device="cuda")
        if v: loss = chunked_loss(m.body(x), m.h, x, 8)
        else: loss = nn.functional.cross_entropy(m(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten())
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def checkpoint_gpt2(v, it=4):
    import torch
    m = gpt2(h=512, l=12, v=8000, n=1024); m.train(); o = torch.optim.AdamW(m.parameters(), fused=True)
    if v: m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    for i in range(it):
        x = torch.randint(0, 8000, (8, 512), device="cuda"); loss = m(input_ids=x, labels=x, use_cache=False).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def checkpoint_llama(v, it=4):
    import torch
    m = llama(h=768, l=16, v=8000); m.train(); o = torch.optim.AdamW(m.parameters(), fused=True)
    if v: m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    for i in range(it):
        x = torch.randint(0, 8000, (8, 512), device="cuda")
        with torch.autocast("cuda", torch.bfloat16): loss = m(input_ids=x, labels=x, use_cache=False).loss
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def checkpoint_vit_own(v, it=4):
    import torch; from torch import nn; from torch.utils.checkpoint import checkpoint
    class Block(nn.Module):
        def __init__(s, d): super().__init__(); s.n1 = nn.LayerNorm(d); s.a = nn.MultiheadAttention(d, 8, batch_first=True); s.n2 = nn.LayerNorm(d); s.m = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Dropout(.1), nn.Linear(4 * d, d))
        def forward(s, x): y = s.n1(x); x = x + s.a(y, y, y)[0]; return x + s.m(s.n2(x))
    class ViT(nn.Module):
        def __init__(s): super().__init__(); s.p = nn.Conv2d(3, 512, 16, 16); s.blocks = nn.ModuleList([Block(512) for _ in range(10)]); s.h = nn.Linear(512, 100)
        def forward(s, x):
            x = s.p(x).flatten(2).mT
            for b in s.blocks: x = checkpoint(b, x, use_reentrant=False) if v else b(x)
            return s.h(x.mean(1))
    m = ViT().cuda(); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randn(32, 3, 224, 224, device="cuda"); loss = nn.functional.cross_entropy(m(x), torch.zeros(32, dtype=torch.long, device="cuda")); loss.backward(); o.step(); o.zero_grad(); del loss

@program
def checkpoint_sequential_mlp(v, it=4):
    import torch; from torch import nn; from torch.utils.checkpoint import checkpoint_sequential
    m = nn.Sequential(*[nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.LayerNorm(512)) for _ in range(16)]).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    for i in range(it):
        x = torch.randn(16384, 512, device="cuda"); y = checkpoint_sequential(m, 16, x, use_reentrant=False) if v else m(x); loss = y.square().mean(); del y; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def autocast_gpt2(v, it=4):
    import torch
    m = gpt2(h=512, l=8, v=8000); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randint(0, 8000, (16, 512), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bool(v)): loss = m(input_ids=x, labels=x, use_cache=False).loss
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def autocast_resnet(v, it=4):
    import torch, torchvision
    m = torchvision.models.resnet50().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9, fused=True)
    for i in range(it):
        x = torch.randn(32, 3, 224, 224, device="cuda"); y = torch.randint(0, 1000, (32,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bool(v)): loss = torch.nn.functional.cross_entropy(m(x), y)
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def pure_bf16_vit(v, it=3):
    """v=0: pure bfloat16 (nothing to gain by autocast); v=1: float64, which has"""
    import torch, torchvision
    m = torchvision.models.vit_b_16().to("cuda", torch.bfloat16 if not v else torch.float64); o = torch.optim.SGD(m.parameters(), lr=.1)
    for i in range(it): x = torch.randn(8, 3, 224, 224, device="cuda", dtype=next(m.parameters()).dtype); torch.nn.functional.cross_entropy(m(x), torch.zeros(8, dtype=torch.long, device="cuda")).backward(); o.step(); o.zero_grad()

@program
def load_state_dict_on_gpu(v, it=2):
    import torch, tempfile
    m = gpt2(h=768, l=10); p = os.path.join(tempfile.mkdtemp(), "w.pt"); torch.save(m.state_dict(), p); del m; gc.collect(); torch.cuda.empty_cache(); start()
    m = gpt2(h=768, l=10); sd = torch.load(p, map_location="cpu" if v else "cuda"); m.load_state_dict(sd); del sd; m.eval()
    with torch.no_grad():
        for i in range(it): m(input_ids=torch.randint(0, 16000, (1, 64), device="cuda"))

@program
def load_state_dict_kept(v, it=3):
    import torch, tempfile
    m = gpt2(h=768, l=10); p = os.path.join(tempfile.mkdtemp(), "w.pt"); torch.save(m.state_dict(), p); del m; gc.collect(); torch.cuda.empty_cache(); start()
    m = gpt2(h=768, l=10); sd = torch.load(p, map_location="cpu" if v else "cuda"); m.load_state_dict(sd); o = torch.optim.SGD(m.parameters(), lr=.1)
    for i in range(it):
        x = torch.randint(0, 16000, (1, 64), device="cuda"); loss = m(input_ids=x, labels=x).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def dataset_on_device(v, it=4):
    import torch; from torch import nn
    m = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 100)).cuda(); o = torch.optim.Adam(m.parameters(), fused=True); X = torch.randn(100000, 1024); Y = torch.randint(0, 100, (100000,))
    if not v: X = X.cuda(); Y = Y.cuda()
    for i in range(it):
        pick = torch.randint(0, 100000, (4096,)); x = X[pick.to(X.device)].cuda(); y = Y[pick.to(X.device)].cuda(); loss = nn.functional.cross_entropy(m(x), y); loss.backward(); o.step(); o.zero_grad(); del loss

@program
def prefetch_queue(v, it=8):
    import torch, torchvision, collections
    m = torchvision.models.resnet18().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, fused=True); q = collections.deque(); side = torch.cuda.Stream(); deep = 1 if v else 6
    def put():
        with torch.cuda.stream(side): q.append((torch.randn(64, 3, 224, 224).cuda(non_blocking=True), torch.zeros(64, dtype=torch.long).cuda(non_blocking=True)))
    for i in range(deep): put()
    for i in range(it):
        torch.cuda.current_stream().wait_stream(side); x, y = q.popleft(); x.record_stream(torch.cuda.current_stream()); loss = torch.nn.functional.cross_entropy(m(x), y); loss.backward(); o.step(); o.zero_grad(); del loss, x, y; put()

@program
def empty_cache_each(v, it=6):
    import torch
    m = gpt2(h=384, l=4, v=8000); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randint(0, 8000, (8, 256), device="cuda"); loss = m(input_ids=x, labels=x).loss; loss.backward(); o.step(); o.zero_grad(); del loss
        if not v: torch.cuda.empty_cache()

@program
def varlen_random(v, it=24):
    import torch, random
    random.seed(1); m = gpt2(h=512, l=8, v=8000, n=2048); m.train(); o = torch.optim.AdamW(m.parameters(), fused=True); lens = [random.randrange(100, 1500) for _ in range(it)]
    if v: lens.sort(reverse=True)
    for n in lens:
        x = torch.randint(0, 8000, (4, n), device="cuda"); loss = m(input_ids=x, labels=x, use_cache=False).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def cycle_in_loop(v, it=40):
    """a closure that refers to itself keeps each iteration's activations until the collector runs"""
    import torch; from torch import nn
    m = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    def stats(y):
        kept = y.detach() * 2
        class Node: pass
        n = Node(); n.t = kept; n.me = None if v else n
        for k in range(6): junk = [dict(a=k, b=[k]) for _ in range(20)]
        return float(kept.mean())
    for i in range(it):
        y = m(torch.randn(4096, 512, device="cuda")); loss = y.square().mean(); stats(y); loss.backward(); o.step(); o.zero_grad(); del loss, y

@program
def cycle_exception(v, it=30):
    """an exception kept in a local of the frame that its traceback refers to"""
    import torch
    def attempt(n):
        t = torch.empty(n, device="cuda"); err = None
        try: raise ValueError("no")
        except ValueError as e: err = e if not v else str(e)
        return n
    for i in range(it): attempt(1 << 20); s = torch.zeros(1000, device="cuda"); del s; junk = [[j] for j in range(300)]
    gc.collect()

@program
def cleared_lists(v, it=6):
    """many results are collected and dropped at once: no garbage collector (v=1: a dict)"""
    import torch
    for e in range(it):
        kept = {} if v else []
        for i in range(12):
            t = torch.empty(1 << 20, device="cuda")
            if v: kept[i] = t
            else: kept.append(t)
        del t; kept.clear()

@program
def leak_total_loss(v, it=12):
    import torch; from torch import nn
    m = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1); total = 0; outs = []
    def evaluate(y): outs.append(y if not v else y.mean().item())
    for i in range(it):
        y = m(torch.randn(1024, 512, device="cuda")); loss = y.square().mean(); loss.backward(); o.step(); o.zero_grad(); total += loss if not v else loss.item(); evaluate(y); del y, loss

@program
def inference_bf16(v, it=3):
    import torch
    m = llama(h=2048, l=12, v=32000, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        for i in range(it): m(input_ids=torch.randint(0, 32000, (1, 64), device="cuda"))

@program
def accumulate(v, it=3):
    """gradients must live between the micro-batches"""
    import torch
    m = gpt2(); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        for k in range(4): x = torch.randint(0, 16000, (2, 256), device="cuda"); loss = m(input_ids=x, labels=x).loss / 4; loss.backward(); del loss
        o.step(); o.zero_grad(set_to_none=bool(v))

@program
def batch_gpt2(v, it=4):
    import torch
    m = gpt2(h=512, l=6, v=8000); m.train(); o = torch.optim.AdamW(m.parameters(), fused=True); b = 12 if v else 4
    for i in range(it): x = torch.randint(0, 8000, (b, 512), device="cuda"); loss = m(input_ids=x, labels=x, use_cache=False).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def batch_resnet(v, it=4):
    import torch, torchvision
    m = torchvision.models.resnet34().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9); b = 48 if v else 16
    for i in range(it): x = torch.randn(b, 3, 160, 160).cuda(); y = torch.randint(0, 1000, (b,)).cuda(); loss = torch.nn.functional.cross_entropy(m(x), y); loss.backward(); o.step(); o.zero_grad(); del loss

@program
def adam_moments(v, it=4):
    """the state outweighs all else; v=1: the same in bfloat16"""
    import torch; from torch import nn
    m = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(6)]).cuda().to(torch.bfloat16 if v else torch.float32); o = torch.optim.Adam(m.parameters(), fused=True)
    for i in range(it): m(torch.randn(32, 4096, device="cuda", dtype=next(m.parameters()).dtype)).square().mean().backward(); o.step(); o.zero_grad()

@program
def lstm_zero(v, it=5):
    import torch; from torch import nn
    class M(nn.Module):
        def __init__(s): super().__init__(); s.e = nn.Embedding(5000, 512); s.l = nn.LSTM(512, 1024, 2, batch_first=True); s.h = nn.Linear(1024, 5000)
        def forward(s, x): return s.h(s.l(s.e(x))[0])
    m = M().cuda(); o = torch.optim.Adam(m.parameters(), foreach=False)
    for i in range(it):
        x = torch.randint(0, 5000, (4, 64), device="cuda"); loss = nn.functional.cross_entropy(m(x).flatten(0, 1), x.flatten()); loss.backward(); o.step(); o.zero_grad(set_to_none=bool(v)); del loss

@program
def scaler_zero_late(v, it=5):
    import torch, torchvision
    m = torchvision.models.resnet101().cuda(); o = torch.optim.AdamW(m.parameters(), fused=True); sc = torch.amp.GradScaler()
    for i in range(it):
        x = torch.randn(4, 3, 160, 160, device="cuda"); y = torch.randint(0, 1000, (4,), device="cuda")
        if v: o.zero_grad()
        with torch.autocast("cuda", torch.float16): loss = torch.nn.functional.cross_entropy(m(x), y)
        if not v: o.zero_grad()
        sc.scale(loss).backward(); sc.step(o); sc.update()

@program
def adam_amsgrad_conv(v, it=4):
    import torch, torchvision
    m = torchvision.models.vgg16().cuda(); o = torch.optim.Adam(m.parameters(), amsgrad=True, fused=bool(v) or None)
    for i in range(it): torch.nn.functional.cross_entropy(m(torch.randn(1, 3, 224, 224, device="cuda")), torch.zeros(1, dtype=torch.long, device="cuda")).backward(); o.step(); o.zero_grad()

@program
def nadam_loop(v, it=4):
    import torch, transformers as T
    m = T.BertModel(T.BertConfig()).cuda(); o = torch.optim.NAdam(m.parameters(), **(dict(foreach=False) if v else {}))
    for i in range(it): m(input_ids=torch.randint(0, 30000, (1, 32), device="cuda")).last_hidden_state.mean().backward(); o.step(); o.zero_grad()

@program
def bert_checkpoint(v, it=4):
    import torch, transformers as T
    m = T.BertForSequenceClassification(T.BertConfig(hidden_size=512, num_attention_heads=8, intermediate_size=2048)).cuda(); m.train()
    if v: m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it): x = torch.randint(0, 30000, (32, 256), device="cuda"); loss = m(input_ids=x, labels=torch.zeros(32, dtype=torch.long, device="cuda")).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def vit_hf_checkpoint(v, it=4):
    import torch, transformers as T
    m = T.ViTForImageClassification(T.ViTConfig(num_labels=100)).cuda(); m.train()
    if v: m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    o = torch.optim.SGD(m.parameters(), lr=.1)
    for i in range(it):
        with torch.autocast("cuda", torch.bfloat16): loss = m(pixel_values=torch.randn(24, 3, 224, 224, device="cuda"), labels=torch.zeros(24, dtype=torch.long, device="cuda")).loss
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def t5_checkpoint(v, it=4):
    import torch, transformers as T
    m = T.T5ForConditionalGeneration(T.T5Config(d_model=512, d_ff=2048, num_layers=8, num_heads=8, vocab_size=8000, decoder_start_token_id=0)).cuda(); m.train()
    if v: m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it): x = torch.randint(0, 8000, (8, 256), device="cuda"); loss = m(input_ids=x, labels=x, use_cache=False).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def autocast_llama(v, it=4):
    import torch
    m = llama(h=512, l=8, v=4000); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randint(0, 4000, (16, 256), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bool(v)): loss = m(input_ids=x, labels=x, use_cache=False).loss
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def autocast_convnext(v, it=4):
    import torch, torchvision
    m = torchvision.models.convnext_tiny().cuda(); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it):
        x = torch.randn(16, 3, 224, 224, device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bool(v)): loss = torch.nn.functional.cross_entropy(m(x), torch.zeros(16, dtype=torch.long, device="cuda"))
        loss.backward(); o.step(); o.zero_grad(); del loss

@program
def load_state_safetensors(v, it=3):
    import torch, tempfile, safetensors.torch as st
    m = gpt2(h=512, l=8); p = os.path.join(tempfile.mkdtemp(), "w.safetensors"); st.save_file({k: t.clone() for k, t in m.state_dict().items() if k != "lm_head.weight"}, p); del m; gc.collect(); torch.cuda.empty_cache(); start()
    m = gpt2(h=512, l=8); sd = st.load_file(p, device="cpu" if v else "cuda"); m.load_state_dict(sd, strict=False); o = torch.optim.AdamW(m.parameters(), fused=True)
    for i in range(it): x = torch.randint(0, 16000, (1, 64), device="cuda"); loss = m(input_ids=x, labels=x).loss; loss.backward(); o.step(); o.zero_grad(); del loss

@program
def dataset_loader(v, it=6):
    import torch; from torch import nn
    X = torch.randn(20000, 3, 32, 32); Y = torch.randint(0, 10, (20000,))
    if not v: X, Y = X.cuda(), Y.cuda()
    m = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    for i, (x, y) in enumerate(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=128, shuffle=True)):
        if i == it: break
        x, y = x.cuda(), y.cuda(); loss = nn.functional.cross_entropy(m(x), y); o.zero_grad(); loss.backward(); o.step(); del loss, x, y

@program
def cycle_trainer(v, it=60):
    import torch; from torch import nn
    m = nn.Linear(1024, 1024).cuda(); o = torch.optim.SGD(m.parameters(), lr=.1)
    class Step:
        def __init__(s, x):
            s.out = m(x).detach()
            s.report = (lambda: s.out.mean()) if not v else None
        def loss(s): return s.out.square().mean()
    for i in range(it):
        x = torch.randn(2048, 1024, device="cuda"); st = Step(x); float(st.loss()); (m(x) ** 2).mean().backward(); o.step(); o.zero_grad(); del st, x; junk = [[k] for k in range(200)]

@program
def leak_dict(v, it=14):
    import torch; from torch import nn
    m = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda(); o = torch.optim.Adam(m.parameters()); log = dict(loss=[], mean=0.)
    def train_step(x):
        loss = (m(x) - x).pow(2).mean(); loss.backward(); o.step(); o.zero_grad(); log["loss"].append(loss if not v else loss.item())
    for i in range(it): train_step(torch.randn(2048, 256, device="cuda"))

@program
def eval_late(v, it=8):
    import torch, torchvision
    m = torchvision.models.convnext_small().cuda().eval().to(memory_format=torch.channels_last)
    with torch.no_grad():
        for i in range(it):
            feats = m.features(torch.randn(32, 3, 224, 224, device="cuda")); big = torch.nn.functional.interpolate(feats, scale_factor=8)
            if v: del feats, big

@program
def prefetch_one(v, it=8):
    """one batch ahead on a side stream: as it should be"""
    import torch, torchvision
    m = torchvision.models.resnet18().cuda(); o = torch.optim.SGD(m.parameters(), lr=.1, fused=True); side = torch.cuda.Stream()
    def fetch():
        with torch.cuda.stream(side): return torch.randn(32, 3, 160, 160).pin_memory().cuda(non_blocking=True)
    ahead = fetch()
    for i in range(it):
        torch.cuda.current_stream().wait_stream(side); x = ahead; x.record_stream(torch.cuda.current_stream()); ahead = fetch(); loss = m(x).square().mean(); loss.backward(); o.step(); o.zero_grad(); del loss, x

def start():
    import torch; torch.cuda.reset_peak_memory_stats()
    if not QUIET: torch.cuda.memory._record_memory_history(max_entries=400000, stacks="python", context="alloc" if CONTEXT_ALLOC else "all")
def one(out, name, v):
    import torch
    torch.manual_seed(0)
    global QUIET, CONTEXT_ALLOC; CONTEXT_ALLOC = name in ("bert_checkpoint", "t5_checkpoint", "vit_hf_checkpoint"); QUIET = v and name in ("logits_own_fp32", "checkpoint_gpt2", "logits_llama_bf16", "checkpoint_sequential_mlp")
    if "load_state" not in name: start()
    PROGRAMS[name](v); s = torch.cuda.memory_stats(); p = f"{out}/{name}.{v}.pickle"; torch.cuda.memory._dump_snapshot(p); raw = open(p, "rb").read(); os.remove(p)
    with gzip.GzipFile(p + ".gz", "wb", compresslevel=9, mtime=0) as f: f.write(raw)
    json.dump(dict(name=name, v=v, peak_allocated=s["allocated_bytes.all.peak"], peak_reserved=s["reserved_bytes.all.peak"], peak_requested=s["requested_bytes.all.peak"]), open(f"{out}/{name}.{v}.json", "w"))
    print(name, v, f"{len(raw)/1e6:.1f} MB peak {s['allocated_bytes.all.peak']/2**20:.1f} MiB allocated {s['reserved_bytes.all.peak']/2**20:.0f} MiB reserved", flush=True)
def main():
    out = sys.argv[1]; os.makedirs(out, exist_ok=True)
    if sys.argv[2] != "--all": return one(out, sys.argv[2], int(sys.argv[3]))
    jobs, deadline = int(sys.argv[3]), time.time() + float(sys.argv[4]); todo = [(n, v) for n in PROGRAMS for v in (0, 1)]; running = {}; failed = []
    while (todo or running) and time.time() < deadline:
        while todo and len(running) < jobs:
            k = todo.pop(0); running[k] = subprocess.Popen([sys.executable, os.path.abspath(__file__), out, k[0], str(k[1])], env=dict(os.environ, OMP_NUM_THREADS="2", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1"), stdout=open(f"{out}/{k[0]}.{k[1]}.log", "w"), stderr=subprocess.STDOUT)
        for k, p in list(running.items()):
            if p.poll() is not None:
                text = open(f"{out}/{k[0]}.{k[1]}.log").read(); print(text[-1500:] if p.returncode else text.splitlines()[-1], flush=True)
                if p.returncode: failed.append(k)
                else: os.remove(f"{out}/{k[0]}.{k[1]}.log")
                del running[k]
        time.sleep(.2)
    for k, p in running.items(): p.kill(); failed.append((k, "deadline"))
    print("FAILED:", failed, "NOT RUN:", todo, flush=True)
if __name__ == "__main__": main()
