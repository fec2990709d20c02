"""Recordings in the shape that people upload, each with the truth of every live block (testdata/wild).
usage: recorder.py OUTDIR [PROGRAM ...]     runs PROGRAM.py, beside this file, in every style of its first line, each in its own process
       OUT=DIR STYLE=late python NAME.py  runs one
A program imports this module as the recorder: begin(), mark(), steps(), point(), finish().  TRY_CPU=1 runs without a GPU, with sizes as they are."""
import collections, glob, gzip, json, os, pickle, subprocess, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ != "__main__":
    import torch
    out, style = os.environ.get("OUT", "out"), os.environ.get("STYLE", "start")
    prog = os.path.basename(sys.argv[0]).removesuffix(".py")
    CPU = bool(os.environ.get("TRY_CPU")); dev = "cpu" if CPU else "cuda"; SHRINK = 8 if CPU else 1
    H = (lambda *a, **k: None) if CPU else torch.cuda.memory._record_memory_history
    sync = (lambda: None) if CPU else torch.cuda.synchronize
    os.makedirs(out, exist_ok=True); torch.manual_seed(1)
    facts, marks, saved, starts = {}, [], set(), []
    begun, entries, WHOLE = False, 200000, style == "whole"

def st(t): return (t.untyped_storage().data_ptr(), t.untyped_storage().nbytes())
def flat(x):
    if torch.is_tensor(x) and x.is_sparse: yield from (x._values(), x._indices())
    elif torch.is_tensor(x): yield x
    elif isinstance(x, torch.nn.Module): yield from list(x.parameters()) + list(x.buffers())
    elif isinstance(x, dict): yield from (t for v in list(x.values()) for t in flat(v))
    elif isinstance(x, (list, tuple, set, collections.deque)): yield from (t for v in list(x) for t in flat(v))
    elif hasattr(x, "__dict__") and not isinstance(x, type): yield from (t for v in list(vars(x).values()) for t in flat(v))
def uniq(x): return sorted({st(t) for t in flat(x) if (t.is_cuda or CPU) and t.untyped_storage().nbytes()})
def pack(t):
    if t.is_cuda or CPU: saved.add(st(t))
    return t
def keep():
    """notes whatever is saved for backward inside the with; forgets what was noted before"""
    saved.clear(); return torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)
def begin():
    global begun
    begun = True
    if style == "state": H("state", stacks="all")
    else: H(stacks="python" if style == "start" else "all", max_entries=entries)
def mark(label, models=(), opts=(), inputs=(), cache=(), state=(), grads=(), **extra):
    """models: modules or tensors; state: optimizer state that no torch optimizer holds; extra: other named groups, under "other" """
    if not begun: return
    sync(); ps = list(flat(models))
    held = [d for o in (opts if isinstance(opts, (list, tuple)) else [opts]) for d in o.state.values()]
    marks.append(dict(label=label, time_us=int(time.time() * 1e6), parameter=uniq(ps), gradient=uniq([p.grad for p in ps if p.is_leaf and p.grad is not None] + list(flat(grads))),
        optimizer_state=uniq([held, state]), input=uniq(inputs), cache=uniq(cache), saved=sorted(saved), allocated=0 if CPU else torch.cuda.memory_allocated(), other={k: uniq(v) for k, v in extra.items()}))
def point(warm=None):
    """where a recording of one pass begins, unless it began with the process; warm: a first use that `twice` records and drops"""
    if style == "twice":
        begin()
        if warm: warm()
        H(None); begin()
    elif style in ("late", "state", "one"): begin()
def steps(n, end=True):
    """n numbered steps; recording begins before the first, after the second, twice, or for one alone; dumps after the last"""
    for i in range(3 if style == "one" else n):
        sync()
        if i == 2 and style in ("late", "state", "one"): begin()
        if i == 1 and style == "twice": begin()
        if i == 2 and style == "twice": H(None); begin(); marks.clear(); starts.clear()
        if begun: starts.append(int(time.time() * 1e6))
        yield i
    facts.update(loop=True, recorded_steps=0 if style == "state" else len(starts))
    if end: finish()
def finish():
    sync(); facts.setdefault("wrapped", False); facts.setdefault("inference", False); facts.setdefault("loop", False); facts.setdefault("leak", False); facts["step_starts_us"] = starts
    if WHOLE: print(json.dumps(dict(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(), at=facts.get("at"))) if not CPU else "{}", flush=True); os._exit(0)
    if CPU: print("tried", prog, style, facts, {k: len(v) for k, v in marks[-1].items() if isinstance(v, list)}, flush=True); os._exit(0)
    p = f"{out}/wild_{prog}_{style}.pickle"; stats = torch.cuda.memory_stats(); torch.cuda.memory._dump_snapshot(p); raw = open(p, "rb").read(); os.remove(p)
    ring = sorted(e["time_us"] for t in pickle.loads(raw)["device_traces"] for e in t); facts["trace_entries"] = len(ring)
    if ring: facts["trace_from_us"] = ring[0]
    if facts["wrapped"] and starts: facts["recorded_steps"] = sum(s >= ring[0] for s in starts)
    with gzip.GzipFile(p + ".gz", "wb", 9, mtime=0) as f: f.write(raw)
    with gzip.GzipFile(p.replace(".pickle", ".truth.json.gz"), "wb", 9, mtime=0) as f: f.write(json.dumps(dict(name=f"wild_{prog}_{style}", style=style, facts=facts, marks=marks, stats={k: v for k, v in stats.items() if k.split("_bytes")[0] in ("requested", "allocated", "active", "reserved") and ".all." in k or k in ("num_alloc_retries", "num_ooms")})).encode())
    print(prog, style, round(torch.cuda.max_memory_allocated() / 2**30, 2), "GiB", facts["trace_entries"], "entries", os.path.getsize(p + ".gz") >> 10, "KiB gz", "steps", facts.get("recorded_steps"), flush=True); os._exit(0)
def measure(phase_limit):
    """peaks of the program without a limit, in a process of its own, and the limit (bytes) under which it fails in that phase"""
    r = subprocess.run([sys.executable, sys.argv[0]], env=dict(os.environ, STYLE="whole"), capture_output=True, text=True)
    if r.returncode or CPU: print(r.stderr[-600:]); return 8 * 2**30
    whole = json.loads(r.stdout.strip().splitlines()[-1]); at = whole["at"]; low, high = phase_limit(at)
    facts.update(whole_step_peak_allocated_bytes=whole["allocated"], whole_step_peak_reserved_bytes=whole["reserved"], whole_step_peaks=at, limit_bytes=(low + high) // 2)
    return (low + high) // 2
def peaks(name):
    """notes what has been the peak up to the end of a phase, in the run without a limit"""
    if not CPU: facts.setdefault("at", {})[name] = dict(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(), now=torch.cuda.memory_allocated())
def limit(b):
    if not CPU: torch.cuda.set_per_process_memory_fraction(min(1.0, b / torch.cuda.get_device_properties(0).total_memory))

def drive(outdir, names):
    from concurrent.futures import ThreadPoolExecutor
    t0 = time.time(); jobs = []
    for p in sorted(p for p in glob.glob(HERE + "/*.py") if open(p).readline().startswith(("# start", "# late"))):
        styles = open(p).readline().strip("# \n").split(); n = os.path.basename(p)[:-3]
        if not names or n in names: jobs += [(("start", "late", "state", "twice", "one").index(s), n, s, p) for s in styles]
    def job(j):
        _, n, s, p = j
        if time.time() - t0 > float(os.environ.get("STOP_AFTER", 440)): return print("SKIPPED", n, s, flush=True)
        t = time.time()
        try:
            r = subprocess.run([sys.executable, p], env=dict(os.environ, OUT=outdir, STYLE=s, PYTHONPATH=HERE), capture_output=True, text=True, timeout=float(os.environ.get("EACH", 120)))
            print(f"{time.time() - t:.0f}s", r.stdout.strip()[-300:] if r.returncode == 0 and r.stdout.strip() else f"FAILED {n} {s} rc {r.returncode} {r.stdout[-300:]} {r.stderr[-900:]}", flush=True)
        except subprocess.TimeoutExpired: print("TIMEOUT", n, s, flush=True)
    with ThreadPoolExecutor(int(os.environ.get("JOBS", 8))) as ex: list(ex.map(job, sorted(jobs)))
    print("all", len(jobs), f"{time.time() - t0:.0f}s", flush=True)
if __name__ != "__main__":
    if prog == "ring": entries = 2000
    if style == "start": begin()

if __name__ == "__main__": drive(sys.argv[1], sys.argv[2:])
