"""Writes one small file for each layout of a memory snapshot: python3 make_layouts.py [OUT, by default ../layouts]

Standard library only. Every run on any CPython from 3.10 on writes the same bytes. What each file is for stands in
`../layouts/README.md`.
"""

import base64
import json
import pathlib
import pickle
import struct
import sys

GIB, MIB = 1 << 30, 1 << 20
HEAP = 0x7F4000000000
NOW_US = 1_795_222_544_000_000


# ---------- pieces of a snapshot, in the newest layout unless `drop` says which keys were not yet there


def frame(name="step", filename="/home/user/project/train.py", line=12, **fx):
    return {"name": name, "filename": filename, "line": line, **fx}


def without(record, drop):
    return {key: value for key, value in record.items() if key not in drop}


def block(address, size, requested=None, state="active_allocated", frames=None, drop=()):
    requested = size if requested is None else requested
    record = dict(address=address, size=size, requested_size=requested, state=state, frames=frames or [])
    return without(record, drop)


def segment(address, blocks, device=0, stream=0, kind="small", pool=(0, 0), expandable=False, frames=None, drop=()):
    def total(key, *states):
        return sum(b.get(key, 0) for b in blocks if not states or b["state"] in states)

    active = ("active_allocated", "active_pending_free")
    record = dict(
        device=device,
        address=address,
        total_size=total("size"),
        allocated_size=total("size", "active_allocated"),
        active_size=total("size", *active),
        requested_size=total("requested_size", *active),
        stream=stream,
        segment_type=kind,
        segment_pool_id=tuple(pool),
        is_expandable=expandable,
        frames=frames or [],
        blocks=blocks,
    )
    return without(record, drop)


def entry(action, addr, size, step=0, stream=0, frames=None, pool=(0, 0), drop=(), **more):
    record = dict(action=action)
    record["device_free" if action == "oom" else "addr"] = addr
    record.update(size=size, stream=stream, time_us=NOW_US + step)
    record.update(compile_context="N/A", user_metadata="", pool_id=tuple(pool), **more)
    if frames is not None:
        record["frames"] = frames
    return without(record, drop)


def settings(conf=""):
    divisions = {"1": 0, "2": 0, "32768": 8}  # torch writes every power of two between
    return dict(
        PYTORCH_CUDA_ALLOC_CONF=conf,
        max_split_size=-1,
        garbage_collection_threshold=0.8,
        expandable_segments=False,
        roundup_power2_divisions=divisions,
    )


def small_segment(drop=(), block_drop=(), **more):
    """Three blocks of the three states."""
    stack = [frame(), frame("<module>", line=30)]
    blocks = [
        block(HEAP, 1024, 1000, frames=stack, drop=block_drop),
        block(HEAP + 1024, 512, 4, "active_pending_free", frames=stack, drop=block_drop),
        block(HEAP + 1536, 2 * MIB - 1536, 0, "inactive", drop=block_drop),
    ]
    return segment(HEAP, blocks, drop=drop, **more)


def small_trace(drop=(), pool=(0, 0)):
    """How the blocks of `small_segment` came to be."""
    stack = [frame(), frame("<module>", line=30)]
    other = [frame("backward", line=14), frame("<module>", line=30)]
    step = iter(range(100))

    def add(action, addr, size, frames=stack):
        return entry(action, addr, size, next(step), frames=frames, pool=pool, drop=drop)

    return [
        add("segment_alloc", HEAP, 2 * MIB),
        add("alloc", HEAP, 1000),
        add("alloc", HEAP + 1024, 4),
        add("alloc", HEAP + 1536, 2048),
        add("free_requested", HEAP + 1536, 2048, other),
        add("free_completed", HEAP + 1536, 2048, other),
        add("free_requested", HEAP + 1024, 4, other),
    ]


SINCE_2_2 = ("time_us",)
SINCE_2_7 = ("compile_context",)
SINCE_2_10 = ("user_metadata",)
SINCE_2_12 = ("pool_id",)
OF_2_11 = SINCE_2_12
OF_2_2 = SINCE_2_7 + SINCE_2_10 + SINCE_2_12
OF_2_1 = SINCE_2_2 + OF_2_2


# ---------- one function for each layout, named after its file


def torch_1_5():
    drop = ("requested_size", "stream", "segment_pool_id", "is_expandable", "frames")
    blocks = [
        dict(size=1024, state="active_allocated"),
        dict(size=512, state="active_pending_free"),
        dict(size=2 * MIB - 1536, state="inactive"),
    ]
    large = segment(HEAP + GIB, [dict(size=20 * MIB, state="active_allocated")], kind="large", drop=drop)
    return [segment(HEAP, blocks, drop=drop), large]


def torch_1_13():
    drop = ("requested_size", "segment_pool_id", "is_expandable", "frames")
    owner = dict(addr=HEAP, real_size=1000, frames=[frame(), frame("<module>", line=30)])
    former = dict(addr=HEAP, real_size=700, frames=[frame("old", line=5)])
    blocks = [
        dict(size=1024, state="active_allocated", history=[owner, former]),
        dict(size=512, state="active_pending_free", history=[dict(addr=HEAP + 1024, real_size=4)]),
        dict(size=2 * MIB - 1536, state="inactive", history=[former]),
    ]
    return [segment(HEAP, blocks, stream=0x55D0, drop=drop)]


def torch_2_0():
    drop = ("segment_pool_id", "is_expandable", "frames")
    owner = dict(addr=HEAP, real_size=1000, frames=[frame()], cpp_frames=["c10::alloc", "at::empty"])
    native = dict(addr=HEAP + 1024, real_size=4, cpp_frames=["c10::alloc", "at::empty"])
    blocks = [
        dict(size=1024, requested_size=1000, state="active_allocated", history=[owner]),
        dict(size=512, requested_size=4, state="active_pending_free", history=[native]),
        dict(size=2 * MIB - 1536, requested_size=0, state="inactive"),
    ]
    trace = small_trace(drop=OF_2_1)
    trace[1]["cpp_frames"] = ["c10::alloc"]
    del trace[1]["frames"]
    return dict(segments=[segment(HEAP, blocks, drop=drop)], device_traces=[trace])


def torch_2_1():
    return dict(segments=[small_segment()], device_traces=[small_trace(drop=OF_2_1)])


def torch_2_2():
    return dict(segments=[small_segment()], device_traces=[small_trace(drop=OF_2_2)])


def torch_2_11():
    trace = small_trace(drop=OF_2_11)
    trace[4]["forward_frames"] = ['  File "/home/user/project/train.py", line 9, in forward\n    return x + 1\n']
    trace[1]["user_metadata"] = "epoch 3"
    trace.insert(3, entry("oom", 5 * GIB, 2 * GIB, frames=[frame()], drop=OF_2_11))
    trace.insert(4, entry("snapshot", 0, 1536, drop=OF_2_11))
    annotations = [
        dict(stage="START", name="Optimizer.step#SGD.step", device=0, time_us=NOW_US),
        dict(stage="END", name="Optimizer.step#SGD.step", device=0, time_us=NOW_US + 5),
    ]
    return dict(
        segments=[small_segment()],
        device_traces=[trace],
        allocator_settings=settings("garbage_collection_threshold:0.8"),
        external_annotations=annotations,
    )


def torch_2_12():
    """`pool_id` in the entries; an expandable segment, and one of a private pool on a side stream."""
    drop = ()
    mapped = [block(HEAP + GIB, 20 * MIB), block(HEAP + GIB + 20 * MIB, 2 * MIB, 0, "inactive")]
    private = [block(HEAP + 2 * GIB, 2 * MIB, 0, "inactive")]
    segments = [
        small_segment(),
        segment(HEAP + GIB, mapped, kind="large", expandable=True),
        segment(HEAP + 2 * GIB, private, stream=0x55D0, pool=(1, 0)),
    ]
    trace = small_trace() + [
        entry("segment_map", HEAP + GIB, 22 * MIB, 20, drop=drop),
        entry("alloc", HEAP + GIB, 20 * MIB, 21),
        entry("segment_alloc", HEAP + 2 * GIB, 2 * MIB, 22, stream=0x55D0, pool=(1, 0)),
        entry("alloc", HEAP + 2 * GIB, 8, 23, stream=0x55D0, pool=(1, 0)),
        entry("free_requested", HEAP + 2 * GIB, 8, 24, stream=0x55D0, pool=(1, 0)),
        entry("free_completed", HEAP + 2 * GIB, 8, 24, stream=0x55D0, pool=(1, 0)),
        entry("segment_unmap", HEAP + GIB + 22 * MIB, 2 * MIB, 25),
        entry("segment_free", HEAP + 3 * GIB, 2 * MIB, 26),
    ]
    return dict(
        segments=segments, device_traces=[trace], allocator_settings=settings(), external_annotations=[]
    )


def torch_2_14():
    """Pinned host memory."""
    host = HEAP + 8 * GIB
    host_trace = [
        entry("segment_alloc", host, 4096, 1),
        entry("alloc", host, 4096, 2),
        entry("free_requested", host, 4096, 3),
        entry("free_completed", host, 4096, 4),
    ]
    for record in host_trace:
        record["compile_context"] = ""
    host_segment = segment(host, [block(host, 4096, state="inactive")], device=-1)
    return dict(torch_2_12(), host_segments=[host_segment], host_traces=host_trace)


def torch_2_15():
    """`annotate` entries and `internal_metadata`."""
    snapshot = torch_2_12()
    note = entry("annotate", HEAP, 1000, 30, frames=[frame("label", line=40)])
    note["user_metadata"] = "embedding.weight"
    helper = entry("alloc", HEAP + 4096, 512, 31, internal_metadata="mallocWithAddress", frames=[frame()])
    snapshot["device_traces"][0] += [note, helper]
    return dict(snapshot, host_segments=[], host_traces=[])


def segment_list():
    """`torch.cuda.memory_snapshot()` of a torch that writes dicts."""
    return torch_2_12()["segments"]


def no_traces():
    return dict(
        segments=[small_segment()], device_traces=[[], []], allocator_settings=settings(), external_annotations=[]
    )


def state_only():
    """`_record_memory_history("state")`: stacks of live blocks and the one latest event, which has no stack."""
    latest = entry("free_requested", HEAP + 1024, 4, 6, drop=OF_2_11)
    return dict(segments=[small_segment()], device_traces=[[latest]], allocator_settings=settings())


def one_event():
    return dict(segments=[], device_traces=[[entry("alloc", HEAP, 1000, frames=[frame()])]])


def several_devices():
    """Devices 0 and 2 have entries, device 1 never allocated, device 3 has a segment alone."""
    base = HEAP + 4 * GIB
    segments = [
        small_segment(),
        segment(base, [block(base, 20 * MIB)], device=2, kind="large"),
        segment(base + GIB, [block(base + GIB, 2 * MIB, 0, "inactive")], device=3),
    ]
    other = [entry("segment_alloc", base, 20 * MIB, 1), entry("alloc", base, 20 * MIB, 2)]
    return dict(segments=segments, device_traces=[small_trace(), [], other, []])


def missing_keys():
    """An event and blocks that lack what can be lacking."""
    bare = segment(HEAP, [dict(size=512, state="inactive"), dict(size=1536, state="active_allocated")])
    trace = [
        dict(action="alloc", addr=HEAP, size=512),
        dict(action="oom", size=2 * GIB, stream=0),
        dict(action="snapshot"),
        dict(action="free_completed", addr=HEAP, size=512, stream=0, frames=[]),
    ]
    return dict(segments=[bare, dict(total_size=1024, address=HEAP + GIB)], device_traces=[trace])


def failed_symbols():
    """Native frames without symbols, an address above 2^63, a name beyond ASCII and one beyond the 16-bit plane."""
    top = (1 << 64) - 4096
    stack = [
        frame("??", "/usr/lib/libcuda.so.1", (1 << 64) - 1),
        frame("cudaMalloc", "libcudart.so", 0x1234567890),
        frame("schön", "/home/user/Müller/naïve 模型.py", 3),
        frame("\N{HIGH VOLTAGE SIGN}\N{FIRE}", "C:\\new\\train.py", 4),
    ]
    segments = [segment(top, [block(top, 2048, frames=stack)])]
    return dict(segments=segments, device_traces=[[entry("alloc", top, 2048, frames=stack)]])


def unknown_words():
    """Keys, an action, a state and a stage that no torch writes today."""
    trace = small_trace()
    trace[1]["thread"] = 140
    trace[2]["action"] = "segment_remap"
    trace[3]["tags"] = ["a", {"b": (1, 2, 3)}, None, True, 1.5, -(1 << 70)]
    trace[4]["frames"] = trace[4]["frames"] + ["a string"]
    where = small_segment()
    where["numa_node"] = 1
    where["blocks"][0]["owner"] = "me"
    where["blocks"][2]["state"] = "quarantined"
    annotation = dict(stage="PAUSE", name="x", device=0, time_us=NOW_US, category="y")
    return dict(
        segments=[where],
        device_traces=[trace],
        allocator_settings=dict(settings(), future=dict(depth=3), empty={}),
        external_annotations=[annotation],
        categories=["parameter", "gradient"],
        comment="made by hand",
    )


def metadata_dict():
    """`user_metadata` as a dict, which the official viewer still handles."""
    trace = small_trace()
    trace[1]["user_metadata"] = {"layer": 3, "name": "attn \"q\""}
    return dict(segments=[small_segment()], device_traces=[trace])


def fx_frames():
    """`augment_with_fx_traces=True`."""
    fx = dict(fx_node_op="call_function", fx_node_name="add", fx_node_target="aten.add", fx_original_trace="x + y")
    stack = [frame("forward", "fx_generated_1.py", 7, **fx), frame()]
    return dict(segments=[], device_traces=[[entry("alloc", HEAP, 1000, frames=stack)]])


def profiler():
    """What `profile_plot` makes of a profiler's timeline: categories, addresses of None, few keys."""
    stack = [dict(filename="none", line=0, name="aten::empty")]
    trace = [
        dict(action="alloc", addr=HEAP, size=1000, stream=0, frames=stack, category="parameter"),
        dict(action="alloc", addr=HEAP + 1024, size=512, stream=0, frames=stack, category="activation"),
        dict(action="free_requested", addr=HEAP + 1024, size=512, stream=0, frames=stack, category="activation"),
        dict(action="free_completed", addr=HEAP + 1024, size=512, stream=0, frames=stack, category="activation"),
        dict(action="alloc", addr=None, size=64, stream=0, frames=[], category="unknown"),
    ]
    blocks = [
        dict(address=HEAP, size=1000, requested_size=1000, state="active_allocated", frames=stack),
        dict(address=HEAP + 1000, size=1048, requested_size=0, state="inactive", frames=[]),
    ]
    where = dict(address=HEAP, blocks=blocks, device=0, stream=0, total_size=2048, requested_size=1000, frames=[])
    return dict(segments=[where], device_traces=[trace, []])


# ---------- encodings


def as_cpp_pickle(value):
    """As `torch::cuda::_memory_snapshot_pickled` writes it (the JIT pickler).

    Protocol 2; a memo slot behind every string and container; one MARK..APPENDS for a whole list; numbers beyond 32 bits
    in eight bytes, so those from 2^63 on are negative.
    """
    out, texts, slots = bytearray(b"\x80\x02"), {}, 0

    def put():
        nonlocal slots
        out.extend(b"q" + bytes([slots]) if slots < 256 else b"r" + struct.pack("<I", slots))
        slots += 1
        return slots - 1

    def write(value):
        if isinstance(value, bool):
            out.extend(b"\x88" if value else b"\x89")
        elif isinstance(value, int):
            if 0 <= value < 1 << 8:
                out.extend(b"K" + bytes([value]))
            elif 0 <= value < 1 << 16:
                out.extend(b"M" + struct.pack("<H", value))
            elif -(1 << 31) <= value < 1 << 31:
                out.extend(b"J" + struct.pack("<i", value))
            else:
                out.extend(b"\x8a\x08" + struct.pack("<Q", value & (1 << 64) - 1))
        elif isinstance(value, float):
            out.extend(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            if value in texts:
                slot = texts[value]
                out.extend(b"h" + bytes([slot]) if slot < 256 else b"j" + struct.pack("<I", slot))
            else:
                data = value.encode()
                out.extend(b"X" + struct.pack("<I", len(data)) + data)
                texts[value] = put()
        elif isinstance(value, tuple):
            for item in value:
                write(item)
            out.extend(b"\x86")
            put()
        elif isinstance(value, list):
            out.extend(b"](")
            for item in value:
                write(item)
            out.extend(b"e")
            put()
        else:
            out.extend(b"}(")
            for key, item in value.items():
                write(key)
                write(item)
            out.extend(b"u")
            put()

    write(value)
    return bytes(out + b".")


def as_page(data):
    """As `torch/cuda/_memory_viz.py` wraps a pickle for the browser: padded with NUL to whole triples for base64."""
    data += b"\0" * (-len(data) % 3)
    files = json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(data).decode("ascii")}])
    return f"""
<!DOCTYPE html>
<html>
<head>
</head>
<body>
<script type="module">
import {{add_local_files}} from "https://example.invalid/MemoryViz.js"
const local_files = {files}
add_local_files(local_files, "Active Memory Timeline")
</script>
</body>
""".encode()


def interned(value):
    """Equal strings as one object, equal containers as several: what is shared must not depend on the interpreter."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict):
        return {sys.intern(key): interned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([interned(item) for item in value])
    return value


def shared(value, seen=None):
    """The same, with equal frames and stacks as one object, as torch makes them."""
    seen = {} if seen is None else seen
    if isinstance(value, dict):
        value = {key: shared(item, seen) for key, item in value.items()}
        return seen.setdefault(repr(value), value) if "filename" in value else value
    if isinstance(value, list):
        value = [shared(item, seen) for item in value]
        is_stack = value and isinstance(value[0], dict) and "filename" in value[0]
        return seen.setdefault(repr(value), value) if is_stack else value
    return value


LAYOUTS = [
    torch_1_5, torch_1_13, torch_2_0, torch_2_1, torch_2_2, torch_2_11, torch_2_12, torch_2_14, torch_2_15,
    segment_list, no_traces, state_only, one_event, several_devices, missing_keys, failed_symbols, unknown_words,
    metadata_dict, fx_frames, profiler,
]  # fmt: skip


def files():
    """Name and bytes of every file."""
    for layout in LAYOUTS:
        yield f"{layout.__name__}.pickle", pickle.dumps(shared(interned(layout())), protocol=4)
    newest = shared(interned(torch_2_15()))
    for protocol in range(6):
        yield f"protocol_{protocol}.pickle", pickle.dumps(newest, protocol=protocol)
    yield "cpp_writer.pickle", as_cpp_pickle(failed_symbols())
    yield "viewer_page.html", as_page(pickle.dumps(newest, protocol=4))
    yield "viewer.json", json.dumps(newest, indent=1).encode()


def main():
    here = pathlib.Path(__file__).resolve().parent
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent / "layouts"
    out.mkdir(parents=True, exist_ok=True)
    for name, data in files():
        (out / name).write_bytes(data)


if __name__ == "__main__":
    main()
