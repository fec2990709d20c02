"""Many ranks of one job, from the recordings of two: usage: many_ranks.py USUAL.pickle ODD.pickle COUNT ODD_RANK OUT [VARIANTS]

Every rank is USUAL with small changes: its clock is ahead by some microseconds, and one small request in a thousand is larger by up to
4 KiB. Rank ODD_RANK is ODD. VARIANTS files differ (24 without it); the others are links to them, for each takes seconds to write.
"""
import gzip, os, pickle, random, sys

usual, odd, count, odd_rank, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
variants = int(sys.argv[6]) if len(sys.argv) > 6 else 24
os.makedirs(out, exist_ok=True)


def load(path):
    return pickle.load(gzip.open(path) if path.endswith(".gz") else open(path, "rb"))


def write(path, snapshot):
    with gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as file:
        file.write(pickle.dumps(snapshot, protocol=4))


def changed(snapshot, seed):
    """Larger requests within their blocks: addresses and blocks stay as they are."""
    chance, more = random.Random(seed), {}
    for trace in snapshot["device_traces"]:
        for entry in trace:
            entry["time_us"] += seed
            if entry["action"] == "alloc":
                is_larger = 8 << 20 > entry["size"] > 2 << 20 and chance.random() < 0.001
                more[entry["addr"]] = chance.randrange(1, 8) * 512 if is_larger and entry["size"] % 4096 == 0 else 0
            if entry["action"] in ("alloc", "free_requested", "free_completed"):
                entry["size"] += more.get(entry["addr"], 0)
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"].startswith("active") and more.get(block.get("address")):
                block["requested_size"] += more[block["address"]]
    return snapshot


for seed in range(variants):
    write(f"{out}/.variant{seed}.pickle.gz", changed(load(usual), seed))
for rank in range(count):
    path = f"{out}/rank{rank}.pickle.gz"
    if rank == odd_rank:
        write(path, load(odd))
    else:
        os.link(f"{out}/.variant{rank % variants}.pickle.gz", path)
