#!/usr/bin/env python3
"""Makes the logs of testdata/messages, with the numbers that are in them.

    python3 testdata/recipes/make_messages.py OUT

The words are those of spec/caching-allocator.md, section 16.3, written down here a second time: nothing of highwater is
used. Amounts are drawn from a fixed seed. What a log says is computed from the printed amounts, value times unit, to the
nearest byte. The launchers, loggers and tracebacks around the messages are made up after their kind.
"""

import json
import random
import sys
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

from innocent_texts import TEXTS

UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 1000, "MB": 10**6, "GB": 10**9, "TiB": 2**40}
MIB, GIB = 2**20, 2**30
OLD_PAGE = "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables"
NEW_PAGE = "https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf"

draw = random.Random(5)


def size(bytes_):
    """As PyTorch prints it: exactly 1 GiB is 1024.00 MiB."""
    if bytes_ <= 1024:
        return f"{bytes_} bytes"
    for unit in ("KiB", "MiB"):
        if bytes_ <= 1024 * UNITS[unit]:
            return f"{bytes_ / UNITS[unit]:.2f} {unit}"
    return f"{bytes_ / GIB:.2f} GiB"


def printed(text, units=UNITS):
    """The bytes of a printed amount."""
    value, unit = text.split()
    return int((Decimal(value) * units[unit]).to_integral_value(ROUND_HALF_EVEN))


class Numbers:
    """Amounts of a failure, drawn so that they add up."""

    def __init__(self, limit=False, private=False, pids=(), own=False, device=0, tried=None, total=None):
        self.total = total or int(draw.choice([7.79, 10.76, 15.77, 23.65, 39.38, 79.15, 139.80]) * GIB)
        self.device = device
        self.tried = tried or draw.choice([2 * MIB, 20 * MIB, 256 * MIB, 1502 * MIB, 2 * GIB, 3 * GIB + 7 * MIB])
        self.pids = [(pid, draw.randrange(300 * MIB, self.total // 16)) for pid in pids]
        others = sum(bytes_ for _, bytes_ in self.pids)
        left = self.total - others
        self.context = draw.randrange(400 * MIB, 600 * MIB)
        if limit:
            self.reserved = int(left * draw.uniform(0.2, 0.5))
        else:
            self.reserved = left - self.context - int(min(self.tried, left / 4) * draw.uniform(0, 0.9))
        self.unallocated = int(self.reserved * draw.choice([0, 0.0005, 0.02, 0.2]))
        self.private = self.unallocated // 3 if private else 0
        self.own = self.reserved + self.context if own else None
        self.free = left - self.reserved - self.context
        self.limit = self.reserved + self.tried // 2 if limit else None


def expect(**fields):
    found = {name: printed(value) for name, value in fields.items() if isinstance(value, str) and name.endswith("_bytes")}
    # What is a number already stays one.
    found |= {name: value for name, value in fields.items() if not isinstance(value, str) and value is not None}
    found.setdefault("other_processes", [])
    return found


def old(n, version, word="CUDA", gpu="GPU"):
    """Wordings A to C: 1.0 to 2.0."""
    last = n.reserved - (n.reserved - n.unallocated) if version < (1, 4) else n.reserved
    amounts = [n.tried, n.total, n.reserved - n.unallocated, n.free, last]
    tried, total, allocated, free, reserved = map(size, amounts)
    limit = size(n.limit) if n.limit and version >= (1, 8) else None
    text = f"{word} out of memory. Tried to allocate {tried} ({gpu} {n.device}; {total} total capacity; {allocated} already "
    text += f"allocated; {free} free; " + (f"{limit} allowed; " if limit else "")
    text += f"{reserved} cached)" if version < (1, 4) else f"{reserved} reserved in total by PyTorch)"
    if version >= (1, 10):
        text += " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See "
        text += "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
    return text, expect(
        tried_bytes=tried, capacity_bytes=total, allocated_bytes=allocated, free_bytes=free, reserved_bytes=reserved,
        limit_bytes=limit, device=n.device,
    )


def new(n, version, word="CUDA", conf="PYTORCH_CUDA_ALLOC_CONF", tail=None):
    """Wordings D to H: 2.1 to 2.15."""
    private = n.private if version >= (2, 4) else 0
    allocated, unallocated = n.reserved - n.unallocated + private, n.unallocated - private
    tried, total, free = size(n.tried), size(n.total), size(n.free)
    spelt = "capacty" if version < (2, 2) else "capacity"
    text = f"{word} out of memory. Tried to allocate {tried}. GPU {n.device} has a total {spelt} of {total} of which {free} is free. "
    processes = [(pid, size(bytes_)) for pid, bytes_ in n.pids]
    lines = [f"Process {pid} has {bytes_} memory in use. " for pid, bytes_ in processes]
    own = size(n.own) if n.own else None
    if own:
        lines.insert(len(lines) // 2, f"Including non-PyTorch memory, this process has {own} memory in use. ")
    text += "".join(lines)
    limit = size(n.limit) if n.limit else None
    text += f"{limit} allowed; " if limit else ""
    text += f"Of the allocated memory {size(allocated)} is allocated by PyTorch, "
    text += f"with {size(private)} allocated in private pools (e.g., CUDA Graphs), " if private else ""
    text += f"and {size(unallocated)} is reserved by PyTorch but unallocated."
    if tail is not None:
        text += tail
    elif version < (2, 2):
        text += " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See "
        text += "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
    else:
        conf = "PYTORCH_ALLOC_CONF" if version == (2, 10) else conf
        page = NEW_PAGE if version >= (2, 11) else OLD_PAGE
        text += f" If reserved but unallocated memory is large try setting {conf}=expandable_segments:True to avoid "
        text += f"fragmentation.  See documentation for Memory Management  ({page})"
    return text, expect(
        tried_bytes=tried, capacity_bytes=total, free_bytes=free, process_bytes=own, limit_bytes=limit,
        allocated_bytes=size(allocated), reserved_unallocated_bytes=size(unallocated), device=n.device,
        private_pools_bytes=size(private) if private else None,
        other_processes=[{"pid": pid, "bytes": printed(bytes_)} for pid, bytes_ in processes],
    )


def asynchronous(n, unset):
    limit = "17179869184.00 GiB" if unset else size(n.limit)
    allocated, tried, total, free = map(size, [n.reserved, n.tried, n.total, n.free])
    text = f"Allocation on device {n.device} would exceed allowed memory. (out of memory)\nCurrently allocated     : {allocated}\n"
    text += f"Requested               : {tried}\nDevice limit            : {total}\nFree (according to CUDA): {free}\n"
    text += f"PyTorch limit (set by user-supplied memory fraction)\n                        : {limit}"
    return text, expect(
        tried_bytes=tried, capacity_bytes=total, free_bytes=free, allocated_bytes=allocated, device=n.device,
        limit_bytes=None if unset else limit,
    )


def mps_without_limit():
    text = "MPS backend out of memory (MPS allocated: 15.72 GiB, other allocations: 2.41 MiB). Tried to allocate 5.81 GiB on private pool."
    allocated, others, tried = map(printed, ("15.72 GiB", "2.41 MiB", "5.81 GiB"))
    return text, expect(allocated_bytes=allocated, other_allocations_bytes=others, tried_bytes=tried)


def mps(unit):
    # What MPS calls GB are GiB: it writes 1024.00 MB for one of them.
    binary = {**UNITS, "KB": 2**10, "MB": 2**20, "GB": 2**30}
    small = unit.replace("G", "M")
    parts = [f"9.57 {unit}", f"384.00 {small}", f"10.20 {unit}", f"292.50 {small}"]
    text = f"MPS backend out of memory (MPS allocated: {parts[0]}, other allocations: {parts[1]}, max allowed: {parts[2]}). "
    text += f"Tried to allocate {parts[3]} on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit "
    text += "for memory allocations (may cause system failure)."
    allocated, others, limit, tried = (printed(part, binary) for part in parts)
    return text, expect(allocated_bytes=allocated, other_allocations_bytes=others, limit_bytes=limit, tried_bytes=tried)


def traceback(message, name="torch.OutOfMemoryError", script="/home/user/train.py"):
    return (
        "Traceback (most recent call last):\n"
        f'  File "{script}", line 88, in <module>\n    main()\n'
        f'  File "{script}", line 61, in main\n    loss = model(batch).loss\n           ^^^^^^^^^^^^\n'
        '  File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 1775, in _wrapped_call_impl\n'
        "    return self._call_impl(*args, **kwargs)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"{name}: {message}\n"
    )


def hard_wrapped(text, width):
    """As a terminal breaks lines: anywhere."""
    lines = text.split("\n")
    return "\n".join("\n".join(line[i : i + width] for i in range(0, len(line), width)) or "" for line in lines)


def soft_wrapped(text, width):
    """As `rich` and editors break lines: at blanks."""
    out = []
    for line in text.split("\n"):
        row = ""
        for word in line.split(" "):
            if row and len(row) + 1 + len(word) > width:
                out.append(row)
                row = word
            else:
                row = f"{row} {word}" if row else word
        out.append(row)
    return "\n".join(out)


def prefixed(text, prefix):
    return "".join(f"{prefix}{line}\n" for line in text.rstrip("\n").split("\n"))


def interleaved(texts):
    """The lines of several writers, mixed; each one's own stay in order."""
    queues = [text.rstrip("\n").split("\n") for text in texts]
    out = []
    while any(queues):
        queue = draw.choice([queue for queue in queues if queue])
        out.append(queue.pop(0))
    return "\n".join(out) + "\n"


def ranked(found, rank, count=1):
    return {"count": count, "rank": rank, **found}


def once(found):
    return {"count": 1, **found}


CASES = {}


def case(name, text, *found, encoding="utf-8"):
    assert name not in CASES, name
    CASES[name] = (text.encode(encoding), list(found))


def wordings():
    """Every release's words, bare."""
    for minor in range(4):
        text, found = old(Numbers(), (1, minor))
        case(f"torch_1_{minor}", f"RuntimeError: {text}\n", once(found))
    for minor in range(4, 14):
        text, found = old(Numbers(limit=minor in (9, 12), device=minor % 3), (1, minor))
        name = "torch.cuda.OutOfMemoryError" if minor == 13 else "RuntimeError"
        case(f"torch_1_{minor}", f"{name}: {text}\n", once(found))
    text, found = old(Numbers(), (2, 0))
    case("torch_2_0", f"torch.cuda.OutOfMemoryError: {text}\n", once(found))
    for minor in range(1, 16):
        pids = [4242, 77, 12345][: minor % 4]
        numbers = Numbers(limit=minor % 2 == 0, private=minor % 3 == 0, pids=pids, own=minor % 5 != 1, device=minor % 4)
        text, found = new(numbers, (2, minor))
        name = "torch.OutOfMemoryError" if minor >= 5 else "torch.cuda.OutOfMemoryError"
        case(f"torch_2_{minor}", f"{name}: {text}\n", once(found))
    expandable = " expandable_segments is enabled. If instead the process is running out of virtual address space (VSZ), expandable"
    expandable += " segments may be over-reserving VA (each segment reserves ~9/8 of device memory, times the number of streams); "
    expandable += "reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / expandable_segments_reserve_by_class."
    text, found = new(Numbers(own=True, pids=[9]), (2, 15), tail=expandable)
    case("torch_2_15_expandable", f"torch.OutOfMemoryError: {text}\n", once(found))
    for what in ("for this stream", "for stream reserve class 'c'"):
        tail = f" This allocation exceeds the expandable-segment reserve of 256.00 MiB {what}, and a single allocation cannot span"
        tail += " expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or "
        tail += "expandable_segments_reserve_by_class (or unset it) so that a segment is at least 288.00 MiB."
        text, found = new(Numbers(own=True, tried=288 * MIB), (2, 15), tail=tail)
        found["expandable_reserve_bytes"] = 256 * MIB
        case(f"torch_2_15_reserve{'_class' if 'class' in what else ''}", f"torch.OutOfMemoryError: {text}\n", once(found))
    tail = " The custom allocator backing this MemPool returned nullptr. It may be out of memory of its own."
    text, found = new(Numbers(own=True), (2, 15), tail=tail)
    case("torch_2_15_custom_allocator", f"torch.OutOfMemoryError: {text}\n", once(found))
    case("more_than_1eb", "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.\n", once(expect()))
    text = "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. "
    case("rejected", f"torch.OutOfMemoryError: {text}Requested size: 1.16 GiB\n", once(expect(tried_bytes="1.16 GiB")))
    for unset in (True, False):
        text, found = asynchronous(Numbers(limit=True), unset)
        name = "cuda_malloc_async" + ("" if unset else "_limit")
        case(name, traceback(text), once(found))


def other_devices():
    text, found = new(Numbers(own=True, pids=[31]), (2, 6), word="HIP", conf="PYTORCH_HIP_ALLOC_CONF")
    case("hip", f"torch.OutOfMemoryError: {text}\n", once(found))
    text, found = old(Numbers(), (1, 12), word="HIP")
    case("hip_1_12", f"RuntimeError: {text}\n", once(found))
    tail = " Please use `empty_cache` to release all unoccupied cached memory."
    text, found = new(Numbers(limit=True), (2, 12), word="XPU", tail=tail)
    case("xpu", f"torch.OutOfMemoryError: {text}\n", once(found))
    text, found = old(Numbers(), (2, 0), word="NPU", gpu="NPU")
    case("npu", f"RuntimeError: {text}\n", once(found))
    for unit in ("GB", "GiB"):
        text, found = mps(unit)
        case(f"mps_{unit.lower()}", traceback(text, "RuntimeError"), once(found))
    text, found = mps_without_limit()
    case("mps_without_limit", f"RuntimeError: {text}\n", once(found))


def cut():
    """Half messages, and units that PyTorch does not write."""
    text, found = new(Numbers(own=True, pids=[4242]), (2, 8))
    cut_at = text.index("memory in use")
    keep = ["tried_bytes", "capacity_bytes", "free_bytes", "device"]
    half = {name: found[name] for name in keep} | {"other_processes": []}
    case("half_first", f"torch.OutOfMemoryError: {text[: cut_at - 12]}", once(half))
    second = text[text.index("has a total") :]
    rest = {name: value for name, value in found.items() if name not in ("tried_bytes", "device")}
    case("half_second", second + "\n", once(rest))
    text, found = old(Numbers(tried=20 * MIB), (1, 10))
    half = {name: found[name] for name in ("tried_bytes", "device")} | {"other_processes": []}
    case("half_in_an_amount", "RuntimeError: " + text[: text.index(" GiB") - 1], once(half))
    case(
        "another_unit",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GB (GPU 1; 24.00 GB total capacity; 20480.00 MB already "
        "allocated; 512.00 KB free; 0.0215 TiB reserved in total by PyTorch)\n",
        once(
            expect(
                tried_bytes="2.50 GB", capacity_bytes="24.00 GB", allocated_bytes="20480.00 MB", free_bytes="512.00 KB",
                reserved_bytes="0.0215 TiB", device=1,
            )
        ),
    )
    text, found = new(Numbers(own=True), (2, 9))
    unknown = text.replace("Of the allocated", "This sentence is of a fork, and of no release. Of the allocated")
    case("a_sentence_of_a_fork", f"torch.OutOfMemoryError: {unknown}\n", once(found))


def logs():
    """Whole logs, as trainers and launchers write them."""
    text, found = new(Numbers(own=True, pids=[4242]), (2, 11))
    case("plain_traceback", "step 12 loss 2.31\nstep 13 loss 2.29\n" + traceback(text), once(found))
    text, found = new(Numbers(own=True), (2, 7))
    case("crlf", traceback(text).replace("\n", "\r\n"), once(found))
    text, found = new(Numbers(own=True, limit=True), (2, 6))
    bars = "".join(f"\rEpoch 1: {p:3d}%|{'█' * (p // 10):10}| {p}/100" for p in range(0, 40, 5))
    case("progress_bar", bars + "\r" + traceback(text), once(found))
    text, found = new(Numbers(own=True), (2, 8))
    red = traceback(text).replace("torch.OutOfMemoryError", "\x1b[1;35mtorch.OutOfMemoryError\x1b[0m")
    case("python_3_13_colours", red.replace("CUDA out of memory", "\x1b[35mCUDA out of memory\x1b[0m"), once(found))
    text, found = old(Numbers(), (1, 13))
    case("grep_colours", "train.log:" + text.replace("out of memory", "\x1b[01;31m\x1b[Kout of memory\x1b[m\x1b[K") + "\n", once(found))
    for name, wrap, width in [("wrapped_at_80", hard_wrapped, 80), ("wrapped_at_17", hard_wrapped, 17), ("rich", soft_wrapped, 78)]:
        text, found = new(Numbers(own=True, pids=[412, 406], limit=True), (2, 11))
        case(name, wrap(traceback(text), width), once(found))
    text, found = old(Numbers(), (1, 11))
    case("wrapped_old_words", soft_wrapped(traceback(text, "RuntimeError"), 60), once(found))
    text, found = new(Numbers(own=True, private=True), (2, 5))
    box = soft_wrapped("OutOfMemoryError: " + text, 70).split("\n")
    drawn = "\n".join(["╭" + "─" * 74 + "╮"] + [f"│ {line:72} │" for line in box] + ["╰" + "─" * 74 + "╯"])
    case("box", drawn + "\n", once(found))

    texts, expected = [], []
    for rank in range(4):
        text, found = new(Numbers(own=True, device=rank), (2, 6))
        texts.append(prefixed(traceback(text), f"[rank{rank}]: "))
        expected.append(ranked(found, rank))
    log = interleaved(texts)
    where = sorted(expected, key=lambda one: log.index(f"[rank{one['rank']}]: torch.OutOfMemoryError"))
    summary = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\ntrain.py FAILED\n-----\n"
    case("torchrun_ranks", log + summary, *where)

    texts, expected = [], []
    for rank in range(8):
        text, found = new(Numbers(own=True, device=rank), (2, 4))
        texts.append(prefixed(hard_wrapped(traceback(text, "torch.cuda.OutOfMemoryError"), 72), f"[default{rank}]:"))
        expected.append(ranked(found, rank))
    log = interleaved(texts)
    where = sorted(expected, key=lambda one: log.index(f"[default{one['rank']}]:torch.cuda.OutOfMemoryError"))
    case("torchrun_tee_wrapped_and_mixed", log, *where)

    for name, prefix, rank in [
        ("slurm_label", "3: ", 3),
        ("slurm_label_padded", " 11: ", 11),
        ("mpirun_tag_output", "[1,5]<stderr>:", 5),
        ("lightning", "[rank: 2] ", 2),
        ("deepspeed_host", "worker-7: ", None),
        ("deepspeed_host_and_rank", "worker-7: [rank61]: ", 61),
        ("torchrun_tee_and_rank", "[default1]:[rank9]: ", 9),
        ("kubernetes", "2026-05-01T12:00:00.123456789Z stderr F [rank6]: ", 6),
        ("python_logging", "[2026-05-01 12:00:00,123] [ERROR] [Rank 4] ", 4),
        ("ray", "(RayTrainWorker pid=1234, ip=10.0.0.7) ", None),
        ("vllm", "(Worker_TP1 pid=549) ERROR 07-29 21:48:54 [multiproc_executor.py:962] ", 1),
    ]:
        text, found = new(Numbers(own=True, pids=[88]), (2, 9))
        case(name, prefixed("starting\n" + traceback(text) + "bye", prefix), once(found) if rank is None else ranked(found, rank))

    text, found = new(Numbers(own=True), (2, 8))
    spawned = "torch.multiprocessing.spawn.ProcessRaisedException:\n\n-- Process 3 terminated with the following error:\n"
    case("multiprocessing_spawn", spawned + traceback(text), ranked(found, 3))
    text, found = new(Numbers(own=True), (2, 8))
    summary = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-05-01_12:00:00\n  host      : node1\n"
    summary += "  rank      : 5 (local_rank: 5)\n  exitcode  : 1 (pid: 12345)\n  traceback : "
    case("torchrun_summary", summary + traceback(text).replace("\n", "\n    "), ranked(found, 5))

    text, found = new(Numbers(own=True, pids=[5]), (2, 10))
    record = json.dumps({"level": "error", "rank": 2, "message": traceback(text), "step": 100})
    case("json_lines", '{"level": "info", "message": "step 99"}\n' + record + "\n", ranked(found, 2))
    text, found = new(Numbers(own=True), (2, 10))
    deep = json.dumps({"log": json.dumps({"exc_info": traceback(text)}) + "\n", "stream": "stderr"})
    case("json_in_json", deep + "\n", once(found))
    text, found = old(Numbers(), (1, 9))
    case("repr", f"failed with RuntimeError({text!r})\n", once(found))
    text, found = new(Numbers(own=True), (2, 3))
    case("one_long_line", "x" * 5000 + " " + text + " " + "y" * 5000 + "\n", once(found))
    text, found = new(Numbers(own=True), (2, 2))
    case("powershell_utf16", "\ufeff" + traceback(text, "torch.cuda.OutOfMemoryError").replace("\n", "\r\n"), once(found), encoding="utf-16-le")
    text, found = new(Numbers(own=True), (2, 8))
    cell = "---------------------------------------------------------------------------\nOutOfMemoryError      Traceback (most "
    cell += "recent call last)\nCell In[7], line 1\n----> 1 trainer.train()\n\nFile /usr/lib/python3/dist-packages/torch/x.py:12\n\n"
    case("notebook", cell + f"OutOfMemoryError: {text}\n", once(found))

    text, found = new(Numbers(own=True), (2, 8))
    case("handled_twice", traceback(text) + "\nDuring handling of the above exception, another exception occurred:\n\n" + traceback(text), {"count": 2, **found})
    text, found = old(Numbers(), (1, 8))
    case("a_hundred", "".join(f"| WARNING | step {i}: OOM: Ran out of memory with exception: {text}\n" for i in range(100)), {"count": 100, **found})
    several, expected = "", []
    for _ in range(3):
        text, found = new(Numbers(own=True), (2, 11))
        several += text + " "
        expected.append(once(found))
    case("three_in_a_line", several + "\n", *expected)
    text, found = new(Numbers(own=True), (2, 9))
    case("fairseq", f"2026-05-01 12:00:00 | ERROR | fairseq.trainer | rank 12 | OOM: {text}\n", ranked(found, 12))
    text, found = old(Numbers(), (1, 7))
    mixed = f"W0501 12:00:00 torch/distributed/run.py:779] \nRuntimeError: Caught RuntimeError in replica 1 on device 1.\n{traceback(text, 'RuntimeError')}"
    case("data_parallel", mixed, once(found))
    # The driver's own error has no numbers.
    case("driver_error", "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call\n", once(expect()))


def nothing():
    """No message: nothing is found."""
    case("no_message", "step 1\nstep 2\nstep 3\n")
    case("host_memory", "RuntimeError: [enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.\n")
    case("only_a_mention", "hint: lower the batch size if CUDA runs out of memory\n")
    case("half_without_a_number", "torch.OutOfMemoryError: CUDA out of memory. Tried to al")


ANSWERS = {}


def told(name, cause, first_step, text, **values):
    """A log whose failure has an answer: the cause and the first step, as the thread that the text is from found them, and numbers of the text."""
    ANSWERS[name] = (text + "\n", {"cause": cause, "first_step": first_step, **values})


def answers():
    """Failures by their words. Amounts and punctuation are as posted or as the release prints them; the rest is made up."""
    gib = lambda amount: printed(f"{amount} GiB")
    # PyTorch's own, where the answer was once wrong.
    hip = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.63 GiB. GPU 0 has a total capacity of 63.98 GiB of which 1.18 GiB is free. Of the allocated memory 57.09 GiB is allocated by PyTorch, with 26.00 MiB allocated in private pools (e.g., HIP Graphs), and 1.23 GiB is reserved by PyTorch but unallocated."
    told("hip_graphs", "fragmentation", "expandable-segments", hip)
    told("apu", "contradiction", "raise-shared-memory", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.49 GiB of which 84.98 GiB is free. Of the allocated memory 2.00 GiB is allocated by PyTorch, and 8.00 MiB is reserved by PyTorch but unallocated.")
    told("wsl", "too-big", "shrink", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 7.20 GiB is allocated by PyTorch, and 11.50 MiB is reserved by PyTorch but unallocated.")
    told("mps", "limit", "raise-limit", "RuntimeError: MPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max allowed: 27.20 GiB). Tried to allocate 292.50 MiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).")
    told("equal_within_rounding", "too-big", "shrink", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.36 GiB. GPU 0 has a total capacity of 23.52 GiB of which 1.36 GiB is free. Including non-PyTorch memory, this process has 22.15 GiB memory in use. Of the allocated memory 21.60 GiB is allocated by PyTorch, and 86.31 MiB is reserved by PyTorch but unallocated.")
    told("nearly_enough", "too-big", "expandable-segments", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity of 44.34 GiB of which 12.73 GiB is free. Including non-PyTorch memory, this process has 31.60 GiB memory in use. Of the allocated memory 21.75 GiB is allocated by PyTorch, and 9.35 GiB is reserved by PyTorch but unallocated.")
    told("comfyui", "unknown", "offload", "!!! Exception during processing !!! Allocation on device \nTraceback (most recent call last):\n  File \"/home/u/ComfyUI/execution.py\", line 496, in execute\n    output_data = await get_output_data(obj)\n  File \"/home/u/ComfyUI/comfy/ops.py\", line 84, in forward\n    return torch.nn.functional.linear(input, weight, bias)\ntorch.OutOfMemoryError: Allocation on device \n\nGot an OOM, unloading all loaded models.")
    told("comfyui_hip", "too-big", "offload", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.11 GiB. GPU 0 has a total capacity of 11.98 GiB of which 1.48 GiB is free. Of the allocated memory 9.97 GiB is allocated by PyTorch, and 176.02 MiB is reserved by PyTorch but unallocated.\n\nGot an OOM, unloading all loaded models.\nPrompt executed in 15.86 seconds")
    # vLLM.
    told("vllm_no_blocks", "kv-cache", "raise-share", "INFO 02-20 [model_runner.py:1115] Loading model weights took 5.2032 GB\nINFO 02-20 [worker.py:267] the current vLLM instance can use total_gpu_memory (8.00GiB) x gpu_memory_utilization (0.70) = 5.60GiB\nINFO 02-20 [worker.py:267] model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -1.05GiB.\nINFO 02-20 [executor_base.py:111] # cuda blocks: 0, # CPU blocks: 4681\nValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.")
    told("vllm_kv_too_small", "kv-cache", "shorter-context", "(EngineCore_DP0 pid=301) INFO 02-08 [gpu_worker.py:424] Available KV cache memory: 3.18 GiB\n(EngineCore_DP0 pid=301) ERROR 02-08 [core.py:866] ValueError: To serve at least one request with the models's max seq len (34736), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). Based on the available memory, the estimated maximum model length is 4592. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.", needed=gib("24.0"), available=gib("3.18"), fits=4592)
    told("vllm_kv_too_small_0_7", "kv-cache", "shorter-context", "ValueError: To serve at least one request with the models's max seq len (32768), (2.00 GB KV cache is needed, which is larger than the available KV cache memory (0.78 GB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", needed=gib("2.00"), available=gib("0.78"))
    told("vllm_kv_too_small_0_33", "kv-cache", "shorter-context", "ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed, which is larger than the available KV cache memory (9.5 GiB). Based on the available memory, the estimated maximum model length is 77824. Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing `max_model_len` when initializing the engine.", needed=gib("16.0"), fits=77824)
    told("vllm_kv_copied", "kv-cache", "shorter-context", "First boot then refused:\n\n    ValueError: To serve at least one request with the model's max seq len (917504), 23.38 GiB KV cache is needed, which is larger than the available KV cache memory (22.61 GiB). Estimated maximum model length is 886912.\n", needed=gib("23.38"), available=gib("22.61"), fits=886912)
    told("vllm_seq_len", "kv-cache", "shorter-context", "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (81536). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", max_model_len=131072, tokens=81536)
    told("vllm_free_memory", "other-process", "end-process", "ValueError: Free memory on device cuda:0 (106.88/121.69 GiB) on startup is less than desired GPU memory utilization (0.89, 108.3 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.", free=gib("106.88"), total=gib("121.69"), requested=gib("108.3"))
    told("vllm_free_memory_0_11", "other-process", "end-process", "(Worker_TP1 pid=88) ERROR 10-01 [multiproc_executor.py:597] ValueError: Free memory on device (5.01/6.0 GiB) on startup is less than desired GPU memory utilization (0.9, 5.4 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.", free=gib("5.01"), rank=1)
    told("vllm_sampler", "engine-share", "fewer-sequences", "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.", requests=1024)
    told("vllm_cumem", "engine-share", "release-trainer", "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\nRuntimeError: Sleep mode\nINFO 05-02 [gpu_worker.py:143] Sleep mode freed 61.10 GiB memory, 4.10 GiB memory is still in use.\nINFO 05-02 [gpu_worker.py:143] Sleep mode freed 53.60 GiB memory, 11.60 GiB memory is still in use.\nINFO 05-02 [gpu_worker.py:143] Sleep mode freed 40.20 GiB memory, 25.00 GiB memory is still in use.")
    told("vllm_expandable", "engine-share", "drop-expandable-segments", "AssertionError: Expandable segments are not compatible with memory pool. Please track https://github.com/pytorch/pytorch/issues/147851 for the latest updates.")
    told("vllm_profiling", "other-process", "start-alone", "AssertionError: Error in memory profiling. Initial free memory 20.01 GiB, current free memory 22.15 GiB. This happens when other processes sharing the same container release GPU memory while vLLM is profiling during initialization. To fix this, ensure consistent GPU memory allocation or isolate vLLM in its own container.", before=gib("20.01"), after=gib("22.15"))
    # SGLang: two failures, opposite cures.
    told("sglang_pool", "kv-cache", "raise-share", "[2025-03-12 10:00:00 TP0] Load weight begin. avail mem=23.20 GB\n[2025-03-12 10:00:30 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=2.10 GB, mem usage=21.10 GB.\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
    told("sglang_pool_0_5", "kv-cache", "raise-share", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.75")
    told("sglang_graphs", "engine-share", "lower-share", "[2025-06-20 10:00:00] Load weight begin. avail mem=30.90 GB\n[2025-06-20 10:00:20] Memory pool end. avail mem=3.46 GB\nException: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 31.37 GiB of which 642.00 MiB is free.\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)")
    told("sglang_unbalanced", "other-process", "end-process", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=61.2, local_gpu_memory=78.4, local_gpu_memory * 0.9=70.6")
    # Other engines.
    told("llama_weights", "too-big", "fewer-layers", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8148.38 MiB on device 0: cudaMalloc failed: out of memory\nalloc_tensor_range: failed to allocate CUDA0 buffer of size 8544194560\nllama_model_load: error loading model: unable to allocate CUDA0 buffer", size=printed("8148.38 MiB"), device=0)
    told("llama_kv", "too-big", "shorter-context", "load_tensors:        CUDA0 model buffer size =  4403.49 MiB\nllama_context: n_ctx         = 131072\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache", size=printed("16384.00 MiB"))
    told("ollama_system", "host-memory", "smaller-model", 'Error: model requires more system memory (8.4 GiB) than is available (5.9 GiB)', needed=gib("8.4"), available=gib("5.9"))
    told("tgi_prefill", "kv-cache", "smaller-prefill", "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`", tokens=4096)
    told("tensorrt_llm", "engine-share", "lower-share", "[TRT-LLM] [E] Executor creation failed due to insufficient GPU memory.")
    # Libraries.
    told("cublas", "outside-pytorch", "shrink", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    told("cudnn", "outside-pytorch", "shrink", "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED")
    told("cusolver", "outside-pytorch", "shrink", "RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`")
    told("cudnn_workspace", "outside-pytorch", "shrink", "RuntimeError: GET was unable to find an engine to execute this computation")
    told("nccl_calloc", "outside-pytorch", "leave-margin", "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:333, unhandled cuda error, NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc 6291456 bytes", raw=6291456)
    told("nccl_failure", "outside-pytorch", "leave-margin", "node1:211:307 [3] NCCL WARN Cuda failure 2 'out of memory'")
    told("cupy", "too-big", "free-pool", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated so far: 16,384,000,000 bytes).", raw=8_000_000_000, so_far_raw=16_384_000_000)
    told("jax", "too-big", "less-preallocation", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", raw=17179869184)
    told("triton", "kernel-shared-memory", "smaller-blocks", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.", required=131072, limit=101376)
    told("gaudi", "too-big", "shrink", "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::1073741824 (1024)MB", raw=1073741824)
    told("wrapped_by_a_terminal", "kv-cache", "shorter-context", "(EngineCore pid=316) ValueError: To serve at least one request with the model's max seq len (100000), (4.26 GiB KV cach\ne is needed, which is larger than the available KV cache memory (4.25 GiB). Based on the avai\nlable memory, the estimated maximum model length is 99840. Try increasing `gpu_memory_utilization` or decreasing `max_mode\nl_len` when initializing the engine.", needed=gib("4.26"), available=gib("4.25"), fits=99840)
    told("wrapped_in_a_number", "too-big", "shrink", "(RayTrainWorker pid=77) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.3\n9 GiB. GPU 1 has a total capacity of 79.32 GiB of which 2.40 GiB is free. Process 105400 has 76.92 Gi\nB memory in use. Of the allocated memory 73.28 GiB is allocated by PyTorch, and 1.59 GiB is reserved by PyTorch but unallocated.")
    # PyTorch on other devices.
    told("npu_serving", "fragmentation", "expandable-segments", "python3 -m sglang.launch_server --model-path m --device npu --mem-fraction-static 0.90\ntorch.OutOfMemoryError: NPU out of memory. Tried to allocate 72.00 MiB (NPU 0; 61.27 GiB total capacity; 56.05 GiB already allocated; 56.05 GiB current active; 5.04 MiB free; 58.39 GiB reserved in total by PyTorch).If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.")
    told("npu_full_of_others", "outside-pytorch", "free-outside", "RuntimeError: NPU out of memory. Tried to allocate 88.00 MiB (NPU 0; 60.96 GiB total capacity; 4.24 GiB already allocated; 4.24 GiB current active; 7.47 MiB free; 4.37 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.")
    told("npu_vllm_worker", "too-big", "lower-share", "(NPURayWorkerWrapper pid=45464) ERROR 06-09 06:57:48 worker_base.py:581] RuntimeError: NPU out of memory. Tried to allocate 30.00 MiB (NPU 3; 60.96 GiB total capacity; 60.34 GiB already allocated; 60.34 GiB current active; 14.24 MiB free; 60.60 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation. [repeated 6x across cluster]")
    told("npu_operator", "outside-pytorch", "leave-margin", "[PID: 4711] 2026-04-09-21:56:40.384.694 Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE module.\n        Possible Cause: Available memory is insufficient.\n        Solution: Close applications not in use.")
    told("npu_pinned", "host-memory", "less-pinned-memory", "RuntimeError: Malloc pin memory failed, host out of memory, Rried to allocate size: 1073741824, total_allocated_memory: 4294967296, total_reserved_memory: 4294967296. You might be able to retry after freeing up memory using torch_npu.npu.host_empty_cache().", raw=1073741824)
    told("xpu_4_gib", "refused", "relax-limits", "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 15.11 GiB. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.")
    told("xpu_full", "too-big", "shrink", "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 16.50 GiB. Of the allocated memory 16.50 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.")
    told("xpu_driver", "too-big", "shrink", "RuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)")
    told("mps_buffer", "never-fits", "split-request", "RuntimeError: Invalid buffer size: 20.25 GB", size=gib("20.25"))
    told("hip_allowed", "limit", "raise-limit", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.05 GiB. GPU 0 has a total capacity of 15.77 GiB of which 15.60 GiB is free. 1.05 GiB allowed; Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.")
    told("memory_summary", "fragmentation", "expandable-segments", "|===========================================================================|\n|                  PyTorch CUDA memory summary, device ID 0                 |\n|---------------------------------------------------------------------------|\n|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |\n|===========================================================================|\n|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n|---------------------------------------------------------------------------|\n| Allocated memory      |   1062 MiB |   4877 MiB |  89299 MiB |  88237 MiB |\n|---------------------------------------------------------------------------|\n| Active memory         |   1062 MiB |   4877 MiB |  89299 MiB |  88237 MiB |\n|---------------------------------------------------------------------------|\n| Requested memory      |   1050 MiB |   4860 MiB |  89100 MiB |  88050 MiB |\n|---------------------------------------------------------------------------|\n| GPU reserved memory   |  12420 MiB |  12420 MiB |  16924 MiB |   4504 MiB |\n|---------------------------------------------------------------------------|\n| Non-releasable memory |   1429 MiB |   3000 MiB |  50000 MiB |  48571 MiB |")
    # Servers without lines of their start.
    told("vllm_worker", "outside-pytorch", "lower-share", "(VllmWorker rank=1 pid=2978) ERROR 03-19 07:27:53 [multiproc_executor.py:375] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.74 GiB. GPU 1 has a total capacity of 23.57 GiB of which 605.88 MiB is free. Process 133288 has 22.97 GiB memory in use. Of the allocated memory 20.21 GiB is allocated by PyTorch, with 128.00 MiB allocated in private pools (e.g., CUDA Graphs), and 185.98 MiB is reserved by PyTorch but unallocated.")
    told("vllm_hip_traceback", "too-big", "lower-share", "Traceback (most recent call last):\n  File \"/usr/local/lib/python3.12/dist-packages/vllm/v1/worker/gpu_model_runner.py\", line 2011, in _dummy_run\n    outputs = model(input_ids=input_ids)\n  File \"/usr/local/lib/python3.12/dist-packages/torch/nn/modules/module.py\", line 1751, in _call_impl\n    return forward_call(*args, **kwargs)\ntorch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 63.98 GiB of which 1.18 GiB is free. Of the allocated memory 62.09 GiB is allocated by PyTorch, with 26.00 MiB allocated in private pools (e.g., HIP Graphs), and 230.00 MiB is reserved by PyTorch but unallocated.")
    told("vllm_graphs", "engine-share", "lower-share", "INFO 03-27 10:29:01 [worker.py:267] the current vLLM instance can use total_gpu_memory (44.53GiB) x gpu_memory_utilization (0.98) = 43.64GiB\nINFO 03-27 10:29:01 [worker.py:267] model weights take 20.64GiB; non_torch_memory takes 0.28GiB; PyTorch activation peak memory takes 1.52GiB; the rest of the memory reserved for KV Cache is 21.20GiB.\nINFO 03-27 10:29:03 [model_runner.py:1442] Capturing cudagraphs for decoding.\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 6 has a total capacity of 44.53 GiB of which 448.00 KiB is free.")
    told("rl_trainer", "too-big", "shrink", "INFO [gpu_worker.py:424] Available KV cache memory: 12.26 GiB\nTraceback (most recent call last):\n  File \"/opt/x/site-packages/transformers/trainer.py\", line 3782, in training_step\n    self.accelerator.backward(loss)\n  File \"/opt/x/site-packages/torch/_tensor.py\", line 624, in backward\n    torch.autograd.backward(\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.18 GiB is free. Of the allocated memory 77.00 GiB is allocated by PyTorch, and 230.00 MiB is reserved by PyTorch but unallocated.")
    told("rl_entropy", "too-big", "chunk-logits", "INFO [gpu_worker.py:424] Available KV cache memory: 12.26 GiB\ndata.max_length=8192 micro_batch_size_per_gpu=4 vocab_size: 151936\nTraceback (most recent call last):\n  File \"/opt/verl/verl/utils/torch_functional.py\", line 88, in entropy_from_logits\n    entropy = torch.logsumexp(logits, dim=-1) - torch.sum(pd * logits, dim=-1)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.55 GiB. GPU 0 has a total capacity of 79.15 GiB of which 13.20 GiB is free. Of the allocated memory 64.50 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.")
    told("tgi_total", "kv-cache", "shorter-context", "Error: Backend(NotEnoughMemory): Not enough memory to handle `max_total_tokens=131072`", tokens=131072)
    told("tensorrt_llm_kv", "engine-share", "lower-share", "[07/08/2025-19:47:15] [TRT-LLM] [RANK 1] [E] Failed to initialize executor on rank 1: Executor creation failed due to insufficient GPU memory.\n\nThe following component could not be created: KV cache\nTotal GPU memory (GiB): 140.06\nFree GPU memory before component creation attempt (GiB): 108.86", kv_free=gib("108.86"), rank=1)
    told("tensorrt_llm_runtime", "engine-share", "lower-share", "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/code/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)")
    told("ollama_weights", "too-big", "fewer-layers", "Apr 17 01:25:10 box ollama[56169]: ggml_backend_cuda_buffer_type_alloc_buffer: allocating 24289.03 MiB on device 0: cudaMalloc failed: out of memory\nApr 17 01:25:11 box ollama[56169]: llama_model_load: error loading model: unable to allocate backend buffer", size=printed("24289.03 MiB"), device=0)
    told("ollama_layout", "too-big", "fewer-layers", "time=2026-01-12T10:00:00.000Z level=WARN source=server.go:812 msg=\"memory layout cannot be allocated\" memory.InputWeights=1\nError: 500 Internal Server Error: memory layout cannot be allocated with num_gpu = 49")
    told("llama_compute", "too-big", "smaller-batch", "llama_new_context_with_model: KV self size  = 5120.00 MiB, K (f16): 2560.00 MiB, V (f16): 2560.00 MiB\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 144.00 MiB on device 4: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to allocate CUDA4 buffer of size 150995968\nllama_new_context_with_model: failed to allocate compute buffers", size=printed("144.00 MiB"), device=4)
    told("llama_ubatch", "too-big", "smaller-batch", "$ llama-server -ub 8192 -b 8192 -c 8192 -m model.gguf\nggml_vulkan: Device memory allocation of size 3959422976 failed.\nggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", raw=3959422976)
    told("llama_vulkan_limit", "refused", "smaller-buffers", "ggml_vulkan: Requested buffer size exceeds device buffer size limit: ErrorOutOfDeviceMemory")
    # Frameworks.
    told("jax_assignment", "too-big", "shrink", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:  372.76MiB\n              constant allocation:    48.5KiB\n        maybe_live_out allocation:    9.64GiB\n     preallocated temp allocation:    4.44GiB\n                 total allocation:   14.44GiB\n              total fragmentation:  680.30MiB (4.60%)", raw=4770354232, total=gib("14.44"))
    told("jax_small", "other-process", "end-process", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:    6.00MiB\n              constant allocation:         0B\n        maybe_live_out allocation:    6.00MiB\n     preallocated temp allocation:         0B\n                 total allocation:   12.00MiB", raw=6291456)
    told("jax_2019_wrapped", "too-big", "less-preallocation", "E external/org_tensorflow/tensorflow/compiler/xla/python/local_client.cc:672] Execution of replica 0 failed: Resource exhausted: Out \nof memory while trying to allocate 5520758552 bytes.", raw=5520758552)
    told("tensorflow", "too-big", "shrink", "ResourceExhaustedError: OOM when allocating tensor with shape[128,3,8,128,8,128] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc")
    told("rmm_device", "too-big", "end-process", "MemoryError: std::bad_alloc: CUDA error at: ../include/rmm/mr/device/cuda_memory_resource.hpp:68: cudaErrorMemoryAllocation out of memory")
    told("rmm_26", "too-big", "end-process", "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8589934592 bytes) at: /x/cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation out of memory", raw=8589934592)
    told("rmm_pool_26", "too-big", "raise-limit", "MemoryError: std::bad_alloc: out_of_memory: RMM failure at: /x/pool_memory_resource_impl.cpp:73: Maximum pool size exceeded (failed to allocate 2.000 GiB): No room in pool.", size=gib("2.000"))
    told("rmm_0_11", "too-big", "end-process", "rmm.rmm.RMMError: RMM_ERROR_OUT_OF_MEMORY")
    told("cupy_6", "too-big", "free-pool", "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 8000000000 bytes (total 16384000000 bytes)", raw=8_000_000_000, so_far_raw=16_384_000_000)
    told("numba", "outside-pytorch", "end-process", "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
    told("onnxruntime", "too-big", "arena", "2026-03-07 19:26:21.706 [E:onnxruntime:, sequential_executor.cc:494 ExecuteKernel] Non-zero status code returned while running ReduceSum node. Name:'r' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*, bool, onnxruntime::WaitNotificationFn) Failed to allocate memory for requested buffer of size 939524096", raw=939524096)
    told("onnxruntime_capture", "unknown", "warm-up", "[E:onnxruntime:Default, cuda_call.cc:116 CudaCall] CUDA failure 900: operation not permitted when stream is capturing ; GPU=0 ; expr=cudaMalloc((void**)&p, size);\nonnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 15728896", raw=15728896)
    told("onnxruntime_absurd", "never-fits", "split-request", "onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 4585490524328388608", raw=4585490524328388608)
    told("nccl_two_lines", "outside-pytorch", "leave-margin", "n1:3063028:3066152 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n\nn1:3063028:3066152 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes", raw=6291456)
    told("vulkan", "too-big", "shrink", "vulkan_buffer.cc:61: InternalError: Check failed: (__e == VK_SUCCESS) is false: Vulkan Error, code=-2: VK_ERROR_OUT_OF_DEVICE_MEMORY")
    told("faiss", "too-big", "smaller-workspace", "RuntimeError: Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory(const AllocRequest&): StandardGpuResources: alloc fail type FlatData dev 0 space Device stream 0x5f size 1536000000 bytes (cudaMalloc error out of memory [2])", raw=1536000000)
    told("npu_workspace", "outside-pytorch", "leave-margin", "torch.OutOfMemoryError: NPU out of memory. NPUWorkspaceAllocator tried to allocate 2.00 GiB(NPU 0; 60.97 GiB total capacity; 1.25 GiB free). If you want to reduce memory usage, take a try to set the environment variable TASK_QUEUE_ENABLE=1.", size=2147483648)
    told("tpu", "too-big", "shrink", "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 18.50G of 15.50G hbm. Exceeded hbm capacity by 3.00G.", used=gib("18.50"), over=gib("3.00"))
    # The host.
    told("worker_killed", "host-memory", "less-host-memory", "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ", pid=4711)
    told("worker_bus_error", "shared-memory", "more-shared-memory", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\nRuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.")
    told("shm_full", "shared-memory", "more-shared-memory", "RuntimeError: unable to write to file </torch_4711_1234567_0>: No space left on device (28)")
    told("dmesg", "host-memory", "less-host-memory", "[ 1234.567890] Out of memory: Killed process 4711 (python3) total-vm:98765432kB, anon-rss:61234567kB, file-rss:1024kB, shmem-rss:0kB, UID:1000 pgtables:130000kB oom_score_adj:0", pid=4711, raw_kb=61234567)
    told("bus_error_alone", "shared-memory", "more-shared-memory", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).")
    told("worker_without_a_number", "host-memory", "less-host-memory", "RuntimeError: DataLoader worker (pid ...) is killed by signal: Killed")
    told("ray_memory_monitor", "host-memory", "less-host-memory", "Memory on the node (IP: 10.0.0.4, ID: ba65) where the task (task ID: d221, name=head, pid=4503, memory used=812.30GB) was running was 1912.60GB / 2013.17GB (0.950044), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 1234) because it was the most recently scheduled task")
    told("deepspeed_launcher", "host-memory", "less-host-memory", "[2023-10-16 05:06:02,579] [ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=1'] exits with return code = -9")
    told("errno_12", "host-memory", "load-in-parts", "OSError: [Errno 12] Cannot allocate memory")
    told("exit_137", "host-memory", "more-host-memory", "command terminated with exit code 137")
    told("pinned", "unknown", "look-before", "RuntimeError: Pin memory thread exited unexpectedly")
    told("cpu_allocator", "host-memory", "load-in-parts", "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes. Error code 12 (Cannot allocate memory)", raw=1073741824)


def more_answers():
    # Newer releases of engines, shells and schedulers of the host, other frameworks, and how texts are pasted.
    told("vllm_load", "too-big", "less-weights", "(EngineCore_DP0 pid=311) ERROR 03-02 09:14:55 [gpu_model_runner.py:4212] Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or using --quantization. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more tips. (original error: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 23.52 GiB of which 406.38 MiB is free. Including non-PyTorch memory, this process has 23.11 GiB memory in use. Of the allocated memory 22.64 GiB is allocated by PyTorch, and 34.29 MiB is reserved by PyTorch but unallocated.)")
    told("vllm_pooler", "engine-share", "fewer-sequences", "RuntimeError: CUDA out of memory occurred when warming up pooler (task='embed') with 256 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.", requests=256)
    told("vllm_cpu", "host-memory", "lower-share", "(EngineCore pid=77) ERROR 06-11 08:01:12 [core.py:1104] ValueError: Available memory on node 0 (41.27/62.52 GiB) on startup is less than desired CPU memory utilization (0.92, 57.52 GiB). On the CPU backend, the `--gpu-memory-utilization` flag controls the fraction of CPU memory reserved (despite its name).", free=44313325076)
    told("vllm_swap", "host-memory", "smaller-share", "ValueError: Too large swap space. 32.00 GiB out of the 41.18 GiB total CPU memory is allocated for the swap space.")
    told("vllm_external_weights", "engine-share", "raise-share", "ValueError: Externally held weights on device cuda:0 (61.44/79.18 GiB) exceed the desired GPU memory utilization (0.75, 59.39 GiB). Increase GPU memory utilization or reduce GPU memory used by other processes.", held=65970697667)
    told("vllm_negative_cache", "kv-cache", "raise-share", "Loading model weights took 27.5376 GB\nAvailable KV cache memory: -0.87 GiB", deficit=934155387)
    told("vllm_budget_without_weights", "other-process", "end-process", "ValueError: Free memory on device cuda:1 (12.50/79.18 GiB) on startup is less than the engine's budget after excluding external process's weights (0.9, 30.21 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.", free=13421772800)
    told("vllm_capture_driver", "outside-pytorch", "lower-share", "(RayWorkerVllm pid=1201) INFO 12-18 21:44:36 model_runner.py:394] Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static. To run the model in eager mode, set 'enforce_eager=True' or use '--enforce-eager' in the CLI.\nRuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.")
    told("vllm_npu_weights", "too-big", "less-weights", "vllm serve /models/big-32b \\\n  -tp 2 \\\n  --gpu-memory-utilization 0.6 \\\nRuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60.97 GiB total capacity; 58.92 GiB already allocated; 58.92 GiB current active; 1.66 GiB free; 58.95 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.")
    told("sglang_pool_0_1", "kv-cache", "raise-share", "    raise RuntimeError(\nRuntimeError: Not enought memory. Please try to increase --mem-fraction-static.")
    told("sglang_weights_fill", "kv-cache", "raise-share", "[2026-09-01 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\nValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.8. Raise --mem-fraction-static above 0.873 (minimum viable = 1 - available/pre = 0.8724). If using speculative decoding, draft weights are now counted.")
    told("sglang_window", "kv-cache", "fewer-requests", "RuntimeError: SWA pool cap (65536 tokens, 10.50 GiB) leaves no room for the full KV pool within the available 9.75 GiB. Reduce --max-running-requests, lower SGLANG_SWA_EVICTION_INTERVAL, or increase --mem-fraction-static.", available=10468982784)
    told("sglang_state", "kv-cache", "fewer-requests", "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max_mamba_cache_size=0 (total_rest_memory=1.02 GB, mamba_cache_per_req=74.81 MB). Try: (1) reduce --max-running-requests, (2) increase --mem-fraction-static, (3) reduce --speculative-num-draft-tokens, or (4) use GPUs with more memory.")
    told("sglang_slots", "kv-cache", "fewer-requests", "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. req_to_token_pool.available_size()=0, num_reqs=4,")
    told("sglang_retracted", "kv-cache", "raise-share", "[2026-05-01 12:00:00 TP0] Out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\nAvailable full tokens: 1812 (full_available_size=1812 + full_evictable_size=0)")
    told("sglang_scheduler_killed", "host-memory", "more-host-memory", "RuntimeError: Rank 3 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.")
    told("lmdeploy", "engine-share", "lower-share", "terminate called after throwing an instance of 'std::runtime_error'\n  what():  [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/allocator.h:233")
    told("mlc", "kv-cache", "raise-share", "TVMError: Check failed: (output_res.IsOk()) is false: Insufficient GPU memory error: The available single GPU memory is 5314.976 MB, which is less than the sum of model weight size (4951.083 MB) and temporary buffer size (806.819 MB).\n1. You can set a larger \"gpu_memory_utilization\" value.")
    told("exllama", "too-big", "shorter-context", "    raise RuntimeError(\"Insufficient VRAM in split for model and cache\")\nRuntimeError: Insufficient VRAM in split for model and cache")
    told("lmstudio", "limit", "shorter-context", "Error: Model loading was stopped due to insufficient system resources. Under the current settings, this model requires approximately 22.92 GB of memory, and continuing to load it would likely overload your system and cause it to freeze.", needed=24610162606)
    told("tgi_cut", "too-big", "smaller-prefill", "text_generation.errors.GenerationError: Request failed during generation: Server error: CUDA out of memory. Tried to allocate 42.00 MiB. GPU 0 has a total capacty of 39.39 GiB of which 31.94 MiB is free. Process 7529 has 39.23 GiB memory in use. Of the allocated memory 37.21 GiB is allo`")
    told("llama_fit", "too-big", "fewer-layers", "0.00.366.780 W common_fit_params: failed to fit params to free device memory: n_gpu_layers already set by user to 999, abort")
    told("llama_metal", "too-big", "smaller-batch", "ggml_metal_graph_compute: command buffer 3 failed with status 5\nerror: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)")
    told("ollama_killed", "host-memory", "smaller-model", "time=2026-02-27T14:42:08.637Z level=ERROR source=server.go:415 msg=\"llama runner terminated\" error=\"signal: killed\"")
    told("mlx", "too-big", "shrink", "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)")
    told("comfyui_shown", "unknown", "offload", "!!! Exception during processing !!! Allocation on device\nTraceback (most recent call last):\n  File \"/srv/ui/execution.py\", line 496, in execute")
    told("comfyui_tips", "unknown", "offload", "Allocation on device\nThis error means you ran out of memory on your GPU.\n\nTIPS: If the workflow worked before you might have accidentally set the batch_size to a large number.")
    told("hip_refused", "refused", "look-at-device", "HIP out of memory. Tried to allocate 432.00 MiB. GPU 0 has a total capacity of 15.92 GiB of which 7.12 GiB is free. Of the allocated memory 8.08 GiB is allocated by PyTorch, and 321.96 MiB is reserved by PyTorch but unallocated.")
    told("no_batch_size", "too-big", "shrink", "RuntimeError: No executable batch size found, reached zero.")
    told("nccl_shm_extend", "shared-memory", "more-shared-memory", "gpu07:9621:9691 [6] misc/shmutils.cc:71 NCCL WARN Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes", raw=5967876)
    told("npu_context", "other-process", "end-process", "[ERROR] aclrtSetDevice(deviceId) failed: 507033 (/opt/run/main.cpp:72)\n[ERROR] RecentErrMsg: [PID: 1613] 2026-03-24-12:14:45.885.234 Memory_Allocation_Failure(EL0004): Failed to allocate memory.\n        Possible Cause: Available memory is insufficient.")
    told("npu_hccl", "outside-pytorch", "leave-margin", "[Error]: Failed to apply for memory.\nEL0004: [PID: 3161] 2025-09-28-07:22:29.827.496 Failed to allocate memory.\n        Possible Cause: Available memory is insufficient.\n        Failed to allocate resource[DeviceMemory] with info [size:2147483648]. Reason: Memory resources are exhausted.")
    told("directml", "too-big", "shrink", "RuntimeError: Could not allocate tensor with 234881024 bytes. There is not enough GPU video memory available!", raw=234881024)
    told("tpu_buffer", "too-big", "shrink", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 15.65G. That was not possible. There are 11.08G free.; (0x0x0_HBM0)", free=11897059410)
    told("tpu_vmem", "kernel-shared-memory", "smaller-blocks", "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack for %my_kernel.1 = bf16[2048,2048]")
    told("tpu_sparse", "too-big", "shrink", "RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 34.82G, SparseCore Hbm usage 174.10G, exceeding available bytes: 95.74G", limit=102800042230)
    told("tensorflow_cpu", "host-memory", "less-host-memory", "2026-05-02 12:00:01.000001: W tensorflow/core/framework/op_kernel.cc:1827] OP_REQUIRES failed at conv_ops.cc:698 : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[64,512,512,64] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu")
    told("onnxruntime_title", "too-big", "arena", "/onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*, bool, onnxruntime::WaitNotificationFn) Failed to alloc")
    told("paddle_full", "too-big", "shrink", "RuntimeError: ResourceExhaustedError:\n\nOut of memory error on GPU 0. Cannot allocate 98.000244MB memory on GPU 0, 6.000000GB memory has been allocated and available memory is only 0.000000B.\n\nPlease check whether there is any other process using GPU 0.", allocated=6442450944)
    told("paddle_others", "too-big", "end-process", "Out of memory error on GPU 0. Cannot allocate 25.002197MB memory on GPU 0, available memory is only 15.187500MB.", size=26216704)
    told("tvm", "outside-pytorch", "end-process", "tvm/src/runtime/cuda/cuda_device_api.cc:129: InternalError: Check failed: (e == cudaSuccess || e == cudaErrorCudartUnloading) is false: CUDA: out of memory")
    told("page_file", "host-memory", "larger-page-file", "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading \"C:\\Python310\\lib\\site-packages\\torch\\lib\\cudnn_adv_infer64_8.dll\" or one of its dependencies.")
    told("page_file_translated", "host-memory", "larger-page-file", "OSError: [WinError 1455] 页面文件太小，无法完成操作。 Error loading \"D:\\envs\\torch\\lib\\cudnn_cnn_infer64_8.dll\" or one of its dependencies.")
    told("srun", "host-memory", "more-host-memory", "srun: error: node107: task 0: Out Of Memory")
    told("shell_killed", "host-memory", "less-host-memory", "Epoch 3 [479/1736] loss 0.6319\nKilled\n$ ")
    told("script_killed", "host-memory", "less-host-memory", "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py --epochs 400", pid=8156)
    told("systemd_oomd", "host-memory", "less-host-memory", "Dec 18 19:34:56 desk systemd-oomd[840]: Killed /user.slice/user-1001.slice/user@1001.service/app.slice/run-4242.scope due to memory pressure for /user.slice/user-1001.slice/user@1001.service being 51.07% > 50.00% for > 20s with reclaim activity")
    told("systemd_unit", "host-memory", "less-host-memory", "2026-02-08T00:40:07.136582+00:00 big2 systemd[1]: train.service: A process of this unit has been killed by the OOM killer.")
    told("docker_inspect", "host-memory", "look-at-kernel", "        \"Running\": false,\n        \"OOMKilled\": false,\n        \"ExitCode\": 137,")
    told("kubectl_describe", "host-memory", "more-host-memory", "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137")
    told("colab", "host-memory", "less-host-memory", "Your session crashed after using all available RAM. View runtime logs")
    told("dmesg_before_5", "host-memory", "less-host-memory", "[301.733819] Out of memory: Kill process 25635 (python) score 974 or sacrifice child\n[301.736861] Killed process 25635 (python) total-vm:55518724kB, anon-rss:23902876kB, file-rss:154436kB", pid=25635)
    told("dmesg_invoked", "host-memory", "less-host-memory", "[  687.293876] python invoked oom-killer: gfp_mask=0x24280ca, order=0, oom_score_adj=0")
    told("dmesg_padded", "host-memory", "less-host-memory", "[2059.491542] Out of memory: Killed process 25315 (python3) total-vm:53312244                                                                                          \n                    kB, anon-rss:31451456kB, file-rss:74816kB, shmem-rss:12296kB, UID:0 pgtables:690", pid=25315, raw_kb=31451456)
    told("shell_killed_chinese", "host-memory", "less-host-memory", "step 5120 loss 0.31\n已杀死")
    told("shell_killed_german", "host-memory", "less-host-memory", "step 5120 loss 0.31\nGetötet")
    told("triton_server_shm", "shared-memory", "more-shared-memory", "| encoder | 1 | UNAVAILABLE: Internal: Unable to initialize shared memory key '/encoder_0_CPU_0' to requested size (67108864 bytes). If you are running Tr |\n|         |   | iton inside docker, use '--shm-size' flag to control the shared memory region size. |", raw=67108864)
    told("process_of_no_bytes", "too-big", "shrink", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacity of 23.43 GiB of which 4.06 MiB is free. Including non-PyTorch memory, this process has 0 bytes memory in use. Of the allocated memory 23.03 GiB is allocated by PyTorch, and 15.67 MiB is reserved by PyTorch but unallocated.")
    told("quoted_in_markdown", "fragmentation", "expandable-segments", "> torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 0 has a\n> total capacity of 23.65 GiB of which 1.52 GiB is free. Including non-PyTorch memory, this\n> process has 22.12 GiB memory in use. Of the allocated memory 17.90 GiB is allocated by\n> PyTorch, and 3.75 GiB is reserved by PyTorch but unallocated.")
    told("html", "outside-pytorch", "leave-margin", "Last error:\nCuda failure 2 &#x27;out of memory&#x27;")
    told("docker_compose", "kv-cache", "raise-share", "\u001b[36mserver-1  | \u001b[0m\u001b[1;36m(EngineCore_DP0 pid=272)\u001b[0;0m ERROR 10-12 03:11:04 [core.py:708] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\r")
    told("bare", "unknown", "shrink", "训练到一半报错 RuntimeError: CUDA out of memory. 怎么解决")
    told("ollama_backend_buffer", "too-big", "fewer-layers", "Error: llama runner process has terminated: exit status 0xc0000409 error loading model: unable to allocate backend buffer")
    told("level_zero", "too-big", "shrink", "zeMemAllocDevice returned ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY")
    told("kubernetes_eviction", "host-memory", "request-memory", "  Warning  Evicted    2m    kubelet  The node was low on resource: memory. Threshold quantity: 100Mi, available: 88452Ki. Container trainer was using 58312Mi, request is 0, has larger consumption of memory.")
    told("spaces", "host-memory", "more-host-memory", "Runtime error\nMemory limit exceeded (16Gi)\nContainer logs:", limit=17179869184)
    told("cloud_run", "host-memory", "more-host-memory", "Memory limit of 16384 MiB exceeded with 16502 MiB used. Consider increasing the memory limit", used=17303601152)
    told("ecs", "host-memory", "more-host-memory", "reason: OutOfMemoryError: Container killed due to memory usage, exitCode: 137")
    told("ray_worker_died", "host-memory", "less-host-memory", "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called.")
    told("lightning_killed", "host-memory", "less-host-memory", "[rank: 1] Child process with PID 4242 terminated with code -9. Forcefully terminating all other processes to avoid zombies")
    told("mxnet", "outside-pytorch", "end-process", "mxnet.base.MXNetError: [10:00:00] src/storage/./pooled_storage_manager.h:161: cudaMalloc retry failed: out of memory")
    told("trtllm_model", "too-big", "less-weights", "[TRT-LLM] [E] Executor creation failed due to insufficient GPU memory.\n\nThe following component could not be created: Model\nTotal GPU memory (GiB): 15.44\nFree GPU memory before component creation attempt (GiB): 12.78\n\nPreviously created components and free GPU memory before/after creation (GiB):", model_free=13722420511)
    told("trtllm_cache", "kv-cache", "raise-share", "AssertionError: Impossible to fit in any sequence in kvCache")
    told("onnxruntime_extend", "too-big", "arena", "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: Failed to find a free memory block despite calling Extend. rounded_bytes=268435456", raw=268435456)
    told("mps_cut", "limit", "raise-limit", "RuntimeError: MPS backend out of memory (MPS allocated: 5.25 GiB, other allocations: 3.50 GiB, max allowed: 9.00 GiB).", limit=9663676416)
    told("tensorrt_level", "too-big", "smaller-workspace", "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (Requested size was 2147483648 bytes.)")


def answers_of_2026():
    told("jax_absurd", "never-fits", "split-request", "2025-03-23 20:28:59.832181: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.25TiB (rounded to 1374521760000)requested by op ", raw=1374521760000)
    told("tensorrt_tactic", "unknown", "smaller-workspace", "[W] UNSUPPORTED_STATESkipping tactic 0 due to insufficient memory on requested size of 11580055552 detected for tactic 0x0000000000000000.Try decreasing the workspace size with IBuilderConfig::setMemoryPoolLimit().", raw=11580055552)
    told("tensorrt_build", "unknown", "smaller-workspace", "[E] 2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: OutOfMemory (no further information)\n[W] Requested amount of GPU memory (68719476736 bytes) could not be allocated. There may not be enough free memory for allocation to succeed.\n[W] Skipping tactic 3 due to insufficient memory on requested size of 68719476736 detected for tactic 0x0000000000000074.\n    Try decreasing the workspace size with IBuilderConfig::setMemoryPoolLimit().")
    told("tensorrt_context", "too-big", "smaller-workspace", "WARNING - Requested amount of GPU memory (149635638784 bytes) could not be allocated. There may not be enough free memory for allocation to succeed.\nERROR - [executionContext.cpp::initializeExecutionContext::644] Error Code 2: OutOfMemory (Requested size was 149635638784 bytes.)", raw=149635638784)
    told("vllm_float32", "too-big", "less-weights", "python -m vllm.entrypoints.openai.api_server --model q/Q-7B --max-model-len=512 --dtype=float --enforce-eager\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 518.00 MiB. GPU 0 has a total capacty of 21.67 GiB of which 4.06 MiB is free. Process 2417585 has 21.65 GiB memory in use. Of the allocated memory 21.32 GiB is allocated by PyTorch, and 1018.00 KiB is reserved by PyTorch but unallocated.")
    told("sglang_capture_cut", "unknown", "lower-share", "python3 -m sglang.launch_server --model-path o/O-32B --enable-piecewise-cuda-graph\nCapturing num tokens (num_tokens=3968 avail_mem=0.05 GB):   2%| | 1/58\ntorch.OutOfMemoryError:")
    told("tgi_panicked", "too-big", "smaller-prefill", "thread 'main' panicked at 'Unable to warmup model: Generation(\"Allocation on device 0 would exceed allowed memory. (out of memory)\\nCurrently allocated     : 16.08 GiB\\nRequested               : 4.83 GiB\\nDevice limit            : 22.20 GiB\\nFree (according to CUDA): 11.12 MiB\\nPyTorch limit (set by user-supplied memory fraction)\\n                        : 22.20 GiB\")', router/src/main.rs:216:18\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n2023-07-07T17:55:43.805488Z ERROR text_generation_launcher: Webserver Crashed\n")
    told("llama_retried", "unknown", "smaller-batch", "1.06.520.077 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 51748.72 MiB on device 1: cudaMalloc failed: out of memory\n1.06.520.084 E ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 54262464512\n1.06.520.086 E graph_reserve: failed to allocate compute buffers\n1.06.520.107 W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n1.07.304.130 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 50176, kv_unified = 'false'\n")
    told("tensorflow_cublas", "outside-pytorch", "memory-growth", "E c:\\tf\\stream_executor\\cuda\\cuda_blas.cc:372] failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED\nW c:\\tf\\stream_executor\\stream.cc:1390] attempting to perform BLAS operation using StreamExecutor without BLAS support")
    told("tensorflow_cudnn", "outside-pytorch", "memory-growth", "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED")
    told("tensorflow_algorithms", "outside-pytorch", "memory-growth", "2023-05-25 19:41:34.660542: E tensorflow/compiler/xla/stream_executor/cuda/cuda_blas.cc:193] Failure to initialize cublas may be due to OOM (cublas needs some free memory when you initialize it, and your deep-learning framework may have preallocated more than its fair share), or may be because this binary was not built with support for the GPU in your machine.\n2023-05-25 19:41:34.660782: W tensorflow/core/framework/op_kernel.cc:1828] OP_REQUIRES failed at conv_ops_fused_impl.h:625 : NOT_FOUND: No algorithm worked!  Error messages:\n  Profiling failure on CUDNN engine eng11{}: UNKNOWN: CUDNN_STATUS_ALLOC_FAILED\nin tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc(5333): 'status'\n")
    told("tensorflow_of_shape", "other-process", "end-process", "2018-07-03 16:01:06.492813: I tensorflow/core/common_runtime/bfc_allocator.cc:680] Stats: \nLimit:                     8716288\nInUse:                     8017152\nMaxInUse:                  8458496\nNumAllocs:                      46\nMaxAllocSize:              2718720\n\n2018-07-03 16:01:06.492882: W tensorflow/core/framework/op_kernel.cc:1295] OP_REQUIRES failed at constant_op.cc:75 : Resource exhausted: OOM when allocating tensor of shape [1,399,532,3] and type float")
    told("tensorflow_1", "too-big", "shrink", "W tensorflow/core/common_runtime/bfc_allocator.cc:275] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.34GiB.  Current allocation summary follows.", size=2512555868)
    told("bfc_totals", "unknown", "shrink", "Stats: \nLimit:                      4928097484\nInUse:                      4248542720\nMaxInUse:                   4248542720", limit_raw=4928097484, used_raw=4248542720)
    told("tensorflow_pinned", "host-memory", "less-pinned-memory", "E tensorflow/stream_executor/cuda/cuda_driver.cc:893] failed to alloc 374391296 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory\nW ./tensorflow/core/common_runtime/gpu/gpu_host_allocator.h:44] could not allocate pinned host memory of size: 374391296", raw=374391296)
    told("rocm_absurd", "contradiction", "memory-growth", "E tensorflow/compiler/xla/stream_executor/rocm/rocm_driver.cc:606] failed to allocate 127.99TiB (140729850295296 bytes) from device: HIP_ERROR_OutOfMemory", raw=140729850295296)
    told("status_code_137", "host-memory", "more-host-memory", "Training task exit with status code 137")
    told("wsl_resident", "outside-pytorch", "end-process", "RuntimeError: CUDA driver error: device not ready\n[  834.120341] misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12")
    told("opencv", "outside-pytorch", "end-process", "opencv/modules/core/src/cuda_info.cpp:74: error: (-217:Gpu API call) out of memory in function 'setDevice'")
    told("cuda_by_example", "outside-pytorch", "end-process", "Done with cycle, beginning update 312\nout of memory in ./Connections/Growth_d.cu at line 34", line=34)
    told("hip_error", "outside-pytorch", "end-process", "error: 'hipErrorMemoryAllocation'(1002) at src/caffe/syncedmem.cpp:56")
    told("cut_behind_processes", "too-big", "shrink", "OutOfMemoryError: CUDA out of memory. Tried to allocate 9.47 GiB. GPU 0 has a total capacity of 14.75 GiB of which 3.78 GiB is free. Process 2116 has 10.95 GiB memory in use. Of th")
    told("gaudi_synapse", "too-big", "shrink", "synStatus=synOutOfDeviceMemory")
    told("flashinfer", "limit", "raise-limit", "RuntimeError: Buffer overflow when allocating memory for batch_prefill_tmp_v with size 612368384 and alignment 16, but only 394264576 bytes available in AlignedAllocator. Increase the workspace buffer size.", raw=612368384, left_raw=394264576)
    told("llama_vulkan_old_limit", "refused", "smaller-buffers", "llama_kv_cache_unified:    Vulkan0 KV buffer size =  6564.00 MiB\nllama_kv_cache_unified: size = 6564.00 MiB ( 70016 cells,  48 layers,  1/ 1 seqs), K (f16): 3282.00 MiB, V (f16): 3282.00 MiB\nggml_vulkan: Device memory allocation of size 4757131264 failed.\nggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory\nggml_gallocr_reserve_n: failed to allocate Vulkan0 buffer of size 4757131264\ngraph_reserve: failed to allocate compute buffers\nllama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers\nmain: error: unable to load model\n")
    told("llama_unable", "too-big", "fewer-layers", "Failed to load model error loading model: unable to allocate Vulkan0 buffer")
    told("lmstudio_resources", "limit", "shorter-context", "Not enough resources to load the model with the current settings")
    told("julia", "too-big", "free-pool", "julia> f()\nERROR: Out of GPU memory trying to allocate 1.000 GiB", size=1073741824)
    told("worker_bus_error_wrapped", "shared-memory", "more-shared-memory", "RuntimeError: DataLoader worker (pid 47) is killed by signal: Bus\nerror. It is possible that dataloader's workers are out of shared\nmemory. Please try to raise your shared memory limit.", pid=47)
    told("beyond_any_gpu", "never-fits", "split-request", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1263.35 GiB.")
    told("nvrm", "outside-pytorch", "end-process", "[ 5123.881] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359")
    told("sglang_profiled_below_zero", "kv-cache", "raise-share", "[2025-07-02 07:41:58 DP0 TP0] Load weight end. type=QForCausalLM, dtype=torch.bfloat16, avail mem=21.73 GB, mem usage=166.59 GB.\n[2025-07-02 07:41:59 DP0 TP0] max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value instead.\n", missing_tokens=561981)
    told("metal_ioaf", "too-big", "shrink", "Fatal error: Error Domain=MTLCommandBufferErrorDomain Code=8 \"Insufficient Memory (IOAF code 8)\" UserInfo={NSLocalizedDescription=Insufficient Memory (IOAF code 8)}: file main.swift, line 261")
    told("ollama_exited", "unknown", "smaller-model", "Error: llama runner exited, you may not have enough available memory to run this model")
    told("llama_pinned_hip", "host-memory", "without-mmap", "ggml_cuda_host_malloc: failed to allocate 2.34 MiB of pinned memory: hipErrorOutOfMemory\nllama_new_context_with_model:        CPU  output buffer size =     2.34 MiB\n", host=2453668)
    told("docker_137", "host-memory", "more-host-memory", "command terminated with non-zero exit code: Error executing in Docker Container: 137")
    told("triton_cut", "kernel-shared-memory", "smaller-blocks", "    raise OutOfResources(self.metadata.shared, max_shared, \"shared memory\")\ntriton.runtime.errors.OutOfResources: out of resource: shared memory,")
    told("triton_1", "kernel-shared-memory", "smaller-blocks", "triton.code_gen.OutOfResources: out of resource: shared memoryRequired: 110592Hardware limit: 101376", required=110592, limit=101376)
    told("vllm_offline", "too-big", "lower-share", "llm = LLM(\"nvidia/Llama-3.1-Minitron-4B-Width-Base\", enable_prefix_caching=True, block_size=3, gpu_memory_utilization=0.8, max_num_batched_tokens=11000,  max_model_len=11000, speculative_model=\"ibm-fms/llama3-8b-accelerator\", num_speculative_tokens=1, use_v2_block_manager=True)\nsampling_params = SamplingParams(temperature=0.5, top_p=0.2, max_tokens=1)\nmodel = models.VLLM(llm)\n```\n\n**Error trace**\n```python\nOutOfMemoryError: CUDA out of memory. Tried to allocate 1.86 GiB. GPU 0 has a total capacity of 21.99 GiB of which 337.38 MiB is free. Process 30125 has 21.64 GiB memory in use. Of the allocated memory 18.20 GiB is allocated by PyTorch, with 27.10 MiB allocated in private pools (e.g., CUDA Grap")
    told("vllm_cache_tensors", "too-big", "lower-share", "(EngineCore pid=72838) ERROR 05-09 16:24:05 [core.py:1136]   File \"/home/z/vl/.venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py\", line 6537, in _allocate_kv_cache_tensors\n(EngineCore pid=72838) ERROR 05-09 16:24:05 [core.py:1136]     tensor = torch.zeros(\n(EngineCore pid=72838) ERROR 05-09 16:24:05 [core.py:1136]              ^^^^^^^^^^^^\n(EngineCore pid=72838) ERROR 05-09 16:24:05 [core.py:1136] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 23.52 GiB of which 115.69 MiB is free. Including non-PyTorch memory, this process has 23.37 GiB memory in use. Of the allocated memory 22.69 GiB is allocated by PyTorch, and 209.68 MiB is reserved by PyTorch but unallocated.")


def answers_of_any_program():
    """Failures of programs without rows of their own: their grammar tells them."""
    told("opencl_onednn", "too-big", "shrink", "onednn_verbose,v1,info,gpu,runtime:OpenCL\nonednn_verbose,v1,primitive,error,ocl,errcode -5,CL_OUT_OF_RESOURCES,src/gpu/intel/ocl/kernel.cpp:250,src/gpu/intel/ocl/kernel.cpp:250")
    told("openvino_resources", "too-big", "shrink", "[E:onnxruntime:, executor.cc:516 ExecuteKernel] Non-zero status code returned while running OpenVINO-EP-subgraph_2 node. Status Message: /o/providers/openvino/ov_interface.cc:243 [OpenVINO-EP]  Wait Model Failed: Exception from src/inference/src/cpp/infer_request.cpp:245:\nException from src/plugins/intel_gpu/src/runtime/ocl/ocl_engine.cpp:185:\n[GPU] out of GPU resources")
    told("mindspore_total", "too-big", "shrink", "[ERROR] PRE_ACT(54175,fffdbcff91e0,python):2024-10-22-11:24:55.301.443 [mindspore/ccsrc/backend/common/mem_reuse/mem_dynamic_allocator.cc:392] AddMemBlock] TotalUsedMemStatistics : 29356337664 plus TotalUsedByEventMemStatistics : 0 and plus alloc size : 301990400 is more than total mem size : 29464985600.", size=301990400)
    told("mindspore_pinned", "host-memory", "less-pinned-memory", "[ERROR] MD(14433,7fea2effd700,python):2021-12-12-14:13:43.932.181 [mindspore/ccsrc/minddata/dataset/util/arena.cc:250] Init] cudaHostAlloc failed, ret[2], out of memory")
    told("paddle_cpu", "host-memory", "load-in-parts", "ResourceExhaustedError: Fail to alloc memory of 5060694016 size.")
    told("slurm_before_19", "host-memory", "more-host-memory", "slurmstepd: error: Job 7518 exceeded memory limit (626359956 > 512000000), being killed\nslurmstepd: error: Exceeded job memory limit\nslurmstepd: error: *** JOB 7518 ON n1 CANCELLED AT 2022-06-10T17:11:35 ***")
    told("cycles_zluda", "too-big", "shrink", "Out of memory in cuStreamCreate(&cuda_stream_, CU_STREAM_NON_BLOCKING) (C:\\b\\intern\\cycles\\device\\cuda\\queue.cpp:21)")
    told("cycles_render", "too-big", "shrink", "Fra:1 Mem:18164.50M (Peak 23433.50M) | Time:00:43.45 | Mem:1517.36M, Peak:1517.36M | Scene, ViewLayer | Updating Scene BVH | Copying BVH to device\nSystem is out of GPU and shared host memory")
    told("alphafold_47", "too-big", "shrink", "W external/xla/xla/service/hlo_rematerialization.cc:3005] Can't reduce memory use below 18.88GiB (20266891105 bytes) by rematerialization; only reduced to 41.43GiB (44490724824 bytes), down from 45.92GiB (49309847144 bytes) originally\n2024-12-14 19:57:44.462633: W external/xla/xla/tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 47.20GiB (rounded to 50677266944)requested by op \nRESOURCE_EXHAUSTED: Out of memory while trying to allocate 50677266816 bytes.")
    told("sycl_host_code", "too-big", "fewer-layers", "UR backend failed. UR backend returns:40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)Exception caught at file:/b/ggml/src/ggml-sycl/ggml-sycl.cpp, line:2819")
    told("whisper_assert", "too-big", "smaller-model", "whisper_model_load: type          = 5 (large v3)\nwhisper_model_load: n_langs       = 100\nGGML_ASSERT: D:\\a\\ggml-backend.c:460: data != NULL && \"failed to allocate buffer\"")
    told("ggml_aligned_malloc", "host-memory", "smaller-model", "ggml_aligned_malloc: insufficient memory (attempted to allocate 14796.44 MB)\nggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 15515189248\nalloc_tensor_range: failed to allocate CPU buffer of size 15515189248")
    told("gunicorn", "host-memory", "less-host-memory", "[2024-07-18 07:20:11 +0000] [25120] [ERROR] Worker (pid:25134) was sent SIGKILL! Perhaps out of memory?")
    told("compose_137", "host-memory", "more-host-memory", "server-1  | ./start.sh: line 28:     7 Killed                  /app/bin/server $ARGS \"$@\"\nserver-1 exited with code 137")
    told("neuron", "too-big", "shrink", "2024-Jul-30 14:22:30.244701 65191:65191 ERROR  TDRV:dmem_alloc_internal                     Failed to alloc DEVICE memory: 10485760", size=10485760)
    told("skipped_batch", "too-big", "shrink", "Predicting DataLoader 0:   0%|   | 0/1 [00:00<?, ?it/s]| WARNING: ran out of memory, skipping batch\nPredicting DataLoader 0: 100%|  | 1/1 [00:05<00:00,  0.18it/s]Number of failed examples: 1")
    told("tegra", "host-memory", "end-process", "NvMapMemAllocInternalTagged: 1075072515 error 12\nNvMapMemHandleAlloc: error 0")
    told("opencv_absurd", "never-fits", "split-request", "terminate called after throwing an instance of 'cv::Exception'\n  what():  OpenCV(4.5.4) /b/modules/core/src/alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate 512956604754240 bytes in function 'OutOfMemoryError'", size=512956604754240)
    told("webgpu", "too-big", "smaller-model", "[E:onnxruntime:Default, webgpu_context.cc:120 operator()] WebGPU device error(2): Out of memory")
    told("browser_buffer", "too-big", "smaller-model", "ort.webgpu.min.mjs:2603 Uncaught Error: Can't create a session. Failed to allocate a buffer of \nsize 2079238052.")
    told("browser_range", "host-memory", "smaller-model", "RangeError: Array buffer allocation failed")
    told("physx", "too-big", "shrink", "+++ Using GPU PhysX\nPxgCudaDeviceMemoryAllocator fail to allocate memory 100663296 bytes!! Result = 2 ", size=100663296)
    told("vulkan_resource", "too-big", "shrink", "2024-06-05 01:29:43 [8,172ms] [Error] [carb.graphics-vulkan.plugin] Out of GPU memory allocating resource 'MemoryManager-allocate' [size: unknown]\n2024-06-05 01:29:43 [8,172ms] [Error] [carb.graphics-vulkan.plugin] VkResult: ERROR_OUT_OF_DEVICE_MEMORY")
    told("no_memory_is_available", "unknown", "shrink", "    if e.errno == errno.ENOMEM: raise MemoryError(f\"Cannot allocate {size} bytes: no memory is available.\") from e\nMemoryError: Cannot allocate 122341986304 bytes: no memory is available.", size=122341986304)
    told("metal_size", "too-big", "shrink", "MemoryError: Metal OOM while allocating size=4000000000", size=4000000000)
    told("mesa", "too-big", "shrink", "MESA: error: amdgpu: Failed to allocate a buffer:\nMESA: error: amdgpu:    size      : 2141958144 bytes\nMESA: error: amdgpu:    alignment : 2097152 bytes\nMESA: error: amdgpu:    domains   : 2")
    told("java_native", "too-big", "raise-limit", "java.lang.OutOfMemoryError: Could not allocate native memory: std::bad_alloc: out_of_memory: RMM failure at:/b/mr/device/arena_memory_resource.hpp:159: Maximum pool size exceeded")
    told("device_count", "refused", "look-at-device", "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 2: out of memory (Triggered internally at /pytorch/c10/cuda/CUDAFunctions.cpp:109.)\n  return torch._C._cuda_getDeviceCount() > 0")
    told("nvml_assert", "too-big", "shrink", "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"/b/c10/cuda/CUDACachingAllocator.cpp\":1154, please report a bug to PyTorch. ")
    told("tpu_reserve", "too-big", "shrink", "E tensorflow/compiler/xla/xla_client/xla_util.cc:90]   OP_REQUIRES failed at tpu_execute_op.cc:266 : RESOURCE_EXHAUSTED: Attempting to reserve 10.51G at the bottom of memory. That was not possible. There are 8.97G free, 0B reserved, and 8.97G reservable.")
    told("faiss_old", "too-big", "smaller-workspace", "RuntimeError: Error in void faiss::gpu::allocMemorySpaceV(faiss::gpu::MemorySpace, void**, size_t) at gpu/utils/MemorySpace.cpp:27: Error: 'err == cudaSuccess' failed: failed to cudaMalloc 1610612736 bytes (error 2 out of memory)")
    told("compiler_killed", "host-memory", "less-host-memory", "[3/49] /usr/local/cuda/bin/nvcc  -I/tmp/csrc/attn --threads 4 -c src/bwd_hdim128_bf16_sm80.cu\nKilled\nninja: build stopped: subcommand failed.")
    told("ray_low", "host-memory", "less-host-memory", "ERROR - An error occurred during score calculation: Task was killed due to the node running low on memory.")
    told("ray_pressure_wrapped", "host-memory", "less-host-memory", "(raylet) [2025-12-07 09:57:19,206 E 393463 393463] (raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at \nnode (ID: 8289f87b, IP: 10.0.0.7) over the last time period.")
    told("onnxruntime_stream", "too-big", "shrink", "[ONNXRuntimeError] : 1 : FAIL : D:\\s\\onnxruntime\\core\\providers\\cuda\\cuda_call.cc:121 onnxruntime::CudaCall CUDA failure 2: out of memory ; GPU=0 ; hostname=H ; file=D:\\s\\onnxruntime\\core\\providers\\cuda\\cuda_stream_handle.cc ; line=175 ; expr=cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);")
    told("openmm", "outside-pytorch", "end-process", "simtk.openmm.OpenMMException: Error creating array interactingAtoms: CUDA_ERROR_OUT_OF_MEMORY (2)")
    told("accelerator", "too-big", "shrink", "ERROR: Insufficient memory on accelerator (src/GPU/gpu_extra.h:38)")
    told("nextflow_137", "host-memory", "less-host-memory", "Caused by:\n  Process `pipeline:scan (19)` terminated with an error exit status (137)")
    told("dask", "host-memory", "less-host-memory", "distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting\ndistributed.nanny - WARNING - Restarting worker")
    told("ggml_pool", "limit", "shrink", "[INFO ] stable-diffusion.cpp:1483 - decoding 1 latents\nggml_new_object: not enough space in the context's memory pool (needed 19176000, available 19136512)\nggml.c:1576: GGML_ASSERT(obj_new) failed")
    told("driver_set_access", "outside-pytorch", "end-process", "13:26:10 ERROR    Uncaught exception: E:\\tiny-cuda-nn\\include\\tiny-cuda-nn/gpu_memory.h:531 cuMemSetAccess(m_base_address + m_size, n_bytes_to_allocate, &access_desc, 1) failed with error CUDA_ERROR_OUT_OF_MEMORY")
    told("julia_usage", "too-big", "free-pool", "ERROR: Out of GPU memory trying to allocate 1.717 GiB\nEffective GPU memory usage: 99.51% (3.993 GiB/4.000 GiB)")
    told("rknn", "too-big", "shrink", "E RKNN: [09:40:45.140] failed to allocate handle, ret: -1, errno: 14, errstr: Bad address\nE RKNN: [09:40:45.140] failed to malloc npu memory, size: 3085697024, flags: 0x2\nE RKNN: [09:40:45.148] load model file error!", size=3085697024)
    told("repacked", "host-memory", "smaller-model", "ggml_aligned_malloc: insufficient memory (attempted to allocate 60480.00 MB)\nggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 63417876480\nalloc_tensor_range: failed to allocate CPU_REPACK buffer of size 63417876480\nllama_model_load: error loading model: unable to allocate CPU_REPACK buffer")
    told("background_workers", "host-memory", "look-at-kernel", "RuntimeError: One or more background workers are no longer alive. Exiting. Please check the print statements above for the actual error message")
    told("hashcat", "too-big", "shrink", "* Device #1: Not enough allocatable device memory for this attack.")
    told("backend_buffer", "too-big", "fewer-layers", "Error: llama runner process has terminated: error loading model: unable to allocate backend buffer")
    told("pbs", "host-memory", "more-host-memory", "=>> PBS: job killed: mem 33619968kb exceeded limit 33554432kb")
    told("lsf", "host-memory", "more-host-memory", "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.")
    told("trtllm_paged_tokens", "kv-cache", "raise-share", "E0306 16:40:07.708802 117 backend_model.cc:691] ERROR: Failed to create instance: unexpected error when creating modelInstanceState: maxTokensInPagedKvCache (29184) must be large enough to process at least 1 sequence to completion (i.e. must be larger than beam_width (1) * tokensPerBlock (128) * maxBlocksPerSeq (272))")
    told("checkpoint_killed", "host-memory", "less-host-memory", "Epoch 0: 100%|█| 209/209 [06:12<00:00,  1.78s/it, loss=0.0685]\nSummoning checkpoint.\nKilled")
    told("died_with_sigkill", "host-memory", "less-host-memory", "subprocess.CalledProcessError: Command '['python3', 'train.py']' died with <Signals.SIGKILL: 9>.")
    told("ollama_runner_killed", "host-memory", "smaller-model", "time=2025-06-27T14:42:08.637Z level=ERROR source=server.go:415 msg=\"llama runner terminated\" error=\"signal: killed\"\ntime=2025-06-27T14:42:13.411Z level=WARN source=sched.go:645 msg=\"gpu VRAM usage didn't recover within timeout\" seconds=5.266774732 runner.size=\"54.3 GiB\" runner.vram=\"52.8 GiB\"")
    told("mps_title", "limit", "raise-limit", "MPS backend out of memory (MPS allocated: 39.50 GiB, other allocations: 141.24 GiB, max allowed: 182.78 GiB).")


def answers_of_sources():
    """Wordings that the programs' own sources have, of releases old and new, with numbers of our own."""
    told("vllm_cpu_no_blocks", "kv-cache", "raise-share", "ERROR 05-20 10:00:00 [core.py:387] ValueError: No available memory for the cache blocks. Try increasing `VLLM_CPU_KVCACHE_SPACE` when initializing the engine.")
    told("vllm_openvino_seq_len", "kv-cache", "shorter-context", "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (20480). Try increasing `VLLM_OPENVINO_KVCACHE_SPACE` or decreasing `max_model_len` when initializing the engine.", tokens=20480)
    told("vllm_tpu_load", "too-big", "less-weights", "RuntimeError: Unable to load model, a likely reason is the model is too large for the current device's HBM memory. Consider switching to a smaller model or sharding the weights on more chips. See the detailed error: RESOURCE_EXHAUSTED")
    told("vllm_linear_weights", "too-big", "less-weights", "RuntimeError: Failed to create unquantized linear weights. This may be caused by insufficient memory to allocate the weight.")
    told("vllm_shm_space", "shared-memory", "more-shared-memory", "OSError: Insufficient space in /dev/shm: 4096.0 MiB required, 63.5 MiB free. Increase /dev/shm (e.g. --shm-size or --ipc=host).")
    told("sglang_pool_assert", "kv-cache", "raise-share", "[2025-11-02 08:15:30 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/u/sglang/srt/managers/tp_worker.py\", line 120, in __init__\n    assert self.max_running_requests > 0, \"max_running_request is zero\"\nAssertionError: Memory pool size is too small")
    told("sglang_mamba_space", "kv-cache", "fewer-requests", "RuntimeError: Not enough space for mamba cache, try to increase --mamba-full-memory-ratio or --max-mamba-cache-size. mid=None, self.mamba_pool.size=64, self.mamba_pool.available_size()=0, len(reqs)=3")
    told("sglang_host_cache", "host-memory", "smaller-host-cache", "[2025-12-03 09:00:00 TP2] Scheduler hit an exception: ValueError: Not enough host memory available. Requesting 128.50 GB but only have 96.25 GB free. Please reduce the size of the hierarchical cache.", needed=128500000000, free=96250000000)
    told("sglang_host_cache_ratio", "limit", "larger-host-cache", "AssertionError: The host memory should be larger than the device memory with the current protocol")
    told("sglang_draft", "kv-cache", "raise-share", "RuntimeError: DFLASH draft OOM when allocating 512 block tokens.")
    told("sglang_decode_old", "kv-cache", "raise-share", "Decode out of memory. This should nerver happen.")
    told("sglang_hisparse", "host-memory", "more-host-memory", "RuntimeError: HiSparse host mem pool alloc failed for 4096 tokens")
    told("xla_pinned", "host-memory", "raise-limit", "E0310 10:00:00.000000 1234 gpu_host_allocator.h:59] Failed to allocate HostMemory (67108864 bytes) of pinned host memory: CUDA_ERROR_OUT_OF_MEMORY: out of memory", raw=67108864)
    told("cublaslt_workspace", "outside-pytorch", "shrink", "RuntimeError: OOM trying to allocate workspace for cublaslt")
    told("nccl_mem_alloc", "outside-pytorch", "leave-margin", "RuntimeError: ncclMemAlloc failed")
    told("nccl_host_malloc", "host-memory", "more-host-memory", "n1:1017:1301 [0] transport/net.cc:812 NCCL WARN Failed to malloc 16777216 bytes", size=16777216)
    told("kernel_shared_memory", "kernel-shared-memory", "smaller-blocks", "RuntimeError: Requested shared memory (262144 bytes) exceeds device limit (101376 bytes). Consider reducing block size or shared memory usage.", required=262144, limit=101376)
    told("evaluation", "too-big", "shrink", "RuntimeError: Evaluation hit an out-of-memory error. `auto_find_batch_size` only adjusts the training batch size, reduce `per_device_eval_batch_size` instead.")
    told("mkl_malloc", "host-memory", "more-host-memory", "RuntimeError: mkl_malloc: failed to allocate memory")


def answers_of_classes():
    """Classes of texts, one of each: a device, a limit, a library's own pool, what the lines did. And sentences that are broken."""
    told("tf_device_unknown", "too-big", "shrink", "ResourceExhaustedError (see above for traceback): OOM when allocating tensor with shape[100,4096,32]")
    told("tf_xpu", "too-big", "shrink", "ResourceExhaustedError: {{function_node __wrapped__AddV2}} OOM when allocating tensor with shape[3,3,2560,1280] and type float on /job:localhost/replica:0/task:0/device:XPU:0 by allocator Simple allocator [Op:AddV2]")
    told("tf_rocm_start", "other-process", "end-process", "2019-01-08 19:06:11.303639: E tensorflow/stream_executor/rocm/rocm_driver.cc:601] failed to allocate 7.35G (7889485824 bytes) from device: hipError_t(1002)\n2019-01-08 19:06:11.303736: E tensorflow/stream_executor/rocm/rocm_driver.cc:601] failed to allocate 6.61G (7100536832 bytes) from device: hipError_t(1002)", raw=7889485824)
    told("onnxruntime_cpu_layout", "host-memory", "shrink", "2021-07-08 01:27:55.7944269 [E:onnxruntime:, executor.cc:339 Execute] Non-zero status code returned while running Conv node. Name:'347_nchwc' Status Message: C:\\w\\onnxruntime\\core\\framework\\bfc_arena.cc:330 onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 285081600", raw=285081600)
    told("tensorrt_7", "too-big", "smaller-workspace", "[03/07/2020-16:57:34] [E] [TRT] C:\\s\\safeRuntime.cpp (25) - Cuda Error in nvinfer1::internal::DefaultAllocator::allocate: 2 (out of memory)\n[03/07/2020-16:57:34] [W] [TRT] GPU memory allocation error during getBestTactic: conv_1\n[03/07/2020-16:57:34] [E] [TRT] Internal error: could not find any implementation for node \nconv_1, try increasing the workspace size with IBuilder::setMaxWorkspaceSize()")
    told("tensorrt_tactic_mib", "unknown", "smaller-workspace", "[11/16/2023-04:25:27] [TRT] [W] Tactic Device request: 66048MB Available: 32510MB. Device memory is insufficient to use tactic.\n[11/16/2023-04:25:27] [TRT] [W] UNSUPPORTED_STATESkipping tactic 0 due to insufficient memory on requested size of 66048 detected for tactic 0x0000000000000018.", size=69256347648, free=34089205760)
    told("xpu_1_4", "refused", "look-at-device", "RuntimeError: XPU out of memory. Tried to allocate 1.00 GiB (GPU 0; 15.56 GiB total capacity; 990.00 MiB already allocated; 990.00 MiB reserved in total by PyTorch)")
    told("hexadecimal_size", "too-big", "shrink", "[BMRT][load_bmodel:1501] INFO:net num: 1\n[bmlib_memory][error] bm_alloc_gmem failed, dev_id = 0, size = 0xc0fb4000", size=3237691392)
    told("tgi_0_9_total", "kv-cache", "fewer-requests", "Not enough memory to handle 16000 total tokens with 2 prefill tokens. You need to decrease `--max-batch-total-tokens` or `--max-batch-prefill-tokens`", tokens=16000, prefill=2)
    told("webui", "too-big", "offload", '  File "C:\\ai\\stable-diffusion-webui\\modules\\call_queue.py", line 56, in f\n    res = func(*args)\nOutOfMemoryError: CUDA out of memory. Tried to allocate 58.00 MiB (GPU 0; 3.81 GiB total capacity; 2.82 GiB already allocated; 13.44 MiB free; 2.90 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.')
    told("paged_optimizer", "host-memory", "other-optimizer", "CUDA SETUP: CUDA runtime path found: /usr/local/cuda-11.8/lib64/libcudart.so\nError out of memory at line 351 in file /home/u/bitsandbytes/csrc/pythonInterface.c", line=351)
    told("boxed_traceback_pins", "host-memory", "less-pinned-memory", "│ /opt/lib/python3.8/site-packages/deepspeed/runtime/zero/stage_1_and_2.py:462 in __init__        │\n│                                                                                                  │\n│ ❱  462 │   │   │   self.grads = get_accelerator().pin_memory(                                         │\n│    463 │   │   │   │   torch.zeros(n,                                                                   │\n╰──────────────────────────────────────────────────────────────────────────────────────────────────╯\nRuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace below might be incorrect.")
    told("locked_memory", "limit", "raise-limit", "n1:4016:4653 [7] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory\nn1:4016:4653 [7] NCCL INFO transport/net_ib.cc:659 -> 2")
    told("window_space", "limit", "fewer-windows", "[0] nccl/src/allocator.cc:229 (ncclSpaceAlloc) NCCL WARN Allocation failed. No suitable space found to accommodate size=0x2171600000 within limit=0x2d00000000", size=0x2171600000, limit=0x2d00000000)
    told("memory_saver", "engine-share", "release-trainer", "[torch_memory_saver.cpp] CUresult error  result=2 file=csrc/torch_memory_saver.cpp func=cu_mem_create line=103 (5)")
    told("state_dict", "too-big", "offload-state", "/u/site-packages/torch/distributed/fsdp/_state_dict_utils.py:312: UserWarning: Failed to clone() tensor with name head on rank 1. Error: CUDA out of memory. Tried to allocate 502.00 MiB (GPU 1; 39.59 GiB total capacity; 35.54 GiB already allocated; 276.19 MiB free; 37.22 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.")
    told("one_large_tensor", "host-memory", "shrink", "RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 116813856768 bytes. Error code 12 (Cannot allocate memory)", raw=116813856768)
    told("java_runtime", "host-memory", "more-host-memory", "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x0000000731400000, 3293577216, 0) failed; error='Cannot allocate memory' (errno=12)\n#\n# There is insufficient memory for the Java Runtime Environment to continue.\n# Native memory allocation (malloc) failed to allocate 3293577216 bytes for committing reserved memory.", raw=3293577216)
    told("vllm_no_free_blocks", "kv-cache", "fewer-sequences", "ERROR 12-13 08:58:11 engine.py:165] NoFreeBlocksError()")
    told("vllm_no_free_blocks_v1", "kv-cache", "fewer-sequences", "(EngineCore_DP0 pid=10271) ERROR 10-27 14:16:34 [core.py:710] ValueError: Cannot get 31 free blocks from the pool", blocks=31)
    told("lmdeploy_cache", "kv-cache", "raise-share", "[TM][WARNING] dp0 ID 7: cache out of memory, no request can be admitted; failing head-of-line request")
    told("lmdeploy_runtime", "engine-share", "lower-share", "RuntimeError: No enough gpu memory for runtime.")
    told("exceeds_the_free", "too-big", "shrink", "ERROR: estimated GPU memory of 29.10 GiB exceeds the available 23.60 GiB", size=31245887078)
    told("html_marks", "outside-pytorch", "leave-margin", '<code class="x"><span class="hljs-symbol">Error:</span> Memory_Allocation_Failure(EL0004): Failed <span class="k">to</span> allocate memory&nbsp;requested by GE module.')
    told("windows_has_no_expandable_segments", "fragmentation", "max-split-size", "!!! Exception during processing !!! HIP out of memory. Tried to allocate 8.54 GiB. GPU 0 has a total capacity of 15.92 GiB of which 0 bytes is free. Of the allocated memory 3.97 GiB is allocated by PyTorch, and 9.27 GiB is reserved by PyTorch but unallocated.\nUserWarning: expandable_segments not supported on this platform (Triggered internally at B:\\src\\torch\\c10/hip/HIPAllocatorConfig.h:40.)")
    told("whisper_loads", "too-big", "smaller-model", 'Faster-Whisper running on: CUDA\nTraceback (most recent call last):\nFile "faster_whisper\\transcribe.py", line 125, in init\nRuntimeError: CUDA failed with error out of memory')
    told("xgboost_1_7", "too-big", "split-request", "../src/tree/updater_gpu_hist.cu:784: Exception in gpu_hist: [11:01:50] ../common/device_helpers.cuh:431: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n- Free memory: 8126464\n- Requested memory: 33554432\n\nStack trace:", raw=33554432, free=8126464)
    told("opencl_host", "host-memory", "more-host-memory", "WARNING| lightgbm.basic.LightGBMError: Out of Host Memory")
    told("ray_before_2", "host-memory", "less-host-memory", "(raylet) node_manager.cc:2963: System memory low at node with IP 10.0.0.2. Used memory (23.63GB) / total capacity (33.28GB) (0.709971) exceeds threshold 0.7, killing latest task with name A.b to avoid running out of memory.")
    told("mlx_block_limit", "too-big", "shrink", "libc++abi: terminating due to uncaught exception of type std::runtime_error: [malloc_or_wait] Unable to allocate 134217728 bytes.", size=134217728)
    told("ggml_absurd", "never-fits", "split-request", "ggml_aligned_malloc: insufficient memory (attempted to allocate 2268047721628.89 MB)\nGGML_ASSERT: /b/ggml.c:4467: ctx->mem_buffer != NULL")
    # Broken sentences: at a blank, amid a word, in quotations, in boxes, behind a rank, at an escape of JSON, before the size.
    told("broken_at_a_blank", "host-memory", "more-host-memory", "RuntimeError: mkl_malloc: failed to\nallocate memory")
    told("broken_in_a_word", "kv-cache", "fewer-requests", "RuntimeError: Not enough memory to han\ndle 16000 total tokens with 2 prefill tokens. You need to decrease the total", tokens=16000)
    told("broken_in_a_quotation", "too-big", "shrink", "> > panic: the GPU ran out\n> > of memory while drawing")
    told("broken_in_a_box", "too-big", "shrink", "│ VkError: failed to        │\n│ allocate 512.00 MiB of    │\n│ GPU memory                │")
    told("broken_behind_a_rank", "too-big", "shrink", "[rank3]: DriverError: device memory: unable to\n[rank3]: allocate 268435456 bytes on the GPU", rank=3)
    told("broken_in_json", "too-big", "shrink", '{"level": "error", "msg": "renderer: failed to\\nallocate 512 MiB of GPU memory"}')
    told("broken_before_the_size", "too-big", "shrink", "error: vkAllocateMemory failed to allocate a buffer of size\n1073741824", size=1073741824)


def answers_of_work():
    """Texts in which the traceback, a command line or the text around a quotation tells the rest."""
    told("while_loading", "too-big", "less-weights", '  File "/opt/lib/python3.10/site-packages/transformers/modeling_utils.py", line 936, in _load_state_dict_into_meta_model\n    set_module_tensor_to_device(model, name, device)\n  File "/opt/lib/python3.10/site-packages/accelerate/utils/modeling.py", line 400, in set_module_tensor_to_device\n    new_value = value.to(device)\nRuntimeError: NPU out of memory. Tried to allocate 386.00 MiB (NPU 2; 60.97 GiB total capacity; 59.57 GiB already allocated; 59.57 GiB current active; 16.54 MiB free; 60.06 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.\nLoading checkpoint shards:  42%|████      | 16/38 [00:14<00:19,  1.13it/s]')
    told("model_to_device", "too-big", "less-weights", '  File "/home/u/serve.py", line 14, in <module>\n    model = model.to("cuda")\n  File "/opt/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1371, in to\n    return self._apply(convert)\n  File "/opt/lib/python3.12/site-packages/torch/nn/modules/module.py", line 957, in _apply\n    param_applied = fn(param)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 118.06 MiB is free. Including non-PyTorch memory, this process has 23.52 GiB memory in use. Of the allocated memory 23.07 GiB is allocated by PyTorch, and 11.09 MiB is reserved by PyTorch but unallocated.')
    told("optimizer_step", "unknown", "smaller-optimizer", '[rank0]:   File "/opt/lib/python3.10/site-packages/torch/optim/adamw.py", line 606, in _multi_tensor_adamw\n[rank0]:     exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)\n[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 94.99 GiB of which 87.19 MiB is free. Including non-PyTorch memory,')
    told("optimizer_cut", "unknown", "smaller-optimizer", '0:   File "/opt/lib/python3.10/site-packages/torch/optim/adamw.py", line 608, in _multi_tensor_adamw\n0:     exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)\n0: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to all')
    told("tgi_shard", "too-big", "less-weights", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 MiB (GPU 0; 15.77 GiB total capacity; 15.37 GiB already allocated; 13.62 MiB free; 15.77 GiB allowed; 15.40 GiB reserved in total by PyTorch)\n rank=0\nError: ShardCannotStart\n2024-01-17T10:23:27.032737Z ERROR text_generation_launcher: Shard 0 failed to start")
    told("small_among_others", "outside-pytorch", "free-outside", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 6.00 GiB total capacity; 1.64 GiB already allocated; 0 bytes free; 1.73 GiB reserved in total by PyTorch)")
    told("tensorflow_beyond_pool", "never-fits", "split-request", "2024-04-19 19:58:29.648862: I tensorflow/core/common_runtime/bfc_allocator.cc:686] Stats:\nLimit:                  3157432729\nInUse:                        9984\nMaxInUse:                    10752\n2024-04-19 19:58:29.664828: W tensorflow/core/framework/op_kernel.cc:1431] OP_REQUIRES failed at dynamic_stitch_op.cc:132 : Resource exhausted: OOM when allocating tensor with shape[1474944849] and type int32 on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc")
    told("curand", "outside-pytorch", "shrink", "thinc on a GPU of 1 GB: `CURANDError: CURAND_STATUS_ALLOCATION_FAILED`")
    told("open_files", "limit", "raise-limit", '  File "/opt/lib/python3.11/site-packages/torch/storage.py", line 256, in share_memory_\nRuntimeError: unable to open shared memory object </torch_4217_1396182366_1020> in read-write mode: Too many open files (24)')
    told("pin_thread", "unknown", "look-before", "RuntimeError: unable to open shared memory object </torch_310_3681426278_102> in read-write mode: No such file or directory (2)\nERROR - Error in main function: Pin memory thread exited unexpectedly")
    told("vllm_cache_by_bytes", "kv-cache", "shorter-context", "(EngineCore pid=316) INFO 08-21 18:37:44 [gpu_worker.py:492] Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling.\n(EngineCore pid=316) ERROR 08-21 18:37:44 [core.py:1344] ValueError: To serve at least one request with the models's max seq len (200000), (4.26 GiB KV cache is needed, which is larger than the available KV cache memory (4.25 GiB). Based on the available memory, the estimated maximum model length is 199552. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", fits=199552)
    told("vllm_title_and_traceback", "unknown", "fewer-batched-tokens", '# Failed to deploy a model: HIP out of memory. Tried to allocate 192.00 GiB\n\n(EngineCore_DP0 pid=43) ERROR 03-20 17:39:14 [core.py:1100]   File "/usr/local/lib/python3.12/dist-packages/vllm/v1/attention/ops/vit_attn_wrappers.py", line 236, in torch_sdpa_wrapper\n(EngineCore_DP0 pid=43) ERROR 03-20 17:39:14 [core.py:1100]     output_i = apply_sdpa(q_i, k_i, v_i, scale=scale, enable_gqa=enable_gqa)')
    told("container_and_cut", "unknown", "less-weights", "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.10.1 --model some/model --max-model-len 16384\n\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allo")
    told("emphasis", "too-big", "shrink", "I get **RuntimeError: CUDA out of memory.** Tried to allocate **2.50 GiB** (GPU 0; 15.90 GiB total capacity; 14.10 GiB already allocated; `1.21 GiB` free; 14.15 GiB reserved in total by PyTorch)")
    told("bus_error", "shared-memory", "more-shared-memory", "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -7) local_rank: 0 (pid: 5275) of binary: /usr/bin/python\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\npretrain.py FAILED")
    told("buildkit_compiler", "host-memory", "less-host-memory", '#26 98.16 /opt/lib/python3.10/site-packages/torch/include/c10/util/StringUtil.h(68): catastrophic error: out of memory\n#26 98.16     return _str(_str(ss, t), args...);\n#26 98.16 1 catastrophic error detected in the compilation of "csrc/cache_kernels.cu".')
    told("vllm_serve_default_share", "too-big", "less-weights", "run : vllm serve some/model-32B --port 8000 --enable-reasoning\ntorch.OutOfMemoryError: HIP out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 31.98 GiB of which 136.00 MiB is free. Of the allocated memory 31.61 GiB is allocated by PyTorch, and 1.21 MiB is reserved by PyTorch but unallocated.")
    told("quoted_without_its_beginning", "unknown", "lower-share", "With `--gpu-memory-utilization 0.98` the engine crashes while it captures CUDA graphs\n\n    Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of\n    which 120.88 MiB is free. ... If this problem persists, try setting\n    VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0")
    told("pipeline_loads", "too-big", "less-weights", 'Loading pipeline components...:  80%|########  | 4/5 [00:14<00:03,  3.66s/it]\n  File "/opt/lib/python3.12/site-packages/diffusers/pipelines/pipeline_utils.py", line 1021, in from_pretrained\n    loaded_sub_model = load_sub_model(\n  File "/opt/lib/python3.12/site-packages/diffusers/pipelines/pipeline_loading_utils.py", line 876, in load_sub_model\n    loaded_sub_model = load_method(os.path.join(cached_folder, name), **loading_kwargs)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 23.56 GiB of which 79.88 MiB is free. Including non-PyTorch memory, this process has 22.94 GiB memory in use. Of the allocated memory 22.57 GiB is allocated by PyTorch, and 44.61 MiB is reserved by PyTorch but unallocated.')


def answers_of_releases():
    """Texts whose format strings stand in the releases' sources, with what an engine prints around them."""
    told("vllm_states", "kv-cache", "fewer-sequences", "(EngineCore pid=7) ERROR 07-03 10:12:13 [core.py:1108] ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (613). Each decode sequence requires one Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most 613 or increase gpu_memory_utilization.", blocks=613)
    told("vllm_decode_pool", "kv-cache", "smaller-share", "ValueError: frontend multimodal GPU decoding reserves 6.00 GiB (4.00 GiB raw-frame budget, 2.00 GiB decoder cache budget), but only 5.12 GiB is available for the KV cache. Reduce mm_ipc_gpu_memory_gb or hw_decoders, use a different video backend, or increase gpu_memory_utilization.")
    told("vllm_cpu_reserved", "kv-cache", "raise-share", "ValueError: The worker already uses 18.24 GiB (model weights and runtime), more than the 12.00 GiB of CPU memory reserved for it on node 0, leaving none for the KV cache. On the CPU backend, the `--gpu-memory-utilization` flag controls the fraction of CPU memory reserved (despite its name).")
    told("vllm_encoder_cache", "limit", "raise-limit", "ValueError: The decoder prompt contains a(n) image item with 16384 embedding tokens, which exceeds the pre-allocated encoder cache size 8192. Please reduce the input size or increase the encoder cache size by setting --limit-mm-per-prompt at startup.", tokens=16384)
    told("vllm_seq_len_without_tokens", "kv-cache", "shorter-context", "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache. Try increasing gpu_memory_utilization or decreasing max_model_len.", max_model_len=32768)
    told("sglang_vae", "too-big", "tile-vae", "[07-03 10:12:13] OOM detected during VAE decoding. Enable --vae-tiling to bound the decode working set, and free the components that finished earlier with --cpu-offload-components dit,text_encoder.")
    told("sglang_vae_tiled", "too-big", "offload", "[07-03 10:12:13] OOM detected during VAE decoding with tiling enabled. Free the components that finished earlier with --cpu-offload-components dit,text_encoder, then lower the tile size in the model's VAE config, then reduce resolution or frame count.")
    told("sglang_checkpoint_pool", "engine-share", "lower-share", "RuntimeError: int8 mamba checkpoint pool needs ~6.40GB but only 3.18GB HBM is free. Lower --int8-mamba-ckpt-size (currently 4096) or --mem-fraction-static.")
    told("llama_context_full", "kv-cache", "raise-limit", "decode: failed to find a memory slot for batch of size 1\nsrv  update_slots: Context size has been exceeded.")
    told("llama_tensor_range", "too-big", "fewer-layers", "alloc_tensor_range: failed to allocate ROCm0 buffer of size 4026531840", raw=4026531840)
    told("xla_command_buffer", "outside-pytorch", "lower-share", "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Underlying backend ran out of memory trying to instantiate command buffer with 1200 (total of 40 alive graphs in the process). You can try to (a) Give more memory to the driver by reducing XLA_CLIENT_MEM_FRACTION (b) Disable command buffers with 'XLA_FLAGS=--xla_gpu_enable_command_buffer=' (empty set). Original error: CUDA_ERROR_OUT_OF_MEMORY: out of memory", graphs=40)
    told("jax_staging", "host-memory", "raise-limit", "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate a 1073741824-byte pinned host staging buffer for a device-to-host transfer. The pinned host pool may be exhausted or fragmented (see XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB), or the underlying pinned allocation failed.", raw=1073741824)
    told("metal_buffers", "limit", "free-pool", "RuntimeError: [metal::malloc] Resource limit (499000) exceeded.", buffers=499000)
    told("engine_of_a_cut_message", "unknown", "less-weights", "Traceback (most recent call last):\n  File \"/opt/lib/python3.11/site-packages/vllm_ascend/worker/worker.py\", line 429, in load_model\n    self.model_runner.load_model()\n  File \"/opt/lib/python3.11/site-packages/vllm/model_executor/model_loader/base_loader.py\", line 50, in load_model\n    model = initialize_model(\nRuntimeError: NPU out of memory. Tried to all")
    told("vllm_free_memory_in_a_title", "other-process", "end-process", "[release][vllm] Distributed failures - free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than desired GPU memory utilization (0.9, 19.84 GiB)")
    told("quoted_in_old_words", "outside-pytorch", "free-outside", "Training fails at once, with a batch of one:\nTried to allocate 216.00 MiB (GPU 0; 7.92 GiB total capacity; 69.17 MiB already allocated; 24.56 MiB free; 86.00 MiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.")


def answers_of_pastes():
    """Texts as people paste them: titles, parts of logs, commands, a part of a pod's description."""
    told("mps_without_others", "unknown", "shrink", 'Every product of matrices fails on the hosted runner:\n\n`MPS backend out of memory (MPS allocated: 1024.00 MB). Tried to allocate 256 bytes on shared pool.`')
    told("llama_pinned_comma", "host-memory", "without-mmap", 'llm_load_print_meta: model type       = 13B\nggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: invalid argument\nllm_load_tensors: offloaded 26/41 layers to GPU', host=1992294400)
    told("xpu_block_limit", "refused", "split-request", '>>> x = torch.rand(46000, 40000, dtype=torch.float32, device="xpu")\nRuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.85 GiB (GPU  0; 15.56 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)')
    told("command_in_lines", "too-big", "less-weights", 'vllm serve /models/some-32B \\\n  -tp 2\\\n  --dtype bfloat16 \\\n  --gpu-memory-utilization 0.6 \\\nRuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60.97 GiB total capacity; 58.92 GiB already allocated; 58.92 GiB current active; 1.66 GiB free; 58.95 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.')
    told("sglang_serves_npu", "too-big", "lower-share", 'torch.OutOfMemoryError: NPU out of memory. Tried to allocate 72.00 MiB (NPU 0; 61.27 GiB total capacity; 57.85 GiB already allocated; 57.85 GiB current active; 5.04 MiB free; 57.90 GiB reserved in total by PyTorch).If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.\n\npython3 -m sglang.launch_server \\\n        --model-path /models/some \\\n        --device npu --tp-size 16 \\\n        --chunked-prefill-size 2048 \\\n        --mem-fraction-static 0.90 \\')
    told("trtllm_executor_resources", "engine-share", "fewer-sequences", 'RuntimeError: Executor creation failed due to insufficient GPU memory.\n\nThe following component could not be created: Additional executor resources\nTotal GPU memory (GiB): 95.00\nFree GPU memory before component creation attempt (GiB): 16.95\n\nPreviously created components and free GPU memory before/after creation (GiB):\nModel: 94.30 / 47.83', tokens_free=18199923917)
    told("lmstudio_shortened", "limit", "shorter-context", '"Model loading was stopped due to insufficient system resources... requires approximately 15.89 GB of memory"\nMemAvailable:   23144396 kB  (~22 GiB)', needed=17061757583)
    told("pod_with_its_limit", "host-memory", "more-host-memory", '    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n    Restart Count:  5\n    Limits:\n      cpu:     100m\n      memory:  300Mi\n    Requests:\n      cpu:     100m\n      memory:  200Mi')
    told("dmesg_whole", "host-memory", "less-host-memory", '[1234.671] python3 invoked oom-killer: gfp_mask=0x6200ca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0\n[1234.672] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,task=python3,pid=1440763,uid=1000\n[1234.673] Out of memory: Killed process 1440763 (python3) total-vm:87033376kB, anon-rss:60356340kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:169956kB oom_score_adj:0', pid=1440763, raw_kb=60356340)
    told("ray_memory_of_the_node", "host-memory", "less-host-memory", 'Memory on the node (IP: 10.0.0.2, ID: 708c7baf966d59aa3f08299830c349ca055293ebb1c33d8e72cd3336) where the task (actor ID: 0dab4ab45f6c947201afac6d01000000, name=RayWorkerVllm.__init__, pid=308, memory used=11.15GB) was running was 12.49GB / 13.15GB (0.950003), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 79a553ea91fe46f95e8384ddf8a8f0a01e3418a975ecd0af983c7bb2) because it was the most recently scheduled task', pid=308, used=11972221338)
    told("ollama_layout_alone", "too-big", "shorter-context", 'Error: 500 Internal Server Error: memory layout cannot be allocated')
    told("llama_vulkan_behind_load", "too-big", "fewer-layers", 'ggml_vulkan: Device memory allocation of size 1059303232 failed.\nggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\nalloc_tensor_range: failed to allocate Vulkan0 buffer of size 1059303232', raw=1059303232)
    told("npu_rt_malloc", "outside-pytorch", "leave-margin", 'ERROR 04-09 21:56:46 [engine.py:82] 2026-04-09-21:56:40.384.694 Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE module.\nERROR 04-09 21:56:46 [engine.py:82]         Possible Cause: Available memory is insufficient.\nERROR 04-09 21:56:46 [engine.py:82]         TraceBack (most recent call last):\nERROR 04-09 21:56:46 [engine.py:82]         Call rtMalloc fail, purpose: page caching, type = 2, size:3221291008, device_id:0[FUNC:Alloc][FILE:device_allocator.cc][LINE:72]', raw=3221291008)
    told("lmdeploy_small_share", "too-big", "less-weights", '2024-04-23 10:11:19,967 - lmdeploy - INFO - updated backend_config=TurbomindEngineConfig(model_name=None, tp=1, session_len=8192, max_batch_size=128, cache_max_entry_count=0.1, cache_block_seq_len=64)\nException in thread Thread-2:\n  File "/opt/lib/python3.9/site-packages/lmdeploy/turbomind/turbomind.py", line 444, in _create_model_instance\n    model_inst = self.tm_model.model_comm.create_model_instance(\nRuntimeError: [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/allocator.h:231')
    told("tensorrt_engine_load", "too-big", "free-gpu", '[I] Loading bytes from engines/some/unet.engine\n[E] 1: [defaultAllocator.cpp::allocate::19] Error Code 1: Cuda Runtime (out of memory)\n[W] Requested amount of GPU memory (1180463648 bytes) could not be allocated. There may not be enough free memory for allocation to succeed.\n[E] 2: [safeDeserialize.cpp::load::269] Error Code 2: OutOfMemory (no further information)\n[!] Could not deserialize engine. See log for details.')
    told("beyond_the_gpu", "too-big", "shrink", 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of 11.00 GiB of which 0 bytes is free. Of the allocated memory 16.98 GiB is allocated by PyTorch, and 696.75 MiB is reserved by PyTorch but unallocated.')
    told("translated_by_a_machine", "too-big", "shrink", '内存溢出错误：CUDA 内存不足。尝试分配 108.00 MiB 的内存。GPU 0 的总内存容量为 23.68 GiB，其中空闲内存为 34.88 MiB。进程 1170126 正在使用 2.25 GiB 的内存。', size=113246208)
    told("comfyui_driver", "outside-pytorch", "offload", 'got prompt\nRequested to load QwenImage\nloaded partially; 9178.35 MB usable, 9177.97 MB loaded, 3390.29 MB offloaded, lowvram patches: 0\n!!! Exception during processing !!! CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1')
    told("apu_total", "never-fits", "raise-shared-memory", 'torch.OutOfMemoryError: HIP out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total capacity of 15.24 GiB of which 15.09 GiB is free. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.')
    told("load_weights_of_a_file", "too-big", "less-weights", 'loading output.weight to cuda:0\nTraceback (most recent call last):\n  File "/opt/app/local_chat.py", line 111, in local_chat\n    optimize_and_load_gguf(model, optimize_rule_path, gguf_path, config)\n  File "/opt/app/optimize/optimize.py", line 129, in optimize_and_load_gguf\n    load_weights(module, gguf_loader)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.73 GiB. GPU 0 has a total capacity of 15.70 GiB of which 1.23 GiB is free. Including non-PyTorch memory, this process has 14.46 GiB memory in use. Of the allocated memory 14.17 GiB is allocated by PyTorch, and 46.01 MiB is reserved by PyTorch but unallocated.')
    told("trtllm_paged_tokens_0_6", "kv-cache", "raise-share", 'ERROR: Failed to create instance: unexpected error when creating modelInstanceState: maxTokensInPagedKvCache must be large enough to process at least 1 sequence to completion (i.e. must be larger than beam_width * tokensPerBlock * maxBlocksPerSeq)')
    told("forge_sampling", "too-big", "offload", 'You can also (not recommended) add "--disable-gpu-warning" to remove this warning       sampling_function.py :: WARNING\n 50%|█████     | 2/4 [00:42<00:42, 21.40s/it]\nEncountered Out of Memory during Sampling; Unloading all Models...                            main_thread.py :: ERROR')
    told("forge_driver", "outside-pytorch", "offload", 'Environment vars changed: {\'stream\': False, \'inference_memory\': 950.0, \'pin_shared_memory\': True}\nRuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n  File "D:\\Data\\Packages\\Stable Diffusion WebUI Forge\\modules_forge\\main_thread.py", line 30, in work')
    told("ollama_loads", "too-big", "fewer-layers", 'time=2025-05-23T11:51:09.683+08:00 level=INFO source=server.go:168 msg=offload library=rocm layers.requested=-1 layers.model=41 layers.offload=41 layers.split="" memory.available="[15.4 GiB]" memory.required.full="10.5 GiB" memory.required.kv="1.2 GiB"\nError: llama runner process has terminated: error loading model: unable to allocate ROCm0 buffer')
    told("llama_update_of_the_cache", "too-big", "smaller-batch", 'server-1  | llama_kv_cache_update_impl: failed to allocate compute buffers\nserver-1  | ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9866.00 MiB on device 1: cudaMalloc failed: out of memory\nserver-1  | ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 10345253120')
    told("cgroup_before_5", "host-memory", "more-host-memory", '[2612362.231458] python invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=829\n[2612362.231487]  mem_cgroup_out_of_memory+0x4b/0x80\n[2612362.231602] memory: usage 8388608kB, limit 8388608kB, failcnt 310\n[2612362.231700] Memory cgroup out of memory: Kill process 208253 (python) score 1957 or sacrifice child\n[2612362.231702] Killed process 208253 (python) total-vm:62567800kB, anon-rss:8100056kB, file-rss:264kB, shmem-rss:0kB', pid=208253)
    told("pod_in_a_report", "host-memory", "more-host-memory", '> **Restart Reason**: OOMKill (memory exceeded limit, SIGKILL)\n> **Exit Code**: 137 (= 128 + 9, i.e., SIGKILL)\n> **Memory Limit**: 1000Gi')
    told("ray_name_with_commas", "host-memory", "less-host-memory", 'Memory on the node (IP: 10.0.0.2, ID: ba65c80c8aec6b1c406693f640c53f85422d4d73b069747d69875d42) where the task (task ID: d221d26232c9bae05def6a6d00dbd292d4fc77cc01000000, name=head, rank=0,, pid=4503, memory used=9.04GB) was running was 1900.50GB / 2000.00GB (0.950250), which exceeds the memory usage threshold of 0.95. Ray killed this worker', used=9706626089)
    told("tensorrt_retyped", "too-big", "smaller-workspace", '[E] [defaultAllocator.cpp::allocate::19] Error code 1: cuda Runtime (out of memory)TE] Error code: 9: skipping tactic 0x0000000000000000 due to exception [tunablegraph.cpp:create:116] autotuning: user allocator error allocating 86114305024-byte buffer\n[E] [virtualMemoryBuffer.cpp::resizePhysical::140] Error code 2: out of Memory (Requested size was 22942842880 bytes.)')
    told("vllm_sets_up", "refused", "look-at-device", '(EngineCore pid=812)   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 231, in init_device\n(EngineCore pid=812)     current_platform.set_device(self.device)\n(EngineCore pid=812) torch.AcceleratorError: CUDA error: out of memory')
    told("llama_metal_synchronize", "too-big", "smaller-batch", 'llama_context:        CPU  output buffer size =     2.32 MiB\nllama_kv_cache:      Metal KV buffer size = 11440.00 MiB\nllama_kv_cache: size = 11440.00 MiB ( 28160 cells, 104 layers,  4/1 seqs), K (f16): 5720.00 MiB, V (f16): 5720.00 MiB\nllama_context:      Metal compute buffer size =   307.00 MiB\nllama_context:        CPU compute buffer size =    65.01 MiB\ncommon_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)\nggml_metal_synchronize: error: command buffer 0 failed with status 5\n/opt/llama.cpp/ggml/src/ggml-metal/ggml-metal-context.m:235: fatal error\nerror: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)')
    told("comfyui_report", "unknown", "offload", '# ComfyUI Error Report\n## Error Details\n- **Node ID:** 3\n- **Node Type:** HyVideoSampler\n- **Exception Type:** torch.OutOfMemoryError\n- **Exception Message:** Allocation on device ')
    told("nccl_segment", "shared-memory", "more-shared-memory", 'It almost worked except for the `Error while creating shared memory segment /dev/shm/nccl-pZafXL (size 7340384)` when I tried it first time (Docker version 24.0.7, build 24.0.7-0ubuntu2~22.04.1)', raw=7340384)
    told("slots_of_requests", "kv-cache", "fewer-requests", 'RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. self.req_to_token_pool.available_size()=1, num_reqs=2,', requests=2, open_slots=1)


def answers_of_context():
    # What the rest of the log says decides which step is the first.
    told("validation", "outside-pytorch", "evaluate-in-parts", 'Traceback (most recent call last):\n  File "train.py", line 349, in <module>\n    main()\n  File "train.py", line 282, in validate\n    scores = outputs.clone()\nRuntimeError: CUDA error: out of memory')
    told("vllm_nccl", "outside-pytorch", "lower-share", '(VllmWorker rank=7 pid=240)   File "/opt/venv/lib/python3.12/site-packages/vllm/distributed/parallel_state.py", line 750, in destroy\n(VllmWorker rank=7 pid=240)     torch.distributed.destroy_process_group(self.device_group)\n(VllmWorker rank=7 pid=240) ncclUnhandledCudaError: Call to CUDA function failed.\n(VllmWorker rank=7 pid=240) Last error:\n(VllmWorker rank=7 pid=240) Cuda failure \'out of memory\'')
    told("only_process", "outside-pytorch", "free-outside", 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 22.19 GiB of which 1.50 MiB is free. Process 4711 has 22.18 GiB memory in use. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.')
    told("trtllm_buffers", "engine-share", "fewer-sequences", '[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/opt/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)\n1       0x55c059d1e7c3 void tensorrt_llm::common::check<cudaError>(cudaError, char const*, char const*, int) + 147\n2       0x7f4aa35755f6 tensorrt_llm::runtime::BufferManager::gpu(unsigned long, nvinfer1::DataType) const + 230\n3       0x7f4aa35ec4f6 tensorrt_llm::runtime::TllmRuntime::TllmRuntime(void const*, unsigned long, nvinfer1::ILogger&) + 982')
    told("mps_refused", "refused", "other-device", "RuntimeError: MPS backend out of memory (MPS allocated: 1.02 GB, other allocations: 0 bytes, max allowed: 15.87 GB). Tried to allocate 256 bytes on shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).")
    told("deepspeed_offload", "host-memory", "offload-less", "[2023-04-07 13:08:55,469] [INFO] [utils.py:838:see_memory_usage] CPU Virtual Memory:  used = 28.43 GB, percent = 22.6%\n[2023-04-07 13:09:33,201] [INFO] [launch.py:318:sigkill_handler] Killing subprocess 80\n[2023-04-07 13:09:33,220] [ERROR] [launch.py:324:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=0'] exits with return code = -9")
    told("deepspeed_loads", "host-memory", "load-in-parts", "Loading checkpoint shards:   0%|          | 0/7 [00:00<?, ?it/s][2023-09-10 11:45:59,207] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 6293\n[2023-09-10 11:45:59,501] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 6294", pid=6293)
    told("memory_saver_resume", "engine-share", "release-trainer", "[torch_memory_saver.cpp] cuMemCreate CUDA_ERROR_OUT_OF_MEMORY (may not be an issue e.g. torch allocator will free cache and retry)\n[torch_memory_saver.cpp] cudaError error: 2 (out of memory)  file=csrc/core.cpp func=resume line=172")
    told("memory_saver_of_an_engine", "engine-share", "release-trainer", "(SGLangHttpServer pid=977) [torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h func=cu_mem_create line=194\n(WorkerDict pid=740) WARNING:2025-11-28 16:00:45,396:Async request to resume_memory_occupation timed out (attempt 1)")
    told("forge_cut", "unknown", "offload", '  File "/opt/stable-diffusion-webui-forge/backend/nn/flux.py", line 46, in apply_rope\n    out = cos * x[..., 0] + sin * x[..., 1]\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 202.00 MiB. GPU ')
    told("tgi_router", "too-big", "smaller-prefill", "text_generation_router::infer: router/src/infer.rs:554: Request failed during generation: Server error: CUDA out of memory. Tried to allocate 16.00 MiB (GPU 0; 22.20 GiB total capacity; 20.75 GiB already allocated; 5.12 MiB free; 22.20 GiB allowed; 20.86 GiB reserved in total by PyTorch)")
    told("lmdeploy_weights", "too-big", "less-weights", "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/memory_utils.cu:32")
    told("sdnext", "too-big", "offload", "OutOfMemoryError: CUDA out of memory. Tried to allocate 3.80 GiB (GPU 0; 8.00 GiB total capacity; 4.03 GiB already allocated; 2.11 GiB free; 4.87 GiB reserved in total by PyTorch)\n03:55:00-485952 DEBUG    Server alive: True Memory used: 3.15 total: 15.9")
    told("semaphores", "shared-memory", "more-shared-memory", 'Filesystem      Size  Used Avail Use% Mounted on\nshm              64M     0   64M   0% /dev/shm\n  File "/usr/lib/python3.8/multiprocessing/synchronize.py", line 57, in __init__\n    sl = self._semlock = _multiprocessing.SemLock(\nOSError: [Errno 28] No space left on device')
    told("ray_pressure", "host-memory", "less-host-memory", "(raylet) node_manager.cc:3277: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node")
    told("docker_build", "host-memory", "more-host-memory", "Step 12/16 : RUN python /opt/agent/preprocess.py --dataset /opt/agent/btc.csv\n ---> Running in a2fc04a918b0\nKilled\nThe command '/bin/sh -c python /opt/agent/preprocess.py --dataset /opt/agent/btc.csv' returned a non-zero code: 137")
    told("ray_before_1_13", "host-memory", "less-host-memory", "ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node\nhost-1 is used (11.8 / 12.3 GB). The top 5 memory consumers are:")
    told("managed_of_cuda", "host-memory", "split-request", '========= Program hit cudaErrorMemoryAllocation (error 2) due to "out of memory" on CUDA API call to cudaMallocManaged.')
    told("comfyui_host_buffer", "host-memory", "less-pinned-memory", "# ComfyUI Error Report\n- **Exception Type:** RuntimeError\n- **Exception Message:** RuntimeError: HostBuffer.read_file_slice failed")
    told("small_rest", "too-big", "shrink", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 5.80 GiB total capacity; 4.36 GiB already allocated; 6.69 MiB free; 4.63 GiB reserved in total by PyTorch)")
    told("named_others", "other-process", "end-process", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.11 GiB. GPU 0 has a total capacity of 14.74 GiB of which 1.65 GiB is free. Process 66 has 6.79 GiB memory in use. Process 69 has 514.00 MiB memory in use. Process 60 has 4.93 GiB memory in use. Process 63 has 894.00 MiB memory in use. Of the allocated memory 4.50 GiB is allocated by PyTorch, and 2.14 GiB is reserved by PyTorch but unallocated.")
    told("cublas_of_mxnet", "outside-pytorch", "shrink", "Check failed: err == CUBLAS_STATUS_SUCCESS (1 vs. 0) : Create cublas handle failed")
    told("traceback_behind", "too-big", "less-weights", 'CUDA out of memory. Tried to allocate 26.00 MiB (GPU 0; 15.99 GiB total capacity; 15.09 GiB already allocated; 0 bytes free; 15.14 GiB reserved in total by PyTorch)\n  File "D:\\Python\\chat\\debug.py", line 8, in <module>\n    model = AutoModelForCausalLM.from_pretrained("chat", device_map="cuda")\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 26.00 MiB (GPU 0; 15.99 GiB total capacity; 15.09 GiB already allocated; 0 bytes free; 15.14 GiB reserved in total by PyTorch)')
    told("killed_on_a_board", "host-memory", "smaller-model", "root@tegra-ubuntu:/# python3 /opt/benchmark.py\n-- loading /data/models/params/\nKilled")


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    wordings()
    other_devices()
    cut()
    logs()
    nothing()
    for name, (content, _) in CASES.items():
        (out / f"{name}.log").write_bytes(content)
    expected = {name: found for name, (_, found) in CASES.items()}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in expected.items())
    (out / "expected.json").write_text("{\n" + rows + "\n}\n")
    answers()
    more_answers()
    answers_of_2026()
    answers_of_any_program()
    answers_of_sources()
    answers_of_classes()
    answers_of_work()
    answers_of_releases()
    answers_of_pastes()
    answers_of_context()
    (out / "answers").mkdir(exist_ok=True)
    for name, (text, _) in ANSWERS.items():
        (out / "answers" / f"{name}.log").write_text(text)
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(wanted)}" for name, (_, wanted) in ANSWERS.items())
    (out / "answers" / "innocent.log").write_text("\n\n".join(TEXTS) + "\n")
    (out / "answers" / "expected.json").write_text("{\n" + rows + "\n}\n")


main()
