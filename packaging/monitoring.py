"""Tries the dashboard and the alerts on a real Prometheus, which reads `highwater top --prometheus` on made-up GPUs.

`monitoring.py target/debug`: the directory with the program and the made-up driver.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "examples/prometheus/highwater.rules.yml"
DASHBOARD = ROOT / "examples/grafana/highwater.json"
# Two GPUs, one nearly full; the process in this one is this script, which answers nothing of PyTorch.
GPUS = """driver 580.159.04
cuda 13000
gpu name=NVIDIA_H200 total=150754820096 used=150000000000
gpu name=NVIDIA_H200 total=150754820096 used=3221225472
process gpu=0 pid={pid} bytes=140000000000
"""
# What only a process with highwater's recorder has.
OF_TORCH = re.compile(r"highwater_process_(torch_|context|libraries|unexplained)")
PATIENCE = 60


def answer(port: int, path: str, **parameters: str) -> object:
    address = f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(address, timeout=10) as response:
        return json.load(response)["data"]


def until(what: str, ask: object) -> object:
    """The first answer that is one."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if found := ask():  # type: ignore[operator]
                return found
        except OSError:
            pass
        time.sleep(0.5)
    sys.exit(f"monitoring: no {what} within {PATIENCE} s")


def main() -> None:
    """Exits with 0 if everything has an answer."""
    built = Path(sys.argv[1]).resolve()
    subprocess.run(["promtool", "check", "rules", RULES], check=True)
    subprocess.run(["promtool", "check", "config", ROOT / "examples/prometheus/prometheus.yml"], check=True)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "gpus").write_text(GPUS.format(pid=os.getpid()))
        variables = os.environ | {
            "HIGHWATER_NVML": str(built / "libhighwater_fake_nvml.so"),
            "HIGHWATER_FAKE_NVML": str(directory / "gpus"),
        }
        top = subprocess.Popen(
            [built / "highwater", "top", "--prometheus", ":0", "--interval", "0.5"],
            env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        assert top.stderr
        found = re.search(r"127\.0\.0\.1:(\d+)", top.stderr.readline())
        assert found, "top serves no metrics"
        config = (ROOT / "examples/prometheus/prometheus.yml").read_text()
        config = config.replace("127.0.0.1:9400", f"127.0.0.1:{found[1]}").replace("15s", "1s")
        (directory / "prometheus.yml").write_text(config.replace("highwater.rules.yml", str(RULES)))
        port = 19090
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            ask = lambda query: answer(port, "/api/v1/query", query=query)["result"]  # type: ignore[index]  # noqa: E731
            until("scrape", lambda: ask("highwater_gpu_memory_used_bytes"))
            metrics = {one["metric"]["__name__"] for one in ask('{__name__=~"highwater_.*"}')}
            print(f"monitoring: Prometheus has {len(metrics)} metrics")
            dashboard = json.loads(DASHBOARD.read_text())
            for panel in dashboard["panels"]:
                query = panel["targets"][0]["expr"].replace("$instance", ".*")
                # What no process here tells must be right as an expression all the same.
                rows = ask(query)
                assert rows or OF_TORCH.search(query), f"the panel {panel['title']} is empty: {query}"
                print(f"monitoring: {panel['title']}: {len(rows)} rows")
            until("rules", lambda: all(
                rule["health"] == "ok" for group in answer(port, "/api/v1/rules")["groups"] for rule in group["rules"]  # type: ignore[index]
            ))
            alerts = until("alert for the full GPU", lambda: {
                (one["labels"]["alertname"], one["state"]) for one in answer(port, "/api/v1/alerts")["alerts"]  # type: ignore[index]
            })
            # Each waits before it fires, for it may pass.
            assert alerts == {("GpuMemoryNearlyFull", "pending"), ("GpuIdleButFull", "pending")}, alerts
            print("monitoring: every expression has an answer; the full and idle GPU has its two alerts, which wait")
        finally:
            prometheus.terminate()
            top.terminate()
            prometheus.wait()
            top.wait()


if __name__ == "__main__":
    main()
