#!/usr/bin/env python3
"""Makes ../allocator, what PyTorch's own allocator did with request programs; what is in it: its README.

    allocator_goldens.py ORACLE... [--out DIR]   runs the cases on each oracle (`make oracle`): half a minute; versions that are not
                                                 named keep theirs
    allocator_goldens.py --check                 only looks whether the stored programs are what the generators make

Every case runs twice as it is and then with address-space randomisation left on: once, or eight times for programs with
both pools and streams, where torch is known to depend on it. Events and block maps must be the same every time, else
the case is left out; statistics that change under randomisation are named in `order_dependent_stats`. A version that
refuses the settings of a case, or reports an internal error, has no entry for it.
"""

import argparse
import concurrent.futures
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

from request_programs import MIB, Program, classes, fuzz, lifecycle, limits, train

EXPANDABLE = "expandable_segments:True"
ROUND_LIST = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"
AMPLE_MIB = 65536


def split(mib):
    return f"max_split_size_mb:{mib}"


def rounding(mib):
    return f"max_non_split_rounding_mb:{mib}"


def divisions(value):
    return f"roundup_power2_divisions:{value}"


def collection(threshold):
    return f"garbage_collection_threshold:{threshold}"


def segments(mib):
    return f"large_segment_size_mb:{mib}"


def conf(*parts):
    return ",".join(parts)


def rows(*texts):
    """A program from its rows."""
    program = Program()
    program.rows = list(texts)
    return program


SETTINGS = (conf(split(32), rounding(60)), split(32), conf(split(32), divisions("[2:4,8:2,>:8]")), split(32))

# The seeds from 12 on aim at single rules, found by changing one rule of a simulator at a time and looking for programs
# that notice.
PROGRAMS = {
    "fuzz1": fuzz(1, ops=5000),
    "fuzz2_large": fuzz(2, ops=4000, max_mib=640, live=25),
    "fuzz3_streams": fuzz(3, ops=5000, streams=4, events=True),
    "fuzz4_pools": fuzz(4, ops=4000, streams=2, pools=True),
    "fuzz5_pools_streams": fuzz(5, ops=4000, streams=3, pools=True, events=True),
    "fuzz6_fraction": fuzz(6, ops=4000, fraction="0.75"),
    "fuzz7_toggle": fuzz(7, ops=4000, streams=2, toggle=(EXPANDABLE, "expandable_segments:False")),
    "fuzz8_small": fuzz(8, ops=6000, max_mib=2, live=400),
    "train9_fixed": train(9, ops=5000),
    "train10_variable": train(10, ops=5000, variable=True),
    "train11_streams": train(11, ops=5000, variable=True, streams=3),
    "classes12_fraction": classes(12, fractions=("0.62", "0.8", "1.0")),
    "classes13_large": classes(13, max_mib=400, live=15, middle=0.3),
    "classes14_settings": classes(14, confs=SETTINGS),
    "limits15": limits(15, 700, ("0.7", "0.35", "0.55", "0.9", "1.0", "0.14")),
    "lifecycle16": lifecycle(16, numbers=12, stride=1),
    "lifecycle17_pools_streams": lifecycle(17, streams=3, events=True, numbers=12, stride=1),
    "lifecycle18_flags": lifecycle(18, streams=2, flags=True, numbers=12, stride=1),
    # What `make fuzz-allocator` found, as short as it made it.
    "found1_short_reservation": rows("alloc,1,4503599627370496,2", "alloc,2,78469,3"),
    "found2_captured_use": rows(
        *("alloc,1,3082065,1", "events_ready,,,,,0", "pool_begin,,,,3", "record_stream,1,,0", "free,1"),
        *("pool_end,,,,3", "alloc,2,2097152,1"),
    ),
    "found3_no_split_again": rows(
        *("pool_create,,,,1,no_split", "pool_release,,,,1", "empty_cache,,,,1", "pool_begin,,,,1", "alloc,1,4609,0"),
    ),
    "found4_rejected": rows(
        *("memory_fraction,,,,,1.0", "alloc,1,31457280,0", "alloc,2,73400320,0", "alloc,3,35651584,0"),
        *("alloc,4,10485760,0", "set_config,,,,,per_process_memory_fraction:0.22", "alloc,5,10485760,0"),
    ),
    "found5_negative_split": rows("alloc,1,100000,0"),
    # 0.7 of 700 MiB is 490 MiB less a fraction of a byte.
    "found6_rejected_truncated": rows("memory_fraction,,,,,1.0", "alloc,1,513802240,0"),
}

REFERENCES = ("2.8.0", "2.11.0", "2.15.0")


def cases(torch):
    """What is run on a version: every case on some, and of these a few on those between."""
    found = all_cases() if torch in REFERENCES else some_cases()
    # Before 2.11 pools with flags follow other rules, and nothing needs them.
    has_flags = int(torch.split(".")[1]) >= 11
    return [case for case in found if has_flags or "\npool_create" not in PROGRAMS[case[0]].text()]


def some_cases():
    return [
        ("fuzz1", "", 0.9),
        ("fuzz1", EXPANDABLE, 0.9),
        ("fuzz2_large", split(128), 1.15),
        ("fuzz2_large", conf(EXPANDABLE, split(128)), 1.15),
        ("fuzz3_streams", "", 1.0),
        ("fuzz4_pools", "", 1.3),
        ("fuzz5_pools_streams", EXPANDABLE, 1.5),
        ("fuzz6_fraction", conf(collection(0.8), split(128)), 1.3),
        ("train11_streams", "", 1.0),
        ("classes13_large", divisions("[2:4,8:2,>:8]"), 1.25),
        ("classes14_settings", "", 1.2),
        ("limits15", "", {"mib": 700}),
        ("limits15", collection(0.5), {"mib": 700}),
        ("lifecycle17_pools_streams", "", 1.1),
        ("lifecycle18_flags", "", 1.1),
        *found_cases(),
    ]


def found_cases():
    device = {"mib": 700}
    return [
        ("found1_short_reservation", EXPANDABLE, device),
        ("found2_captured_use", "", device),
        ("found3_no_split_again", "", device),
        ("found4_rejected", "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.2", device),
        ("found5_negative_split", split(-5), device),
        ("found6_rejected_truncated", "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.7", device),
    ]


def all_cases():
    """(program, settings, binding): capacity = binding * peak of live requested bytes; 0 is ample, {"mib": N} is N."""

    def of(program, settings, *bindings):
        return [(program, settings, binding) for binding in bindings]

    found = []
    for settings in ("", EXPANDABLE, segments(64)):
        found += of("fuzz1", settings, 0, 0.9)
    for settings in (divisions(2), divisions(4), divisions(8), ROUND_LIST, conf(EXPANDABLE, segments(64))):
        found += of("fuzz1", settings, 1.02)
    for settings in ("", EXPANDABLE):
        found += of("fuzz2_large", settings, 0.95)
    for settings in (split(128), conf(EXPANDABLE, split(128))):
        found += of("fuzz2_large", settings, 0, 1.15)
    for settings in (conf(EXPANDABLE, split(21)), conf(split(128), rounding(64)), conf(split(21), rounding(64))):
        found += of("fuzz2_large", settings, 1.3)
    found += of("fuzz2_large", split(21), 0, 0.8, 1.3)
    found += of("fuzz2_large", split(512), 0, 1.3)
    for settings in ("", EXPANDABLE, split(128), divisions(4)):
        found += of("fuzz3_streams", settings, 0, 1.0)
    for settings in ("", EXPANDABLE):
        found += of("fuzz4_pools", settings, 0, 1.3) + of("fuzz5_pools_streams", settings, 0, 1.5)
    found += of("fuzz5_pools_streams", split(21), 1.5)
    for settings in (
        collection(0.6),
        collection(0.8),
        conf(collection(0.8), split(128)),
        conf(collection(0.6), split(21)),
    ):
        found += of("fuzz6_fraction", settings, 1.3, 2.0)
    found += of("fuzz6_fraction", "", 1.3)
    found += of("fuzz7_toggle", "", 0, 1.1)
    for settings in ("", EXPANDABLE):
        found += of("fuzz8_small", settings, 1.1)
        found += of("train9_fixed", settings, 1.01)
        found += of("train10_variable", settings, 0, 1.03)
        found += of("train11_streams", settings, 0, 1.0)
    for settings in (split(128), segments(64), divisions(8)):
        found += of("train10_variable", settings, 1.03)
    for settings in ("", EXPANDABLE, divisions(64), collection(0.5)):
        found += of("classes12_fraction", settings, 1.5)
    for settings in (conf(segments(64), split(100)), conf(segments(64), split(100), rounding(128))):
        found += of("classes13_large", settings, 0, 1.3)
    found += of("classes14_settings", "", 0, 1.2)
    for number, listed in enumerate(("[2:4,8:2,>:8]", "[>:4]", "[4:8,64:2]", "[1:16,32:4,>:2]")):
        found += of("classes13_large", divisions(listed), 1.25 + 0.05 * number)
    for settings in ("", EXPANDABLE, collection(0.5)):
        found += of("limits15", settings, {"mib": 700})
    for program in ("lifecycle16", "lifecycle17_pools_streams", "lifecycle18_flags"):
        found += of(program, "", 0, 1.1)
    return found + found_cases()


def case_name(program, settings, binding):
    """PROGRAM-SETTINGS-`ample`, `bindN` (N % of the peak of live requested bytes) or `capN` (N MiB)."""
    for long, short in (
        ("expandable_segments:True", "exp"),
        ("max_split_size_mb:", "split"),
        ("roundup_power2_divisions:[", "roundlist["),
        ("roundup_power2_divisions:", "round"),
        ("garbage_collection_threshold:", "gc"),
        ("large_segment_size_mb:", "lseg"),
        ("max_non_split_rounding_mb:", "nonsplit"),
        ("throw_on_cudamalloc_oom:True", "throw"),
        ("per_process_memory_fraction:", "fraction"),
    ):
        settings = settings.replace(long, short)
    if "[" in settings:
        settings = settings[: settings.index("[")] + settings[settings.index("]") + 1 :]
    if isinstance(binding, dict):
        capacity = f"cap{binding['mib']}"
    else:
        capacity = f"bind{round(binding * 100)}" if binding else "ample"
    return f"{program}-{settings.replace(',', '+') or 'default'}-{capacity}"


def capacity_mib(program, binding):
    if isinstance(binding, dict):
        return binding["mib"]
    return int(PROGRAMS[program].peak * binding / MIB) + 1 if binding else AMPLE_MIB


def run(oracle, program, settings, capacity, randomise):
    """Events, blocks and statistics as bytes; None if this version refuses the settings."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{name}" for name in ("events", "blocks", "stats")]
        done = subprocess.run(
            [oracle, "--program", program, "--conf", settings, "--capacity-mib", str(capacity)]
            + ["--events", files[0], "--blocks", files[1], "--stats", files[2]],
            env=dict(os.environ, **({"ORACLE_KEEP_ASLR": "1"} if randomise else {})),
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return [pathlib.Path(file).read_bytes() for file in files] if done.returncode == 0 else None


def result(oracle, program, settings, capacity):
    """An entry's results, or why there is none."""
    repeats = 8 if "pools_streams" in program else 1
    runs = [run(oracle, program, settings, capacity, randomise) for randomise in [False, False] + repeats * [True]]
    first = runs[0]
    if first is None:
        return "the settings are refused, or the allocator crashed"
    if any(other[:2] != first[:2] for other in runs):
        return "the outcome depends on heap addresses"
    if b"\nerrors,all,0," not in first[2]:
        return "the allocator reports internal errors"
    lines = [other[2].decode().splitlines() for other in runs]
    unstable = [a for a, *others in zip(*lines) if any(other != a for other in others)]
    return {
        "events_sha256": hashlib.sha256(first[0]).hexdigest(),
        "events_rows": first[0].count(b"\n") - 1,
        "blocks_sha256": hashlib.sha256(first[1]).hexdigest(),
        "blocks_rows": first[1].count(b"\n") - 1,
        "order_dependent_stats": [",".join(line.split(",")[:2]) for line in unstable],
        "stats": first[2].decode(),
    }


def store(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", filename="", compresslevel=9, mtime=0) as file:
        file.write(data)


def check(out):
    for name, program in PROGRAMS.items():
        with gzip.open(out / "programs" / f"{name}.csv.gz") as file:
            assert file.read() == program.text().encode(), f"{name}: the stored program is not what the generator makes"


def order(version):
    return int(version.split(".")[1])


def kept(out, versions):
    """The stored cases of all other versions."""
    path = out / "index.json.gz"
    if not path.exists():
        return []
    with gzip.open(path) as file:
        return [entry for entry in json.load(file) if entry["torch"] not in versions]


def make(oracles, out):
    versions = [(oracle.parent / "VERSION").read_text().strip() for oracle in oracles]
    oracles, versions = zip(*sorted(zip(oracles, versions), key=lambda pair: order(pair[1])))
    names = [case_name(*case) for case in all_cases()]
    assert len(set(names)) == len(names), "two cases of one name"
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, program in PROGRAMS.items():
            pathlib.Path(folder, f"{name}.csv").write_text(program.text())
            store(out / "programs" / f"{name}.csv.gz", program.text().encode())

        def entry(job):
            (oracle, version), (program, settings, binding) = job
            capacity = capacity_mib(program, binding)
            head = {"case": case_name(program, settings, binding), "torch": version, "program": program}
            head |= {"conf": settings, "capacity_mib": capacity, "va": "first-fit"}
            return head, result(str(oracle), f"{folder}/{program}.csv", settings, capacity)

        index = kept(out, versions)
        for head, found in pool.map(entry, [(o, case) for o in zip(oracles, versions) for case in cases(o[1])]):
            if isinstance(found, str):
                print(f"torch {head['torch']}, {head['case']}: {found}")
            else:
                index.append(head | found)
    index.sort(key=lambda entry: order(entry["torch"]))
    store(out / "index.json.gz", ("[\n" + ",\n".join(map(json.dumps, index)) + "\n]\n").encode())
    for version in versions:
        mine = [entry for entry in index if entry["torch"] == version]
        print(f"torch {version}: {len(mine)} cases, {sum(entry['events_rows'] for entry in mine)} events")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("oracles", metavar="ORACLE", nargs="*", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "../allocator")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        check(options.out)
    elif options.oracles:
        make([oracle.resolve() for oracle in options.oracles], options.out)
    else:
        parser.error("name the oracles, or --check")


if __name__ == "__main__":
    main()
