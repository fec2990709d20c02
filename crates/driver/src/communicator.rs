//! The memory of an NCCL communicator on a card.

const MIB: u64 = 1 << 20;

/// Pieces that `ncclCommInitRank` makes by `cuMemCreate`, and the size of each.
///
/// # Source
/// `testdata/whole_card/nccl.pickle.gz`: NCCL 2.28.9 on an H100, two groups of one rank. Ranks of larger groups have buffers for each
/// other besides, which were not measured: it is the least.
pub const PIECES: u64 = 194;
/// See [`PIECES`].
pub const PIECE_BYTES: u64 = 2 * MIB;
/// Code that the first communicator of a process loads; measured with [`PIECES`].
pub const CODE_BYTES: u64 = 104 * MIB;
/// Streams of each; measured with [`PIECES`].
pub const STREAMS_BYTES: u64 = 2 * MIB;
/// Pinned memory of the host that the first takes; measured with [`PIECES`].
pub const PINNED_BYTES: u64 = MIB + 128 * 1024 + 4;
