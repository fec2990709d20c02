"""Queries in SQL on the tables that ``highwater export --to parquet`` writes."""

from __future__ import annotations

import json
import os
from typing import Any

from highwater import _highwater
from highwater._errors import SnapshotError
from highwater._storage import Place

DUCKDB_TYPES = {"integer": "BIGINT", "real": "DOUBLE", "boolean": "BOOLEAN", "text": "VARCHAR"}


def sql(query: str, tables: str | os.PathLike[str], *, filesystem: object = None) -> Any:
    """Queries a folder of tables with DuckDB, which must be installed.

    Parameters
    ----------
    query : str
        SQL of DuckDB. The tables are those of docs/tables.md: `devices`, `lifetimes`, `call_sites` and others.
    tables : path
        The folder that ``highwater export --to parquet … -o FOLDER``, :meth:`Snapshot.to_parquet` or
        :func:`highwater.ray.analyze` has written: a path, or an address such as ``s3://bucket/tables``.
    filesystem : object, optional
        The file system of `fsspec` or pyarrow that holds the folder.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The answer: ``.df()``, ``.pl()``, ``.arrow()`` and ``.fetchall()`` give its rows.

    Raises
    ------
    SnapshotError
        If there are no tables in the folder.
    ImportError
        If DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(
            "highwater.sql() needs DuckDB: `pip install duckdb`, or ask with `highwater sql`, which has SQLite"
        ) from error
    place = Place.of(tables, filesystem)
    connection = duckdb.connect(":memory:")
    if place.is_remote:
        connection.register_filesystem(place.registered())
    found = False
    for table in json.loads(_highwater.tables_json()):
        files = place.files(table["name"], ".parquet")
        found = found or bool(files)
        connection.execute(f'CREATE VIEW "{table["name"]}" AS {_rows(table, files)}')
    if not found:
        raise SnapshotError(
            f"there are no tables in `{place}`",
            hint=f"write them with `highwater export --to parquet run.pickle -o {place}`",
        )
    return connection.sql(query)


def _rows(table: dict[str, Any], files: list[str]) -> str:
    """The query of all rows of a table; of none, with its columns, where no file has any."""
    if files:
        names = ", ".join(_text(file) for file in files)
        return (
            f"SELECT * FROM read_parquet([{names}], hive_partitioning = true, "
            "hive_types = {'run': VARCHAR, 'rank': BIGINT}, union_by_name = true)"
        )
    columns = [f'CAST(NULL AS {DUCKDB_TYPES[one["type"]]}) AS "{one["name"]}"' for one in table["columns"]]
    return f"SELECT {', '.join(columns)} WHERE false"


def _text(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
