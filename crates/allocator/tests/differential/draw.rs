//! Random choices from a seed.

/// The generator `splitmix64`: the same seed gives the same choices on every machine.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end - 1`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// A number from `first` to `last`.
    pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// A place in something with `len` elements.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below `len`")
    }

    pub(crate) fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// True `count` times in a thousand.
    pub(crate) fn in_a_thousand(&mut self, count: u64) -> bool {
        self.below(1000) < count
    }

    /// A number from 1 to `max`, every power of two as likely as the next.
    pub(crate) fn any_magnitude(&mut self, max: u64) -> u64 {
        let low = 1 << self.below(u64::from(max.ilog2()) + 1);
        (low + self.below(low)).min(max)
    }
}
