"""Recordings on a Ray cluster, and in a bucket. Without Ray, the functions that its tasks call run here."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import highwater
import highwater.ray
import pytest
from conftest import recording
from highwater._storage import Place

with_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs a Ray cluster: `make nightly` installs `ray[data]`"
)
with_bucket = pytest.mark.skipif(
    importlib.util.find_spec("moto") is None, reason="needs an S3 server: `make nightly` installs `moto[server]`"
)

NAMES = ["linear_forward", "multi_stream", "oom_gpt2_8gib", "annotated"]


def job(folder: Path) -> Path:
    """A folder of ranks: good ones, and of the bad ones an empty, a cut and a foreign one."""
    folder.mkdir()
    for rank, name in enumerate(NAMES):
        shutil.copy(recording(name), folder / f"rank{rank}.pickle.gz")
    (folder / "rank4.pickle").write_bytes(b"")
    (folder / "rank5.pickle").write_bytes(b"no pickle")
    (folder / "notes.txt").write_text("nobody's recording")
    return folder


def work(out: Path | None = None, **changed: Any) -> highwater.ray._Work:
    settings: dict[str, Any] = {
        "out": None if out is None else Place.of(out),
        "run": None,
        "entries": False,
        "memory": 4 << 30,
        "attempts": 3,
        "allow_any_size": False,
    }
    return highwater.ray._Work(**{**settings, **changed})


def totals(tables: object, **options: Any) -> list[Any]:
    query = "SELECT rank, device, peak_allocated_bytes, peak_reserved_bytes FROM devices ORDER BY rank, device"
    return highwater.sql(query, tables, **options).fetchall()  # type: ignore[arg-type, no-any-return]


def analyze_here(source: object, setting: highwater.ray._Work, filesystem: object = None) -> list[dict[str, Any]]:
    """What the tasks of :func:`highwater.ray.analyze` give, one after the other and in this process."""
    places, unread = highwater.ray._found(source, filesystem)  # type: ignore[arg-type]
    assert unread == []
    return [highwater.ray._analyze_one(row, setting) for row in highwater.ray._numbered(places, setting.run)]


def test_a_task_gives_a_digest_and_tables_or_a_reason(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    results = analyze_here(job(tmp_path / "job"), work(tmp_path / "out"))
    assert [result["digest"] is not None for result in results] == [True] * 4 + [False] * 2
    assert all(result["reason"] for result in results[4:])
    assert len({row[0] for row in totals(tmp_path / "out")}) == 4
    for rank, name in enumerate(NAMES):
        peak = highwater.load(recording(name)).report()["devices"][0]["peak"]
        assert (rank, 0, peak["allocated_bytes"], peak["reserved_bytes"]) in totals(tmp_path / "out")
    # A task that is tried again replaces its own tables.
    before = totals(tmp_path / "out")
    analyze_here(tmp_path / "job", work(tmp_path / "out"))
    assert totals(tmp_path / "out") == before


def test_the_tables_are_those_of_the_command(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    job(tmp_path / "job")
    analyze_here(tmp_path / "job", work(tmp_path / "tasks", entries=True))
    words = ["highwater", "export", "--to", "parquet", str(tmp_path / "job"), "-o", str(tmp_path / "command"), "--entries"]
    assert highwater._highwater.main(words) == 1
    files = {path.relative_to(tmp_path / "tasks"): path for path in (tmp_path / "tasks").rglob("*.parquet")}
    others = {path.relative_to(tmp_path / "command"): path for path in (tmp_path / "command").rglob("*.parquet")}
    assert files.keys() == others.keys() and len(files) == 4 * 13
    assert all(path.read_bytes() == others[name].read_bytes() for name, path in files.items())


def test_a_recording_that_is_larger_than_a_task_is_refused(tmp_path: Path) -> None:
    shutil.copy(recording("oom_gpt2_8gib"), tmp_path / "rank0.pickle.gz")
    small = highwater.ray.BASE_MEMORY + 3000
    [result] = analyze_here(tmp_path, work(memory=small))
    assert result["digest"] is None and "more memory" in result["reason"]


class Failing(io.BytesIO):
    """A file that fails after some bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 0:
            raise ConnectionResetError("the bucket went away")
        return super().read(min(100, size or 100))


class FailingStore:
    """A file system whose files fail so often, then no more."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error
        self.protocol = "fake"

    def open(self, path: str, mode: str) -> io.BufferedIOBase:
        data = recording("linear_forward").read_bytes()
        if self.error is not None:
            raise self.error
        self.failures -= 1
        return Failing(data) if self.failures >= 0 else io.BytesIO(data)


@pytest.mark.parametrize(("failures", "is_read"), [(0, True), (2, True), (3, False)])
def test_storage_that_fails_is_tried_again(failures: int, is_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    store = FailingStore(failures)
    place = Place("bucket/rank0.pickle.gz", store, "fake")
    row = {"number": 0, "file": str(place), "place": place, "run": "run", "rank": 0, "part": 0}
    result = highwater.ray._analyze_one(row, work())
    assert (result["digest"] is not None) == is_read
    assert is_read or result["reason"] == "the bucket went away"


def test_credentials_that_are_refused_are_not_tried_again() -> None:
    store = FailingStore(0, PermissionError("Access Denied\x1b[2J"))
    place = Place("bucket/rank0.pickle.gz", store, "fake")
    row = {"number": 0, "file": str(place), "place": place, "run": "run", "rank": 0, "part": 0}
    assert highwater.ray._analyze_one(row, work())["reason"] == "Access Denied?[2J"


def test_a_set_up_has_its_words() -> None:
    common = {"gpu": "h100", "memory": None, "steps": 2, "timeout": 600.0}
    words = highwater.ray._dry_run_words("train.py", common, {"--batch": 8, "--amp": True, "--ema": False, "gpu": "h200"})
    assert words[1:] == [
        "-m", "highwater", "dryrun", "--format", "json", "--gpu", "h200", "--steps", "2", "--timeout", "600.0",
        "--python", sys.executable, "train.py", "--batch", "8", "--amp",
    ]  # fmt: skip


def test_a_set_up_that_cannot_run_gives_its_reason(tmp_path: Path) -> None:
    row = {"number": 0, "file": "x", "words": [sys.executable, "-c", "import sys; sys.exit('no such script')"]}
    result = highwater.ray._dry_run_one(row, work())
    assert (result["digest"], result["reason"]) == (None, "no such script")


# A real cluster.


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two machines that run tasks, as far as Ray can tell, and the one that leads them."""
    import ray
    from ray.cluster_utils import Cluster

    store = {"object_store_memory": 100 << 20}
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
    for cpus in (2, 1):
        machines.add_node(num_cpus=cpus, memory=2 << 30, **store)
    ray.init(address=machines.address, log_to_driver=False)
    # Workers do not find this file.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield machines
    ray.shutdown()
    machines.shutdown()


@with_ray
def test_a_cluster_gives_the_tables_of_the_command(cluster: Any, tmp_path: Path) -> None:
    answer = highwater.ray.analyze(job(tmp_path / "job"), out=tmp_path / "out", memory="500MiB")
    assert [Path(one["file"]).name for one in answer["unread"]] == ["rank4.pickle", "rank5.pickle"]
    assert answer["format"] == "highwater-ranks"
    assert highwater._highwater.main(
        ["highwater", "export", "--to", "parquet", str(tmp_path / "job"), "-o", str(tmp_path / "command")]
    ) == 1
    assert totals(tmp_path / "out") == totals(tmp_path / "command")
    with pytest.raises(highwater.SnapshotError, match="already exists"):
        highwater.ray.analyze(tmp_path / "job", out=tmp_path / "out", memory="500MiB")


def killed_once(row: dict[str, Any], work: highwater.ray._Work) -> dict[str, Any]:
    """As the task, but the first worker that comes to rank 0 is killed half-way."""
    mark = Path(row["file"]).parent / "killed"
    if row["rank"] == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return analyze_one(row, work)


def killed_always(row: dict[str, Any], work: highwater.ray._Work) -> dict[str, Any]:
    """As the task, but a file ends every worker that reads it."""
    if row["rank"] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return analyze_one(row, work)


analyze_one = highwater.ray._analyze_one


@with_ray
def test_a_worker_that_is_killed_costs_nothing(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highwater.ray, "_analyze_one", killed_once)
    answer = highwater.ray.analyze(job(tmp_path / "job"), out=tmp_path / "out", memory="500MiB")
    assert (tmp_path / "job" / "killed").exists()
    assert len(answer["unread"]) == 2 and len({row[0] for row in totals(tmp_path / "out")}) == 4


def held_up(row: dict[str, Any], work: highwater.ray._Work) -> dict[str, Any]:
    """As the task, but the machine that is to be lost holds up its second file, and the others wait until it is gone."""
    import ray

    marks = Path(row["file"]).parent
    lost, gone = (marks / name for name in ("lost", "gone"))
    if ray.get_runtime_context().get_node_id() == lost.read_text():
        if (marks / "first").exists():
            (marks / "second").touch()
            time.sleep(600)
        result = analyze_one(row, work)
        (marks / "first").touch()
        return result
    for _ in range(6000):
        if gone.exists():
            return analyze_one(row, work)
        time.sleep(0.1)
    raise AssertionError("the machine is still there")


@with_ray
def test_a_machine_that_is_lost_costs_nothing(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = cluster.add_node(num_cpus=1, memory=2 << 30, object_store_memory=100 << 20)
    folder = job(tmp_path / "job")
    (folder / "lost").write_text(lost.node_id)

    def lose() -> None:
        while not (folder / "second").exists():
            time.sleep(0.1)
        cluster.remove_node(lost, allow_graceful=False)
        (folder / "gone").touch()

    monkeypatch.setattr(highwater.ray, "_analyze_one", held_up)
    losing = threading.Thread(target=lose, daemon=True)
    losing.start()
    answer = highwater.ray.analyze(folder, out=tmp_path / "out", memory="500MiB")
    losing.join()
    assert (folder / "first").exists() and not lost.any_processes_alive()
    assert [Path(one["file"]).name for one in answer["unread"]] == ["rank4.pickle", "rank5.pickle"]
    assert highwater._highwater.main(
        ["highwater", "export", "--to", "parquet", str(folder), "-o", str(tmp_path / "command")]
    ) == 1
    assert totals(tmp_path / "out") == totals(tmp_path / "command")


@with_ray
def test_a_file_that_ends_every_worker_is_listed(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highwater.ray, "_analyze_one", killed_always)
    answer = highwater.ray.analyze(job(tmp_path / "job"), memory="500MiB", attempts=2)
    assert "its worker was lost 2 times" in answer["unread"][0]["reason"]
    files = [unread for unread in answer["unread"] if unread["reason"] != "it has no file"]
    assert len(files) == 3 and len(answer["ranks"]) >= 3


with_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")

SCRIPT = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int)
width = parser.parse_args().width
torch.nn.Linear(width, width).cuda()
"""


@with_ray
@with_torch
def test_a_sweep_has_a_dry_run_for_each_set_up(cluster: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    runs = highwater.ray.sweep(script, {"--width": [1024, 4096], "gpu": ["h100"]}, task_memory="500MiB")
    assert [run.options["--width"] for run in runs] == [1024, 4096]
    small, large = (run.peak_reserved_bytes for run in runs)
    assert small is not None and large is not None and 4 * 4096 * 4096 <= large and small < large
    [failed] = highwater.ray.sweep(tmp_path / "none.py", {"--width": [1]}, task_memory="500MiB")
    assert failed.document is None and "none.py" in str(failed.reason)


# A bucket.


@pytest.fixture
def bucket() -> Iterator[dict[str, Any]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            assert server.poll() is None
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield {"endpoint": f"http://127.0.0.1:{port}", "server": server}
    finally:
        server.kill()
        server.wait()


def store_of(bucket: dict[str, Any], secret: str = "b") -> Any:
    """The server's files, by pyarrow. It gives up soon: the server is here."""
    import pyarrow.fs

    return pyarrow.fs.S3FileSystem(
        access_key="a",
        secret_key=secret,
        endpoint_override=bucket["endpoint"].removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
        connect_timeout=5,
        request_timeout=30,
    )


def filled(bucket: dict[str, Any], folder: Path) -> Any:
    """The server's files: those of a job in a bucket."""
    store = store_of(bucket)
    store.create_dir("runs")
    for path in job(folder).iterdir():
        with store.open_output_stream(f"runs/job/{path.name}", compression=None) as file:
            file.write(path.read_bytes())
    return store


@with_bucket
@pytest.mark.parametrize("pattern", ["s3://runs/job", "s3://runs/job/*.pickle*"])
def test_a_bucket_is_read_and_written(bucket: dict[str, Any], tmp_path: Path, pattern: str) -> None:
    pytest.importorskip("duckdb")
    store = filled(bucket, tmp_path / "job")
    setting = dataclasses.replace(work(), out=Place.of("s3://runs/tables", store))
    results = analyze_here(pattern, setting, store)
    assert [result["digest"] is not None for result in results] == [True] * 4 + [False] * 2
    analyze_here(tmp_path / "job", work(tmp_path / "tables"))
    assert totals("s3://runs/tables", filesystem=store) == totals(tmp_path / "tables")


@with_bucket
def test_a_bucket_that_is_not_there_and_a_file_that_is_not_in_it_are_listed(bucket: dict[str, Any], tmp_path: Path) -> None:
    store = filled(bucket, tmp_path / "job")
    for address in ("s3://nobodys/rank0.pickle", "s3://runs/job/rank99.pickle"):
        places, unread = highwater.ray._found(address, store)
        results = [highwater.ray._analyze_one(row, work()) for row in highwater.ray._numbered(places, None)]
        assert unread or (results[0]["digest"] is None and results[0]["reason"])


@with_bucket
def test_credentials_that_a_server_refuses_are_listed(bucket: dict[str, Any], tmp_path: Path) -> None:
    store = filled(bucket, tmp_path / "job")
    # From now on it wants the signature of somebody that it knows.
    ask = urllib.request.Request(f"{bucket['endpoint']}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
    urllib.request.urlopen(ask).close()
    places, unread = highwater.ray._found("s3://runs/job/rank0.pickle.gz", store)
    results = [highwater.ray._analyze_one(row, work()) for row in highwater.ray._numbered(places, None)]
    reasons = [one["reason"] for one in [*unread, *results]]
    assert len(reasons) == 1 and "ACCESS_DENIED" in reasons[0].upper().replace(" ", "_"), reasons


@with_bucket
def test_a_server_that_goes_away_half_way_costs_only_what_is_left(bucket: dict[str, Any], tmp_path: Path) -> None:
    store = filled(bucket, tmp_path / "job")
    places, unread = highwater.ray._found("s3://runs/job", store)
    rows = list(highwater.ray._numbered(places, None))
    read = [highwater.ray._analyze_one(row, work()) for row in rows[:2]]
    bucket["server"].kill()
    bucket["server"].wait()
    lost = [highwater.ray._analyze_one(row, work()) for row in rows[2:4]]
    assert unread == [] and all(one["digest"] for one in read)
    assert all(one["digest"] is None and one["reason"] for one in lost)


@with_ray
@with_bucket
def test_a_cluster_reads_a_bucket(cluster: Any, bucket: dict[str, Any], tmp_path: Path) -> None:
    store = filled(bucket, tmp_path / "job")
    answer = highwater.ray.analyze(
        "s3://runs/job/*.pickle*", out="s3://runs/tables", filesystem=store, memory="500MiB"
    )
    assert len(answer["unread"]) == 2
    assert len({row[0] for row in totals("s3://runs/tables", filesystem=store)}) == 4
