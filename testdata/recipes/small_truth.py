"""Makes truth small: each mark keeps what changed since the one before. usage: small_truth.py IN.truth.json.gz OUT.truth.json.gz"""
import gzip, json, sys
LISTS = ("parameter", "gradient", "optimizer_state", "input", "saved")
truth = json.load(gzip.open(sys.argv[1])); before = {name: [] for name in LISTS}; marks = []
for mark in truth["marks"]:
    small = dict(label=mark["label"], time_us=mark["time_us"])
    for name in LISTS:
        now = sorted(pair[0] for pair in mark[name]); was = set(before[name])
        new, gone = [a for a in now if a not in was], sorted(was - set(now))
        if new or gone: small[name] = [new, gone]
        before[name] = now
    marks.append(small)
with gzip.GzipFile(sys.argv[2], "wb", compresslevel=9, mtime=0) as f: f.write(json.dumps(dict(name=truth["name"], marks=marks), separators=(",", ":")).encode())
