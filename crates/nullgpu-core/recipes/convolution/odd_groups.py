"""Lists convolutions in groups of several channels, with different numbers of input and output channels, as gradients for each sample are. No GPU.

usage: odd_groups.py SEED OUT.json    (rows have the form of `layers.py`'s; a tenth is held out)
"""
import json
import random
import sys

GROUPS = [2, 3, 4, 5, 8, 10, 12, 16, 20, 24, 25, 30, 32, 40, 48, 50, 64, 80, 96, 100, 128, 160, 200, 256, 320, 400, 512]
INPUTS = [2, 3, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 32, 40, 48, 64, 80, 96, 128, 192, 256, 512]
OUTPUTS = [1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 32, 40, 48, 64, 64, 96, 128, 192, 256, 512]
SIDES = [4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96]
WINDOWS = [1, 2, 3, 3, 3, 3, 3, 4, 5, 7, 8]
# Number type, and whether TF32 is allowed; as often as they are listed.
KINDS = [("f32", 1)] * 10 + [("f32", 0), ("bf16", 1), ("bf16", 1), ("f16", 1)]
LAYERS = 6000


def main(seed, out):
    random.seed(seed)
    pick, rows = random.choice, []
    while len(rows) < LAYERS:
        groups, inputs, outputs, side = pick(GROUPS), pick(INPUTS), pick(OUTPUTS), pick(SIDES)
        batch, window, stride = pick([1] * 8 + [2, 3, 5, 8, 16, 25]), pick(WINDOWS), pick([1, 1, 1, 2, 2, 3, 4])
        padding = pick([0, window // 2])
        elements = batch * groups * max(inputs, outputs) * side * side
        if inputs == outputs or side + 2 * padding < window or elements > 3e7 or groups * inputs * outputs * window * window > 2e7:
            continue
        shapes = [batch, groups * inputs, side, side], [groups * outputs, inputs, window, window]
        how = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, *pick(KINDS), 0, 0
        group = "held:groups" if random.random() < 0.1 else "groups"
        rows.append([100_000 * seed + len(rows), [group], *shapes, *how])
    with open(out, "w") as file:
        json.dump(rows, file, separators=(",", ":"))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
