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
from pathlib import Path

from answers_of_context import of_context
from answers_of_devices import of_devices
from answers_of_families import of_families
from answers_of_logs import ANSWERS, of_logs
from answers_of_posts import of_posts
from answers_of_programs import of_programs
from innocent_texts import TEXTS
from message_amounts import GIB, MIB, UNITS, printed, size

OLD_PAGE = "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables"
NEW_PAGE = "https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf"

draw = random.Random(5)


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
    of_logs()
    of_programs()
    of_families()
    of_posts()
    of_devices()
    of_context()
    (out / "answers").mkdir(exist_ok=True)
    for name, (text, _) in ANSWERS.items():
        (out / "answers" / f"{name}.log").write_text(text)
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(wanted)}" for name, (_, wanted) in ANSWERS.items())
    (out / "answers" / "innocent.log").write_text("\n\n".join(TEXTS) + "\n")
    (out / "answers" / "expected.json").write_text("{\n" + rows + "\n}\n")


main()
