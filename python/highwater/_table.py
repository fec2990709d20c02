"""Columns of numbers, shared with NumPy and Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from highwater import _highwater
from highwater import _html as html

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

SHOWN = 10
"""Rows that a notebook shows of a table."""

MISSING = -1
"""Stands in the memory where a number is missing."""


class Column:
    """One column of a :class:`Table`.

    ``numpy.asarray(column)`` and Arrow (``pyarrow.array(column)``, ``polars.Series(column)``) see its memory without a copy. A
    column of words holds codes, rows of ``categories``. A missing number is -1 in the memory, null for Arrow and ``None`` in
    ``tolist()``.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _highwater.Column) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def categories(self) -> list[str] | None:
        """The words that the codes stand for; ``None`` for a column of numbers."""
        return self._native.categories

    @property
    def null_count(self) -> int:
        """Rows without a value."""
        return self._native.null_count

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._native.__array_interface__

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._native.__arrow_c_array__(requested_schema)

    def tolist(self) -> list[Any]:
        """The values as plain Python values: words for codes, ``None`` for a missing value."""
        return self._native.tolist()

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        what = "words" if self.categories is not None else "numbers"
        return f"<highwater.Column {self.name}: {len(self)} {what}>"


class Table(Mapping[str, "NDArray[Any]"]):
    """Columns of equal length.

    ``table["requested_bytes"]`` is a NumPy array over the column's own memory, read-only; a column of words is a new array of
    strings. ``table.column(name)`` does not need NumPy.

    Any library that supports Arrow takes the whole table without a copy: ``pyarrow.table(table)``, ``polars.DataFrame(table)``,
    and DuckDB in the ``FROM`` of a query. ``table.to_pandas()`` needs pandas only.
    """

    __slots__ = ("_native", "_what")

    def __init__(self, native: _highwater.Table, what: str) -> None:
        self._native = native
        self._what = what

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.names

    @property
    def num_rows(self) -> int:
        """The number of rows; ``len`` counts the columns, as for any mapping."""
        return len(self._native)

    def column(self, name: str) -> Column:
        """A column, whose memory NumPy and Arrow can read."""
        return Column(self._native.column(name))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return _array(self.column(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def head(self, rows: int = 5) -> Table:
        """Its first rows, which share its memory."""
        return Table(self._native.head(rows), self._what)

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """Every column as a NumPy array."""
        return {name: self[name] for name in self.columns}

    def to_dicts(self) -> list[dict[str, Any]]:
        """Every row as a dict of plain Python values."""
        names = self.columns
        rows = zip(*(self.column(name).tolist() for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a ``DataFrame``: words are categorical, a number that is missing is ``<NA>``."""
        pandas = _pandas()
        return pandas.DataFrame({name: _series(pandas, self.column(name)) for name in self.columns})

    def _repr_html_(self) -> str:
        return html.table(*self._shown())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        html.pretty(printer, self, lambda: html.text_table(*self._shown()))

    def _shown(self) -> tuple[list[str], list[list[html.Cell]], str]:
        """Titles, the first rows, and how many more there are."""
        head = self.head(SHOWN)
        rows = [[_cell(name, value) for name, value in row.items()] for row in head.to_dicts()]
        below = f"{self.num_rows:,} {self._what}, {len(self)} columns"
        rest = self.num_rows - head.num_rows
        return self.columns, rows, f"{below}; {rest:,} more rows" if rest else below

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<highwater.Table of {self._what}: {self.num_rows:,} rows of {', '.join(self.columns)}>"


def _cell(name: str, value: Any) -> html.Cell:
    """A value to read: addresses in hexadecimal, bytes in binary units with the exact number beside them."""
    if value is None:
        return html.Cell("")
    if isinstance(value, str):
        return html.Cell(value)
    if name == "address":
        return html.Cell(f"{value:#x}")
    if name.endswith(("_bytes", "_bytes_at_most")):
        return html.Cell(_highwater.size(value), title=f"{value:,} bytes", is_number=True)
    return html.Cell(str(value), is_number=True)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("pandas is not installed: `pip install pandas`, or use `table.to_dicts()`, which needs none") from error
    return pandas


def _series(pandas: Any, column: Column) -> Any:
    """A column as pandas keeps it."""
    numbers = _numpy().asarray(column)
    words = column.categories
    if words is not None:
        return pandas.Categorical.from_codes(numbers, words)
    if column.null_count == 0:
        return numbers
    return pandas.arrays.IntegerArray(numbers.copy(), numbers == MISSING)


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ImportError(
            "NumPy is not installed: `pip install numpy`, or use `table.column(name)`, which needs none"
        ) from error
    return numpy


def _array(column: Column) -> NDArray[Any]:
    numpy = _numpy()
    numbers: np.ndarray[Any, Any] = numpy.asarray(column)
    words = column.categories
    return numbers if words is None else numpy.asarray(words, dtype=str)[numbers]
