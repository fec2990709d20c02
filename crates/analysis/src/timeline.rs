//! Totals at every entry: what was requested, allocated, active and reserved, and the peak of each.

use std::ops::Range;

use highwater_snapshot::{Action, EntryId, EntryTable, Snapshot};

use crate::blocks::BlockSizes;
use crate::lifetime::Lifetimes;

/// The totals of `memory_stats()`, in bytes, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// `requested_bytes`: requested, of active blocks.
    pub requested_bytes: u64,
    /// `allocated_bytes`: in blocks that a tensor owns; the lower bound if the sizes of blocks have bounds.
    pub allocated_bytes: u64,
    /// `active_bytes`: allocated bytes and bytes that wait for their free; the lower bound, likewise.
    pub active_bytes: u64,
    /// `reserved_bytes`: held from the driver.
    pub reserved_bytes: u64,
    /// How much more may be allocated.
    #[serde(skip)]
    pub allocated_doubt_bytes: u64,
    /// How much more may be active.
    #[serde(skip)]
    pub active_doubt_bytes: u64,
}

impl Totals {
    /// Each total's higher value of two moments; those in doubt by what they may be at most.
    #[must_use]
    pub fn highest(self, other: Self) -> Self {
        let allocated = self.allocated_at_most_bytes().max(other.allocated_at_most_bytes());
        let active = self.active_at_most_bytes().max(other.active_at_most_bytes());
        let (allocated_bytes, active_bytes) =
            (self.allocated_bytes.max(other.allocated_bytes), self.active_bytes.max(other.active_bytes));
        Self {
            requested_bytes: self.requested_bytes.max(other.requested_bytes),
            allocated_bytes,
            active_bytes,
            reserved_bytes: self.reserved_bytes.max(other.reserved_bytes),
            allocated_doubt_bytes: allocated - allocated_bytes,
            active_doubt_bytes: active - active_bytes,
        }
    }

    /// The most that may be allocated.
    pub fn allocated_at_most_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_add(self.allocated_doubt_bytes)
    }

    /// The most that may be active.
    pub fn active_at_most_bytes(&self) -> u64 {
        self.active_bytes.saturating_add(self.active_doubt_bytes)
    }
}

/// One of the totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// `requested_bytes`.
    Requested,
    /// `allocated_bytes`.
    Allocated,
    /// `active_bytes`.
    Active,
    /// `reserved_bytes`.
    Reserved,
}

impl Total {
    /// The key in JSON, and in `memory_stats()`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Requested => "requested_bytes",
            Self::Allocated => "allocated_bytes",
            Self::Active => "active_bytes",
            Self::Reserved => "reserved_bytes",
        }
    }

    /// The word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Allocated => "allocated",
            Self::Active => "active",
            Self::Reserved => "reserved",
        }
    }

    /// This one of all.
    pub const fn of(self, totals: &Totals) -> u64 {
        match self {
            Self::Requested => totals.requested_bytes,
            Self::Allocated => totals.allocated_bytes,
            Self::Active => totals.active_bytes,
            Self::Reserved => totals.reserved_bytes,
        }
    }
}

/// A maximum and where it is first reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The maximum.
    pub bytes: u64,
    /// The entry after which it is first reached; `None` if it stands before the first entry.
    pub entry: Option<EntryId>,
    /// The most that it may be, where the sizes of blocks have bounds: else the same.
    pub at_most_bytes: u64,
}

/// The peak of each total.
#[derive(Clone, Copy, Debug)]
struct Peaks {
    highest: Totals,
    entries: [Option<usize>; 4],
}

impl Peaks {
    /// Takes in the totals after a row.
    #[inline]
    fn see(&mut self, row: usize, totals: &Totals) {
        for (total, at) in ALL.iter().zip(&mut self.entries) {
            if total.of(totals) > total.of(&self.highest) {
                *at = Some(row);
            }
        }
        self.highest = self.highest.highest(*totals);
    }

    fn peak(&self, total: Total) -> Peak {
        let bytes = total.of(&self.highest);
        let doubt = match total {
            Total::Allocated => self.highest.allocated_doubt_bytes,
            Total::Active => self.highest.active_doubt_bytes,
            Total::Requested | Total::Reserved => 0,
        };
        let entry = self.entries[total as usize].map(EntryId::from_index);
        Peak { bytes, entry, at_most_bytes: bytes.saturating_add(doubt) }
    }
}

/// Every total, in the order of their discriminants.
const ALL: [Total; 4] = [Total::Requested, Total::Allocated, Total::Active, Total::Reserved];

/// The totals after every entry.
///
/// Not stored for each: a checkpoint every [`STRIDE`] entries, and the entries themselves, give any of them after a
/// short replay.
#[derive(Clone, Debug)]
pub struct Timeline<'a> {
    entries: &'a EntryTable,
    blocks: BlockSizes,
    /// Totals before the first entry.
    start: Totals,
    /// Totals before entry `i * STRIDE`.
    checkpoints: Vec<Running>,
    corrections: Vec<Correction>,
    peaks: Peaks,
    end: Totals,
}

/// Entries between two checkpoints.
pub const STRIDE: usize = 1024;

/// Totals that may go below 0 on their way, in files that contradict themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Running {
    requested: i64,
    allocated: i64,
    active: i64,
    reserved: i64,
    allocated_doubt: i64,
    active_doubt: i64,
}

impl Running {
    #[inline]
    fn totals(self) -> Totals {
        let bytes = |running: i64| u64::try_from(running).unwrap_or(0);
        Totals {
            requested_bytes: bytes(self.requested),
            allocated_bytes: bytes(self.allocated),
            active_bytes: bytes(self.active),
            reserved_bytes: bytes(self.reserved),
            allocated_doubt_bytes: bytes(self.allocated_doubt),
            active_doubt_bytes: bytes(self.active_doubt),
        }
    }

    /// The change that one entry makes by itself.
    #[inline]
    fn step(&mut self, action: Action, size_bytes: u64, block_bytes: u64) {
        let (size, block) = (size_bytes.cast_signed(), block_bytes.cast_signed());
        match action {
            Action::ALLOC => {
                self.requested = self.requested.saturating_add(size);
                self.allocated = self.allocated.saturating_add(block);
                self.active = self.active.saturating_add(block);
            }
            Action::FREE_REQUESTED => self.allocated = self.allocated.saturating_sub(block),
            Action::FREE_COMPLETED => {
                self.requested = self.requested.saturating_sub(size);
                self.active = self.active.saturating_sub(block);
            }
            Action::SEGMENT_ALLOC | Action::SEGMENT_MAP => self.reserved = self.reserved.saturating_add(size),
            Action::SEGMENT_FREE | Action::SEGMENT_UNMAP => self.reserved = self.reserved.saturating_sub(size),
            _ => {}
        }
    }

    fn correct(&mut self, by: &Running) {
        self.requested = self.requested.saturating_add(by.requested);
        self.allocated = self.allocated.saturating_add(by.allocated);
        self.active = self.active.saturating_add(by.active);
        self.allocated_doubt = self.allocated_doubt.saturating_add(by.allocated_doubt);
        self.active_doubt = self.active_doubt.saturating_add(by.active_doubt);
    }
}

/// What must be added at an entry beyond what it says itself.
#[derive(Clone, Copy, Debug)]
struct Correction {
    entry: u32,
    by: Running,
}

/// The corrections of a recording, in order of entries; empty for those with all their actions and from the start.
fn corrections(
    snapshot: &Snapshot,
    entries: &EntryTable,
    lifetimes: &Lifetimes,
    blocks: &BlockSizes,
) -> Vec<Correction> {
    let mut rows = Vec::new();
    let mut add = |entry: u32, by: Running| rows.push(Correction { entry, by });
    for &(entry, bytes) in &lifetimes.unrecorded_ends {
        add(entry, Running { requested: bytes.cast_signed().saturating_neg(), ..Running::default() });
    }
    for &entry in &lifetimes.void_entries {
        let size = entries.sizes_bytes()[entry as usize].cast_signed();
        let requested = if entries.actions()[entry as usize] == Action::ALLOC { size.saturating_neg() } else { size };
        add(entry, Running { requested, ..Running::default() });
    }
    for &(entry, row) in &blocks.unrecorded_ends {
        let lifetime = &lifetimes.rows[row as usize];
        let active = blocks.of(lifetime, snapshot).cast_signed().saturating_neg();
        let owned = lifetime.free_requested().is_none() && !lifetime.awaits_free_at_start();
        add(entry, Running { active, allocated: if owned { active } else { 0 }, ..Running::default() });
    }
    for &entry in &blocks.unrequested {
        let allocated = blocks.by_entry()[entry as usize].cast_signed().saturating_neg();
        add(entry, Running { allocated, ..Running::default() });
    }
    for &(entry, bytes) in blocks.doubts() {
        let bytes = bytes.cast_signed();
        let (allocated_doubt, active_doubt) = match entries.actions()[entry as usize] {
            Action::ALLOC => (bytes, bytes),
            Action::FREE_REQUESTED => (bytes.saturating_neg(), 0),
            _ => (0, bytes.saturating_neg()),
        };
        add(entry, Running { allocated_doubt, active_doubt, ..Running::default() });
    }
    rows.sort_by_key(|correction| correction.entry);
    rows
}

/// The totals before the first entry.
fn start(snapshot: &Snapshot, lifetimes: &Lifetimes, blocks: &BlockSizes, reserved: i64) -> Running {
    let mut start = Running { reserved, ..Running::default() };
    for lifetime in lifetimes.at_start() {
        let [requested, size, doubt] =
            [lifetime.requested_bytes, blocks.of(lifetime, snapshot), blocks.doubt(lifetime)].map(u64::cast_signed);
        let owned = !lifetime.awaits_free_at_start();
        start.correct(&Running {
            requested,
            allocated: if owned { size } else { 0 },
            active: size,
            reserved: 0,
            allocated_doubt: if owned { doubt } else { 0 },
            active_doubt: doubt,
        });
    }
    start
}

/// Walks totals over entries.
struct Walk<'a> {
    actions: &'a [Action],
    sizes: &'a [u64],
    blocks: &'a [u64],
    corrections: &'a [Correction],
    row: usize,
    running: Running,
}

impl Walk<'_> {
    /// Applies the next entry; whether a total may be higher after it.
    #[inline]
    fn step(&mut self) -> bool {
        let action = self.actions[self.row];
        self.running.step(action, self.sizes[self.row], self.blocks[self.row]);
        let is_corrected = self.corrections.first().is_some_and(|next| next.entry as usize == self.row);
        if is_corrected {
            self.correct();
        }
        self.row += 1;
        is_corrected || matches!(action, Action::ALLOC | Action::SEGMENT_ALLOC | Action::SEGMENT_MAP)
    }

    #[cold]
    fn correct(&mut self) {
        while let [correction, rest @ ..] = self.corrections
            && correction.entry as usize == self.row
        {
            self.running.correct(&correction.by);
            self.corrections = rest;
        }
    }
}

impl<'a> Timeline<'a> {
    /// The timeline of one device.
    ///
    /// `end_reserved_bytes` is what the segments at the dump hold; `None` if the trace does not lead there.
    pub(crate) fn new(
        snapshot: &Snapshot,
        entries: &'a EntryTable,
        lifetimes: &Lifetimes,
        blocks: BlockSizes,
        end_reserved_bytes: Option<u64>,
    ) -> Self {
        let start = start(snapshot, lifetimes, &blocks, start_reserved(entries, end_reserved_bytes));
        let corrections = corrections(snapshot, entries, lifetimes, &blocks);
        let mut timeline = Self {
            entries,
            blocks,
            start: start.totals(),
            checkpoints: Vec::with_capacity(entries.len() / STRIDE + 1),
            corrections,
            peaks: Peaks { highest: start.totals(), entries: [None; 4] },
            end: Totals::default(),
        };
        timeline.walk_all(start);
        timeline
    }

    fn walk_all(&mut self, start: Running) {
        let mut walk = Walk {
            actions: self.entries.actions(),
            sizes: self.entries.sizes_bytes(),
            blocks: self.blocks.by_entry(),
            corrections: &self.corrections,
            row: 0,
            running: start,
        };
        for row in 0..self.entries.len() {
            if row % STRIDE == 0 {
                self.checkpoints.push(walk.running);
            }
            if walk.step() {
                self.peaks.see(row, &walk.running.totals());
            }
        }
        self.end = walk.running.totals();
    }

    fn walk_from(&self, checkpoint: usize) -> Walk<'_> {
        let row = checkpoint * STRIDE;
        let done = self.corrections.partition_point(|correction| (correction.entry as usize) < row);
        Walk {
            actions: self.entries.actions(),
            sizes: self.entries.sizes_bytes(),
            blocks: self.blocks.by_entry(),
            corrections: &self.corrections[done..],
            row,
            running: self.checkpoints[checkpoint],
        }
    }

    /// The sizes of the blocks.
    pub fn blocks(&self) -> &BlockSizes {
        &self.blocks
    }

    /// The totals before the first entry.
    pub fn start(&self) -> Totals {
        self.start
    }

    /// The totals after the last entry.
    pub fn end(&self) -> Totals {
        self.end
    }

    /// The highest requested bytes.
    pub fn requested_peak(&self) -> Peak {
        self.peaks.peak(Total::Requested)
    }

    /// The highest allocated bytes.
    pub fn allocated_peak(&self) -> Peak {
        self.peaks.peak(Total::Allocated)
    }

    /// The highest active bytes.
    pub fn active_peak(&self) -> Peak {
        self.peaks.peak(Total::Active)
    }

    /// The highest reserved bytes.
    pub fn reserved_peak(&self) -> Peak {
        self.peaks.peak(Total::Reserved)
    }

    /// The totals after `entry`, in at most [`STRIDE`] steps.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn after(&self, entry: EntryId) -> Totals {
        let row = entry.index();
        let mut walk = self.walk_from(row / STRIDE);
        while walk.row <= row {
            walk.step();
        }
        walk.running.totals()
    }

    /// The totals after each entry of a range, in order.
    pub fn iter(&self, range: Range<usize>) -> impl Iterator<Item = (EntryId, Totals)> + '_ {
        let (range, mut walk) = self.walk_of(range);
        range.map(move |row| {
            let after = walk.as_mut().map_or_else(Running::default, |walk| {
                walk.step();
                walk.running
            });
            (EntryId::from_index(row), after.totals())
        })
    }

    /// A walk that is to go over a range next, and as much of the range as there is; no walk if that is nothing.
    fn walk_of(&self, range: Range<usize>) -> (Range<usize>, Option<Walk<'_>>) {
        let range = range.start.min(self.entries.len())..range.end.min(self.entries.len());
        if range.is_empty() {
            return (range, None);
        }
        let mut walk = self.walk_from(range.start / STRIDE);
        while walk.row < range.start {
            walk.step();
        }
        (range, Some(walk))
    }

    /// The highest totals in each of `columns` equal parts of the trace: what a chart shows without losing a peak.
    ///
    /// Fewer columns if there are fewer entries.
    pub fn envelope(&self, columns: usize) -> Vec<Totals> {
        let len = self.entries.len();
        let columns = columns.min(len);
        // A column begins at the first entry that falls into it.
        let begin = |column: usize| (column * len).div_ceil(columns.max(1));
        (0..columns).map(|column| self.peak_in(begin(column)..begin(column + 1), Total::Requested).0).collect()
    }

    /// The highest totals within a range of entries, and the first entry with the highest of one of them.
    pub fn peak_in(&self, range: Range<usize>, by: Total) -> (Totals, Option<EntryId>) {
        let (range, walk) = self.walk_of(range);
        let Some(mut walk) = walk else { return (Totals::default(), None) };
        walk.step();
        let mut highest = walk.running.totals();
        let mut at = range.start;
        for row in range.skip(1) {
            if walk.step() {
                let totals = walk.running.totals();
                if by.of(&totals) > by.of(&highest) {
                    at = row;
                }
                highest = highest.highest(totals);
            }
        }
        (highest, Some(EntryId::from_index(at)))
    }
}

/// Reserved bytes before the first entry: what the dump holds less what the trace added.
///
/// Without the dump: the least that keeps every total from going below 0.
fn start_reserved(entries: &EntryTable, end_reserved_bytes: Option<u64>) -> i64 {
    let mut running = Running::default();
    let mut lowest = 0;
    for (&action, &size) in entries.actions().iter().zip(entries.sizes_bytes()) {
        running.step(action, size, 0);
        lowest = lowest.min(running.reserved);
    }
    match end_reserved_bytes {
        Some(end) => end.cast_signed().saturating_sub(running.reserved).max(0),
        None => -lowest,
    }
}
