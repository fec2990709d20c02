//! Frames and stacks, each distinct one once.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::entries::{Sparse, sparse_rows};
use crate::error::ErrorKind;
use crate::room;
use crate::spans::span;
use crate::{FrameId, StackId, StringId};

/// One frame of a stack, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function.
    pub name: StringId,
    /// The file; for native frames without symbols, the shared object.
    pub filename: StringId,
    /// The line; for native frames without symbols a byte offset, and 2^64 - 1 where symbolisation failed.
    pub line: u64,
}

/// The distinct frames of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct FrameTable {
    rows: Vec<Frame>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Other keys of a frame with their values as text: the node of the graph that generated code is from.
    pub extras: Sparse<(StringId, StringId)>,
}

impl FrameTable {
    /// The id of `frame`, which is added if it is new.
    pub fn intern(&mut self, frame: Frame) -> FrameId {
        let (rows, hasher) = (&self.rows, &self.hasher);
        let hash = hasher.hash_one(frame);
        if let Some(&row) = self.index.find(hash, |&row| rows[row as usize] == frame) {
            return FrameId::new(row);
        }
        let id = FrameId::from_index(self.rows.len());
        self.rows.push(frame);
        let rows = &self.rows;
        self.index.insert_unique(hash, id.get(), |&row| hasher.hash_one(rows[row as usize]));
        id
    }

    /// Makes room for another frame.
    pub(crate) fn make_room(&mut self) -> Result<(), ErrorKind> {
        room::make(&mut self.rows, 1)?;
        let (rows, hasher) = (&self.rows, &self.hasher);
        self.index.try_reserve(1, |&row| hasher.hash_one(rows[row as usize])).map_err(|_| ErrorKind::OutOfMemory)
    }

    /// The frame of `id`.
    pub fn get(&self, id: FrameId) -> Frame {
        self.rows[id.index()]
    }

    /// The other keys of a frame, with their values as text.
    pub fn extras(&self, id: FrameId) -> impl Iterator<Item = (StringId, StringId)> + '_ {
        sparse_rows(&self.extras, id.get())
    }

    /// Every frame with its id.
    pub fn iter(&self) -> impl Iterator<Item = (FrameId, Frame)> + '_ {
        self.rows.iter().enumerate().map(|(row, &frame)| (FrameId::from_index(row), frame))
    }

    /// Number of distinct frames.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The distinct stacks of a snapshot: lists of frames, innermost first as dumped.
///
/// Row 0 is the empty stack. Row `i` holds `frames[ends[i-1]..ends[i]]`: flat rather than a prefix tree, since a
/// program has few distinct stacks (56 among 39,046 entries of a real training run) and readers want slices.
#[derive(Clone, Debug)]
pub struct StackTable {
    frames: Vec<FrameId>,
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for StackTable {
    fn default() -> Self {
        let mut table = Self {
            frames: Vec::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        };
        let empty = table.intern(&[]);
        debug_assert_eq!(empty, StackId::EMPTY);
        table
    }
}

impl StackTable {
    /// The id of the stack `frames`, which is added if it is new.
    pub fn intern(&mut self, frames: &[FrameId]) -> StackId {
        let hash = self.hasher.hash_one(frames);
        let (all, ends) = (&self.frames, &self.ends);
        if let Some(&row) = self.index.find(hash, |&row| &all[span(ends, row)] == frames) {
            return StackId::new(row);
        }
        let id = StackId::from_index(self.ends.len());
        self.frames.extend_from_slice(frames);
        self.ends.push(self.frames.len());
        let (all, ends, hasher) = (&self.frames, &self.ends, &self.hasher);
        self.index.insert_unique(hash, id.get(), |&row| hasher.hash_one(&all[span(ends, row)]));
        id
    }

    /// Makes room for another stack of so many frames.
    pub(crate) fn make_room(&mut self, frames: usize) -> Result<(), ErrorKind> {
        room::make(&mut self.frames, frames)?;
        room::make(&mut self.ends, 1)?;
        let (all, ends, hasher) = (&self.frames, &self.ends, &self.hasher);
        let hash = |&row: &u32| hasher.hash_one(&all[span(ends, row)]);
        self.index.try_reserve(1, hash).map_err(|_| ErrorKind::OutOfMemory)
    }

    /// The frames of `id`, innermost first; none for [`StackId::EMPTY`] and [`StackId::MISSING`].
    pub fn get(&self, id: StackId) -> &[FrameId] {
        if id == StackId::MISSING { &[] } else { &self.frames[span(&self.ends, id.get())] }
    }

    /// Every stack with its id, the empty one first.
    pub fn iter(&self) -> impl Iterator<Item = (StackId, &[FrameId])> + '_ {
        (0..self.ends.len()).map(|row| {
            let id = StackId::from_index(row);
            (id, self.get(id))
        })
    }

    /// Number of distinct stacks, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never: the empty stack is always there.
    pub fn is_empty(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_have_one_id() {
        let mut stacks = StackTable::default();
        let [a, b] = [FrameId::new(1), FrameId::new(2)];
        let one = stacks.intern(&[a, b]);
        let other = stacks.intern(&[b, a]);
        assert_ne!(one, other);
        assert_eq!(stacks.intern(&[a, b]), one);
        assert_eq!(stacks.get(other), [b, a]);
        assert_eq!(stacks.intern(&[]), StackId::EMPTY);
        assert!(stacks.get(StackId::MISSING).is_empty());
    }
}
