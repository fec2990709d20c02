//! The wordings of PyTorch's message, clause by clause: which amount stands where, and whose words these are.
//!
//! A message is a beginning and then clauses, in an order and choice that changed with the releases. Text is compared
//! without its blanks, for logs break lines where they like.
//!
//! # Source
//! `spec/caching-allocator.md` section 16.3, where each wording is traced to its releases; of MPS and XPU, messages that
//! users have posted (`MPS backend out of memory` with `GB` that are GiB; XPU's ends with advice on `empty_cache`); of NPU, `torch_npu`
//! 2.9, which keeps the words of torch 2.0.

use highwater_allocator::TorchVersion;

/// PyTorch releases, both included: `(2, 11)` is 2.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Releases {
    /// The first with these words, as far as known.
    pub first: (u16, u16),
    /// The last; the newest release that is known if they are still in use.
    pub last: (u16, u16),
}

/// The newest release whose messages are known: the allocator's newest.
const NEWEST: (u16, u16) = TorchVersion::NEWEST.numbers();

const fn releases(first: (u16, u16), last: (u16, u16)) -> Releases {
    Releases { first, last }
}

const fn since(first: (u16, u16)) -> Releases {
    releases(first, NEWEST)
}

const EVER: Releases = since((1, 0));

impl Releases {
    /// Those in both; `None` if there are none.
    pub fn and(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }
}

impl std::fmt::Display for Releases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((major, minor), (last_major, last_minor)) = (self.first, self.last);
        match *self {
            Self { first, last } if first == last => write!(f, "{major}.{minor}"),
            Self { last: NEWEST, .. } => write!(f, "{major}.{minor} or newer"),
            _ => write!(f, "{major}.{minor} to {last_major}.{last_minor}"),
        }
    }
}

/// What an amount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Amount {
    /// Asked of the driver.
    Tried,
    /// The device's memory.
    Capacity,
    /// Free memory of the driver.
    Free,
    /// This process, with what PyTorch does not know of.
    ThisProcess,
    /// The process whose id came before.
    OtherProcess,
    /// The memory limit of the process.
    Limit,
    /// In blocks that the program holds.
    Allocated,
    /// NPU: the same with blocks that wait for another stream, which nothing here needs.
    Active,
    /// In free blocks of private pools.
    Private,
    /// In segments, used or not; or what `cached` says.
    Reserved,
    /// In segments, not used.
    Unallocated,
    /// MPS: of others.
    Others,
    /// The expandable-segment reserve that is too small.
    Reserve,
}

/// A piece of a clause.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// These words; blanks do not count.
    Words(&'static str),
    /// An amount.
    Bytes(Amount),
    /// An amount whose `GB` are GiB.
    BinaryBytes(Amount),
    /// The device's ordinal.
    Device,
    /// A process id.
    Process,
}

/// What a clause says beside its amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Nothing.
    Nothing,
    /// The amount of `reserved` is what is cached: reserved and not allocated.
    ReservedIsCached,
    /// Expandable segments are on.
    ExpandableSegments,
    /// A `MemPool`'s own allocator gave nothing.
    CustomAllocator,
    /// More than 2^60 bytes.
    MoreThanOneExabyte,
    /// `throw_on_cudamalloc_oom` refused it.
    Rejected,
    /// The driver refused something that is not PyTorch's allocator's, or is not told.
    DriverError,
    /// `backend:cudaMallocAsync`.
    Asynchronous,
}

/// A clause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clause {
    /// What it is called in tests.
    pub(super) name: &'static str,
    /// Whose words.
    pub(super) releases: Releases,
    /// What stands before "out of memory", if it begins a message; `None` if it goes on with one.
    pub(super) begins_after: Option<&'static str>,
    /// Nothing needs to follow.
    pub(super) is_last: bool,
    /// What it says beside its amounts.
    pub(super) says: Says,
    /// The pieces, from "out of memory" on if it begins a message.
    pub(super) parts: &'static [Part],
}

use Amount::{
    Active, Allocated, Capacity, Free, Limit, OtherProcess, Others, Private, Reserve, Reserved, ThisProcess, Tried,
    Unallocated,
};
use Part::{BinaryBytes, Bytes, Device, Process, Words};

const fn begins(name: &'static str, releases: Releases, after: &'static str, parts: &'static [Part]) -> Clause {
    Clause { name, releases, begins_after: Some(after), is_last: false, says: Says::Nothing, parts }
}

const fn goes_on(name: &'static str, releases: Releases, parts: &'static [Part]) -> Clause {
    Clause { name, releases, begins_after: None, is_last: false, says: Says::Nothing, parts }
}

impl Clause {
    const fn last(self) -> Self {
        Self { is_last: true, ..self }
    }

    const fn says(self, says: Says) -> Self {
        Self { says, ..self }
    }
}

/// Advice of PyTorch, without amounts.
const fn advice(name: &'static str, releases: Releases, words: &'static [Part]) -> Clause {
    goes_on(name, releases, words).last()
}

/// What all messages have in common, without blanks.
pub(crate) const ANCHOR: &[u8] = b"outofmemory";

/// The devices that the message may be of, as it calls them.
pub(super) const BACKENDS: [&str; 7] = ["CUDA", "HIP", "ROCm", "XPU", "NPU", "MUSA", "MLU"];

/// Every clause. Where two match, the earlier counts.
pub(super) const CLAUSES: &[Clause] = &[
    begins("more than 1EB", since((1, 4)), "", &[Words("out of memory. Tried to allocate more than 1EB memory")])
        .last()
        .says(Says::MoreThanOneExabyte),
    begins("tried", EVER, "", &[Words("out of memory. Tried to allocate"), Bytes(Tried)]),
    begins(
        "tried, NPU workspace",
        EVER,
        "",
        &[Words("out of memory. NPUWorkspaceAllocator tried to allocate"), Bytes(Tried)],
    ),
    begins(
        "rejected",
        since((2, 12)),
        "",
        &[
            Words("out of memory. Allocation was preemptively rejected because it would exceed"),
            Words("per_process_memory_fraction limit. Requested size:"),
            Bytes(Tried),
        ],
    )
    .last()
    .says(Says::Rejected),
    begins("asynchronous", since((1, 13)), "would exceed allowed memory. (", &[Words("out of memory")])
        .says(Says::Asynchronous),
    begins(
        "MPS",
        since((1, 12)),
        "MPS backend",
        &[
            Words("out of memory (MPS allocated:"),
            BinaryBytes(Allocated),
            Words(", other allocations:"),
            BinaryBytes(Others),
            Words(", max allowed:"),
            BinaryBytes(Limit),
            Words("). Tried to allocate"),
            BinaryBytes(Tried),
        ],
    )
    .last(),
    begins(
        "MPS, without a limit",
        since((1, 13)),
        "MPS backend",
        &[
            Words("out of memory (MPS allocated:"),
            BinaryBytes(Allocated),
            Words(", other allocations:"),
            BinaryBytes(Others),
            Words("). Tried to allocate"),
            BinaryBytes(Tried),
        ],
    )
    .last(),
    // As people shorten it.
    begins(
        "MPS, without others and a limit",
        since((1, 12)),
        "MPS backend",
        &[
            Words("out of memory (MPS allocated:"),
            BinaryBytes(Allocated),
            Words("). Tried to allocate"),
            BinaryBytes(Tried),
        ],
    )
    .last(),
    begins("driver", EVER, "CUDA error:", &[Words("out of memory")]).last().says(Says::DriverError),
    begins("driver, HIP", EVER, "HIP error:", &[Words("out of memory")]).last().says(Says::DriverError),
    begins("driver API", since((2, 1)), "CUDA driver error:", &[Words("out of memory")]).last().says(Says::DriverError),
    // Up to 2.0, in parentheses.
    goes_on("GPU", EVER, &[Words("GPU"), Device]),
    goes_on("NPU", EVER, &[Words("NPU"), Device]),
    // torch 2.3 prints the number as a character, which is lost in most logs.
    goes_on("GPU without a number", since((2, 2)), &[Words("GPU has a total capacity of"), Bytes(Capacity)]),
    goes_on("total capacity", releases((1, 0), (2, 0)), &[Bytes(Capacity), Words("total capacity")]),
    goes_on("already allocated", releases((1, 0), (2, 0)), &[Bytes(Allocated), Words("already allocated")]),
    goes_on("current active", EVER, &[Bytes(Active), Words("current active")]),
    goes_on("free", releases((1, 0), (2, 0)), &[Bytes(Free), Words("free")]),
    goes_on("allowed", since((1, 8)), &[Bytes(Limit), Words("allowed")]),
    goes_on("reserved in total", releases((1, 4), (2, 0)), &[Bytes(Reserved), Words("reserved in total by PyTorch")])
        .last(),
    goes_on("cached", releases((1, 0), (1, 3)), &[Bytes(Reserved), Words("cached")])
        .last()
        .says(Says::ReservedIsCached),
    // From 2.1 on, in sentences.
    goes_on("has a total capacty", releases((2, 1), (2, 1)), &[Words("has a total capacty of"), Bytes(Capacity)]),
    goes_on("has a total capacity", since((2, 2)), &[Words("has a total capacity of"), Bytes(Capacity)]),
    goes_on("of which is free", since((2, 1)), &[Words("of which"), Bytes(Free), Words("is free")]),
    goes_on(
        "this process",
        since((2, 1)),
        &[Words("Including non-PyTorch memory, this process has"), Bytes(ThisProcess), Words("memory in use")],
    ),
    goes_on(
        "process",
        since((2, 1)),
        &[Words("Process"), Process, Words("has"), Bytes(OtherProcess), Words("memory in use")],
    ),
    goes_on(
        "is allocated",
        since((2, 1)),
        &[Words("Of the allocated memory"), Bytes(Allocated), Words("is allocated by PyTorch")],
    ),
    goes_on(
        "private pools",
        since((2, 4)),
        &[Words("with"), Bytes(Private), Words("allocated in private pools (e.g., CUDA Graphs)")],
    ),
    goes_on(
        "private pools, HIP",
        since((2, 4)),
        &[Words("with"), Bytes(Private), Words("allocated in private pools (e.g., HIP Graphs)")],
    ),
    goes_on(
        "private pools, XPU",
        since((2, 4)),
        &[Words("with"), Bytes(Private), Words("allocated in private pools (e.g., XPU Graphs)")],
    ),
    goes_on(
        "is reserved but unallocated",
        since((2, 1)),
        &[Words("and"), Bytes(Unallocated), Words("is reserved by PyTorch but unallocated")],
    )
    .last(),
    // Advice.
    advice(
        "max_split_size_mb, reserved",
        releases((1, 10), (2, 0)),
        &[Words(
            "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation. See \
             documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
        )],
    ),
    advice(
        "max_split_size_mb",
        releases((2, 1), (2, 1)),
        &[Words(
            "If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation. See \
             documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
        )],
    ),
    advice(
        "expandable_segments",
        since((2, 2)),
        &[Words(
            "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to \
             avoid fragmentation. See documentation for Memory Management",
        )],
    ),
    advice(
        "expandable_segments, 2.10",
        releases((2, 10), (2, 10)),
        &[Words(
            "If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid \
             fragmentation. See documentation for Memory Management",
        )],
    ),
    advice(
        "expandable_segments, HIP",
        since((2, 2)),
        &[Words(
            "If reserved but unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to \
             avoid fragmentation. See documentation for Memory Management",
        )],
    ),
    advice(
        "old page",
        releases((2, 2), (2, 10)),
        &[Words("https://pytorch.org/docs/stable/notes/cuda.html#environment-variables")],
    ),
    advice(
        "new page",
        since((2, 11)),
        &[Words(
            "https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
        )],
    ),
    advice("expandable_segments is enabled", since((2, 15)), &[Words("expandable_segments is enabled")])
        .says(Says::ExpandableSegments),
    advice(
        "reserve",
        since((2, 15)),
        &[Words("This allocation exceeds the expandable-segment reserve of"), Bytes(Reserve)],
    )
    .says(Says::ExpandableSegments),
    advice("custom allocator", since((2, 15)), &[Words("The custom allocator backing this MemPool returned nullptr")])
        .says(Says::CustomAllocator),
    advice("XPU", since((2, 3)), &[Words("Please use empty_cache to release all unoccupied cached memory")]),
    // `backend:cudaMallocAsync`, a line each.
    goes_on("currently allocated", EVER, &[Words("Currently allocated :"), Bytes(Allocated)]),
    goes_on("requested", EVER, &[Words("Requested :"), Bytes(Tried)]),
    goes_on("device limit", EVER, &[Words("Device limit :"), Bytes(Capacity)]),
    goes_on("free, by CUDA", EVER, &[Words("Free (according to CUDA):"), Bytes(Free)]),
    goes_on("limit of PyTorch", EVER, &[Words("PyTorch limit (set by user-supplied memory fraction) :"), Bytes(Limit)])
        .last(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_has_a_name_of_its_own_and_something_to_be_known_by() {
        for (row, clause) in CLAUSES.iter().enumerate() {
            assert!(CLAUSES[..row].iter().all(|other| other.name != clause.name), "{}", clause.name);
            assert!(clause.parts.iter().any(|part| matches!(part, Words(_))), "{}", clause.name);
        }
    }

    #[test]
    fn releases_meet_or_do_not() {
        let (old, new) = (releases((1, 4), (2, 0)), since((1, 8)));
        assert_eq!(old.and(new).unwrap().to_string(), "1.8 to 2.0");
        assert_eq!(old.and(since((2, 1))), None);
        assert_eq!(since((2, 11)).to_string(), "2.11 or newer");
        assert_eq!(releases((2, 1), (2, 1)).to_string(), "2.1");
    }
}
