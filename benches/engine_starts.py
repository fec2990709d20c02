"""Starts vLLM over the null GPU, with a small model of each architecture, and compares its cache with the forecast.

Usage: python3 benches/engine_starts.py --python VENV/bin/python [--highwater BINARY] [--only NAME,NAME] [--graphs] [--gpu CARD]

VENV has vLLM 0.24 and what it imports, among that the PyTorch that it wants; NVIDIA's libraries are not needed. `make engines` makes one.
Weights are invented (`load_format="dummy"`), the profile run and the allocation of the cache are vLLM's own. Prints a row for each model of
benches/engine_models.json: the cache as vLLM says it, the forecast of `highwater estimate --serve`, and where a start that did not end stopped.
Exits with 1 if a model did not reach its cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BATCHED, SEQUENCES = 8192, 256
START = f"""
import sys
from vllm import LLM

if __name__ == "__main__":
    LLM(
        sys.argv[1],
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=sys.argv[2] == "eager",
        max_num_batched_tokens={BATCHED},
        max_num_seqs={SEQUENCES},
    )
    print("started")
"""
# The engine in the process of the script, whose settings the null GPU has; nothing is asked of the network.
# FlashInfer compiles its sampler with `nvcc`. Compilation ahead of time would see the dry run's own functions.
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_AOT_COMPILE": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


def started(program: list[str], folder: Path, graphs: bool) -> str:
    """What a start printed."""
    script = folder / "start.py"
    script.write_text(START)
    run = [*program, str(script), str(folder), "graphs" if graphs else "eager"]
    done = subprocess.run(run, capture_output=True, text=True, errors="replace", cwd=folder, env=os.environ | ENVIRONMENT, check=False)
    return done.stderr + done.stdout


def forecast(binary: str, folder: Path, gpu: str, version: str, graphs: bool) -> dict[str, object]:
    """The answer of `highwater estimate --serve`."""
    command = [binary, "estimate", str(folder), "--serve", f"vllm@{version}", "--gpu", gpu, "--format", "json"]
    command += ["--max-num-batched-tokens", str(BATCHED), "--max-num-seqs", str(SEQUENCES), *([] if graphs else ["--enforce-eager"])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def number(pattern: str, text: str) -> float | None:
    """The first number that follows these words."""
    found = re.search(pattern + r" ([\d,.]+\d)", text)
    return float(found[1].replace(",", "")) if found else None


def main() -> None:
    """A row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--highwater", default=str(HERE.parent / "target/release/highwater"))
    parser.add_argument("--only", default="")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--graphs", action="store_true")
    options = parser.parse_args()
    options.highwater, options.python = map(os.path.abspath, (options.highwater, options.python))
    asked = "import importlib.metadata as m; print(m.version('vllm'))"
    version = subprocess.run([options.python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    models = json.loads((HERE / "engine_models.json").read_text())
    program = [options.highwater, "dryrun", "--python", options.python, "--gpu", options.gpu, "--timeout", "20m"]
    names = [name for name in models["models"] if not options.only or name in options.only.split(",")]
    print(f"vLLM {version} on {options.gpu}, imitated")
    print(f"{'model':14} {'cache GiB':>10} {'forecast':>9} {'off':>8}   {'tokens':>12} {'forecast':>12}  end")
    reached = 0
    for name in names:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made) / name
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(models["common"] | models["models"][name]))
            text = started(program, folder, options.graphs)
            expected = forecast(options.highwater, folder, options.gpu, version, options.graphs)
        cache, tokens = number("Available KV cache memory:", text), number("GPU KV cache size:", text)
        ended = re.search(r"It ended with (.*?)\. This is", text.replace("\n", " "))
        end = "started" if re.search("^started$", text, re.MULTILINE) else ended[1] if ended else text.strip().splitlines()[-1]
        theirs = expected["kv_cache_bytes"]
        assert isinstance(theirs, int)
        off = f"{(theirs / 2**30 / cache - 1) * 100:+.2f} %" if cache else ""
        print(f"{name:14} {cache or 0:10.2f} {theirs / 2**30:9.2f} {off:>8}   {tokens or 0:12,.0f} {expected['tokens'] or 0:12,}  {end}", flush=True)
        reached += cache is not None
    print(f"{reached} of {len(names)} models reached their cache")
    sys.exit(reached < len(names))


main()
