//! Blocks in an order: what PyTorch keeps in a `std::set`, for one stream.

use crate::block::BlockId;

/// Entries a chunk holds before it is cut in two: a move of half of it costs less than a cache miss.
const CHUNK: usize = 64;

/// Where a block stands among others: first by the one number, then by the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u64, pub(crate) u64);

impl Key {
    /// `self < other` without a branch: of the sizes that a search looks at a third are equal to the one sought, and no
    /// processor foresees which.
    #[inline]
    fn is_less(self, other: Self) -> bool {
        let number = |key: Self| u128::from(key.0) << 64 | u128::from(key.1);
        number(self) < number(other)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    block: BlockId,
}

/// How many entries precede, which stand in front: `partition_point` by counting groups of eight, then entries.
///
/// None of these comparisons waits for another, as each of a binary search does, and none is a branch. That is as many
/// instructions, and an allocator 1.1 times as fast.
#[inline]
fn count_before(run: &[Entry], precedes: impl Fn(&Entry) -> bool) -> usize {
    const GROUP: usize = 8;
    let before: usize = run.chunks_exact(GROUP).map(|group| usize::from(precedes(&group[GROUP - 1]))).sum();
    let group = &run[before * GROUP..];
    let group = &group[..group.len().min(GROUP)];
    before * GROUP + group.iter().map(|entry| usize::from(precedes(entry))).sum::<usize>()
}

/// A place in [`OrderedBlocks`], lost with the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    chunk: usize,
    index: usize,
}

/// A set of blocks by ascending key.
///
/// A list of short sorted runs: a search finds the run, then the place in it; a change moves at most one run.
/// A run is empty only if it is the only one: its room is kept for the next block.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderedBlocks {
    chunks: Vec<Vec<Entry>>,
}

impl OrderedBlocks {
    /// The first block whose key is not less than `key`.
    #[inline]
    pub(crate) fn lower_bound(&self, key: Key) -> Position {
        self.after(|entry| entry.key.is_less(key))
    }

    /// The first block of at least this size, in a set by size.
    #[inline]
    pub(crate) fn at_least(&self, size: u64) -> Position {
        self.after(|entry| entry.key.0 < size)
    }

    /// The first block for which `precedes`, true for those up to some place, is not.
    #[inline]
    fn after(&self, precedes: impl Fn(&Entry) -> bool) -> Position {
        let chunk = self.run_of(&precedes);
        let index = self.chunks.get(chunk).map_or(0, |entries| count_before(entries, precedes));
        self.settled(Position { chunk, index })
    }

    /// The first run of which not all precede; past the last if there is none. Of one run, it is that.
    #[inline]
    fn run_of(&self, precedes: impl Fn(&Entry) -> bool) -> usize {
        if self.chunks.len() == 1 {
            return 0;
        }
        self.chunks.partition_point(|chunk| precedes(&chunk[chunk.len() - 1]))
    }

    /// The block at a position; `None` past the last.
    #[inline]
    pub(crate) fn get(&self, at: Position) -> Option<BlockId> {
        Some(self.chunks.get(at.chunk)?.get(at.index)?.block)
    }

    /// The position after this one.
    #[inline]
    pub(crate) fn next(&self, at: Position) -> Position {
        self.settled(Position { index: at.index + 1, ..at })
    }

    /// The position before this one, if it is not the first.
    pub(crate) fn previous(&self, at: Position) -> Option<Position> {
        if at.index > 0 {
            return Some(Position { index: at.index - 1, ..at });
        }
        let chunk = at.chunk.checked_sub(1)?;
        let index = self.chunks[chunk].len().checked_sub(1)?;
        Some(Position { chunk, index })
    }

    /// A position past the end of a run is the start of the next one.
    #[inline]
    fn settled(&self, at: Position) -> Position {
        match self.chunks.get(at.chunk) {
            Some(entries) if at.index >= entries.len() => Position { chunk: at.chunk + 1, index: 0 },
            _ => at,
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: Key, block: BlockId) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunk = self.run_of(|entry| entry.key.is_less(key)).min(self.chunks.len() - 1);
        let entries = &mut self.chunks[chunk];
        let index = count_before(entries, |entry| entry.key.is_less(key));
        entries.insert(index, Entry { key, block });
        if entries.len() == CHUNK {
            let mut upper = Vec::with_capacity(CHUNK);
            upper.extend(entries.drain(CHUNK / 2..));
            self.chunks.insert(chunk + 1, upper);
        }
    }

    /// Takes a block out, if it is there under this key.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key, block: BlockId) {
        if let Some(at) = self.find(key, block) {
            self.remove_at(at);
        }
    }

    /// Where a block is, if it is there under this key.
    #[inline]
    pub(crate) fn find(&self, key: Key, block: BlockId) -> Option<Position> {
        let mut at = self.lower_bound(key);
        // Keys are unique but in files that contradict themselves.
        while let Some(found) = self.get(at) {
            if found == block {
                return Some(at);
            }
            at = self.next(at);
        }
        None
    }

    /// Puts a block in the place of the one at a position, or as far from it as its key has it.
    ///
    /// Step by step: the rest of a block that is split, and one that grows by a neighbour, mostly stay within five
    /// places of where it stood, so this is 30 instructions where a removal and an insertion are 250.
    #[inline]
    pub(crate) fn replace(&mut self, at: Position, key: Key, block: BlockId) {
        let run = &mut self.chunks[at.chunk][..];
        let mut index = at.index;
        while index > 0 && key < run[index - 1].key {
            run[index] = run[index - 1];
            index -= 1;
        }
        while index + 1 < run.len() && run[index + 1].key < key {
            run[index] = run[index + 1];
            index += 1;
        }
        run[index] = Entry { key, block };
        // At an end it may belong to another run.
        if [0, run.len() - 1].contains(&index) && self.chunks.len() > 1 {
            self.remove_at(Position { index, ..at });
            self.insert(key, block);
        }
    }

    /// Takes out the block at a position.
    #[inline]
    pub(crate) fn remove_at(&mut self, at: Position) {
        let entries = &mut self.chunks[at.chunk];
        entries.remove(at.index);
        if entries.is_empty() && self.chunks.len() > 1 {
            self.chunks.remove(at.chunk);
        }
    }

    /// The blocks, by ascending key.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockId> + '_ {
        self.chunks.iter().flatten().map(|entry| entry.block)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.iter().all(Vec::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn id(number: u64) -> BlockId {
        BlockId::from_index(usize::try_from(number).unwrap())
    }

    #[test]
    fn the_only_run_keeps_its_room() {
        let mut blocks = OrderedBlocks::default();
        blocks.insert(Key(1, 1), id(1));
        blocks.remove(Key(1, 1), id(1));
        assert!(blocks.chunks[0].capacity() >= CHUNK);
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_sorted_set(steps in prop::collection::vec((any::<bool>(), 0u64..400), 0..600)) {
            let (mut blocks, mut naive) = (OrderedBlocks::default(), BTreeSet::new());
            for (add, number) in steps {
                let (key, block) = (Key(number / 7, number), id(number));
                if add && naive.insert(key) {
                    blocks.insert(key, block);
                } else if !add {
                    naive.remove(&key);
                    blocks.remove(key, block);
                }
                // The next of those there, if any, gets another key.
                let moved = Key(number / 3, 1000 + number);
                if let Some(&old) = naive.range(Key(number / 2, 0)..).next()
                    && naive.insert(moved)
                {
                    naive.remove(&old);
                    let at = blocks.find(old, id(old.1)).unwrap();
                    blocks.replace(at, moved, id(moved.1));
                }
                let sought = Key(number / 5, 0);
                let found = blocks.lower_bound(sought);
                prop_assert_eq!(blocks.at_least(number / 5), found);
                let after: Vec<u64> = naive.range(sought..).map(|key| key.1).collect();
                let before: Vec<u64> = naive.range(..sought).rev().map(|key| key.1).collect();
                let forwards = std::iter::successors(Some(found), |&at| Some(blocks.next(at)));
                let backwards = std::iter::successors(blocks.previous(found), |&at| blocks.previous(at));
                let number = |at| blocks.get(at).map(|block| block.index() as u64);
                prop_assert_eq!(forwards.map_while(number).collect::<Vec<_>>(), after);
                prop_assert_eq!(backwards.map_while(number).collect::<Vec<_>>(), before);
                prop_assert_eq!(blocks.is_empty(), naive.is_empty());
            }
            prop_assert_eq!(blocks.iter().map(|b| b.index() as u64).collect::<Vec<_>>(), naive.iter().map(|k| k.1).collect::<Vec<_>>());
        }
    }
}
