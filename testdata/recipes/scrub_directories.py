"""Replaces the directories of an installation in a snapshot. usage: scrub_directories.py IN.pickle.gz OUT.pickle.gz FROM TO"""
import pickle, gzip, sys
src, dst, old, new = sys.argv[1:]; s = pickle.load(gzip.open(src)); words = {}; seen = {}
def text(t):
    if t not in words: words[t] = sys.intern(t.replace(old, new))
    return words[t]
def walk(v):
    if isinstance(v, str): return text(v)
    if isinstance(v, dict):
        if id(v) not in seen:
            seen[id(v)] = v
            for k in list(v): v[k] = walk(v[k])
        return v
    if isinstance(v, list):
        if id(v) not in seen:
            seen[id(v)] = v
            v[:] = [walk(x) for x in v]
        return v
    if isinstance(v, tuple): return tuple(walk(x) for x in v)
    return v
s = walk(s); raw = pickle.dumps(s, protocol=4); assert old.encode() not in raw, src
with gzip.GzipFile(dst, "wb", compresslevel=9, mtime=0) as f: f.write(raw)
