//! The causes, and their words.

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The program needs more than there is.
    TooBig,
    /// Enough is reserved and not in use, but in pieces.
    Fragmentation,
    /// Other processes use the missing memory.
    OtherProcess,
    /// An earlier run in the same notebook has it.
    Leftover,
    /// Memory that PyTorch's allocator does not know of.
    OutsidePyTorch,
    /// A configured limit.
    Limit,
    /// The request is larger than all there is.
    NeverFits,
    /// Free blocks of private pools: CUDA graphs, `MemPool`.
    PrivatePools,
    /// The expandable-segment reserve is smaller than the request.
    Reserve,
    /// A `MemPool`'s own allocator gave nothing.
    CustomAllocator,
    /// The driver said no though it had enough.
    Refused,
    /// The driver's numbers contradict each other.
    Contradiction,
    /// An engine's memory for its KV cache is too small for what was asked.
    KvCache,
    /// An engine's share of the GPU leaves too little for the rest, or asks for more than is free.
    EngineShare,
    /// An engine does not give back all memory when it sleeps.
    SleepResidue,
    /// A kernel needs more of a multiprocessor's shared memory than there is.
    KernelSharedMemory,
    /// The host's memory.
    HostMemory,
    /// The host's shared memory, `/dev/shm`.
    SharedMemory,
    /// Nothing has failed: the program went on without the memory.
    Warning,
    /// The program failed for another reason, whatever its words.
    NotMemory,
    /// The numbers do not show it.
    Unknown,
}

impl Cause {
    /// The word of the JSON document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooBig => "too-big",
            Self::Fragmentation => "fragmentation",
            Self::OtherProcess => "other-process",
            Self::Leftover => "leftover",
            Self::OutsidePyTorch => "outside-pytorch",
            Self::Limit => "limit",
            Self::NeverFits => "never-fits",
            Self::PrivatePools => "private-pools",
            Self::Reserve => "expandable-reserve",
            Self::CustomAllocator => "custom-allocator",
            Self::Refused => "refused",
            Self::Contradiction => "contradiction",
            Self::KvCache => "kv-cache",
            Self::EngineShare => "engine-share",
            Self::SleepResidue => "sleep-residue",
            Self::KernelSharedMemory => "kernel-shared-memory",
            Self::HostMemory => "host-memory",
            Self::SharedMemory => "shared-memory",
            Self::Warning => "warning",
            Self::NotMemory => "not-memory",
            Self::Unknown => "unknown",
        }
    }

    /// The end of a headline: why, in half a sentence.
    pub const fn in_short(self) -> &'static str {
        match self {
            Self::TooBig => "the program needs more memory than there is",
            Self::Fragmentation => "the free memory is fragmented",
            Self::OtherProcess => "other processes hold memory of the GPU",
            Self::Leftover => "an earlier run in this process still holds memory",
            Self::OutsidePyTorch => "memory outside PyTorch filled the GPU",
            Self::Limit => "a configured limit refused it",
            Self::NeverFits => "no GPU of this size can serve it",
            Self::PrivatePools => "private pools hold the free memory",
            Self::Reserve => "the reserve for expandable segments is too small",
            Self::CustomAllocator => "the pool's own allocator refused it",
            Self::Refused => "the driver refused it although enough was free",
            Self::Contradiction => "the driver's numbers contradict each other",
            Self::KvCache => "the KV cache is too small",
            Self::EngineShare => "the engine's share of the GPU does not fit",
            Self::SleepResidue => "a sleeping engine keeps memory",
            Self::KernelSharedMemory => "a kernel needs too much shared memory",
            Self::HostMemory => "the host ran out of memory",
            Self::SharedMemory => "the host's shared memory is full",
            Self::Warning => "nothing has failed yet",
            Self::NotMemory => "memory did not run out",
            Self::Unknown => "the recording does not show why",
        }
    }
}
