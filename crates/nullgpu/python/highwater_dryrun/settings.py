"""What the parent wants of this process."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass, field

VARIABLE = "HIGHWATER_DRYRUN"


@dataclass(frozen=True)
class Settings:
    """The parent's wishes; the names are the keys of the JSON in the environment."""

    directory: str
    """Where each process leaves what it recorded."""
    core: str
    """The null GPU's library, which is loaded already."""
    steps: "int | None" = None
    """The run ends after so many steps of an optimizer."""
    deadline: "float | None" = None
    """It ends at this time in any case: seconds since the Unix epoch."""
    values: bool = True
    """Whether values of small tensors are kept."""
    assume: "dict[str, str]" = field(default_factory=dict)
    """What is assumed of values that nobody knows, by operator."""
    fake_weights: bool = False
    sandbox: bool = False
    """Whether what the program writes is kept apart."""
    launched_ranks: int = 0
    """How many ranks the parent has started; 0 if it started one process that is told of none."""
    imagined_ranks: int = 0
    """How many ranks this process is to believe in, itself the only one; 0 if it is told the truth."""


@functools.lru_cache(maxsize=None)
def get() -> Settings:
    """The settings of this process."""
    return Settings(**json.loads(os.environ[VARIABLE]))
