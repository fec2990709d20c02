"""What is read: against a plain walk over what CPython makes of the same file."""

from __future__ import annotations

import copy
import gzip
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import highwater
import pytest
from conftest import RECORDINGS, recording, unpickled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = sorted(path.name.removesuffix(".pickle.gz") for path in RECORDINGS.glob("*.pickle.gz"))
SMALL = [name for name in NAMES if recording(name).stat().st_size < 200_000]

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("name", NAMES)
def test_every_column_of_the_timeline_is_what_the_pickle_holds(name: str) -> None:
    snapshot, plain = highwater.load(recording(name)), unpickled(name)
    for device in snapshot.devices:
        entries = plain["device_traces"][device] if device < len(plain["device_traces"]) else []
        table = snapshot.timeline(device)
        assert table["action"].tolist() == [entry["action"] for entry in entries]
        assert table["address"].tolist() == [entry.get("addr", 0) for entry in entries]
        assert table["size_bytes"].tolist() == [entry.get("size", 0) for entry in entries]
        assert table["stream"].tolist() == [entry.get("stream", 0) for entry in entries]
        assert table.column("time_us").tolist() == [entry.get("time_us") for entry in entries]
        for entry, stack in zip(entries, table.column("stack").tolist(), strict=True):
            frames = [(frame["name"], frame["filename"], frame["line"]) for frame in entry.get("frames", [])]
            assert (snapshot.stack(stack) if stack is not None else []) == frames


@pytest.mark.parametrize("name", SMALL)
def test_totals_are_those_of_a_plain_walk(name: str) -> None:
    """From the dump backwards: what an entry added is taken away again."""
    snapshot, plain = highwater.load(recording(name)), unpickled(name)
    for device in snapshot.devices:
        entries = plain["device_traces"][device]
        segments = [segment for segment in plain["segments"] if segment["device"] == device]
        reserved = sum(segment["total_size"] for segment in segments)
        want = []
        for entry in reversed(entries):
            want.append(reserved)
            sign = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
            reserved -= sign.get(entry["action"], 0) * entry["size"]
        assert snapshot.timeline(device)["reserved_bytes"].tolist() == want[::-1]


@pytest.mark.parametrize("name", SMALL)
def test_lifetimes_pair_what_a_plain_walk_pairs(name: str) -> None:
    snapshot, plain = highwater.load(recording(name)), unpickled(name)
    for device in snapshot.devices:
        open_at: dict[int, int] = {}
        want: dict[int, tuple[int, int, int | None]] = {}
        for i, entry in enumerate(plain["device_traces"][device]):
            if entry["action"] == "alloc":
                open_at[entry["addr"]] = i
                want[i] = (entry["addr"], entry["size"], None)
            elif entry["action"] == "free_completed" and entry["addr"] in open_at:
                start = open_at.pop(entry["addr"])
                want[start] = (*want[start][:2], i)
        rows = snapshot.lifetimes(device).to_dicts()
        found = {
            row["alloc_entry"]: (row["address"], row["requested_bytes"], row["free_completed_entry"])
            for row in rows
            if row["alloc_entry"] is not None
        }
        assert found == want


@pytest.mark.parametrize("name", SMALL)
def test_what_is_live_at_the_end_is_what_the_dump_holds(name: str) -> None:
    snapshot, plain = highwater.load(recording(name)), unpickled(name)
    want = sorted(
        (segment["device"], block["address"], block["size"], block["state"])
        for segment in plain["segments"]
        for block in _with_addresses(segment)
        if block["state"] != "inactive"
    )
    rows = snapshot.live(at="end").to_dicts()
    states = {"active_pending_free": "active_awaiting_free"}
    assert [(row["device"], row["address"], row["size_bytes"], row["state"]) for row in rows] == [
        (device, address, size, states.get(state, state)) for device, address, size, state in want
    ]


def _with_addresses(segment: dict[str, Any]) -> list[dict[str, Any]]:
    address = segment["address"]
    blocks = []
    for block in segment["blocks"]:
        blocks.append({"address": address, **block})
        address += block["size"]
    return blocks


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_live_table_is_the_lifetimes_that_span_the_moment(data: st.DataObject) -> None:
    snapshot = highwater.load(recording("multi_stream"))
    lifetimes = snapshot.lifetimes().to_dicts()
    at = data.draw(st.integers(0, snapshot.timeline().num_rows - 1))
    want = [
        row["address"]
        for row in lifetimes
        if (row["alloc_entry"] is None or row["alloc_entry"] <= at)
        and (row["free_completed_entry"] is None or row["free_completed_entry"] > at)
    ]
    live = snapshot.live(at=at)
    assert live["address"].tolist() == sorted(want)
    totals = snapshot.timeline()
    assert live["requested_bytes"].sum() == totals["requested_bytes"][at]


def test_path_bytes_and_dict_are_one_snapshot() -> None:
    path = recording("leak_grows")
    want = highwater.load(path).report()
    for source in (str(path), path.read_bytes(), bytearray(path.read_bytes()), unpickled("leak_grows")):
        report = highwater.load(source).report()
        assert report["devices"] == want["devices"]
        assert report["verdict"] == want["verdict"]


def test_numpy_sees_the_memory_itself() -> None:
    table = highwater.load(recording("linear_forward")).timeline()
    column = table.column("reserved_bytes")
    one, other = np.asarray(column), np.asarray(column)
    assert one.dtype == np.uint64
    assert np.shares_memory(one, other) and not one.flags.writeable
    address = one.__array_interface__["data"][0]
    want = one.tolist()
    del column, table, other
    # The array keeps the memory alive.
    assert one.tolist() == want and one.__array_interface__["data"][0] == address


def test_arrow_takes_the_tables_without_a_copy() -> None:
    pa = pytest.importorskip("pyarrow")
    table = highwater.load(recording("gpt2_late_recording")).lifetimes()
    taken = pa.table(table)
    assert taken.column_names == table.columns
    assert taken.to_pylist() == table.to_dicts()
    assert taken["alloc_entry"].null_count == table.column("alloc_entry").null_count > 0
    column = table.column("address")
    array = pa.array(column)
    assert array.buffers()[1].address == np.asarray(column).__array_interface__["data"][0]
    assert (table["alloc_entry"] == -1).sum() == table.column("alloc_entry").null_count
    assert pa.schema(table) == taken.schema


@pytest.mark.parametrize("library", ["polars", "pandas", "duckdb"])
def test_data_frames_need_no_glue(library: str) -> None:
    module = pytest.importorskip(library)
    live = highwater.load(recording("linear_forward")).live()
    want = int(live["requested_bytes"].sum())
    if library == "polars":
        assert module.DataFrame(live)["requested_bytes"].sum() == want
    elif library == "pandas":
        assert module.DataFrame.from_arrow(live)["requested_bytes"].sum() == want
    else:
        assert module.sql("select sum(requested_bytes) from live").fetchall() == [(want,)]


def test_the_documents_are_those_of_the_command(tmp_path: Path) -> None:
    path = recording("resnet50_expandable")
    snapshot = highwater.load(path)

    def command(*words: str) -> Any:
        return json.loads(_command(*words, "--format", "json").stdout)

    assert snapshot.report() == command("report", str(path))
    blocks = command("live", str(path), "--at", "100")["blocks"]
    rows = snapshot.live(at=100).to_dicts()
    for key in ("address", "requested_bytes", "size_bytes", "stream", "state", "category", "alloc_entry"):
        assert [row[key] for row in rows] == [block[key] for block in blocks]
    other = highwater.load(recording("linear_forward"))
    diff = command("diff", str(path), str(recording("linear_forward")), "--at", "peak")
    assert snapshot.diff(other, at="peak") == diff
    simulated = command("simulate", str(path), "--conf", "", "--capacity", "1GiB")
    assert snapshot.simulate("", capacity="1GiB") == simulated
    assert snapshot.text == _command("report", str(path)).stdout


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    # As into a pipe: the runner may have set a width.
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        [sys.executable, "-m", "highwater", *words], capture_output=True, text=True, check=False, env=env
    )


def test_peak_is_that_of_the_report() -> None:
    snapshot = highwater.load(recording("linear_forward"))
    assert snapshot.peak() == snapshot.report()["devices"][0]["peak"]
    assert snapshot.peak()["reserved_bytes"] == snapshot.timeline()["reserved_bytes"].max()
    with pytest.raises(highwater.SnapshotError, match="no data for device 7"):
        snapshot.peak(device=7)


def test_budgets_are_true_or_false() -> None:
    snapshot = highwater.load(recording("linear_forward"))
    peak = snapshot.peak()["allocated_bytes"]
    assert peak is not None
    assert snapshot.check(peak_allocated=peak)
    failed = snapshot.check(peak_allocated=peak - 1, fragmentation=1.0)
    assert not failed and not failed.passed
    assert [rule["passed"] for rule in failed["rules"]] == [False, True]
    assert "FAIL  max-peak-allocated" in str(failed)
    with pytest.raises(highwater.SnapshotError, match="`2 parsecs` is not a valid amount"):
        snapshot.check(peak_allocated="2 parsecs")
    with pytest.raises(highwater.SnapshotError, match="nothing to check"):
        snapshot.check()


def test_a_failure_is_explained() -> None:
    text = highwater.load(recording("oom_gpt2_8gib")).explain()
    assert "out of memory at entry 590" in text
    with pytest.raises(highwater.SnapshotError, match="has no failed request"):
        highwater.load(recording("linear_forward")).explain()


class NotPlain:
    """Nothing that PyTorch would put into a snapshot."""


WRONG = [
    ("", "cannot be read"),
    (b"", "the input is empty"),
    (b"PK\x03\x04....", "zip archive"),
    (pickle.dumps(NotPlain()), "not safe to load"),
    (pickle.dumps([1, 2, 3]), "not a memory snapshot"),
    ({}, "no list `segments`"),
    ({"segments": 3}, "no list `segments`"),
    ({"segments": [], "device_traces": [[NotPlain()]]}, "not safe to load"),
    ({"segments": [lambda: None]}, "not plain data"),
]


@pytest.mark.parametrize(("source", "message"), WRONG, ids=lambda value: str(value)[:24])
def test_what_is_no_snapshot_says_why(source: Any, message: str) -> None:
    with pytest.raises(highwater.SnapshotError, match=message) as caught:
        highwater.load(source)
    assert caught.value.hint
    assert f"hint: {caught.value.hint}" in str(caught.value)


@pytest.mark.parametrize("source", [None, 3, 1.5, object()])
def test_what_cannot_be_loaded_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match="cannot load a snapshot from"):
        highwater.load(source)


def test_errors_say_where() -> None:
    with pytest.raises(highwater.SnapshotError) as caught:
        highwater.load(b"\x80\x04cos\nsystem\n.")
    assert caught.value.offset == 2 and caught.value.entry is None
    with pytest.raises(highwater.SnapshotError) as caught:
        highwater.load(recording("linear_forward")).live(at=1_000_000)
    assert caught.value.entry == 1_000_000
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.entry) == (str(caught.value), 1_000_000)
    with pytest.raises(highwater.SnapshotError) as caught:
        highwater.load("there-is-no-such-file.pickle")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_wrong_types_in_a_dict_are_no_crash(data: st.DataObject) -> None:
    """What PyTorch would not write is an error, or read as far as it goes."""
    plain = copy.deepcopy(unpickled("linear_forward"))
    entry = data.draw(st.sampled_from(plain["device_traces"][0]))
    key = data.draw(st.sampled_from(sorted(set(entry) - {"frames", "time_us", "compile_context", "user_metadata"})))
    entry[key] = data.draw(st.sampled_from(["x", -1, 2**70, [], {}, b"y"]))
    try:
        snapshot = highwater.load(plain)
    except highwater.SnapshotError:
        return
    assert snapshot.timeline().num_rows == len(plain["device_traces"][0])
    warned = [warning["id"] for warning in snapshot.report()["warnings"]]
    if key == "size":
        assert warned
    elif key == "action":
        assert "unknown-action" in warned


def test_a_cut_file_gives_what_it_holds() -> None:
    whole = gzip.decompress(recording("leak_grows").read_bytes())
    snapshot = highwater.load(whole[: len(whole) // 2])
    assert snapshot.report()["source"]["is_cut"]
    assert snapshot.report()["warnings"]


def test_others_run_meanwhile() -> None:
    """Loading and simulating let other threads run."""
    path = recording("qwen_train_b16")
    done = threading.Event()
    turns = 0

    def work() -> None:
        highwater.load(path).simulate()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        turns += 1
    thread.join()
    assert turns > 20


def test_it_is_one_line_and_a_page(tmp_path: Path) -> None:
    snapshot = highwater.load(recording("linear_forward"))
    assert "\n" not in repr(snapshot) and repr(snapshot).startswith("<highwater.Snapshot linear_forward")
    page = snapshot._repr_html_()
    assert "<img" in page and "peaked at" in page
    assert "<script" not in page.split("srcdoc=")[0]


def test_no_name_from_a_file_reaches_the_terminal_as_it_is() -> None:
    plain = copy.deepcopy(unpickled("linear_forward"))
    for entry in plain["device_traces"][0]:
        for frame in entry.get("frames", []):
            frame["filename"] = "evil\x1b[2J\n.py"
    snapshot = highwater.load(plain)
    assert repr(snapshot).isprintable()
    assert "\x1b" not in snapshot.text


def test_what_a_file_says_is_no_markup() -> None:
    plain = copy.deepcopy(unpickled("linear_forward"))
    for entry in plain["device_traces"][0]:
        for frame in entry.get("frames", []):
            frame["name"] = "<script>alert(1)</script>"
    page = highwater.load(plain)._repr_html_().split("srcdoc=")[0]
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_the_viewer_is_served_and_ends() -> None:
    from urllib.request import urlopen

    snapshot = highwater.load(unpickled("linear_forward"))
    with snapshot.view(block=False, open_browser=False) as viewer:
        assert viewer.address.startswith("http://127.0.0.1:")
        with urlopen(viewer.address) as page:
            assert b"<html" in page.read()
        made = viewer._made
        assert made is not None and made.exists()
    assert not made.exists()
    assert viewer._process.poll() is not None


def test_the_page_is_written(tmp_path: Path) -> None:
    from highwater import _highwater

    snapshot = highwater.load(recording("linear_forward"))
    path = tmp_path / "run.html"
    if not _highwater.ui_is_built():
        with pytest.raises(highwater.SnapshotError, match="has no viewer"):
            snapshot.to_html(path)
        return
    assert snapshot.to_html(path) is None
    assert path.read_text() == snapshot.to_html()


def test_marks_end_iterations() -> None:
    plain = unpickled("leak_grows")
    entries = plain["device_traces"][0]
    times = [entry["time_us"] for entry in entries]
    marks = [times[len(times) * part // 4] + 1 for part in (1, 2, 3)]
    plain["external_annotations"] = [
        {"name": "highwater.step", "device": 0, "stage": stage, "time_us": time}
        for time in marks
        for stage in ("START", "END")
    ]
    device = highwater.load(plain).report()["devices"][0]
    assert device["iterations_by"] == "highwater.step()"
    complete = [iteration for iteration in device["iterations"] if iteration["complete"]]
    assert len(complete) == len(marks)


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    program = "import sys, highwater; print({'torch', 'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_command_is_the_same_program() -> None:
    done = _command("report", str(recording("linear_forward")))
    assert done.returncode == 0 and "peaked at" in done.stdout
    done = _command("check", str(recording("linear_forward")), "--max-peak-allocated", "1GiB")
    assert done.returncode == 1
    done = _command("report", "nope.pickle")
    assert done.returncode == 2 and "hint:" in done.stderr
    assert _command("--version").returncode == 0


def test_a_small_file_that_becomes_large_is_refused_and_a_keyword_lifts_that() -> None:
    bomb = gzip.compress(b"\x80\x04" + b"N0" * (40 << 20) + b"].")
    with pytest.raises(highwater.SnapshotError, match="too large when unpacked") as raised:
        highwater.load(bomb)
    assert "allow_any_size=True" in (raised.value.hint or "")
    assert highwater.load(bomb, allow_any_size=True).devices == []


def test_pages_and_pickles_are_written_through_links_and_whole(tmp_path: Path) -> None:
    snapshot = highwater.load(recording("leak_grows"))
    link = tmp_path / "link.pickle"
    link.symlink_to("there.pickle")
    snapshot.to_pickle(link)
    assert link.is_symlink()
    assert highwater.load(tmp_path / "there.pickle").devices == snapshot.devices
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.pickle", "there.pickle"]
