"""Changes to inputs, each drawn from a generator of random numbers."""

import io
import json
import pickle

HOSTILE = [
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "a\nINJECTED", "a\r\nINJECTED", "a\tb", "\x00nul", "\u202eevil", "\u2028sep",
    "<script>alert(1)</script>", "</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>", "'\"><svg/onload=alert(4)>",
    "javascript:alert(5)", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "|pipe|", "`tick`", "```fence",
    "[a](javascript:x)", "![a](http://127.0.0.1/x.png)", "# head", "<!-- c", "--> c", "a;b;c 7", "%s%n{0}", "\\u001b", "é重み", "x" * 5000,
    "", " ", "\ud800", "\U0010ffff", "::error::github", "%0A::error::x", "\u0085nel", "a\u2066b", "&lt;b&gt;",
]
NUMBERS = [0, 1, -1, 2, 511, 512, 513, 1 << 20, (1 << 20) + 1, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63,
           (1 << 64) - 1, 1 << 64, -(1 << 63), 1 << 200, 1.5, float("inf"), float("nan"), True, None, "17", "x", [], {}, (0, 1)]
ACTIONS = ["alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom",
           "snapshot", "active_allocated", "active_pending_free", "active_awaiting_free", "inactive", "user_defined", "", "ALLOC"]
KEYS = ["action", "addr", "size", "frames", "blocks", "stream", "total_size", "time_us", "device", "x", 7, None]
NAMES = ("name", "filename", "user_metadata", "compile_context", "segment_type", "stage", "fx_node_name")
OPCODES = (b"(.012FIJKLMNPQRSTUVXabcd}eghijl]opqrst)uG\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8bBC\x8c\x8d\x8e\x8f\x90\x91\x92\x93"
           b"\x94\x95\x96\x97\x98")


def flip(data, rng):
    """Changes some bytes."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        if data:
            data[rng.randrange(len(data))] = rng.choice([rng.randrange(256), 0, 0xFF, 0x7F, 0x80])
    return bytes(data)


def splice(data, rng):
    """Doubles, moves or removes a piece, or cuts the end off."""
    if not data:
        return data
    at, start, length = rng.randrange(len(data) + 1), rng.randrange(len(data)), rng.choice([1, 2, 8, 60, 500])
    piece = data[start:start + length]
    return rng.choice([data[:at] + piece + data[at:], data[:start] + data[start + length:],
                       data[:at] + piece * rng.choice([2, 10, 200]) + data[at:], data[:at]])


def opcodes(data, rng):
    """Puts opcodes of pickles, with a small argument, where others were or between them."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 2, 3])):
        at = rng.randrange(len(data))
        piece = bytes([rng.choice(OPCODES)]) + rng.randbytes(rng.choice([0, 0, 1, 2, 4]))
        data[at:at + rng.choice([0, len(piece)])] = piece
    return bytes(data)


def text(data, rng):
    """Changes the bytes, words or lines of a text."""
    how = rng.randrange(6)
    if how == 0:
        return flip(data, rng)
    if how == 1:
        return splice(data, rng)
    if how == 2:
        words = data.split(b" ")
        for _ in range(3):
            words[rng.randrange(len(words))] = rng.choice(
                [b"-1", b"99999999999999999999999", b"1e309", b"NaN", b"\x1b[31m", b"\xff\xfe", b"0.00 GiB", b"", b"\x00", b"GiB",
                 b"\xe2\x80\xae", b"=1+1", b"<script>alert(1)</script>"])
        return b" ".join(words)
    if how == 5:
        return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"", b"\n\n", b"\x00\n"]))
    lines = data.split(b"\n")
    if how == 3:
        rng.shuffle(lines)
    else:
        lines.insert(rng.randrange(len(lines)), b"\n".join([rng.choice(lines)] * rng.choice([2, 50, 500])))
    return b"\n".join(lines)


def places(root):
    """Every place in a nest of dicts and lists, as far as a bound."""
    stack, seen = [root], 0
    while stack and seen < 20_000:
        node = stack.pop()
        seen += 1
        keys = list(node) if isinstance(node, dict) else range(min(len(node), 400)) if isinstance(node, list) else ()
        for key in keys:
            yield node, key
            stack.append(node[key])


def value(old, rng):
    """Another value for one in a snapshot."""
    hows = [lambda: rng.choice(NUMBERS), lambda: [old], lambda: {"a": old}]
    if isinstance(old, str):
        hows += [lambda: rng.choice(ACTIONS + HOSTILE)] * 3
    elif isinstance(old, list):
        cut = rng.randrange(len(old) + 1)
        hows += [lambda: rng.sample(old, len(old)), lambda: old + old[: rng.choice([1, 5, 50])], lambda: old[:cut], lambda: old[cut:],
                 lambda: old[::-1], lambda: tuple(old)]
    elif isinstance(old, int):
        hows += [lambda: old + rng.choice([-512, -1, 1, 512, 1 << 21, -(1 << 21)])] * 3
    return rng.choice(hows)()


def structure(root, rng):
    """Changes values, keys and order in what was loaded, in place."""
    found = list(places(root))
    for node, key in (rng.choice(found) for _ in range(rng.choice([1, 1, 2, 3, 8]) if found else 0)):
        try:
            if isinstance(node, dict) and rng.random() < 0.1:
                del node[key]
            elif isinstance(node, dict) and rng.random() < 0.1:
                node[rng.choice(KEYS)] = rng.choice(NUMBERS)
            else:
                node[key] = value(node[key], rng)
        except (KeyError, IndexError):
            pass  # A change before this one took the place away.
    return root


def names(root, rng):
    """Puts hostile strings wherever a name stands, in place."""
    for node, key in places(root):
        if (isinstance(node[key], str) and key in NAMES and rng.random() < 0.7) or (key == "action" and rng.random() < 0.02):
            node[key] = rng.choice(HOSTILE)
    return root


def as_pickle(root, rng):
    out = io.BytesIO()
    pickle.Pickler(out, rng.choice([0, 1, 2, 3, 4, 4, 4, 5])).dump(root)
    return out.getvalue()


def as_json(root):
    return json.dumps(root, default=str).encode("utf-8", "surrogatepass")
