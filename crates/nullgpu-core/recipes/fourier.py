#!/usr/bin/env python3
"""The workspaces of cuFFT's plans, for src/fourier.rs: `fourier.py OUT.json SECONDS`, on a GPU, with torch.

Each row is the sizes, the form (from real, to real, complex), the precision (single, double, half), how many are transformed at once, and
the workspace in bytes; less than 0 is an error.
"""

import ctypes
import json
import random
import sys
import time

import torch

TYPES = {"single": (0, 4), "double": (1, 5), "half": (2, 6)}
FORMS = ("from real", "to real", "complex")
COMMON = (400, 480, 512, 800, 882, 1200, 1323, 1600, 2000, 2205, 2400, 3000, 3200, 4000, 4410, 4800, 6000, 6250, 7000, 8000, 8820, 9600,
          12000, 12800, 16000, 20000, 22050, 24000, 32000, 44100, 48000, 65000, 88200, 96000)  # fmt: skip
SIDES = (16, 28, 32, 48, 64, 85, 96, 100, 128, 180, 224, 240, 256, 320, 360, 384, 421, 512, 720, 1024)


def main(out, seconds):
    torch.fft.rfft(torch.zeros(64, device="cuda"))
    with open("/proc/self/maps") as maps:
        library = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcufft.so" in line))
    random.seed(5)
    plans = list(wanted())
    random.shuffle(plans)
    until = time.time() + seconds
    rows = [[*plan, workspace(library, *plan)] for plan in plans if time.time() < until]
    with open(out, "w") as file:
        json.dump(rows, file)
    print(f"{len(rows)} of {len(plans)}")


def wanted():
    lengths = {2**power for power in range(1, 20)} | {10**power for power in range(1, 6)} | set(COMMON)
    for primes, most, until in (([2, 2, 2, 3, 5], 300_000, 230), ([2, 2, 3, 5, 7, 11, 13], 100_000, 290)):
        while len(lengths) < until:
            lengths.add(product(primes, most))
    while len(lengths) < 340:
        lengths.add(int(2 ** random.uniform(1, 17)))
    for length in lengths:
        for form in FORMS:
            for count in (1, 2, 6, 32, 128, 1024, 8192):
                if length * count <= 2**26:
                    yield [length], form, "single", count
            for count in (1, 64) if random.random() < 0.35 else ():
                yield [length], form, "double", count
    for dimensions, number, counts in ((2, 220, (1, 8, 192)), (3, 50, (1, 16))):
        for _ in range(number):
            sides = [random.choice([random.choice(SIDES), product([2, 2, 3, 5], 1500)]) for _ in range(dimensions)]
            for count in counts:
                if torch.Size(sides).numel() * count <= 2**26:
                    yield from ((sides, form, "single", count) for form in FORMS)


def product(primes, most):
    number = random.choice(primes)
    while random.random() < 0.9 and number * primes[-1] <= most:
        number *= random.choice(primes)
    return number


def workspace(library, sizes, form, precision, count):
    plan, size, one = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_longlong(1)
    real, complex_ = TYPES[precision]
    given, made = {"from real": (real, complex_), "to real": (complex_, real), "complex": (complex_, complex_)}[form]
    library.cufftCreate(ctypes.byref(plan))
    library.cufftSetAutoAllocation(plan, 0)
    numbers = (ctypes.c_longlong * len(sizes))(*sizes)
    status = library.cufftXtMakePlanMany(plan, len(sizes), numbers, None, one, one, given, None, one, one, made, ctypes.c_longlong(count),
                                         ctypes.byref(size), complex_)  # fmt: skip
    library.cufftDestroy(plan)
    return -status if status else size.value


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
