//! Limits on untrusted input, each far above what a real snapshot needs.

/// Open `MARK`s. A real snapshot nests about ten deep.
pub(crate) const MAX_MARKS: usize = 1_000;

/// Values on a pickle's stack, beside one for each container so far. CPython writes long lists and dicts in pieces of 1,000
/// items or pairs. PyTorch's C++ writer leaves a whole list there, and the long ones are of dicts and lists.
pub(crate) const MAX_LOOSE_VALUES: usize = 1 << 16;

/// Containers at the start of a pickle; from there on one for [`MIN_CONTAINER_BYTES`]. A small file may hold little else, as one
/// whose containers lie at its start; this many take a megabyte.
pub(crate) const MAX_FIRST_CONTAINERS: u64 = 1 << 16;

/// Bytes that a container takes in a pickle, on average, at least. An entry of the trace with its stack and its pool is
/// three containers in fifty bytes.
pub(crate) const MIN_CONTAINER_BYTES: u64 = 4;

/// Layers of compression around a snapshot: people gzip a zstd file by accident, and not twice.
pub(crate) const MAX_LAYERS: usize = 2;

/// Bytes that any compressed input may unpack to: what a snapshot of a million entries has, and a second's work.
pub(crate) const MAX_UNPACKED_BYTES: u64 = 64 << 20;

/// Beyond [`MAX_UNPACKED_BYTES`], how many times its size an input may unpack to. Real snapshots pack 15 to 60 times.
pub(crate) const MAX_UNPACKED_RATIO: u64 = 200;

/// All sizes of a file, added up: 1,024 times the largest that one may be, and far above what any run allocates. A row that
/// is copied counts again without being added here: sums over rows still saturate.
pub(crate) const MAX_SIZES_SUM_BYTES: u64 = 1 << 60;

/// Bytes of one string or number. Stacks are lists, not strings, so real strings are paths and metadata.
pub(crate) const MAX_TEXT_BYTES: u64 = 64 << 20;

/// Rows of one table: what 28 bits hold. As entries that is a file of some 25 GB.
pub(crate) const MAX_ROWS: usize = 1 << 28;

/// Devices of one snapshot: PyTorch's `DeviceIndex` is an `int8_t`. Each device costs a look at all segments.
pub(crate) const MAX_DEVICES: usize = 128;

/// Keys of a record that is filled pair by pair; a dict with more is none.
pub(crate) const MAX_RECORD_KEYS: usize = 64;

/// Unknown keys of the root that are kept.
pub(crate) const MAX_EXTRAS: usize = 64;

/// Bytes of keys and texts in the allocator's settings.
pub(crate) const MAX_SETTINGS_BYTES: usize = 256 << 10;

/// NUL bytes behind a pickle that are looked through for other bytes; PyTorch's pages pad with two at most.
pub(crate) const MAX_PADDING_BYTES: u64 = 1 << 20;

/// How deep an unknown value is written out as JSON text; what lies deeper is replaced by `…`.
pub(crate) const MAX_RENDER_DEPTH: usize = 8;

/// Bytes of JSON text kept for one unknown value.
pub(crate) const MAX_RENDER_BYTES: usize = 4 << 10;

/// Bytes of a line-terminated argument of protocol 0.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;
