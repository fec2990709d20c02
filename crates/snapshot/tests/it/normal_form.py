"""What CPython reads from a snapshot, in the text form of `common.rs`.

usage: normal_form.py OUT [--protocols 0,5] FILE...

For each FILE writes OUT/NAME.form, and for each protocol OUT/NAME.pN.pickle, the same object pickled anew. A form that
differs from `common.rs` shows that one of the two reads the file wrongly: nothing here is taken from the Rust reader,
only the rules of `spec/snapshot-format.md`, sections 4 to 12.
"""

import base64
import gzip
import json
import pathlib
import pickle
import re
import struct
import sys

KNOWN = {
    "action", "addr", "device_free", "size", "stream", "time_us", "compile_context", "user_metadata", "pool_id",
    "category", "frames", "cpp_frames", "forward_frames",
}  # fmt: skip
ROOT = [
    "segments", "device_traces", "allocator_settings", "external_annotations", "host_segments", "host_traces",
]  # fmt: skip
STATES = {
    "active_allocated": "active_allocated",
    "active_pending_free": "active_pending_free",
    "active_awaiting_free": "active_pending_free",
}


def load(path):
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        data = gzip.decompress(data)
    if path.name.endswith(".html"):
        data = base64.b64decode(re.search(rb'"base64": "([^"]*)"', data).group(1))
    return json.loads(data) if path.name.endswith(".json") else pickle.loads(data)


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def as_text(value):
    """Text as it is, anything else as compact JSON."""
    return quoted(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def optional(value):
    return "-" if value is None else as_text(value)


def unsigned(number):
    return 0 if number is None else number % (1 << 64)


def pool(pair):
    return "-" if pair is None else f"{pair[0]},{pair[1]}"


class Form:
    def __init__(self):
        self.lines = []
        self.by_object = {}
        self.by_content = {}

    def stack(self, frames):
        if frames is None:
            return "-"
        if id(frames) in self.by_object:
            return self.by_object[id(frames)]
        shown = []
        for frame in frames:
            if isinstance(frame, str):
                frame = dict(name=frame, filename="", line=0)
            name, filename = frame.get("name", ""), frame.get("filename", "")
            text = f"{quoted(name)}@{quoted(filename)}:{unsigned(frame.get('line', 0))}"
            for key in [key for key in frame if key not in ("name", "filename", "line")]:
                text += f",{key}={as_text(frame[key])}"
            shown.append(text)
        content = " ".join(shown)
        if content not in self.by_content:
            self.by_content[content] = str(len(self.by_content))
            self.lines.append(f"stack {self.by_content[content]} {content}")
        # The list lives as long as the snapshot, so its identity is not used twice.
        self.by_object[id(frames)] = self.by_content[content]
        return self.by_content[content]

    def segments(self, word, segments):
        for s in segments:
            stack = self.stack(s.get("frames", []))
            self.lines.append(
                f"{word} device={s.get('device', 0)} address={unsigned(s.get('address')):#x} total={s['total_size']}"
                f" stream={unsigned(s.get('stream'))} type={s.get('segment_type', '')}"
                f" pool={pool(s.get('segment_pool_id', (0, 0)))}"
                f" expandable={str(s.get('is_expandable', False)).lower()} stack={stack}"
            )
            address = unsigned(s.get("address"))
            for block in s.get("blocks", []):
                address = unsigned(block["address"]) if "address" in block else address
                self.block(block, address)
                address += block["size"]

    def block(self, b, address):
        state = STATES.get(b["state"], "inactive")
        requested, frames = b.get("requested_size", 0), b.get("frames", [])
        if state != "inactive":
            owner = b.get("history", [{}])[0]
            requested = requested or owner.get("real_size", 0) or b["size"]
            frames = owner.get("frames", frames) or owner.get("cpp_frames", frames)
        stack = self.stack(frames)
        self.lines.append(
            f"  block address={address:#x} size={b['size']} requested={requested} state={state} stack={stack}"
        )

    def trace(self, word, trace):
        self.lines.append(f"{word} entries={len(trace)}")
        for e in trace:
            stack = self.stack(e.get("frames", e.get("cpp_frames")))
            line = (
                f"  entry {quoted(e['action'])} address={unsigned(e.get('addr')):#x} size={e.get('size', 0)}"
                f" stream={unsigned(e.get('stream'))} time={e.get('time_us', '-')} pool={pool(e.get('pool_id'))}"
                f" context={optional(e.get('compile_context'))} metadata={optional(e.get('user_metadata'))}"
                f" category={optional(e.get('category'))} stack={stack}"
            )
            if "device_free" in e:
                line += f" free={e['device_free']}"
            if "forward_frames" in e:
                line += f" forward={self.stack(e['forward_frames'])}"
            for key in [key for key in e if key not in KNOWN]:
                line += f" {quoted(key)}={as_text(e[key])}"
            self.lines.append(line)

    def settings(self, prefix, table):
        for key, value in table.items():
            if isinstance(value, bool):
                shown = f"bool {str(value).lower()}"
            elif isinstance(value, int):
                shown = f"int {value}"
            elif isinstance(value, float):
                shown = f"float {struct.pack('>d', value).hex()}"
            elif isinstance(value, str):
                shown = f"text {quoted(value)}"
            else:
                shown = f"table {len(value)}"
            self.lines.append(f"setting {prefix}{key} {shown}")
            if isinstance(value, dict):
                self.settings(f"{prefix}{key}.", value)

    def whole(self, snapshot):
        if isinstance(snapshot, list):
            self.lines.append("layout list")
            self.segments("segment", snapshot)
            return
        self.lines.append("layout dict")
        self.segments("segment", snapshot["segments"])
        for device, trace in enumerate(snapshot["device_traces"]):
            self.trace(f"trace {device}", trace)
        self.settings("", snapshot.get("allocator_settings", {}))
        for a in snapshot.get("external_annotations", []):
            self.lines.append(
                f"annotation stage={quoted(a['stage'])} name={quoted(a['name'])} device={a.get('device', -1)}"
                f" time={a.get('time_us', '-')}"
            )
        if snapshot.get("host_segments") or snapshot.get("host_traces"):
            self.segments("host-segment", snapshot["host_segments"])
            self.trace("host-trace", snapshot["host_traces"])
        for key, value in snapshot.items():
            if key not in ROOT:
                self.lines.append(f"extra {quoted(key)}={as_text(value)}")


def main():
    out, *rest = sys.argv[1:]
    protocols = []
    if rest[0] == "--protocols":
        protocols = [int(word) for word in rest[1].split(",")]
        rest = rest[2:]
    for path in map(pathlib.Path, rest):
        snapshot = load(path)
        form = Form()
        form.whole(snapshot)
        (pathlib.Path(out) / f"{path.name}.form").write_bytes(("\n".join(form.lines) + "\n").encode())
        for protocol in protocols:
            data = pickle.dumps(snapshot, protocol=protocol)
            (pathlib.Path(out) / f"{path.name}.p{protocol}.pickle").write_bytes(data)


if __name__ == "__main__":
    main()
