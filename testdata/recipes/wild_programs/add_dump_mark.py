"""usage: add_dump_mark.py DIR: adds to each truth a last mark "dump": the last mark, less whatever was freed between it and the dump (by the blocks and the trace of the file)"""
import glob, gzip, json, pickle, sys
for f in sorted(glob.glob(sys.argv[1] + "/*.truth.json.gz")):
    t = json.load(gzip.open(f)); s = pickle.load(gzip.open(f.replace(".truth.json.gz", ".pickle.gz")))
    if t["marks"][-1]["label"] == "dump": continue
    last = t["marks"][-1]; live = {b["address"]: b["requested_size"] for g in s["segments"] for b in g["blocks"] if b["state"].startswith("active")}
    new = {e["addr"] for d in s["device_traces"] for e in d if e["action"] == "alloc" and e["time_us"] > last["time_us"]}
    left = lambda l: [[a, n] for a, n in l if live.get(a) == n and a not in new]
    m = {k: left(v) if isinstance(v, list) else v for k, v in last.items()}; m.update(label="dump", other={k: left(v) for k, v in last["other"].items()}, time_us=max([last["time_us"]] + [e["time_us"] for d in s["device_traces"] for e in d]), allocated=sum(live.values()))
    dropped = {k: len(last[k]) - len(m[k]) for k in last if isinstance(last[k], list) and len(last[k]) != len(m[k])} | {k: len(v) - len(m["other"][k]) for k, v in last["other"].items() if len(v) != len(m["other"][k])}
    if dropped: print(t["name"], last["label"], dropped, "of", {k: len(last.get(k, last["other"].get(k))) for k in dropped})
    t["marks"].append(m)
    with gzip.GzipFile(f, "wb", 9, mtime=0) as g: g.write(json.dumps(t).encode())
