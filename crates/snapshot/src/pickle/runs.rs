//! Stacks that were read before, known again by their bytes.
//!
//! Most of a snapshot is stacks, and most of a stack is a run of memo references: `MARK`, a `BINGET` for each frame,
//! `APPENDS`. Equal bytes mean equal stacks, so a run that comes again is compared instead of executed. A program goes
//! through the same stacks in the same order again and again: the two runs before one tell which it will be.

use std::ops::Range;

use hashbrown::HashMap;

use super::opcode as op;
use crate::StackId;

/// Bytes of runs that are kept. Beyond them, stacks are so many that remembering them all would not pay.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// Slots of the guess table; a real program has some hundred stacks.
const GUESSES: usize = 1 << 14;

/// Memo slots that may change their meaning before runs are no longer remembered: no writer changes any, and to forget
/// takes time.
const MAX_OVERWRITES: u64 = 16;

pub(crate) struct Runs {
    bytes: Vec<u8>,
    known: Vec<Known>,
    by_hash: HashMap<u64, u32>,
    /// Index into `known` by a mix of the two runs before.
    guesses: Vec<u32>,
    last: [u32; 2],
    overwrites: u64,
}

struct Known {
    bytes: Range<usize>,
    stack: StackId,
}

/// A run of memo references that ends in `APPENDS`.
pub(crate) struct Run {
    /// Bytes up to and with `APPENDS`.
    pub(crate) len: usize,
    hash: u64,
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            known: Vec::new(),
            by_hash: HashMap::default(),
            guesses: vec![0; GUESSES],
            last: [0; 2],
            overwrites: 0,
        }
    }

    /// The stack that these bytes begin with and how many they are, if the guess is right.
    #[inline]
    pub(crate) fn guess(&mut self, ahead: &[u8]) -> Option<(usize, StackId)> {
        let guess = self.guesses[self.slot()];
        let known = self.known.get(guess as usize)?;
        let bytes = &self.bytes[known.bytes.clone()];
        if !ahead.starts_with(bytes) {
            return None;
        }
        let found = (bytes.len(), known.stack);
        self.last = [self.last[1], guess];
        Some(found)
    }

    /// The run that these bytes begin with, if they are nothing but memo references up to `APPENDS`; `index` is given
    /// each memo index and says whether to go on.
    pub(crate) fn scan(ahead: &[u8], mut index: impl FnMut(u32) -> bool) -> Option<Run> {
        let mut at = 0;
        let mut hash: u64 = 0;
        loop {
            let referred = match ahead[at..] {
                [op::BINGET, index, ..] => {
                    at += 2;
                    u32::from(index)
                }
                [op::LONG_BINGET, a, b, c, d, ..] => {
                    at += 5;
                    u32::from_le_bytes([a, b, c, d])
                }
                [op::APPENDS, ..] => return Some(Run { len: at + 1, hash }),
                _ => return None,
            };
            if !index(referred) {
                return None;
            }
            hash = (hash.rotate_left(5) ^ u64::from(referred)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    /// The stack of a scanned run, if it was seen before.
    pub(crate) fn find(&mut self, run: &Run, ahead: &[u8]) -> Option<StackId> {
        let &row = self.by_hash.get(&run.hash)?;
        let known = &self.known[row as usize];
        if self.bytes[known.bytes.clone()] != ahead[..run.len] {
            return None;
        }
        let stack = known.stack;
        self.learn(row);
        Some(stack)
    }

    /// Keeps a run and its stack.
    pub(crate) fn keep(&mut self, run: &Run, bytes: &[u8], stack: StackId) {
        if self.bytes.len() + bytes.len() > MAX_KEPT_BYTES || self.overwrites > MAX_OVERWRITES {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let row = u32::try_from(self.known.len()).expect("each run has bytes, and those are bounded");
        self.known.push(Known { bytes: start..self.bytes.len(), stack });
        self.by_hash.insert(run.hash, row);
        self.learn(row);
    }

    /// Forgets all if a memo slot has changed its meaning since the last call.
    #[inline]
    pub(crate) fn check(&mut self, overwrites: u64) {
        if self.overwrites != overwrites {
            self.forget(overwrites);
        }
    }

    #[cold]
    fn forget(&mut self, overwrites: u64) {
        self.overwrites = overwrites;
        if !self.known.is_empty() {
            *self = Self { overwrites, ..Self::new() };
        }
    }

    fn learn(&mut self, row: u32) {
        let slot = self.slot();
        self.guesses[slot] = row;
        self.last = [self.last[1], row];
    }

    #[inline]
    fn slot(&self) -> usize {
        let mix = (self.last[0].wrapping_mul(0x9E37_79B1) ^ self.last[1]).wrapping_mul(0x85EB_CA6B);
        mix as usize >> 7 & (GUESSES - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `runs` says of these bytes, by guess or by look-up; a run that is new is kept as the stack `id`.
    fn read(runs: &mut Runs, ahead: &[u8], id: u32) -> StackId {
        if let Some((len, stack)) = runs.guess(ahead) {
            assert_eq!(ahead[len - 1], op::APPENDS);
            return stack;
        }
        let run = Runs::scan(ahead, |_| true).unwrap();
        runs.find(&run, ahead).unwrap_or_else(|| {
            runs.keep(&run, &ahead[..run.len], StackId::new(id));
            StackId::new(id)
        })
    }

    #[test]
    fn runs_are_known_again_in_any_order() {
        let texts: [&[u8]; 4] = [b"h\x01h\x02h\x03e..", b"h\x01h\x02h\x04e..", b"h\x01e..", b"j\x01\0\0\0h\x02e.."];
        let mut runs = Runs::new();
        let mut order: u32 = 1;
        for round in 0..1000 {
            order = order.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let which = if round < 4 { round } else { order >> 16 & 3 };
            assert_eq!(read(&mut runs, texts[which as usize], which + 1), StackId::new(which + 1), "round {round}");
        }
        assert_eq!(runs.known.len(), 4);
    }

    #[test]
    fn a_changed_slot_makes_it_forget_and_many_make_it_give_up() {
        let mut runs = Runs::new();
        for overwrites in 0..100 {
            runs.check(overwrites);
            assert!(runs.guess(b"h\x01e..").is_none());
            read(&mut runs, b"h\x01e..", 1);
            assert_eq!(runs.known.len(), usize::from(overwrites <= MAX_OVERWRITES));
        }
    }
}
