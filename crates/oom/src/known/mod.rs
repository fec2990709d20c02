//! Texts that engines, libraries and systems print when memory runs out, or while they divide it.

mod engines;
mod failures;
mod host;
mod libraries;
mod pattern;

pub(crate) use failures::FAILURES;
pub(crate) use pattern::Values;
pub use pattern::{Decimal, Value};
pub(crate) use pattern::{find, text_of};

/// A known text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// A stable word for what it says.
    pub(crate) id: &'static str,
    /// Who prints it, and in which releases as far as they were read.
    pub(crate) origin: &'static str,
    /// Bytes that a line must hold to be compared: a part of the words, as printed.
    pub(crate) anchor: &'static str,
    /// The words with their holes.
    pub(crate) pattern: &'static str,
}

/// A row of a table.
pub(crate) const fn row(id: &'static str, origin: &'static str, anchor: &'static str, pattern: &'static str) -> Row {
    Row { id, origin, anchor, pattern }
}

/// A row whose words are all that it says.
pub(crate) const fn words(id: &'static str, origin: &'static str, words: &'static str) -> Row {
    row(id, origin, words, words)
}
