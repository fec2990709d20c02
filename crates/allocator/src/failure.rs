//! What a request can end in but a block.

use thiserror::Error;

/// A request that got no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// `torch.OutOfMemoryError`, with an `oom` entry in the trace.
    #[error("out of memory: the program requested {} bytes, and the allocator {} from the driver", .0.requested_bytes, .0.segment_bytes)]
    OutOfMemory(OutOfMemory),
    /// `torch.OutOfMemoryError` under `throw_on_cudamalloc_oom`, without a trace entry.
    #[error("rejected: {segment_bytes} bytes more from the driver would exceed the limit")]
    Rejected {
        /// What the driver would have been asked for.
        segment_bytes: u64,
    },
    /// A request of an exbibyte or more, which PyTorch refuses at once.
    #[error("{requested_bytes} bytes were requested: PyTorch allocates less than 1 EiB")]
    TooLarge {
        /// Bytes as asked for.
        requested_bytes: u64,
    },
    /// PyTorch itself would break here, so nothing can be said of what follows.
    #[error("PyTorch itself would fail here: {0}")]
    Undefined(Undefined),
}

/// The state of the allocator when a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes as asked for.
    pub requested_bytes: u64,
    /// Bytes as rounded: the size of the `oom` entry.
    pub rounded_bytes: u64,
    /// What the driver was asked for: the amount of the message.
    pub segment_bytes: u64,
    /// Free on the device.
    pub device_free_bytes: u64,
    /// The device's memory.
    pub device_total_bytes: u64,
    /// What the allocator may hold.
    pub limit_bytes: Option<u64>,
    /// Handed out.
    pub allocated_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
    /// Free blocks of private pools.
    pub private_free_bytes: u64,
}

/// Why PyTorch itself would fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Undefined {
    /// Section 9: `max_split_size` became smaller during the run.
    #[error("a piece of a split segment would be returned to the driver (`max_split_size` changed during the run)")]
    PieceReleased,
    /// Section 14.4.
    #[error("a private pool is used after its last use ended")]
    PoolWithoutUses,
    /// Section 14.1: by `begin_pool`, or by the search of an opted-in pool.
    #[error("a private pool is begun that is already open")]
    PoolOpenAlready,
    /// Section 14.1.
    #[error("a private pool is ended that is not open")]
    PoolNotOpen,
    /// Section 14.1: of an expandable pool, whose maps and unmaps need not balance.
    #[error(
        "more of a private pool is returned to the driver than PyTorch counted (an assertion fails, or a use after \
         free)"
    )]
    PoolCountBelowZero,
    /// A pool that was never begun or created, or is deleted.
    #[error("there is no such private pool")]
    NoSuchPool,
    /// Section 10.
    #[error("a private pool is emptied while a pool is open (an assertion of torch up to 2.11)")]
    EmptiedUnderOpenPool,
}
