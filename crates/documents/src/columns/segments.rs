//! Segments and the pieces of them that are mapped, and where each lifetime lies in them.

use std::collections::BTreeMap;

use highwater_allocator::sizes::SMALL_SEGMENT_BYTES;
use highwater_analysis::initial::Source;
use highwater_analysis::lifetime::number;
use highwater_snapshot::{Action, EntryTable, PoolId, SegmentType, StackId, StreamId};

use super::lifetimes::{Lives, stack_row};

/// It can grow.
pub(super) const EXPANDABLE: u32 = 1;
/// Of the small pool.
pub(super) const SMALL: u32 = 1 << 1;
/// No entry and no segment at the dump explains it.
pub(super) const UNEXPLAINED: u32 = 1 << 2;

/// One segment, over the whole recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentRow {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: PoolId,
    /// Row of the stacks.
    pub(super) stack: u32,
    pub(super) flags: u32,
}

/// A stretch of a segment, from when it was reserved to when it was released.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    address: u64,
    pub(super) bytes: u64,
    /// It is reserved after the entries of `start..end`.
    pub(super) start: u32,
    pub(super) end: u32,
    source: Source,
    stack: u32,
    /// The piece that it was when it was reserved.
    root: u32,
    /// Row of the segments.
    pub(super) segment: u32,
    pub(super) offset_bytes: u64,
}

/// All memory in the recording.
pub(super) struct Segments {
    /// Ascending by address, then by when they came.
    pub(super) rows: Vec<SegmentRow>,
    /// Ascending by when they came.
    pub(super) pieces: Vec<Piece>,
    /// Of each lifetime: its segment, and how far into it it lies.
    pub(super) of_lifetimes: Vec<(u32, u64)>,
}

/// No piece: memory that nothing explains.
const STRAY: u32 = u32::MAX;

/// Goes through the entries once.
pub(super) fn segments(lives: &Lives<'_>) -> Segments {
    let mut walk = Walk::new(lives);
    let entries = lives.device.entries;
    let mut places = Vec::with_capacity(lives.rows.len());
    let reserving: Vec<u32> = reserving(entries);
    let mut reserving = reserving.into_iter().peekable();
    for lifetime in lives.rows.iter() {
        if let Some(alloc) = lifetime.alloc() {
            while let Some(row) = reserving.next_if(|&row| row < alloc.get()) {
                walk.apply(entries, row);
            }
        }
        places.push(walk.find(lifetime.address).unwrap_or(STRAY));
    }
    reserving.for_each(|row| walk.apply(entries, row));
    walk.finish(places)
}

/// The entries that reserve or release memory.
fn reserving(entries: &EntryTable) -> Vec<u32> {
    let is_reserving = |action: Action| {
        matches!(action, Action::SEGMENT_ALLOC | Action::SEGMENT_MAP | Action::SEGMENT_FREE | Action::SEGMENT_UNMAP)
    };
    let rows = entries.actions().iter().enumerate().filter(|&(_, &action)| is_reserving(action));
    rows.map(|(row, _)| number(row)).collect()
}

struct Walk<'a> {
    lives: &'a Lives<'a>,
    pieces: Vec<Piece>,
    /// Pieces that are reserved now, by address. One that another was laid over is not found, and stays.
    active: BTreeMap<u64, u32>,
    recent: Recent,
}

impl<'a> Walk<'a> {
    fn new(lives: &'a Lives<'a>) -> Self {
        let mut walk = Self { lives, pieces: Vec::new(), active: BTreeMap::new(), recent: Recent::new() };
        let stack = stack_row(lives.snapshot, StackId::MISSING, true);
        for run in &lives.device.segments_before {
            walk.reserve(0, run.address, run.bytes, run.source, stack);
        }
        walk
    }

    fn apply(&mut self, entries: &EntryTable, row: u32) {
        let at = row as usize;
        let (address, bytes) = (entries.addresses()[at], entries.sizes_bytes()[at]);
        match entries.actions()[at] {
            Action::SEGMENT_ALLOC | Action::SEGMENT_MAP => {
                let stack = stack_row(self.lives.snapshot, entries.stacks()[at], false);
                self.reserve(row, address, bytes, Source::of_entry(entries, at), stack);
            }
            _ => self.release(row, address, bytes, Source::of_entry(entries, at)),
        }
        self.recent.forget();
    }

    fn reserve(&mut self, start: u32, address: u64, bytes: u64, source: Source, stack: u32) {
        if bytes > 0 {
            let root = number(self.pieces.len());
            let end = self.lives.entries;
            self.pieces.push(Piece { address, bytes, start, end, source, stack, root, segment: 0, offset_bytes: 0 });
            self.active.insert(address, root);
        }
    }

    /// Takes a range away, cutting through the pieces at its ends.
    fn release(&mut self, entry: u32, address: u64, bytes: u64, source: Source) {
        let end = address.saturating_add(bytes);
        let first = self.active.range(..=address).next_back().map_or(address, |(&start, _)| start);
        let touched: Vec<u32> = self.active.range(first..end).map(|(_, &piece)| piece).collect();
        let mut released = 0;
        for index in touched {
            let piece = self.pieces[index as usize];
            let stop = piece.address.saturating_add(piece.bytes);
            let (from, to) = (piece.address.max(address), stop.min(end));
            if from >= to {
                continue;
            }
            released += to - from;
            self.active.remove(&piece.address);
            // The row becomes what is released; what is left has rows of its own.
            self.pieces[index as usize] = Piece { address: from, bytes: to - from, end: entry, ..piece };
            for (from, to) in [(piece.address, from), (to, stop)] {
                if from < to {
                    self.active.insert(from, number(self.pieces.len()));
                    self.pieces.push(Piece { address: from, bytes: to - from, ..piece });
                }
            }
        }
        if released < bytes && self.lives.device.recorded.is_cut {
            // The dump would have told of it; of a file that was cut only its end does.
            let stack = stack_row(self.lives.snapshot, StackId::MISSING, true);
            let root = number(self.pieces.len());
            let bytes = bytes - released;
            let (segment, offset_bytes) = (0, 0);
            self.pieces.push(Piece {
                address,
                bytes,
                start: 0,
                end: entry,
                source,
                stack,
                root,
                segment,
                offset_bytes,
            });
        }
    }

    /// The piece that an address lies in.
    #[inline]
    fn find(&mut self, address: u64) -> Option<u32> {
        let (active, pieces) = (&self.active, &self.pieces);
        self.recent.get_or(address, || {
            let (&start, &piece) = active.range(..=address).next_back()?;
            (address - start < pieces[piece as usize].bytes).then_some(piece)
        })
    }

    fn finish(mut self, places: Vec<u32>) -> Segments {
        let mut drafts = self.drafts();
        self.see_dump(&mut drafts);
        let explained = drafts.len();
        let strays = self.strays(&places, &mut drafts);
        // Ascending by address, then by when they came.
        let mut order: Vec<u32> = (0..number(drafts.len())).collect();
        order.sort_by_key(|&draft| {
            let draft = &drafts[draft as usize];
            (draft.address, draft.start)
        });
        let mut row_of = vec![0_u32; drafts.len()];
        for (row, &draft) in order.iter().enumerate() {
            row_of[draft as usize] = number(row);
        }
        let addresses: Vec<u64> = drafts.iter().map(|draft| draft.address).collect();
        let rows = order.iter().map(|&draft| drafts[draft as usize].row()).collect();
        for piece in &mut self.pieces {
            piece.offset_bytes = piece.address - addresses[piece.segment as usize];
        }
        let mut strays = strays.into_iter();
        let of_lifetimes = places.into_iter().zip(self.lives.rows.iter()).map(|(piece, lifetime)| {
            let draft = match self.pieces.get(piece as usize) {
                Some(piece) => piece.segment,
                None => strays.next().map_or(0, |stray| number(explained) + stray),
            };
            (row_of[draft as usize], lifetime.address.saturating_sub(addresses[draft as usize]))
        });
        let of_lifetimes = of_lifetimes.collect();
        for piece in &mut self.pieces {
            piece.segment = row_of[piece.segment as usize];
        }
        self.pieces.sort_by_key(|piece| (piece.start, piece.segment, piece.offset_bytes));
        Segments { rows, pieces: self.pieces, of_lifetimes }
    }

    /// The segments that the pieces are of: one that is not expandable is one piece, an expandable one all that ever
    /// touched on one stream.
    fn drafts(&mut self) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut order: Vec<u32> = (0..number(self.pieces.len())).collect();
        order.sort_by_key(|&index| {
            let piece = &self.pieces[index as usize];
            let Source { is_expandable, stream, .. } = piece.source;
            (is_expandable, if is_expandable { stream.get() } else { piece.root }, piece.address, index)
        });
        let mut last: Option<Piece> = None;
        for index in order {
            let piece = &mut self.pieces[index as usize];
            let joins = last.is_some_and(|last| {
                last.source.is_expandable == piece.source.is_expandable
                    && if piece.source.is_expandable {
                        let draft: &Draft = &drafts[drafts.len() - 1];
                        last.source.stream == piece.source.stream && piece.address <= draft.end
                    } else {
                        last.root == piece.root
                    }
            });
            if joins && let Some(draft) = drafts.last_mut() {
                draft.add(piece);
            } else {
                drafts.push(Draft::of(piece));
            }
            piece.segment = number(drafts.len() - 1);
            last = Some(*piece);
        }
        drafts
    }

    /// The segments at the dump.
    fn see_dump(&self, drafts: &mut [Draft]) {
        if self.lives.device.recorded.is_cut {
            return;
        }
        let snapshot = self.lives.snapshot;
        for segment in snapshot.segments_of(self.lives.device.device) {
            let Some((&start, &piece)) = self.active.range(..=segment.address).next_back() else { continue };
            let piece = &self.pieces[piece as usize];
            if segment.address - start >= piece.bytes || segment.is_expandable != piece.source.is_expandable {
                continue;
            }
            let draft = &mut drafts[piece.segment as usize];
            draft.pool = segment.pool;
            if segment.segment_type != SegmentType::Unknown {
                draft.is_small = segment.segment_type == SegmentType::Small;
            }
            if draft.start == 0 && draft.stack == stack_row(snapshot, StackId::MISSING, true) {
                draft.stack = stack_row(snapshot, segment.stack, true);
            }
        }
    }

    /// Adds segments for lifetimes that lie nowhere; for each of these in turn, which of the added ones it is in.
    fn strays(&self, places: &[u32], drafts: &mut Vec<Draft>) -> Vec<u32> {
        let lives = self.lives;
        let stray = places.iter().zip(lives.rows.iter()).filter(|&(&place, _)| place == STRAY);
        let mut ranges: Vec<(u64, u64, u32)> = stray
            .enumerate()
            .map(|(at, (_, lifetime))| {
                let bytes = lives.device.blocks().of(lifetime, lives.snapshot).max(lifetime.requested_bytes).max(1);
                (lifetime.address, lifetime.address.saturating_add(bytes), number(at))
            })
            .collect();
        if ranges.is_empty() {
            return Vec::new();
        }
        let first_row: Vec<usize> = (0..places.len()).filter(|&row| places[row] == STRAY).collect();
        let mut segments = vec![0; ranges.len()];
        ranges.sort_unstable();
        let mut added = 0;
        for (address, end, at) in ranges {
            match drafts.last_mut().filter(|last| added > 0 && address <= last.end) {
                Some(last) => last.end = last.end.max(end),
                None => {
                    added += 1;
                    let lifetime = &lives.rows[first_row[at as usize]];
                    drafts.push(Draft {
                        address,
                        end,
                        start: 0,
                        stream: lifetime.stream,
                        pool: lifetime.pool,
                        stack: stack_row(lives.snapshot, StackId::MISSING, false),
                        is_expandable: false,
                        is_small: false,
                        is_explained: false,
                    });
                }
            }
            segments[at as usize] = added - 1;
        }
        segments
    }
}

/// A segment that is being put together.
struct Draft {
    address: u64,
    end: u64,
    start: u32,
    stream: StreamId,
    pool: PoolId,
    stack: u32,
    is_expandable: bool,
    is_small: bool,
    is_explained: bool,
}

impl Draft {
    fn of(piece: &Piece) -> Self {
        let Source { is_expandable, stream, pool, segment_type } = piece.source;
        Self {
            address: piece.address,
            end: piece.address.saturating_add(piece.bytes),
            start: piece.start,
            stream,
            pool,
            stack: piece.stack,
            is_expandable,
            is_small: match segment_type {
                SegmentType::Unknown => piece.bytes == SMALL_SEGMENT_BYTES,
                known => known == SegmentType::Small,
            },
            is_explained: true,
        }
    }

    fn add(&mut self, piece: &Piece) {
        self.end = self.end.max(piece.address.saturating_add(piece.bytes));
        if self.pool == PoolId::MISSING {
            self.pool = piece.source.pool;
        }
        if piece.start < self.start {
            (self.start, self.stack) = (piece.start, piece.stack);
        }
    }

    fn row(&self) -> SegmentRow {
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        SegmentRow {
            address: self.address,
            bytes: self.end - self.address,
            stream: self.stream,
            pool: self.pool,
            stack: self.stack,
            flags: flag(self.is_expandable, EXPANDABLE)
                | flag(self.is_small, SMALL)
                | flag(!self.is_explained, UNEXPLAINED),
        }
    }
}

/// Where addresses were found since the last segment came or went: a program uses the same ones again and again.
struct Recent {
    slots: Vec<(u64, u32, u32)>,
    generation: u32,
}

impl Recent {
    const BITS: u32 = 16;

    fn new() -> Self {
        Self { slots: vec![(0, 0, 0); 1 << Self::BITS], generation: 1 }
    }

    fn forget(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            *self = Self::new();
        }
    }

    #[inline]
    fn get_or(&mut self, address: u64, find: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let slot = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS)) as usize;
        let slot = &mut self.slots[slot];
        if slot.0 == address && slot.1 == self.generation {
            return Some(slot.2);
        }
        let found = find()?;
        *slot = (address, self.generation, found);
        Some(found)
    }
}
