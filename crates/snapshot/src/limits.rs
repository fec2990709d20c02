//! Limits on untrusted input, each far above what a real snapshot needs.

/// Open `MARK`s. A real snapshot nests about ten deep.
pub(crate) const MAX_MARKS: usize = 1_000;

/// Bytes of one string or number. Stacks are lists, not strings, so real strings are paths and metadata.
pub(crate) const MAX_TEXT_BYTES: u64 = 64 << 20;

/// Rows of one table: what 28 bits hold. As entries that is a file of some 25 GB.
pub(crate) const MAX_ROWS: usize = 1 << 28;

/// How deep an unknown value is written out as JSON text; what lies deeper is replaced by `…`.
pub(crate) const MAX_RENDER_DEPTH: usize = 8;

/// Bytes of JSON text kept for one unknown value.
pub(crate) const MAX_RENDER_BYTES: usize = 4 << 10;

/// Bytes of a line-terminated argument of protocol 0.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;
