//! Totals at every entry: what was requested, what was reserved, and the peak of each.

use highwater_snapshot::{Action, EntryId, EntryTable};

use crate::lifetime::Lifetimes;

/// Two totals of `memory_stats()`, in bytes, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Totals {
    /// `requested_bytes`: asked for, of active blocks.
    pub requested_bytes: u64,
    /// `reserved_bytes`: held from the driver.
    pub reserved_bytes: u64,
}

/// A maximum and where it is first reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The maximum.
    pub bytes: u64,
    /// The entry after which it is first reached; `None` if it stands before the first entry.
    pub entry: Option<EntryId>,
}

/// The totals after every entry.
///
/// Not stored for each: a checkpoint every [`STRIDE`] entries, and the entries themselves, give any of them after a
/// short replay.
#[derive(Clone, Debug)]
pub struct Timeline<'a> {
    entries: &'a EntryTable,
    /// Totals before the first entry.
    start: Totals,
    /// Totals before entry `i * STRIDE`.
    checkpoints: Vec<Running>,
    corrections: Corrections,
    requested_peak: Peak,
    reserved_peak: Peak,
    end: Totals,
}

/// Entries between two checkpoints.
pub const STRIDE: usize = 1024;

/// Totals that may go below 0 on their way, in files that contradict themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Running {
    requested: i64,
    reserved: i64,
}

impl Running {
    fn totals(self) -> Totals {
        Totals {
            requested_bytes: u64::try_from(self.requested).unwrap_or(0),
            reserved_bytes: u64::try_from(self.reserved).unwrap_or(0),
        }
    }

    /// The change that one entry makes by itself.
    #[inline]
    fn step(&mut self, action: Action, size_bytes: u64) {
        let size = size_bytes.cast_signed();
        match action {
            Action::ALLOC => self.requested = self.requested.saturating_add(size),
            Action::FREE_COMPLETED => self.requested = self.requested.saturating_sub(size),
            Action::SEGMENT_ALLOC | Action::SEGMENT_MAP => self.reserved = self.reserved.saturating_add(size),
            Action::SEGMENT_FREE | Action::SEGMENT_UNMAP => self.reserved = self.reserved.saturating_sub(size),
            _ => {}
        }
    }
}

/// What must be added to requested bytes beyond the entries' own sizes, as (entry, bytes) in order of entries.
///
/// Empty for every recording with all its actions.
#[derive(Clone, Debug, Default)]
struct Corrections(Vec<(u32, i64)>);

impl Corrections {
    fn of(lifetimes: &Lifetimes, entries: &EntryTable) -> Self {
        let ends = lifetimes.unrecorded_ends.iter().map(|&(entry, bytes)| (entry, -bytes.cast_signed()));
        let voids = lifetimes.void_entries.iter().map(|&entry| {
            let row = entry as usize;
            let size = entries.sizes_bytes()[row].cast_signed();
            (entry, if entries.actions()[row] == Action::ALLOC { -size } else { size })
        });
        let mut rows: Vec<_> = ends.chain(voids).collect();
        rows.sort_unstable();
        Self(rows)
    }

    /// The corrections from entry `row` on.
    fn from(&self, row: usize) -> &[(u32, i64)] {
        &self.0[self.0.partition_point(|&(entry, _)| (entry as usize) < row)..]
    }
}

/// Walks totals over entries.
struct Walk<'a> {
    actions: &'a [Action],
    sizes: &'a [u64],
    corrections: &'a [(u32, i64)],
    row: usize,
    running: Running,
}

impl Walk<'_> {
    /// Applies the next entry; the totals after it.
    #[inline]
    fn step(&mut self) -> Running {
        self.running.step(self.actions[self.row], self.sizes[self.row]);
        while let [(entry, bytes), rest @ ..] = self.corrections
            && *entry as usize == self.row
        {
            self.running.requested = self.running.requested.saturating_add(*bytes);
            self.corrections = rest;
        }
        self.row += 1;
        self.running
    }
}

impl<'a> Timeline<'a> {
    /// The timeline of one device.
    ///
    /// `end_reserved_bytes` is what the segments at the dump hold; `None` if the trace does not lead there.
    pub(crate) fn new(entries: &'a EntryTable, lifetimes: &Lifetimes, end_reserved_bytes: Option<u64>) -> Self {
        let requested =
            lifetimes.at_start().iter().fold(0_i64, |sum, l| sum.saturating_add(l.requested_bytes.cast_signed()));
        let reserved = start_reserved(entries, end_reserved_bytes);
        let start = Running { requested, reserved };
        let corrections = Corrections::of(lifetimes, entries);
        let mut timeline = Self {
            entries,
            start: start.totals(),
            checkpoints: Vec::with_capacity(entries.len() / STRIDE + 1),
            corrections,
            requested_peak: Peak { bytes: start.totals().requested_bytes, entry: None },
            reserved_peak: Peak { bytes: start.totals().reserved_bytes, entry: None },
            end: Totals::default(),
        };
        timeline.walk_all(start);
        timeline
    }

    fn walk_all(&mut self, start: Running) {
        let mut walk = Walk {
            actions: self.entries.actions(),
            sizes: self.entries.sizes_bytes(),
            corrections: &self.corrections.0,
            row: 0,
            running: start,
        };
        let mut highest = start;
        let (mut requested_at, mut reserved_at) = (None, None);
        for row in 0..self.entries.len() {
            if row % STRIDE == 0 {
                self.checkpoints.push(walk.running);
            }
            let after = walk.step();
            if after.requested > highest.requested {
                highest.requested = after.requested;
                requested_at = Some(row);
            }
            if after.reserved > highest.reserved {
                highest.reserved = after.reserved;
                reserved_at = Some(row);
            }
        }
        self.end = walk.running.totals();
        let highest = highest.totals();
        self.requested_peak = Peak { bytes: highest.requested_bytes, entry: requested_at.map(EntryId::from_index) };
        self.reserved_peak = Peak { bytes: highest.reserved_bytes, entry: reserved_at.map(EntryId::from_index) };
    }

    fn walk_from(&self, checkpoint: usize) -> Walk<'_> {
        let row = checkpoint * STRIDE;
        Walk {
            actions: self.entries.actions(),
            sizes: self.entries.sizes_bytes(),
            corrections: self.corrections.from(row),
            row,
            running: self.checkpoints[checkpoint],
        }
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
        self.requested_peak
    }

    /// The highest reserved bytes.
    pub fn reserved_peak(&self) -> Peak {
        self.reserved_peak
    }

    /// The totals after `entry`, in at most [`STRIDE`] steps.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn after(&self, entry: EntryId) -> Totals {
        let row = entry.index();
        let mut walk = self.walk_from(row / STRIDE);
        while walk.row < row {
            walk.step();
        }
        walk.step().totals()
    }

    /// The totals after each entry of a range, in order.
    pub fn iter(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = (EntryId, Totals)> + '_ {
        let range = range.start.min(self.entries.len())..range.end.min(self.entries.len());
        let mut walk = (!range.is_empty()).then(|| self.walk_from(range.start / STRIDE));
        if let Some(walk) = &mut walk {
            while walk.row < range.start {
                walk.step();
            }
        }
        range.map(move |row| {
            let after = walk.as_mut().map_or_else(Running::default, Walk::step);
            (EntryId::from_index(row), after.totals())
        })
    }

    /// The highest totals in each of `columns` equal parts of the trace: what a chart shows without losing a peak.
    ///
    /// Fewer columns if there are fewer entries.
    pub fn envelope(&self, columns: usize) -> Vec<Totals> {
        let len = self.entries.len();
        let columns = columns.min(len);
        let mut highest = vec![Totals::default(); columns];
        for (entry, totals) in self.iter(0..len) {
            let column = &mut highest[entry.index() * columns / len];
            column.requested_bytes = column.requested_bytes.max(totals.requested_bytes);
            column.reserved_bytes = column.reserved_bytes.max(totals.reserved_bytes);
        }
        highest
    }

    /// The highest totals within a range of entries, and the first entry with the highest requested bytes.
    pub fn peak_in(&self, range: std::ops::Range<usize>) -> (Totals, Option<EntryId>) {
        let mut highest = Totals::default();
        let mut at = None;
        for (entry, totals) in self.iter(range) {
            if at.is_none() || totals.requested_bytes > highest.requested_bytes {
                highest.requested_bytes = totals.requested_bytes;
                at = Some(entry);
            }
            highest.reserved_bytes = highest.reserved_bytes.max(totals.reserved_bytes);
        }
        (highest, at)
    }
}

/// Reserved bytes before the first entry: what the dump holds less what the trace added.
///
/// Without the dump: the least that keeps every total from going below 0.
fn start_reserved(entries: &EntryTable, end_reserved_bytes: Option<u64>) -> i64 {
    let mut running = Running::default();
    let mut lowest = 0;
    for (&action, &size) in entries.actions().iter().zip(entries.sizes_bytes()) {
        running.step(action, size);
        lowest = lowest.min(running.reserved);
    }
    match end_reserved_bytes {
        Some(end) => end.cast_signed().saturating_sub(running.reserved).max(0),
        None => -lowest,
    }
}
