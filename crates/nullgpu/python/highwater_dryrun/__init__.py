"""What `highwater dryrun` adds to a process of the program that it runs: it records, counts steps, ends the run, and keeps the
values of small tensors, which the null GPU has not.

The parent says what it wants in ``HIGHWATER_DRYRUN``, as JSON (:class:`highwater_dryrun.settings.Settings`). A process that never
uses CUDA leaves nothing behind. Nothing here imports torch: the parts begin when the program has done that.
"""

from __future__ import annotations

import os
from types import ModuleType

from highwater_dryrun import children, farewell, importing, ports, settings


_WITHOUT_CUPY = (
    "CuPy cannot be used in a dry run: its own copy of CUDA's runtime needs NVIDIA's driver. "
    "Run the program on a GPU with `highwater run --driver`, or make it do without CuPy"
)


def begin() -> None:
    """Gets ready, at the start of a process."""
    wanted = settings.get()
    if not wanted.imagined_ranks:
        farewell.begin(wanted.launched_ranks > 1)
        ports.begin(wanted.directory)
        if wanted.launched_ranks <= 1:
            children.begin(wanted.directory)
    importing.after("torch", lambda _: _begin_with_torch(wanted))
    importing.refuse("cupy", _WITHOUT_CUPY)
    # It checks NVIDIA's libraries for itself, and would complain before it does the same.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if wanted.sandbox:
        importing.after("safetensors", _begin_sandbox)
    if wanted.fake_weights:
        importing.after("transformers.modeling_utils", _begin_fake_weights)
        importing.after("diffusers.models.modeling_utils", _begin_fake_diffusion)


def _begin_with_torch(wanted: settings.Settings) -> None:
    from highwater_dryrun import ranks, run

    if wanted.imagined_ranks:
        ranks.imagine()
    if wanted.fake_weights:
        from highwater_dryrun import weights

        weights.leave_unset()
        weights.take_over_unread()
    run.begin(wanted)


def _begin_sandbox(module: ModuleType) -> None:
    from highwater_dryrun import sandbox

    sandbox.write_by_python(module)


def _begin_fake_weights(module: object) -> None:
    from highwater_dryrun import weights

    weights.make_checkpoints(module)


def _begin_fake_diffusion(module: object) -> None:
    from highwater_dryrun import weights

    weights.make_diffusion_checkpoints(module)
