"""What a watch of `highwater.cycles` costs while nothing is found, and while something is.

    python benches/cycles.py

Needs torch. The numbers in docs/cycles.md come from here.
"""

import gc
import statistics
import time

import torch

import highwater


def seconds(work, times=7):
    """The least processor time of some runs, and the median."""
    runs = []
    for _ in range(times):
        begin = time.process_time()
        work()
        runs.append(time.process_time() - begin)
    return min(runs), statistics.median(runs)


class Node:
    """A cycle of one object."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.me = self


def leak(count):
    """Garbage with tensors."""
    gc.disable()
    for _ in range(count):
        Node(torch.empty(1))
    gc.enable()


def main():
    """Prints a table."""
    heap = [{"number": at, "list": [at]} for at in range(500_000)]
    tensors = [torch.empty(1) for _ in range(2_000)]
    gc.collect()
    gc.collect()

    def young():
        for _ in range(1_000):
            gc.collect(0)

    def churn():
        for _ in range(300_000):
            [[]]
            kept.append([])
        kept.clear()

    kept = []
    small = torch.ones(8, 8)

    def steps():
        for _ in range(20_000):
            small.add(1).mul(2)

    gc.enable()
    cases = {
        "a full collection, %d objects and %d tensors" % (len(gc.get_objects()), len(tensors)): (gc.collect, 1),
        "a young collection with nothing to do": (young, 1_000),
        "a new list that is kept": (churn, 300_000),
        "two operations on a small tensor": (steps, 20_000),
    }
    for name, (work, times) in cases.items():
        work()
        bare = seconds(work)
        with highwater.cycles.watch(device="cpu", log=False):
            work()
            watched = seconds(work)
        print(f"{name}: {bare[0] / times * 1e6:.2f} µs, watched {watched[0] / times * 1e6:.2f} µs ({watched[0] / bare[0] - 1:+.1%})")
    for count in (1, 1_000):
        leak(count)
        begin = time.process_time()
        gc.collect()
        bare = time.process_time() - begin
        with highwater.cycles.watch(device="cpu", log=False):
            leak(count)
            begin = time.process_time()
            gc.collect()
            len(heap)
            found = time.process_time() - begin
        print(f"a full collection that finds {count} cycles: {bare * 1e3:.1f} ms, watched {found * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
