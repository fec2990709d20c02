"""Labels layers with what the present trees say of them, as if it had been measured: what was learned once need not be measured again
when other kinds of layers join. Needs numpy and scikit-learn.

usage: relabel.py TREES.bin LAYERS.json LEAVE-OUT.json OUT    (layers that are in LEAVE-OUT were measured anew)
"""
import gzip, json, math, os, struct, sys
import numpy as np
from learn import ELEMENT, Group, features, output, samples


def read(path):
    """Of each tree its key and nodes."""
    blob, trees, at = open(path, "rb").read(), {}, 0
    while at < len(blob):
        first, half, tf32, last, count = struct.unpack_from("<BBBBI", blob, at)
        at += 8
        trees[first & 15, half, tf32, last, first >> 4] = np.frombuffer(blob, np.uint8, count * 8, at).reshape(count, 8)
        at += count * 8
    return trees


def leaf(nodes, values):
    at = 0
    while nodes[at, 0] != 255:
        feature, _, wide, limit = struct.unpack("<BBHf", nodes[at].tobytes())
        at += 1 if values[feature] <= np.float32(limit) else wide
    return struct.unpack("<BBHI", nodes[at].tobytes())[2:]


def guess(nodes, key, base):
    form, number = leaf(nodes, np.array(features(base), np.float64).astype(np.float32))
    kind, copies, fill = form & 15, form >> 4 & 7, max(form >> 8, 1)
    count, rest = (0, number) if kind == 1 else (number & 0xFFFF, number >> 16)
    return int(Group(key, [base], [0]).bytes((fill, copies, kind, count), rest if kind else 0)[0])


def main(trees, layers, left_out, out):
    trees, done = read(trees), {json.dumps(row[2:13]) for row in json.load(open(left_out))}
    rows = [row for row in json.load(open(layers)) if not row[13] and json.dumps(row[2:13]) not in done]
    os.makedirs(out, exist_ok=True)
    found = []
    for row in rows:
        element, x, y, w = ELEMENT[row[10]], row[2], output(row), row[3]
        own = [math.prod(tensor) * element for tensor in (x, y, w)]
        asked = [[own[1], own[1]], [own[0]], [own[2]]]
        for which, (key, base) in enumerate(both(row)):
            asked[which].append(guess(trees[key], key, base)) if key in trees else None
        found.append([row[0], *asked])
    json.dump(found, gzip.open(f"{out}/conv0.json.gz", "wt"))


def both(row):
    """Key and passes of one layer, as `samples` gives them of measured ones."""
    yield from ((key, base) for key, base, _ in samples([row], {row[0]: [[0] * 4] * 3}))


if __name__ == "__main__":
    main(*sys.argv[1:])
