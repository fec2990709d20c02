"""Where the driver puts memory: cudaMalloc and cudaFree at random, in a process that does nothing else.

    driver_addresses.py SEED CALLS
    driver_addresses.py --small SEED CALLS

Run on a GPU, with SEED 1 and 2 and 2000 CALLS, it printed testdata/driver/addresses.txt; with --small, SEED 0 and 1 and 1000 CALLS
testdata/driver/small.txt. Needs the CUDA runtime that torch's wheels bring.
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


def small_calls(runtime, seed):
    """Calls for ever, as (bytes or None, address): sizes from a byte to 4 MiB, most of them of less than a page."""
    choice, live, call = random.Random(seed), [], 0
    while True:
        if live and choice.random() < (0.35 if call // 400 % 2 == 0 else 0.6):
            address, wanted = live.pop(choice.randrange(len(live))), None
            assert runtime.cudaFree(ctypes.c_void_p(address)) == 0
        else:
            kind = choice.randrange(5)
            if seed % 2 == 0:
                ends = (4096, 65536, MIB // 2, MIB + 1, 4 * MIB)
                wanted = [choice.randrange(1, end) for end in ends][kind]
            else:
                wanted = [256, 512, 4096, 100 * 1024, choice.randrange(1, MIB)][kind]
            pointer = ctypes.c_void_p()
            assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(wanted)) == 0
            address = pointer.value
            live.append(address)
        call += 1
        yield wanted, address


def main():
    is_small = sys.argv[1] == "--small"
    seed, count = map(int, sys.argv[1 + is_small :])
    folder = pathlib.Path(site.getsitepackages()[0])
    runtime = ctypes.CDLL(str(next(folder.glob("nvidia/**/libcudart.so*"))))
    made = (small_calls if is_small else calls)(runtime, seed)
    found = [call for call, _ in zip(made, range(count), strict=False)]
    print("=")
    if is_small:
        # The first page lies in the last 2 MiB before the end of the local memory.
        end = found[0][1] + 2 * MIB
        for wanted, address in found:
            offset = (address - end) // 512
            print(f"- {offset}" if wanted is None else f"+ {wanted} {offset}")
        return
    # The highest of all lie in a chunk of 32 MiB that begins 64 MiB after the local memory.
    end = max(address for _, address in found) // (32 * MIB) * (32 * MIB) - 64 * MIB
    for mib, address in found:
        offset = (address - end) // MIB
        print(f"- {offset}" if mib is None else f"+ {mib} {offset}")


if __name__ == "__main__":
    main()
