"""Where the driver puts memory: cudaMalloc and cudaFree at random, in a process that does nothing else.

    driver_addresses.py SEED CALLS

Run on a GPU, with SEED 1 and 2 and 2000 CALLS, it printed testdata/driver/addresses.txt. Needs the CUDA runtime that torch's
wheels bring.
"""

import ctypes
import pathlib
import random
import site
import sys

MIB = 1 << 20
LIVE_BYTES = 40 << 30


def size(choice, seed):
    """A size as PyTorch asks for: small and large segments, and larger ones; seed 2 has very large ones, too."""
    share = choice.random()
    if seed == 2:
        kinds = ((0.3, lambda: 1), (0.5, lambda: 10), (0.9, lambda: choice.randint(11, 60)), (1, lambda: choice.randint(60, 1000)))
    else:
        kinds = ((0.5, lambda: 1), (0.8, lambda: 10), (1, lambda: choice.randint(11, 60)))
    return 2 * MIB * next(kind for limit, kind in kinds if share < limit)()


def calls(runtime, seed):
    """Calls for ever, as (MiB or None, address): memory comes and goes; every thousand calls most of it goes at once."""
    choice, live = random.Random(seed), {}

    def free(address):
        assert runtime.cudaFree(ctypes.c_void_p(address)) == 0
        del live[address]
        return None, address

    while True:
        for _ in range(4):
            count = choice.choice([20, 60, 200, 400])
            for _ in range(250):
                room = sum(live.values()) < LIVE_BYTES and (len(live) < count or choice.random() < 0.45)
                if room or not live:
                    address, wanted = ctypes.c_void_p(), size(choice, seed)
                    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(wanted)) == 0
                    live[address.value] = wanted
                    yield wanted // MIB, address.value
                else:
                    yield free(choice.choice(list(live)) if choice.random() < 0.7 else max(live))
        kept, order = choice.random() * 0.3, list(live)
        if choice.random() < 0.5:
            choice.shuffle(order)
        yield from [free(address) for address in order if choice.random() > kept]


def main():
    seed, count = map(int, sys.argv[1:])
    folder = pathlib.Path(site.getsitepackages()[0])
    runtime = ctypes.CDLL(str(next(folder.glob("nvidia/**/libcudart.so*"))))
    found = [call for call, _ in zip(calls(runtime, seed), range(count), strict=False)]
    # The highest of all lie in a chunk of 32 MiB that begins 64 MiB after the local memory.
    end = max(address for _, address in found) // (32 * MIB) * (32 * MIB) - 64 * MIB
    print("=")
    for mib, address in found:
        offset = (address - end) // MIB
        print(f"- {offset}" if mib is None else f"+ {mib} {offset}")


if __name__ == "__main__":
    main()
