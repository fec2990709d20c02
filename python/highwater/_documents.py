"""Documents of the command line in Python: dicts that print as the command's text."""

from __future__ import annotations

from typing import Any

from highwater._html import preformatted, pretty


class Document(dict[str, Any]):
    """A document of ``highwater … --format json``. ``print`` and notebooks show ``text``, the output of the command."""

    def __init__(self, document: dict[str, Any], text: str) -> None:
        super().__init__(document)
        self.text = text
        """The output of the command."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        first = self.text.strip().partition("\n")[0]
        return f"<highwater.{type(self).__name__}: {first}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        pretty(printer, self, lambda: self.text)

    def _repr_html_(self) -> str:
        return preformatted(self.text)


class Simulation(Document):
    """The document of ``highwater simulate --format json``."""


class Diff(Document):
    """The document of ``highwater diff --format json``."""


class Ranks(Document):
    """The document of ``highwater ranks --format json``."""

    @property
    def outliers(self) -> list[dict[str, Any]]:
        """The rows of ``ranks`` that differ from the others of their part, each with its ``because``."""
        return [rank for rank in self["ranks"] if rank["is_outlier"]]


class Check(Document):
    """The document of ``highwater check --format json``; true if every budget is kept."""

    @property
    def passed(self) -> bool:
        """Whether every budget is kept."""
        return bool(self["passed"])

    def __bool__(self) -> bool:
        return self.passed
