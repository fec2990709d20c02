//! Texts that engines, libraries and systems print when memory runs out, or while they divide it.

mod engines;
mod failures;
mod host;
mod libraries;
mod not_memory;
mod pattern;

pub(crate) use failures::FAILURES;
pub(crate) use libraries::ASYNCHRONOUS;
pub(crate) use pattern::Values;
pub use pattern::{Decimal, Value};
pub(crate) use pattern::{find, text_of};

/// The longest anchor: a line that is broken behind it is still looked at.
const ANCHOR_BYTES: usize = 24;

/// A known text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// A stable word for what it says.
    pub(crate) id: &'static str,
    /// Who prints it, and in which releases as far as they were read.
    pub(crate) origin: &'static str,
    /// The words with their holes.
    pub(crate) pattern: &'static str,
    /// Bytes to look for where the first words are too common.
    at: Option<&'static str>,
}

/// A row of a table.
pub(crate) const fn row(id: &'static str, origin: &'static str, pattern: &'static str) -> Row {
    Row { id, origin, pattern, at: None }
}

impl Row {
    /// The same, looked for by these bytes, which stand in the first line of the text.
    pub(crate) const fn at(self, anchor: &'static str) -> Self {
        Self { at: Some(anchor), ..self }
    }

    /// Bytes that a line must hold to be compared: the first words, as printed.
    pub(crate) fn anchor(&self) -> &'static str {
        if let Some(anchor) = self.at {
            return anchor;
        }
        let words = self
            .pattern
            .strip_prefix("{<")
            .and_then(|rest| rest.split_once('}'))
            .map_or(self.pattern, |(_, rest)| rest);
        let words = words.strip_prefix("{^}").unwrap_or(words);
        let words = words.split('{').next().unwrap_or_default().trim();
        if words.len() <= ANCHOR_BYTES {
            return words;
        }
        let end = (0..=ANCHOR_BYTES).rev().find(|&end| words.is_char_boundary(end)).unwrap_or(0);
        let whole = words[..end].rfind(' ').filter(|&end| end >= ANCHOR_BYTES / 2);
        &words[..whole.unwrap_or(end)]
    }
}
