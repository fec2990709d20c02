"""The tables of recordings, as DuckDB, polars and pandas read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import highwater
import pytest
from conftest import recording
from highwater import _highwater, rows

duckdb = pytest.importorskip("duckdb")

TESTDATA = Path(__file__).parents[2] / "testdata"
QUERIES = sorted((Path(__file__).parents[2] / "docs" / "queries").glob("*.sql"))

# Whole ones, a late one, several devices, a failure, a state without a history, old layouts, profilers' files without stacks.
FILES = [
    recording("linear_forward"),
    recording("multi_stream"),
    recording("gpt2_late_recording"),
    recording("oom_gpt2_8gib"),
    TESTDATA / "findings" / "two_devices.pickle.gz",
    TESTDATA / "findings" / "leak_dict.pickle.gz",
    TESTDATA / "layouts" / "several_devices.pickle",
    TESTDATA / "layouts" / "state_only.pickle",
    TESTDATA / "layouts" / "torch_1_5.pickle",
    TESTDATA / "profiler" / "adam.timeline.raw.json.gz",
    TESTDATA / "profiler" / "cuda.trace.json.gz",
]


def export(*words: object) -> int:
    """Runs ``highwater export --to parquet``."""
    return _highwater.main(["highwater", "export", "--to", "parquet", *(str(word) for word in words)])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tables") / "out"
    assert export(*FILES, "-o", out, "--entries") == 0
    return out


def test_duckdb_has_the_totals_of_the_reports(tables: Path) -> None:
    for file in FILES:
        report = highwater.load(file).report()
        for view in report["devices"]:
            where = f"file = '{file}' AND device = {view['device']}"
            [row] = highwater.sql(f"SELECT * FROM devices WHERE {where}", tables).fetchall()
            named = dict(zip(highwater.sql("SELECT * FROM devices", tables).columns, row))
            for total in ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"):
                assert named[f"peak_{total}"] == view["peak"][total], (file, total)
                assert named[f"end_{total}"] == view["end"][total], (file, total)
                assert named[f"at_peak_{total}"] == view["at_peak"][total], (file, total)
            for category, size in view["at_peak"]["categories"].items():
                assert named[f"at_peak_{category}_bytes"] == size, (file, category)
            by = view["at_peak"]["by"]
            of_lifetimes = f"SELECT coalesce(sum(at_peak_bytes), 0) FROM lifetimes WHERE {where}"
            assert highwater.sql(of_lifetimes, tables).fetchall()[0] == (view["at_peak"][by],), file
            by_site: dict[str, int] = {}
            for site in view["at_peak"]["call_sites"]:
                words = site["place"].split(", from ")[0]
                by_site[words] = by_site.get(words, 0) + site["bytes"]
            of_sites = f"SELECT call_site, at_peak_bytes FROM call_sites WHERE {where} AND at_peak_allocations > 0"
            assert dict(highwater.sql(of_sites, tables).fetchall()) == by_site, file
            last = f"SELECT reserved_bytes, allocated_bytes FROM entries WHERE {where} ORDER BY entry DESC LIMIT 1"
            if view["entries"] and not report["source"].get("profile"):
                reserved, allocated = highwater.sql(last, tables).fetchall()[0]
                assert (reserved, allocated) == (view["end"]["reserved_bytes"], view["end"]["allocated_bytes"]), file
            counts = f"SELECT count(*) FROM entries WHERE {where}"
            assert highwater.sql(counts, tables).fetchall()[0] == (view["entries"],)
            assert named["out_of_memory_events"] == len(view["oom"]) and named["findings"] == len(view["findings"])


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_each_query_has_the_same_answer_in_duckdb_and_sqlite(query: Path, tables: Path, tmp_path: Path) -> None:
    text = query.read_text()
    here = [list(row) for row in highwater.sql(text, tables).fetchall()]
    command = [sys.executable, "-m", "highwater", "sql", *map(str, FILES), "-", "--format", "json"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    there = json.loads(ran.stdout)["rows"]
    assert len(here) == len(there)
    for one, other in zip(here, there):
        for a, b in zip(one, other):
            assert a == b or float(a) == pytest.approx(float(b)), (one, other)


EXPECTED = {"at_the_peak", "by_source_file", "categories_over_time", "first_failure", "fragmentation_by_rank"}
EXPECTED |= {"grown_between_runs", "how_long_blocks_live", "largest_allocations", "largest_rank", "leaks"}
EXPECTED |= {"recurring_findings", "reserved_but_unused"}


def test_each_query_finds_something(tables: Path) -> None:
    assert {query.stem for query in QUERIES} == EXPECTED
    for query in QUERIES:
        assert highwater.sql(query.read_text(), tables).fetchall(), query


def test_answers_are_those_of_the_report(tables: Path) -> None:
    def first(name: str) -> tuple[Any, ...]:
        [query] = [query for query in QUERIES if query.stem == name]
        return tuple(highwater.sql(query.read_text(), tables).fetchall()[0])

    failure = highwater.load(recording("oom_gpt2_8gib")).report()["devices"][0]["oom"][0]
    assert first("first_failure")[4:7] == (failure["entry"], failure["time_us"], failure["requested_bytes"])
    leak = highwater.load(TESTDATA / "findings" / "leak_dict.pickle.gz").report()["devices"][0]["growth"][0]
    [query] = [query for query in QUERIES if query.stem == "leaks"]
    found = {row[2]: row for row in highwater.sql(query.read_text(), tables).fetchall()}
    assert found[str(TESTDATA / "findings" / "leak_dict.pickle.gz")][6] == leak["bytes_per_iteration"]


def test_polars_and_pandas_read_them(tables: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    [expected] = highwater.sql("SELECT sum(requested_bytes) FROM lifetimes", tables).fetchall()[0]
    by_polars = polars.read_parquet(tables / "lifetimes" / "**" / "*.parquet", hive_partitioning=True)
    assert by_polars["requested_bytes"].sum() == expected
    assert set(by_polars["run"].unique()) >= {"linear_forward", "multi_stream"}
    by_pandas = pandas.read_parquet(tables / "lifetimes")
    assert by_pandas["requested_bytes"].sum() == expected
    assert set(by_pandas["run"].unique()) >= {"linear_forward", "multi_stream"}


def test_the_types_of_rows_are_those_of_the_tables(tables: Path) -> None:
    python = {"integer": int, "real": float, "boolean": bool, "text": str}
    for table in json.loads(_highwater.tables_json()):
        name = "".join(word.capitalize() for word in table["name"].split("_"))
        declared = typing.get_type_hints(getattr(rows, name))
        expected = {
            column["name"]: typing.Optional[python[column["type"]]] if column["is_optional"] else python[column["type"]]
            for column in table["columns"]
        }
        assert declared == expected
        relation = highwater.sql(f"SELECT * FROM {table['name']}", tables)
        assert set(relation.columns) == set(declared)
        for row in relation.limit(50).fetchall():
            for column, value in zip(relation.columns, row):
                allowed = declared[column]
                assert isinstance(value, typing.get_args(allowed) or allowed), (table["name"], column, value)


def test_odd_names_stay_data(tmp_path: Path) -> None:
    name = "'; DROP VIEW devices; --"
    odd = "\x1b[2J\"=1+1/../é"
    snapshot = {
        "segments": [],
        "device_traces": [[{"action": "alloc", "addr": 512, "size": 12, "stream": 0, "user_metadata": odd,
                            "frames": [{"filename": f"/a/{name}.py", "line": 1, "name": odd}]}]],
    }
    out = tmp_path / "it's [a] table*"
    highwater.load(snapshot).to_parquet(out, run=f"../{name}=é", rank=3)
    [row] = highwater.sql("SELECT run, rank, name FROM lifetimes", out).fetchall()
    assert row == (f"../{name}=é", 3, odd)
    [(source,)] = highwater.sql("SELECT source FROM frames", out).fetchall()
    assert source == f"/a/{name}.py"
    assert os.listdir(tmp_path) == [out.name]
    with pytest.raises(FileExistsError):
        highwater.load(snapshot).to_parquet(out, run=f"../{name}=é", rank=3)
    highwater.load(snapshot).to_parquet(out, run=f"../{name}=é", rank=3, force=True)


def test_a_folder_without_tables_says_so(tmp_path: Path) -> None:
    with pytest.raises(highwater.SnapshotError, match="no tables"):
        highwater.sql("SELECT 1", tmp_path)


def test_an_error_of_sql_names_the_wrong_word(tables: Path) -> None:
    with pytest.raises(duckdb.Error, match="nothing"):
        highwater.sql("SELECT nothing FROM devices", tables)


def test_numbers_are_runs_and_ranks(tmp_path: Path) -> None:
    # As an engine would guess types: a run of digits stays text, and `007` is not 7.
    highwater.load(recording("linear_forward")).to_parquet(tmp_path, run="007", rank=0)
    highwater.load(recording("linear_forward")).to_parquet(tmp_path, run="2026-11-24")
    found = highwater.sql("SELECT run, rank FROM snapshots ORDER BY run", tmp_path).fetchall()
    assert found == [("007", 0), ("2026-11-24", -1)]
