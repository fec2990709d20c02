//! Sentences that a terminal, an editor or a mail program broke into two lines, before the words that tell a failure were complete.
//!
//! `Failed to` and `allocate memory` are joined with a blank, `failed to all` and `ocate memory` without. PyTorch's own message and
//! texts of the tables whose first words are whole go on over lines by themselves.

use super::table::Seen;
use crate::grammar::is_open;

/// So much of a line is kept for the next one, and of that one is read.
const KEPT_BYTES: usize = 1024;
/// The longest words that are looked for.
const SEAM_BYTES: usize = 40;

/// The last line.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLine {
    /// Its end, with what stands before its own text.
    text: Vec<u8>,
    /// Who wrote it.
    key: Vec<u8>,
    number: u64,
    /// It has a word that is looked for.
    has_anchor: bool,
    /// It has a word that a failure may be told with.
    may_tell: bool,
}

/// Two lines as one.
#[derive(Debug)]
pub(super) struct Joined {
    /// Their text.
    pub(super) text: Vec<u8>,
    /// Where the words over the break begin, and rows of the table of failures that they belong to.
    pub(super) rows: Option<(usize, Vec<usize>)>,
    /// Whether the grammar has to read it.
    pub(super) may_tell: bool,
    /// The number of the first.
    pub(super) line: u64,
}

impl LastLine {
    /// Takes a line in place of the one before.
    pub(super) fn take(&mut self, line: &[u8], key: &[u8], number: u64, seen: &Seen) {
        let line = line.trim_ascii_end();
        self.text.clear();
        self.text.extend_from_slice(&line[line.len().saturating_sub(KEPT_BYTES)..]);
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.number, self.has_anchor, self.may_tell) = (number, seen.has_anchor, seen.may_tell());
    }

    /// Whether it ends with these words.
    pub(super) fn ends_with(&self, words: &[u8]) -> bool {
        self.text.ends_with(words)
    }

    /// Takes two lines as one.
    pub(super) fn keep(&mut self, joined: &Joined) {
        self.text.clear();
        self.text.extend_from_slice(&joined.text[joined.text.len().saturating_sub(KEPT_BYTES)..]);
        self.may_tell |= joined.may_tell;
    }

    /// Whether it is the line before this one and has a word that is looked for.
    pub(super) fn is_before(&self, number: u64) -> bool {
        self.has_anchor && self.number + 1 == number
    }

    /// The last line and the next as one, if words of a failure stand over the break or its sentence has no end.
    pub(super) fn join(&self, body: &[u8], key: &[u8], number: u64) -> Option<Joined> {
        let body = body.trim_ascii_start();
        let is_of_writer = self.key == key || key.is_empty();
        if self.text.is_empty() || body.is_empty() || !is_of_writer || number > self.number + 1 {
            return None;
        }
        let end = &self.text[self.text.len().saturating_sub(SEAM_BYTES)..];
        let begin = &body[..body.len().min(SEAM_BYTES)];
        let whole = |between: &[u8]| [&self.text, between, &body[..body.len().min(KEPT_BYTES)]].concat();
        for between in [&b" "[..], b""] {
            let seam = [end, between, begin].concat();
            if let Some((rows, may_tell)) = Seen::over(&seam, end.len()) {
                let begin = self.text.len().saturating_sub(SEAM_BYTES);
                let rows = (!rows.is_empty()).then_some((begin, rows));
                return Some(Joined { text: whole(between), rows, may_tell, line: self.number });
            }
        }
        (self.may_tell && is_open(&self.text)).then(|| Joined {
            text: whole(b" "),
            rows: None,
            may_tell: true,
            line: self.number,
        })
    }
}
