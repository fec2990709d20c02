//! The memory of an NCCL communicator on a card.
//!
//! # Source
//! Measured with NCCL 2.28.9: `testdata/whole_card/nccl.pickle.gz` on an H100 (two groups of one rank), `nccl_rank0.pickle.gz` on two H100s
//! of one host (two groups of two ranks and an all-to-all), and three further programs there (each collective, DDP, FSDP2);
//! `nccl_messages0.pickle.gz` on two H200s, where a message comes first. A tree of two ranks took the buffers of a ring there.
//!
//! Why it is so much, from NCCL's source (2.30): a channel has three tables (`initChannel`), the communicator two (`devCommSetup`), and
//! each has pages of 2 MiB of its own. What a channel sends with has the flags alone, what it receives with the buffers of three protocols:
//! 4, 4.7 and 0.5 MiB (`p2pSendSetup`, `p2pRecvSetup`).
//!
//! Derived, not measured: a ring has two neighbours however many ranks there are, and each peer of a host takes as much as the one that was
//! measured (`ncclTopoComputeP2pChannels`). Trees, NVLS and buffers of a network, which more ranks may use besides, are not counted: it is
//! the least.

const MIB: u64 = 1 << 20;

/// The size of a table in [`tables`].
pub const TABLE_BYTES: u64 = 2 * MIB;
/// Code that the first communicator of a process loads.
pub const CODE_BYTES: u64 = 104 * MIB;
/// Streams of each.
pub const STREAMS_BYTES: u64 = 2 * MIB;
/// Pinned memory of the host of each.
pub const PINNED_BYTES: u64 = MIB + 128 * 1024 + 4;

/// Tables that a communicator makes at once.
pub const fn tables(ranks: i32) -> u64 {
    let channels = if ranks > 1 { 32 } else { 64 };
    2 + 3 * channels
}

/// What a rank connects to when it needs it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Both neighbours, for collectives.
    Ring,
    /// A rank that it sends to.
    To(i32),
    /// A rank that it receives from.
    From(i32),
}

impl Link {
    /// Its buffers: how many, and the size of each.
    pub const fn buffers(self) -> &'static [(u64, u64)] {
        match self {
            Self::Ring => &[(24, 2 * MIB), (24, 10 * MIB)],
            Self::To(_) => &[(32, 2 * MIB)],
            Self::From(_) => &[(32, 10 * MIB)],
        }
    }

    /// Local memory of its kernels: the process has as much as the kernel that needs most.
    pub const fn local_bytes(self) -> u64 {
        match self {
            Self::Ring => 186 * MIB,
            Self::To(_) | Self::From(_) => 248 * MIB,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(link: Link) -> u64 {
        link.buffers().iter().map(|(count, bytes)| count * bytes).sum()
    }

    #[test]
    fn the_sums_are_those_of_the_recordings() {
        assert_eq!(tables(1) * TABLE_BYTES, 388 * MIB);
        assert_eq!(tables(2) * TABLE_BYTES + bytes(Link::Ring), 484 * MIB);
        assert_eq!(bytes(Link::To(1)) + bytes(Link::From(1)), 384 * MIB);
        assert_eq!(Link::From(0).local_bytes() - Link::Ring.local_bytes(), 62 * MIB, "messages after collectives");
    }
}
