//! Goes through the entries and keeps the map of memory: where each request was placed, how large its block is.

use highwater_allocator::Settings;
use highwater_allocator::sizes::{SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES};
use highwater_snapshot::{Action, BlockState, EntryTable, Place, PoolId, Segment, Snapshot, Warnings};

use super::BlockSizes;
use super::map::{Doubt, Kind, Map, PieceId, Splitting};
use super::splitting::{Cut, Rules};
use crate::initial::{ReservedRun, Source};
use crate::lifetime::{Lifetime, Lifetimes, number};

/// What is followed.
#[derive(Clone, Copy)]
pub(crate) struct Recording<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) device: u32,
    pub(crate) entries: &'a EntryTable,
    pub(crate) lifetimes: &'a Lifetimes,
    pub(crate) segments_before: &'a [ReservedRun],
    pub(crate) settings: &'a Settings,
    /// Whether the trace leads to the dump: it does not if the file was cut.
    pub(crate) leads_to_dump: bool,
}

/// Is told of each change, as PyTorch counts it.
///
/// `small` is the small pool, private ones included.
///
/// # Source
/// `spec/caching-allocator.md` section 18.
pub(crate) trait Observer {
    /// A block of `size` bytes was handed out.
    fn handed_out(&mut self, _small: bool, _size: u64, _requested: u64) {}
    /// Its owner freed it.
    fn free_requested(&mut self, _small: bool, _size: u64) {}
    /// It is back in its pool.
    fn free_completed(&mut self, _small: bool, _size: u64, _requested: u64) {}
    /// Memory came from the driver: a segment, or pages.
    fn reserved(&mut self, _small: bool, _bytes: u64, _is_segment: bool) {}
    /// Memory went back to the driver.
    fn released(&mut self, _small: bool, _bytes: u64, _is_segment: bool) {}
    /// Free blocks beside others in their segment, expandable ones not counted: more, or fewer, and their bytes.
    fn splits(&mut self, _small: bool, _blocks: i64, _bytes: i64) {}
}

impl Observer for () {}

/// The size of each block.
pub(crate) fn follow<O: Observer>(recording: &Recording<'_>, observer: &mut O, warnings: &mut Warnings) -> BlockSizes {
    let segments: Vec<&Segment> =
        if recording.leads_to_dump { recording.snapshot.segments_of(recording.device).collect() } else { Vec::new() };
    let rules = Rules::new(recording.snapshot, recording.entries, &segments, recording.settings);
    let mut follower = Follower::new(recording, rules, observer);
    follower.begin(recording.segments_before);
    follower.run();
    if recording.leads_to_dump {
        follower.check_dump(&segments);
    }
    let sizes = follower.finish();
    if sizes.contradictions > 0 {
        let place = sizes
            .first_contradiction
            .map_or_else(|| Place::device(recording.device), |entry| Place::entry(recording.device, entry));
        warnings.add_times(
            "block-sizes",
            "blocks are not at the addresses that the last settings and the entries imply (settings changed \
             meanwhile, or entries are missing): the sizes of blocks are estimates",
            place,
            sizes.contradictions,
        );
    }
    sizes
}

/// An entry that is about no block.
const NO_ROW: u32 = u32::MAX;

pub(super) struct Follower<'a, O> {
    pub(super) recording: &'a Recording<'a>,
    pub(super) rules: Rules<'a>,
    pub(super) map: Map,
    /// The lifetime that an entry is about.
    rows: Vec<u32>,
    /// The block of each lifetime.
    held: Vec<PieceId>,
    sizes: BlockSizes,
    /// How much larger the blocks of some lifetimes may be.
    doubts: Vec<Doubt>,
    observer: &'a mut O,
}

impl<'a, O: Observer> Follower<'a, O> {
    fn new(recording: &'a Recording<'a>, rules: Rules<'a>, observer: &'a mut O) -> Self {
        let Recording { entries, lifetimes, .. } = *recording;
        let mut sizes = BlockSizes { by_entry: vec![0; entries.len()], ..BlockSizes::default() };
        Self {
            recording,
            rules,
            map: Map::new(entries.actions().contains(&Action::SEGMENT_UNMAP)),
            rows: rows_of_entries(entries, lifetimes, &mut sizes.unrecorded_ends),
            held: vec![PieceId::NONE; lifetimes.rows.len()],
            sizes,
            doubts: Vec::new(),
            observer,
        }
    }

    fn run(&mut self) {
        let Recording { entries, .. } = *self.recording;
        let (actions, addresses, sizes) = (entries.actions(), entries.addresses(), entries.sizes_bytes());
        let ends = std::mem::take(&mut self.sizes.unrecorded_ends);
        let mut next_end = 0;
        for (row, &action) in actions.iter().enumerate() {
            while let Some(&(entry, lifetime)) = ends.get(next_end)
                && entry as usize <= row
            {
                self.end(lifetime);
                next_end += 1;
            }
            match action {
                Action::ALLOC => self.alloc(row),
                Action::FREE_REQUESTED => self.free_requested(row),
                Action::FREE_COMPLETED => self.free_completed(row),
                Action::SEGMENT_ALLOC | Action::SEGMENT_MAP => self.reserve(row, addresses[row], sizes[row]),
                Action::SEGMENT_FREE | Action::SEGMENT_UNMAP => {
                    self.release(row, action, addresses[row], sizes[row]);
                }
                _ => {}
            }
        }
        self.sizes.unrecorded_ends = ends;
    }

    #[inline]
    fn alloc(&mut self, row: usize) {
        let lifetime_row = self.rows[row];
        if lifetime_row == NO_ROW {
            return;
        }
        let lifetime = &self.recording.lifetimes.rows[lifetime_row as usize];
        let rounded = self.rules.settings.round(lifetime.requested_bytes);
        let known = self.size_at_dump(lifetime);
        let id = match self.map.take(lifetime.address) {
            Some((id, doubt)) => {
                if let Some(doubt) = doubt {
                    self.settle(doubt);
                }
                match known.filter(|&known| known > self.map[id].size) {
                    None => {
                        self.cut(row, id, rounded, known);
                        id
                    }
                    Some(known) => {
                        // There was no room for it here.
                        self.map.release(id);
                        self.contradict(Some(row));
                        self.stray(lifetime, known)
                    }
                }
            }
            None => {
                self.contradict(Some(row));
                self.stray(lifetime, known.unwrap_or(rounded))
            }
        };
        self.held[lifetime_row as usize] = id;
        let piece = &self.map[id];
        self.sizes.by_entry[row] = piece.size;
        self.observer.handed_out(piece.kind.is_small, piece.size, lifetime.requested_bytes);
    }

    /// Cuts a free block to what the request got of it.
    #[inline]
    fn cut(&mut self, row: usize, id: PieceId, rounded: u64, known: Option<u64>) {
        let piece = self.map[id];
        let cut = self.rules.cut(&piece, rounded);
        let size = match known {
            Some(known) => known,
            None if cut == Cut::Whole => piece.size,
            None => rounded,
        };
        let agrees = piece.size >= rounded
            && known.is_none_or(|known| match cut {
                Cut::ToSize => known == rounded,
                Cut::Whole => known == piece.size,
                Cut::Unknown | Cut::UnknownPool => known == rounded || known == piece.size,
            });
        if !agrees {
            self.contradict(Some(row));
        }
        let (was_split, counts) = (piece.is_split(), !piece.kind.is_expandable);
        if size < piece.size {
            self.map.split(id, size);
            let pool = if cut == Cut::UnknownPool { piece.kind.pool } else { PoolId::MISSING };
            if matches!(cut, Cut::Unknown | Cut::UnknownPool) && known.is_none() {
                self.map.doubt(id, Doubt { bytes: u64::MAX, row: self.rows[row], pool });
            }
            if counts && was_split {
                self.observer.splits(piece.kind.is_small, 0, 0_i64.saturating_sub_unsigned(size));
            } else if counts {
                self.observer.splits(piece.kind.is_small, 1, 0_i64.saturating_add_unsigned(piece.size - size));
            }
        } else if counts && was_split {
            self.observer.splits(piece.kind.is_small, -1, 0_i64.saturating_sub_unsigned(size));
        }
    }

    #[inline]
    fn free_requested(&mut self, row: usize) {
        let lifetime_row = self.rows[row];
        if lifetime_row == NO_ROW {
            return;
        }
        let id = self.held[lifetime_row as usize];
        if id == PieceId::NONE {
            // Its end came first, for it was not recorded: the size is that of its `alloc`.
            if let Some(alloc) = self.recording.lifetimes.rows[lifetime_row as usize].alloc() {
                self.sizes.by_entry[row] = self.sizes.by_entry[alloc.index()];
            }
            return;
        }
        self.map.awaits_free(id);
        let piece = &self.map[id];
        self.sizes.by_entry[row] = piece.size;
        self.observer.free_requested(piece.kind.is_small, piece.size);
    }

    #[inline]
    fn free_completed(&mut self, row: usize) {
        let lifetime_row = self.rows[row];
        if lifetime_row == NO_ROW {
            return;
        }
        let id = std::mem::replace(&mut self.held[lifetime_row as usize], PieceId::NONE);
        if id == PieceId::NONE {
            return;
        }
        let piece = self.map[id];
        self.sizes.by_entry[row] = piece.size;
        if !piece.awaits_free {
            self.sizes.unrequested.push(number(row));
        }
        self.back(id);
        let requested = self.recording.entries.sizes_bytes()[row];
        self.observer.free_completed(piece.kind.is_small, piece.size, requested);
    }

    /// Returns a block to its pool.
    #[inline]
    fn back(&mut self, id: PieceId) {
        if let Some(doubt) = self.map.doubt_about(id) {
            self.doubts.push(doubt);
        }
        let kind = self.map[id].kind;
        let merged = self.map.release(id);
        if kind.is_expandable {
            return;
        }
        // The neighbours are gone, the whole of them is there if it has others: only the balance counts.
        let gone: i64 = merged.neighbours.iter().map(|&bytes| i64::from(bytes > 0)).sum();
        let come = i64::from(merged.split_bytes > 0);
        let bytes = merged
            .neighbours
            .iter()
            .fold(0_i64.saturating_add_unsigned(merged.split_bytes), |sum, &bytes| sum.saturating_sub_unsigned(bytes));
        self.observer.splits(kind.is_small, come - gone, bytes);
    }

    /// Ends a lifetime whose `free_completed` was not recorded.
    fn end(&mut self, lifetime_row: u32) {
        let id = std::mem::replace(&mut self.held[lifetime_row as usize], PieceId::NONE);
        if id != PieceId::NONE {
            // An end before the recording's first word on a block is told its size by what comes later.
            let lifetime = &self.recording.lifetimes.rows[lifetime_row as usize];
            if let (None, Some(entry)) = (lifetime.alloc(), lifetime.free_requested()) {
                self.sizes.by_entry[entry.index()] = self.map[id].size;
            }
            self.back(id);
        }
    }

    fn reserve(&mut self, row: usize, address: u64, bytes: u64) {
        let source = Source::of_entry(self.recording.entries, row);
        let pool = self.rules.pool(source.pool, number(row));
        let kind = Kind {
            is_expandable: source.is_expandable,
            is_small: bytes == SMALL_SEGMENT_BYTES,
            splitting: self.rules.splitting(pool),
            stream: source.stream,
            pool,
        };
        self.map.add_memory(address, bytes, kind);
        self.observer.reserved(kind.is_small, bytes, !kind.is_expandable);
    }

    fn release(&mut self, row: usize, action: Action, address: u64, bytes: u64) {
        let is_segment = action == Action::SEGMENT_FREE;
        let piece = if is_segment { self.map.remove_segment(address, bytes) } else { self.map.unmap(address, bytes) };
        if piece.is_none() {
            self.contradict(Some(row));
        }
        let is_small = piece.map_or(bytes == SMALL_SEGMENT_BYTES, |piece| piece.kind.is_small);
        self.observer.released(is_small, bytes, is_segment);
    }

    /// The size of a block that is still there at the dump.
    #[inline]
    pub(super) fn size_at_dump(&self, lifetime: &Lifetime) -> Option<u64> {
        lifetime.block().map(|row| self.recording.snapshot.blocks[row].size_bytes)
    }

    /// A block in memory that is not known.
    pub(super) fn stray(&mut self, lifetime: &Lifetime, size: u64) -> PieceId {
        let kind = Kind {
            is_expandable: false,
            is_small: size <= SMALL_MAX_BYTES,
            splitting: Splitting::Always,
            stream: lifetime.stream,
            pool: lifetime.pool,
        };
        self.map.stray(lifetime.address, size, kind)
    }

    /// A block that was in use before the first entry.
    pub(super) fn hold(&mut self, row: u32, id: PieceId) {
        self.held[row as usize] = id;
        if self.recording.lifetimes.rows[row as usize].awaits_free_at_start() {
            self.map.awaits_free(id);
        }
    }

    /// What was in doubt about a block turns out: it has these bytes more than was said so far.
    fn settle(&mut self, doubt: Doubt) {
        if doubt.bytes == 0 {
            if doubt.pool != PoolId::MISSING {
                self.rules.see_cut(doubt.pool);
            }
            return;
        }
        let lifetime = &self.recording.lifetimes.rows[doubt.row as usize];
        let held = self.held[doubt.row as usize];
        let awaits_free = held != PieceId::NONE && self.map[held].awaits_free;
        let freed = lifetime.free_requested().filter(|_| awaits_free);
        for entry in [lifetime.alloc(), freed].into_iter().flatten() {
            let said = &mut self.sizes.by_entry[entry.index()];
            *said = said.saturating_add(doubt.bytes);
        }
    }

    #[cold]
    pub(super) fn contradict(&mut self, row: Option<usize>) {
        self.sizes.contradictions += 1;
        if self.sizes.first_contradiction.is_none() {
            self.sizes.first_contradiction = row.map(number);
        }
    }

    /// Compares what is free with what is free at the dump.
    fn check_dump(&mut self, segments: &[&Segment]) {
        let mut found = 0;
        let mut odd = 0;
        for segment in segments {
            for block in self.recording.snapshot.blocks_of(segment) {
                if block.state == BlockState::Inactive && block.size_bytes > 0 {
                    if self.map.free_at(block.address) == Some(block.size_bytes) {
                        found += 1;
                    } else {
                        odd += 1;
                    }
                }
            }
        }
        let left = self.map.free_blocks().saturating_sub(found);
        self.sizes.contradictions += odd.max(left) as u64;
    }

    fn finish(mut self) -> BlockSizes {
        self.doubts.extend(self.map.doubts());
        let rows = &self.recording.lifetimes.rows;
        let actions = self.recording.entries.actions();
        for doubt in self.doubts {
            if doubt.pool != PoolId::MISSING && self.rules.seen(doubt.pool) == Splitting::Always {
                continue;
            }
            let lifetime = &rows[doubt.row as usize];
            let entries = [lifetime.alloc(), lifetime.free_requested(), lifetime.free_completed()];
            let own = [Action::ALLOC, Action::FREE_REQUESTED, Action::FREE_COMPLETED];
            let own = entries.into_iter().zip(own).filter_map(|(entry, own)| {
                entry.filter(|entry| actions[entry.index()] == own).map(|entry| (entry.get(), doubt.bytes))
            });
            self.sizes.doubts.extend(own);
        }
        self.sizes.doubts.sort_unstable();
        self.sizes
    }
}

/// The lifetime that each entry is about, and the ends that no entry tells of, by entry.
fn rows_of_entries(entries: &EntryTable, lifetimes: &Lifetimes, ends: &mut Vec<(u32, u32)>) -> Vec<u32> {
    let mut rows = vec![NO_ROW; entries.len()];
    let (actions, addresses) = (entries.actions(), entries.addresses());
    for (row, lifetime) in lifetimes.rows.iter().enumerate() {
        let row = number(row);
        if let Some(entry) = lifetime.alloc() {
            rows[entry.index()] = row;
        }
        if let Some(entry) = lifetime.free_requested() {
            rows[entry.index()] = row;
        }
        if let Some(entry) = lifetime.free_completed() {
            if actions[entry.index()] == Action::FREE_COMPLETED && addresses[entry.index()] == lifetime.address {
                rows[entry.index()] = row;
            } else {
                ends.push((entry.get(), row));
            }
        }
    }
    ends.sort_unstable();
    rows
}
