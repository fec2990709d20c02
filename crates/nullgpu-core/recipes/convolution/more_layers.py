"""Lists more convolution layers beside those of `layers.py`: images cut into patches as by ViT, CLIP, DINO, Swin and ConvNeXt, videos
and sounds; layers of three dimensions, transposed and dilated ones; layers of networks at other batch sizes; and benchmarks.
No GPU.

usage: more_layers.py LAYERS.json MORE.json BENCHMARKS.json    (LAYERS.json is what `layers.py` wrote; rows have the same form)

`held:patch` has the widths 320, 1152, 1408 and 1664, which nothing is learned from.
"""
import json
import math
import random
import sys

random.seed(11)
pick = random.choice
BATCHES = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256]
WIDTHS = [32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 768, 1024, 1024, 1152, 1280, 1408, 1536, 1664]
HELD = (320, 1152, 1408, 1664)
# Number type, whether TF32 is allowed, channels last; as often as they are listed.
KINDS = [("f32", 1, 0)] * 5 + [("bf16", 1, 0)] * 3 + [("bf16", 1, 1)] * 2 + [("f16", 1, 0), ("f32", 0, 0), ("f32", 1, 1)]
BENCHMARKED = [("f32", 1, 0)] * 10 + [("bf16", 1, 1)] * 5 + [("bf16", 1, 0)] * 3
BENCHMARKED += [("f16", 1, 0), ("f32", 0, 0), ("f32", 0, 0), ("f32", 1, 1)]
FLOP_MAX = 6e11


def output(layer):
    x, w, stride, padding, dilation, transposed, _, groups = layer
    sides = zip(x[2:], w[2:], stride, padding, dilation)
    if transposed:
        return [x[0], w[1] * groups] + [(a - 1) * s - 2 * p + d * (k - 1) + 1 for a, k, s, p, d in sides]
    return [x[0], w[0]] + [(a + 2 * p - d * (k - 1) - 1) // s + 1 for a, k, s, p, d in sides]


class Layers:
    """Rows that are not there yet."""

    def __init__(self, known, first_number):
        self.known, self.number, self.rows = known, first_number, []

    def put(self, group, layer, kind, benchmark, elements_max):
        """Adds a layer, if it is one, new and not too large; how many were added."""
        y = output(layer)
        if min(y) < 1 or (len(layer[0]) == 3 and kind[2]):
            return 0
        elements = [math.prod(layer[0]), math.prod(y)]
        if max(elements) > elements_max or elements[1] * math.prod(layer[1][1:]) > FLOP_MAX:
            return 0
        row = [*layer, *kind, benchmark]
        text = json.dumps(row)
        if text in self.known:
            return 0
        self.known.add(text)
        self.rows.append([self.number + len(self.rows), [group], *row])
        return 1


def patches():
    """A layer that cuts an image, a video or a sound."""
    what, batch, width = random.random(), pick(BATCHES), pick(WIDTHS)
    padding = 0
    if what < 0.62:
        window = stride = pick([4, 8, 14, 14, 16, 16, 16, 32])
        channels = pick([3, 3, 3, 3, 1, 4])
        across = pick([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 21, 24, 24, 26, 28, 32, 36, 37, 40, 48, 56, 64])
        sides = [across * window] * 2
        if pick(range(6)) == 0:
            sides[1] = pick([7, 10, 14, 20, 28, 32]) * window
        if window == 4:
            width = pick([32, 48, 64, 80, 96, 128, 160, 192, 256])
            sides = [pick([16, 24, 28, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128]) * 4] * 2
    elif what < 0.78:
        channels = pick([32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 352, 384, 512, 704, 768, 1024, 1536])
        width = pick([channels, 2 * channels, 2 * channels, channels * 3 // 2])
        window = stride = pick([2, 2, 2, 4, 8])
        sides = [pick([7, 8, 12, 14, 16, 24, 28, 32, 40, 48, 56, 64, 96]) * window] * 2
        if pick(range(3)) == 0:
            window, padding, stride = 3, 1, 2
    elif what < 0.86:
        channels, width = 3, pick([32, 48, 64, 96])
        window, stride, padding = pick([(7, 4, 3), (7, 4, 2), (3, 2, 1), (7, 2, 3), (4, 4, 0)])
        sides = [pick([128, 160, 192, 224, 256, 288, 320, 384, 448, 512, 640, 768, 1024])] * 2
    elif what < 0.94:
        side, frames = pick([14, 16]), pick([1, 1, 2, 4, 8])
        alone = frames == 1
        batch = pick([64, 256, 300, 768, 1024, 1100, 2048, 3000, 4096, 6000, 8192, 16384] if alone else [1, 2, 4, 8])
        window = [2, side, side]
        w = [pick([768, 1024, 1152, 1280]), 3, *window]
        x = [batch, 3, 2 * frames, *([side if alone else 224] * 2)]
        return x, w, window, [0] * 3, [1] * 3, False, [0] * 3, 1
    else:
        channels = pick([80, 128, 1, 64, 96, 256, 512])
        w = [pick([384, 512, 768, 1024, 1280, channels, 2 * channels]), channels, pick([3, 3, 10, 4, 7, 15])]
        x = [min(batch, 32), channels, pick([500, 1000, 1500, 3000, 4000, 16000])]
        return x, w, [pick([1, 2, 4])], [w[2] // 2], [1], False, [0], 1
    return [batch, channels, *sides], [width, channels, window, window], [stride] * 2, [padding] * 2, [1] * 2, False, [0] * 2, 1


def varied(row, batch=None, shape=False):
    """A layer with another batch size, and with another shape where that is wanted."""
    x, w, stride, padding, dilation, transposed, more, groups = json.loads(json.dumps(row[2:10]))
    x[0] = batch or pick(BATCHES)
    if shape and x[-1] > 4:
        by = pick([0.5, 0.75, 1, 1.25, 1.5, 2])
        x[2:] = [max(2, int(side * by)) for side in x[2:]]
        by = pick([1, 1, 0.5, 2, 1.5])
        if groups == 1 and min(w[:2]) > 7:
            w[0], w[1] = int(w[0] * by), int(w[1] * by)
            x[1] = w[0] if transposed else w[1]
    return x, w, stride, padding, dilation, transposed, more, groups


def until(count, layers, group, make, kinds, benchmark=0, elements_max=1.2e8):
    found = 0
    while found < count:
        layer = make()
        name = "held:patch" if group == "patch" and layer[1][0] in HELD and not benchmark else group
        found += layers.put(name, layer, pick(kinds), benchmark, elements_max)


def main(there, more, benchmarks):
    rows = json.load(open(there))
    known = {json.dumps(row[2:14]) for row in rows}
    held = lambda row: all(group.startswith("held") for group in row[1])
    networks = [row for row in rows if row[1] != ["grid"] and not held(row)]
    odd = [row for row in networks if len(row[4]) == 3 or row[7] or row[6][0] > 1 or len(row[2]) == 3]
    plain = [row for row in networks if not row[13]]

    layers = Layers(known, 300_000)
    until(14_000, layers, "patch", patches, KINDS)
    until(16_000, layers, "odd", lambda: varied(pick(odd), shape=True), KINDS[:5] * 2 + KINDS)
    until(50_000, layers, "net3", lambda: varied(pick(plain)), KINDS[:5] * 3 + KINDS)
    random.shuffle(layers.rows)
    json.dump(layers.rows, open(more, "w"), separators=(",", ":"))

    layers = Layers(known, 500_000)
    usual = [row for row in rows if not row[13] and held(row) and tuple(row[10:13]) in BENCHMARKED[:18]]
    for row in random.sample(usual, min(500, len(usual))):
        layers.put(row[1][0], row[2:10], row[10:13], 1, 2.6e7)
    until(300, layers, "patch", patches, BENCHMARKED, 1, 2.6e7)
    until(200, layers, "odd", lambda: varied(pick(odd), shape=True), BENCHMARKED, 1, 2.6e7)
    random.shuffle(layers.rows)
    json.dump(layers.rows, open(benchmarks, "w"), separators=(",", ":"))


if __name__ == "__main__":
    main(*sys.argv[1:])
