"""Learns the trees of `src/cudnn/convolution.bin` from measurements. Needs numpy and scikit-learn.

usage: learn.py OUT.bin LAYERS.json MEASURED [LAYERS.json MEASURED…]    (the folders that measure.py wrote to)

A size is made in one of several ways: copies of some of input, output and filter (channels filled up to a multiple), and besides
them a rest of a few bytes, partial results of 32 bits, or tiles. Often several ways give the same size; the one that explains the
most layers is taken. Trees tell the ways apart. Layers of held-out networks only say how right the trees are.
"""
import collections, glob, gzip, json, math, struct, sys
import numpy as np
from sklearn.tree import DecisionTreeClassifier

MULTIPROCESSORS = 132
REST = 1300
SQUARE = 128
"""Before filling up, inputs and outputs of a group are as many as the more of them: engines for groups that are not square."""
FILLS = (1, 4, 8)
SQUARE_FILLS = tuple(SQUARE | fill for fill in (1, 4, 8, 16, 32))
COPIES = range(8)  # of input, output and filter: a bit each
TILES = ((64, 64), (128, 64), (64, 128), (128, 128), (256, 64), (64, 256), (256, 128), (128, 256))
NONE, BYTES, PARTS, TILES_64K, TILES_16K, IMAGES, SPLITS, SPECTRA = range(8)
ELEMENT = dict(f32=4, bf16=2, f16=2)
FORWARD, DATA, FILTER = range(3)
BEST, LARGEST, GROUPED = range(3)
"""What a tree answers: the scratch memory of the engine that cuDNN puts first, the most that any wants, and the first of layers in
several groups of several channels each, with different numbers of input and output channels."""


def output(layer):
    x, w, stride, padding, dilation, transposed, more, groups = layer[2:10]
    if transposed:
        inner = [(a - 1) * s - 2 * p + d * (k - 1) + m + 1 for a, k, s, p, d, m in zip(x[2:], w[2:], stride, padding, dilation, more)]
        return [x[0], w[1] * groups, *inner]
    inner = [(a + 2 * p - d * (k - 1) - 1) // s + 1 for a, k, s, p, d in zip(x[2:], w[2:], stride, padding, dilation)]
    return [x[0], w[0], *inner]


def samples(layers, folder):
    """The key of a tree, what a pass is, and its scratch memory in bytes. The last of a key: 1 for the largest of all engines."""
    measured = folder if isinstance(folder, dict) else {}
    for name in glob.glob(f"{folder}/conv*.gz") if not measured else ():
        for number, *sizes in json.load(gzip.open(name)):
            measured[number] = sizes
    for layer in layers if isinstance(layers, list) else json.load(open(layers)):
        sizes = measured.get(layer[0])
        if not sizes or isinstance(sizes[0], str):
            continue
        element, tf32, last, bench, transposed = ELEMENT[layer[10]], layer[11], layer[12], layer[13], layer[7]
        x, y, w = layer[2], output(layer), layer[3]
        own = [math.prod(t) * element for t in (x, y, w)]
        held = all(group.startswith("held") for group in layer[1])
        if len(x) == 3:
            x, y, w = ([t[0], t[1], 1, t[2]] for t in (x, y, w))
        stride, padding, dilation = layer[4], layer[5], layer[6]
        if len(stride) == 1:
            stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
        # What PyTorch asks for itself: the result, and in the first the gradient that the others get.
        # Of layers for inference only that was measured.
        every = ([own[1], own[1]], [own[0]], [own[2]]) if len(sizes) > 1 else ([own[1]],)
        for which, asked in enumerate(every):
            found = collections.Counter(sizes[which])
            found.subtract(asked)
            scratch = list(found.elements())
            kind = which if not transposed else (DATA, FORWARD, FILTER)[which]
            shapes = (x, y, w) if not transposed else (y, x, w)
            base = (element, kind, shapes, stride, padding, dilation, layer[9], held)
            inputs, outputs = shapes[0][1] // layer[9], shapes[1][1] // layer[9]
            question = LARGEST if bench else GROUPED if layer[9] > 1 and inputs > 1 and inputs != outputs else BEST
            # In a benchmark the largest is asked for first, then what was chosen.
            # Halves always use the tensor cores.
            yield (kind, int(element == 2), int(tf32 or element == 2), last, question), base, max(scratch, default=0)


def tensors(base, fill):
    """Bytes of input, output and filter, channels filled up."""
    element, _, (x, y, w), *_, groups, _ = base
    if fill & SQUARE:
        most = max(x[1], y[1])
        x, y, fill = [x[0], most, *x[2:]], [y[0], most, *y[2:]], fill - SQUARE
    up = lambda channels: groups * (-(-(channels // groups) // fill) * fill)
    c, k = up(x[1]), up(y[1])
    return x[0] * c * math.prod(x[2:]) * element, y[0] * k * math.prod(y[2:]) * element, k * (c // groups) * math.prod(w[2:]) * element


def product(base):
    """Rows, columns and depth of the product of matrices, and how many there are."""
    _, kind, (x, y, w), *_, groups, _ = base
    c, k, window, outputs, inputs = x[1] // groups, y[1] // groups, math.prod(w[2:]), math.prod(y[2:]), math.prod(x[2:])
    every = x[0] * outputs
    return [(every, k, c * window), (x[0] * inputs, c, k * window), (k, c * window, every)][kind] + (groups,)


def spectra(base):
    """Bytes of the Fourier transforms of a layer's planes, where an engine that goes by them has been seen; else 0."""
    element, kind, (x, y, w), stride, padding, dilation, groups, _ = base
    phases = stride[0] * stride[1] if len(stride) == 2 else 0
    if element != 4 or phases not in (1, 4) or any(step != 1 for step in dilation) or (phases > 1 and kind != DATA):
        return 0
    inputs, outputs, filters = x[0] * x[1], x[0] * y[1], w[0] * w[1]
    spectrum = lambda height, width: height * (width // 2 + 1) * 8
    sizes = tensors(base, 1)
    if kind == DATA:
        # Tiles of 32 by 32, one or two at a time; with a stride for each of its phases.
        tiles = 1 if max(-(-size // step) for size, step in zip(x[2:], stride)) <= 30 else 2
        every = spectrum(32, 32) * (phases * filters + tiles * (phases * inputs + outputs))
        # Strided groups go by eight.
        return every * min(groups, 8) // groups + sum(sizes) if phases > 1 else every
    height, width = (max(16, 1 << (size + 2 * pad - 1).bit_length()) for size, pad in zip(x[2:], padding))
    if max(height, width) > 256:
        return 0
    most = max(filters + inputs, outputs) if kind == FORWARD else max(filters, inputs + outputs)
    return 2 * spectrum(height, width) * most + sizes[2 if kind == FORWARD else 1]


def features(base):
    element, kind, (x, y, w), stride, padding, dilation, groups, _ = base
    n, c, k = x[0], x[1] // groups, y[1] // groups
    outputs, inputs, window = math.prod(y[2:]), math.prod(x[2:]), math.prod(w[2:])
    rows, columns, depth, _ = product(base)
    tiles = lambda high, wide: -(-rows // high) * -(-columns // wide) * groups
    cuts = int(list(w[2:]) == list(stride) and not any(padding))
    return [n, c, k, groups, outputs, inputs, window, w[2], w[-1], x[2], x[-1], stride[0], stride[-1], padding[0], padding[-1],
            dilation[-1], len(x) - 2, c % 4, k % 4, c % 8, k % 8, c % 32, k % 32, c % 64, k % 64, n % 4, n % 8, outputs % 4, outputs % 8,
            inputs % 4, inputs % 8, *tensors(base, 1), rows, columns, depth, tiles(128, 128), tiles(64, 64), tiles(256, 128),
            tiles(128, 64), tiles(128, 256), tiles(256, 64), c * window, k * window, rows * columns * depth * groups, y[2], y[-1],
            depth // max(1, rows), depth // max(1, columns), element, groups * c, groups * k, n * inputs, n * outputs, min(c, k),
            int(c == 1 and groups > 1), cuts]


class Group:
    """All passes that one tree is for."""

    def __init__(self, key, bases, scratch):
        self.key, self.held = key, np.array([base[-1] for base in bases])
        self.scratch = np.array(scratch, np.int64)
        self.features = np.array([features(base) for base in bases], np.float64).astype(np.float32)
        # Groups that are not square have trees of their own.
        self.fills = FILLS + SQUARE_FILLS * (key[4] == GROUPED)
        self.tensors = {fill: np.array([tensors(base, fill) for base in bases], np.int64) for fill in self.fills}
        self.all = self.tensors[1].sum(1)
        self.images = np.array([base[2][0][0] for base in bases], np.int64)
        element, result = bases[0][0], (1, 0, 2)[key[0]]
        self.result = {fill: self.tensors[fill][:, result] // element * 4 for fill in self.fills}
        products = np.array([product(base) for base in bases], np.int64)
        self.spectra = np.array([spectra(base) for base in bases], np.int64)
        # Of strided layers a term is missing that matters where there are few channels.
        strided = np.array([max(base[3]) > 1 for base in bases])
        self.slack = np.where(strided, self.spectra // 4, REST)
        self.tiles = np.stack([-(-products[:, 0] // high) * -(-products[:, 1] // wide) * products[:, 3] for high, wide in TILES], 1)

    def copies(self, fill, copies, at=slice(None)):
        return sum(self.tensors[fill][at, i] for i in range(3) if copies >> i & 1) + 0 * self.images[at]

    def count(self, kind, number, at=slice(None)):
        """How many partial results a way has."""
        if kind == IMAGES:
            return self.images[at]
        if kind == SPLITS:
            return np.maximum(MULTIPROCESSORS * (1 + number // len(TILES)) // self.tiles[at, number % len(TILES)], 1)
        return number

    def bytes(self, way, rest, at=slice(None)):
        fill, copies, kind, number = way
        if kind == SPECTRA:
            return self.spectra[at]
        size = self.copies(fill, copies, at) + rest
        if kind in (PARTS, IMAGES, SPLITS):
            return size + self.count(kind, number, at) * self.result[fill][at]
        return size + number * {TILES_64K: 1 << 16, TILES_16K: 1 << 14}.get(kind, 0)

    def ways(self, at):
        """Yields every way and which of the samples it explains."""
        scratch = self.scratch[at]
        yield (1, 0, NONE, 0), scratch == 0
        yield (1, 0, SPECTRA, 0), (self.spectra[at] > 0) & (np.abs(scratch - self.spectra[at]) <= self.slack[at])
        for fill in self.fills:
            for copies in COPIES:
                left = scratch - self.copies(fill, copies, at)
                fits = lambda more: (left - more >= 0) & (left - more <= REST) & (scratch > 0)
                yield (fill, copies, BYTES, 0), fits(0)
                result = self.result[fill][at]
                yield (fill, copies, IMAGES, 0), fits(self.images[at] * result)
                for number in range(2 * len(TILES)):
                    yield (fill, copies, SPLITS, number), fits(self.count(SPLITS, number, at) * result)
                for kind, unit, most in ((PARTS, result, 512), (TILES_64K, 1 << 16, 528), (TILES_16K, 1 << 14, 528)):
                    count = left // unit
                    good = (left > 0) & (count > 0) & (count <= most) & (left - count * unit <= REST)
                    for number, times in zip(*np.unique(count[good], return_counts=True)):
                        if times >= max(2, len(scratch) // 3000):
                            yield (fill, copies, kind, int(number)), good & (count == number)

    def explain(self):
        """The way of each sample, by its place in `self.known`; -1 if none explains it."""
        some = np.flatnonzero(~self.held)
        some = np.random.default_rng(0).choice(some, min(len(some), 9000), replace=False)
        table = [(way, np.packbits(which)) for way, which in self.ways(some) if which.any()]
        bits = np.unpackbits(np.stack([row for _, row in table]), axis=1)[:, : len(some)].astype(np.float32)
        open_ = np.ones(len(some), np.float32)
        self.known = []
        while len(self.known) < 250:
            counts = bits @ open_
            best = int(counts.argmax())
            if counts[best] < 3:
                break
            self.known.append(table[best][0])
            open_ *= 1 - bits[best]
        self.way = np.full(len(self.scratch), -1)
        for place, way in enumerate(self.known):
            off = self.scratch - self.bytes(way, 0)
            fits = (off >= 0) & (off <= REST) & ((self.scratch > 0) if way[2] != NONE else (off == 0))
            if way[2] == SPECTRA:
                fits = (self.spectra > 0) & (np.abs(off) <= self.slack)
            self.way[(self.way < 0) & fits] = place

    def rest(self, way, at):
        off = self.scratch[at] - self.bytes(way, 0, at)
        off = off[(off >= 0) & (off <= REST)]
        if way[2] in (NONE, SPECTRA) or not len(off):
            return 0
        return int(np.bincount(off).argmax())

    def middling(self, at):
        """Ways in the middle of sizes that nothing explains."""
        middle = int(np.median(self.scratch[at]))
        if middle < 1 << 16:
            yield (1, 0, BYTES, 0), middle
        for copies in (0, 3, 7):
            for kind, unit in ((PARTS, self.result[4][at]), (TILES_64K, 1 << 16)):
                number = int(np.median((self.scratch[at] - self.copies(4, copies, at)) / unit))
                if number >= 0:
                    yield (4, copies, kind, min(number, (1 << 16) - 1)), 0

    def fit(self, leaves, least):
        """A tree, and for each leaf the way that misses least. Large layers count for more, where there are many."""
        learn = np.flatnonzero(~self.held)
        weight = np.sqrt(self.all[learn].astype(float)) if least == 1 else np.ones(len(learn))
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=0).fit(self.features[learn], self.way[learn], np.clip(weight, weight.mean() / 10, None))
        leaf = tree.apply(self.features[learn])
        order = np.argsort(leaf, kind="stable")
        self.leaves = {}
        for part in np.split(order, np.flatnonzero(np.diff(leaf[order])) + 1):
            at = learn[part]
            best = None
            common = [place for place, _ in collections.Counter(self.way[at].tolist()).most_common(6)]
            ways = [(self.known[place], self.rest(self.known[place], at)) for place in common if place >= 0]
            for way, rest in ways + (list(self.middling(at)) if -1 in common else []):
                off = np.abs(self.bytes(way, rest, at) - self.scratch[at])
                cost = (np.minimum(off / self.all[at], 1) + (off > 512)).sum()
                if best is None or cost < best[0]:
                    best = cost, way, rest
            self.leaves[leaf[part[0]]] = best[1:]
        self.tree = tree

    def guess(self, at):
        out = np.zeros(len(at), np.int64)
        leaf = self.tree.apply(self.features[at])
        for number in np.unique(leaf):
            here = leaf == number
            out[here] = self.bytes(*self.leaves[number], at[here])
        return out

    def judge(self, at):
        off = self.guess(at) - self.scratch[at]
        share = off / self.all[at]
        return dict(n=len(at), right=round(float((abs(off) <= 512).mean()), 3), near=round(float((abs(share) <= 0.05).mean()), 3),
                    mean=round(float(abs(share).clip(max=3).mean()), 4), bytes=round(float(abs(off).sum() / self.all[at].sum()), 4))

    def written(self):
        tree, nodes = self.tree.tree_, []
        def walk(node):
            at = len(nodes)
            nodes.append(None)
            if tree.children_left[node] < 0:
                (fill, copies, kind, number), rest = self.leaves[node]
                value = rest if kind == BYTES else number | rest << 16
                nodes[at] = struct.pack("<BBHI", 255, 0, kind | copies << 4 | fill << 8, min(value, 2**32 - 1))
                return
            limit = np.float32(tree.threshold[node])
            if limit > tree.threshold[node]:
                limit = np.nextafter(limit, np.float32(-np.inf))
            walk(tree.children_left[node])
            right = len(nodes)
            walk(tree.children_right[node])
            assert right - at < 1 << 16
            nodes[at] = struct.pack("<BBHf", tree.feature[node], 0, right - at, limit)
        sys.setrecursionlimit(100_000)
        walk(0)
        return struct.pack("<BBBBI", self.key[0] | self.key[4] << 4, *self.key[1:4], len(nodes)) + b"".join(nodes)


def main(out, *files):
    by_key = collections.defaultdict(lambda: ([], []))
    for layers, folder in zip(files[::2], files[1::2]):
        for key, base, scratch in samples(layers, folder):
            by_key[key][0].append(base)
            by_key[key][1].append(scratch)
    blob = b""
    for key, (bases, scratch) in sorted(by_key.items()):
        if len(bases) < 100:
            continue
        group, largest = Group(key, bases, scratch), key[4] == LARGEST
        group.explain()
        count = len(bases)
        group.fit(100 if largest else 3000 if count > 60_000 else 2000 if count > 25_000 else 1000, least=8 if largest else 1)
        blob += group.written()
        print(key, count, "ways", len(group.known), group.judge(np.flatnonzero(group.held)) if group.held.any() else "")
    open(out, "wb").write(blob)


if __name__ == "__main__":
    main(*sys.argv[1:])
