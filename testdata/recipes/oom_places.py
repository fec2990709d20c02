"""A small language model that runs out of memory under a limit, at one place of a program's life, with the truth beside each recording.

usage: oom_places.py PLACE out=DIRECTORY      PLACE: loading, first_forward, later_forward, backward, first_step, later_step,
                                              evaluation, generation; or `all`: each in a process of its own

Each place runs twice: without a limit, which tells how much is reserved before it and at most within it, and with a limit between.
Written: PLACE.pickle.gz, dumped after the exception was caught; PLACE.at_oom.pickle.gz, dumped by an observer at the moment of the
error; PLACE.truth.json: the addresses that were parameters, gradients, optimizer state, inputs and caches at that moment, the message,
the limit, and the peak of the place without one.
"""
import gzip, json, os, subprocess, sys
PLACES = ("loading", "first_forward", "later_forward", "backward", "first_step", "later_step", "evaluation", "generation")
place = sys.argv[1]; options = dict(a.split("=", 1) for a in sys.argv[2:]); out = options["out"]
def run(place, **more):
    subprocess.run([sys.executable, os.path.abspath(__file__), place] + [f"{k}={v}" for k, v in {**options, **more}.items()], check=True)
if place == "all":
    for place in PLACES: run(place)
    sys.exit()
os.makedirs(out, exist_ok=True); base = os.path.join(out, place)
if "limit" not in options:
    run(place, limit=0); free = json.load(open(base + ".free.json")); os.remove(base + ".free.json")
    # Where memory comes and goes before the place, it is what is live that grows: the cache is given back first.
    total = "allocated" if place in ("evaluation", "generation") else "reserved"
    before, most = free[total + "_before"], free[total + "_within"]; assert most > before + (6 << 20), free
    run(place, limit=before + (most - before) * 6 // 10, peak=free["allocated_within"]); sys.exit()

import torch, torch.nn as nn, torch.nn.functional as F
limit = int(options["limit"]); WIDTH, LAYERS, HEADS, WORDS = 384, 6, 6, 3000
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.qkv, self.projection = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
    def forward(self, x, past=None):
        batch, length, _ = x.shape
        q, k, v = (y.view(batch, length, HEADS, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        if past is not None:
            if past: k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            else: k, v = k.contiguous(), v.contiguous()
            past[:] = [k, v]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
    def forward(self, words, past=None):
        x = self.words(words)
        for number, layer in enumerate(self.layers): x = layer(x, None if past is None else past[number])
        return self.head(self.norm(x))

def address(tensors): return sorted({t.untyped_storage().data_ptr() for t in tensors if t is not None and t.is_cuda and t.untyped_storage().nbytes()})
known = dict(models=[], optimizer=None, inputs=[], cache=[]); facts = dict(place=place)
def truth():
    models, optimizer = known["models"], known["optimizer"]; parameters = [p for m in models for p in list(m.parameters()) + list(m.buffers())]
    state = [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)] if optimizer else []
    return dict(parameter=address(parameters), gradient=address([p.grad for p in parameters]), optimizer_state=address(state),
                input=address(known["inputs"]), cache=address([t for past in known["cache"] for t in past]))
def dump(name):
    torch.cuda.memory._dump_snapshot(name + ".pickle"); raw = open(name + ".pickle", "rb").read(); os.remove(name + ".pickle")
    with gzip.GzipFile(name + ".pickle.gz", "wb", 9, mtime=0) as f: f.write(raw)
def observe(device, tried, total, free):
    if "truth" not in facts: facts.update(tried=tried, truth=truth()); dump(base + ".at_oom")
armed = []
def arm():
    """The place begins here."""
    torch.cuda.synchronize(); facts.update(reserved_before=torch.cuda.memory_reserved(), allocated_before=torch.cuda.memory_allocated()); torch.cuda.reset_peak_memory_stats(); armed.append(True)
    if limit: torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
def disarm():
    """The place ends here."""
    facts["reserved_within"], facts["allocated_within"] = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
def batch(rows, length): known["inputs"][:] = [torch.randint(0, WORDS, (rows, length + 1), device="cuda")]; return known["inputs"][0]
def loss_of(model, words): return F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
def train(model, optimizer, rows, length, at=None):
    words = batch(rows, length)
    if at == "forward": arm()
    loss = loss_of(model, words)
    if at == "backward": arm()
    loss.backward()
    if at == "backward": return
    if at == "step": arm()
    optimizer.step(); optimizer.zero_grad()
def trainer():
    model = Model().to("cuda"); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4); known.update(models=[model], optimizer=optimizer); return model, optimizer
def loading():
    model = Model(); known["models"].append(model); weights = {k: v.to("cuda") for k, v in model.state_dict().items()}; arm()
    model.to("cuda"); model.load_state_dict(weights)
def first_forward(): train(*trainer(), 8, 256, "forward")
def later_forward():
    model, optimizer = trainer()
    for length in (64, 96): train(model, optimizer, 8, length)
    train(model, optimizer, 8, 512, "forward")
def backward(): train(*trainer(), 1, 48, "backward")
def first_step(): train(*trainer(), 1, 48, "step")
def later_step():
    model, optimizer = trainer(); known["inputs"][:] = []
    for _ in range(2): train(model, optimizer, 1, 48)
    average = torch.optim.swa_utils.AveragedModel(model); known["models"].append(average)
    # What is in the cache goes to others: the step's intermediates have to be reserved anew.
    torch.cuda.empty_cache(); train(model, optimizer, 1, 48, "step")
def evaluation():
    model, optimizer = trainer()
    for _ in range(2): train(model, optimizer, 2, 64)
    model.eval(); outputs = []
    with torch.no_grad():
        for number in range(12):
            if number == 1: arm()
            outputs.append(model(batch(16, 128)))
    return outputs
def generation():
    model = Model().to("cuda").eval(); known["models"].append(model); past = known["cache"] = [[] for _ in range(LAYERS)]
    with torch.no_grad():
        words = model(batch(64, 64), past)[:, -1:].argmax(-1); arm()
        for _ in range(48): words = model(words, past)[:, -1:].argmax(-1)

if limit: torch._C._cuda_attach_out_of_memory_observer(observe)
torch.manual_seed(0); torch.cuda.memory._record_memory_history(stacks="python", max_entries=400000)
try:
    globals()[place](); disarm(); assert not limit, "nothing failed"
except torch.OutOfMemoryError as error: facts["message"] = str(error)
if limit:
    dump(base); known.clear(); assert armed and "truth" in facts, facts.get("message")
    facts.update(limit=limit, peak_without_limit=int(options["peak"]), torch=torch.__version__); json.dump(facts, open(base + ".truth.json", "w"), separators=(",", ":"))
    print(place, facts["message"], flush=True)
else: json.dump(facts, open(base + ".free.json", "w"))
