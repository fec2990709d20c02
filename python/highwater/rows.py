"""The rows of the tables that :func:`highwater.sql` asks about, as types.

`make schemas` writes this file from the declarations in `crates/tables`.
"""

from __future__ import annotations

from typing import Optional, TypedDict


class Snapshots(TypedDict):
    """A file that was read."""

    run: str
    rank: int
    file: str
    input_bytes: int
    encoding: str
    profile: Optional[str]
    is_cut: bool
    torch_version: str
    torch_version_is_known: bool
    devices: int
    warnings: int
    verdict: str
    highwater_version: str


class Devices(TypedDict):
    """A device of a snapshot: its totals, as `highwater report` shows them. Devices are never summed."""

    run: str
    rank: int
    file: str
    device: int
    entries: int
    has_history: bool
    is_from_start: bool
    is_truncated: bool
    recorded_cause: Optional[str]
    block_sizes: str
    start_requested_bytes: int
    start_allocated_bytes: int
    start_reserved_bytes: int
    end_requested_bytes: int
    end_allocated_bytes: int
    end_active_bytes: int
    end_reserved_bytes: int
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_allocated_bytes_at_most: int
    peak_active_bytes: int
    peak_active_bytes_at_most: int
    peak_reserved_bytes: int
    peak_requested_entry: Optional[int]
    peak_allocated_entry: Optional[int]
    peak_active_entry: Optional[int]
    peak_reserved_entry: Optional[int]
    at_peak_by: str
    at_peak_entry: Optional[int]
    at_peak_time_us: Optional[int]
    at_peak_requested_bytes: int
    at_peak_allocated_bytes: int
    at_peak_active_bytes: int
    at_peak_reserved_bytes: int
    at_peak_parameter_bytes: int
    at_peak_gradient_bytes: int
    at_peak_optimizer_state_bytes: int
    at_peak_activation_bytes: int
    at_peak_cache_bytes: int
    at_peak_input_bytes: int
    at_peak_temporary_bytes: int
    at_peak_workspace_bytes: int
    at_peak_unknown_bytes: int
    free_bytes: int
    free_share: Optional[float]
    releasable_bytes: int
    inactive_split_bytes: int
    largest_free_block_bytes: int
    scattered_share: Optional[float]
    rounding_bytes: int
    out_of_memory_events: int
    iterations: int
    iterations_by: str
    findings: int


class Lifetimes(TypedDict):
    """A use of an address, from its allocation to its free: a tensor's memory."""

    run: str
    rank: int
    file: str
    device: int
    lifetime: int
    address: int
    requested_bytes: int
    size_bytes: int
    size_bytes_at_most: int
    stream: int
    pool: Optional[str]
    category: str
    category_rule: str
    call_site: str
    called_from: Optional[str]
    name: Optional[str]
    stack: Optional[int]
    alloc_entry: Optional[int]
    free_requested_entry: Optional[int]
    free_completed_entry: Optional[int]
    alloc_time_us: Optional[int]
    free_requested_time_us: Optional[int]
    free_completed_time_us: Optional[int]
    at_peak_bytes: int
    at_end_bytes: int


class CallSites(TypedDict):
    """The allocations of a call site on a device: the sums of its rows in `lifetimes`."""

    run: str
    rank: int
    file: str
    device: int
    call_site: str
    allocations: int
    requested_bytes: int
    largest_requested_bytes: int
    at_peak_allocations: int
    at_peak_bytes: int
    at_end_allocations: int
    at_end_bytes: int


class Stacks(TypedDict):
    """A frame of a stack, by its place there."""

    run: str
    rank: int
    file: str
    stack: int
    position: int
    frame: int


class Frames(TypedDict):
    """A frame: a function at a line."""

    run: str
    rank: int
    file: str
    frame: int
    function: str
    source: str
    line: Optional[int]
    owner: str


class Iterations(TypedDict):
    """An iteration of the training loop, or a token, or a sampling step."""

    run: str
    rank: int
    file: str
    device: int
    iteration: int
    start_entry: int
    end_entry: int
    start_time_us: Optional[int]
    end_time_us: Optional[int]
    is_complete: bool
    peak_requested_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_entry: Optional[int]
    end_requested_bytes: int
    end_allocated_bytes: int
    at_peak_parameter_bytes: Optional[int]
    at_peak_gradient_bytes: Optional[int]
    at_peak_optimizer_state_bytes: Optional[int]
    at_peak_activation_bytes: Optional[int]
    at_peak_cache_bytes: Optional[int]
    at_peak_input_bytes: Optional[int]
    at_peak_temporary_bytes: Optional[int]
    at_peak_workspace_bytes: Optional[int]
    at_peak_unknown_bytes: Optional[int]


class Phases(TypedDict):
    """A run of one phase of an iteration."""

    run: str
    rank: int
    file: str
    device: int
    iteration: int
    position: int
    phase: str
    start_entry: int
    end_entry: int
    peak_requested_bytes: int
    peak_allocated_bytes: int


class Growth(TypedDict):
    """A call site whose allocations stay, iteration after iteration: a leak shows here."""

    run: str
    rank: int
    file: str
    device: int
    call_site: str
    called_from: Optional[str]
    per_iteration_bytes: int
    left_bytes: int
    allocations: int
    iterations: int
    counted_iterations: int


class CardOwners(TypedDict):
    """The owners of a GPU's memory at the peak of the whole GPU, if the driver was recorded: PyTorch's segments, each library, code, the context."""

    run: str
    rank: int
    file: str
    device: int
    role: str
    library: Optional[str]
    bytes: int
    counts: bool
    allocations: int
    card_bytes: int


class Findings(TypedDict):
    """A finding of the report. `highwater help ID` explains its kind."""

    run: str
    rank: int
    file: str
    device: int
    position: int
    id: str
    severity: str
    title: str
    detail: str
    saving_bytes: Optional[int]
    saving_is_estimated: bool
    change: Optional[str]
    conf: Optional[str]


class OutOfMemory(TypedDict):
    """A request that failed."""

    run: str
    rank: int
    file: str
    device: int
    entry: int
    time_us: Optional[int]
    requested_bytes: int
    segment_bytes: int
    device_free_bytes: Optional[int]
    available_bytes: Optional[int]
    cause: str
    live_requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    explanation: str
    call_site: str
    called_from: Optional[str]
    stack: Optional[int]


class Entries(TypedDict):
    """An entry of the trace, with the totals after it."""

    run: str
    rank: int
    file: str
    device: int
    entry: int
    action: str
    address: Optional[int]
    size_bytes: int
    stream: int
    pool: Optional[str]
    time_us: Optional[int]
    device_free_bytes: Optional[int]
    stack: Optional[int]
    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
