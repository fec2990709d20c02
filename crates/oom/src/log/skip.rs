//! Lines that are passed over without a look at each: most of a long log.

use std::sync::LazyLock;

use memchr::memmem;

use super::limits::{POOL_USE, pool_use};
use super::line::{unquoted, without_emphasis};
use super::table::{Seen, before_anchor};
use super::{BLOCK_BYTES, DEVICES, LogReader, NEEDLES};

/// What was pasted has no more lines: each of them is read, because a line break may hide the words that are looked for.
pub(super) const PASTED_LINES: u64 = 20_000;
/// The least size of a block after one in which a search found something.
const SHORT_BLOCK_BYTES: usize = 1 << 10;
/// A block without any of these has nothing that matters, but for bytes that are taken out first.
pub(super) static FINDERS: LazyLock<Vec<memmem::Finder<'static>>> = LazyLock::new(|| {
    let words = NEEDLES.iter().chain(&DEVICES);
    words.map(|word| memmem::Finder::new(*word)).collect()
});

impl LogReader {
    /// Reads the limits that lines name which are passed over.
    pub(super) fn limits_in(&mut self, skipped: &[u8]) {
        let words = std::mem::take(&mut self.limit_words);
        let (mut number, mut end) = (self.found.lines, 0);
        for at in words.iter().copied().filter(|&at| at < skipped.len()) {
            // A line may have several.
            if at < end {
                continue;
            }
            if let Some(rest) = skipped[at..].strip_prefix(POOL_USE.as_bytes()) {
                let surroundings = &mut self.found.surroundings;
                surroundings.pool_use = pool_use(rest).or(surroundings.pool_use);
                continue;
            }
            number += memchr::memchr_iter(b'\n', &skipped[end..at]).count() as u64;
            let begin = memchr::memrchr2(b'\n', b'\r', &skipped[..at]).map_or(0, |break_| break_ + 1);
            end = memchr::memchr2(b'\n', b'\r', &skipped[at..]).map_or(skipped.len(), |length| at + length);
            let line = unquoted(&skipped[begin..end]);
            let line = without_emphasis(&line);
            self.limits.read(&line, number + 1, &Seen::of(&line), &mut self.found.surroundings);
        }
        self.limit_words = words;
        self.limit_words.clear();
    }

    /// The whole lines at the beginning of a piece in which nothing can be but a limit: most of a log.
    pub(super) fn skipped_lines<'p>(&mut self, piece: &'p [u8]) -> &'p [u8] {
        if !self.open.is_empty()
            || !self.line.is_empty()
            || self.long.is_some()
            || self.table.is_open()
            || self.trace.is_open(self.found.lines + 1)
            || self.found.lines < PASTED_LINES
            || self.last.is_before(self.found.lines + 1)
        {
            return &[];
        }
        // Each search ends where the one before has found something, so that many short stretches cost no more than one long one.
        // Blocks double while nothing is found in them, so a search never runs far beyond the bytes that can be skipped.
        let block = &piece[..piece.len().min(self.block_bytes.max(SHORT_BLOCK_BYTES))];
        #[cfg(test)]
        {
            self.work.searched_bytes += block.len() as u64;
        }
        let mut skipped = block;
        skipped = &skipped[..memchr::memchr2(0x1b, 0, skipped).unwrap_or(skipped.len())];
        skipped = &skipped[..before_anchor(skipped, &mut self.limit_words)];
        for finder in FINDERS.iter() {
            skipped = &skipped[..finder.find(skipped).unwrap_or(skipped.len())];
        }
        self.block_bytes = if skipped.len() == block.len() { (block.len() * 2).min(BLOCK_BYTES) } else { 0 };
        memchr::memrchr(b'\n', skipped).map_or(&[], |end| &skipped[..=end])
    }
}
