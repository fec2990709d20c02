//! Lifetimes as columns: a row a lifetime, in the order in which they began.

use std::borrow::Cow;

use highwater_analysis::category::Category;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::lifetime::{Lifetime, number};
use highwater_analysis::timeline::Total;
use highwater_snapshot::{Snapshot, StackId};

use super::section::Section;

/// The lifetimes that are shown.
pub(super) struct Lives<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) device: &'a DeviceAnalysis<'a>,
    /// Those that began before the recording first.
    pub(super) rows: Cow<'a, [Lifetime]>,
    /// Their rows in the analysis, where not all are shown.
    rows_of: Option<Vec<usize>>,
    /// How many did.
    pub(super) before: usize,
    /// One past the last entry; 1 if there is none, so that blocks at the dump are live after "entry 0".
    pub(super) entries: u32,
}

/// The bytes of a lifetime: its block's, or the requested ones where the sizes of blocks are estimates.
pub(super) fn measure(device: &DeviceAnalysis<'_>) -> Total {
    if device.by == Total::Requested { Total::Requested } else { Total::Active }
}

/// Lifetimes that are not shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    /// Their number.
    pub(super) allocations: usize,
    /// The most bytes of them that were live at once.
    pub(super) bytes: u64,
}

impl<'a> Lives<'a> {
    /// All lifetimes of a device, but those smaller than `least_bytes`.
    pub(super) fn new(
        snapshot: &'a Snapshot,
        device: &'a DeviceAnalysis<'a>,
        least_bytes: Option<u64>,
    ) -> (Self, LeftOut) {
        let all = &device.lifetimes;
        let entries = number(device.entries.len()).max(1);
        let every = Self {
            snapshot,
            device,
            rows: Cow::Borrowed(&all.rows),
            rows_of: None,
            before: all.before_recording,
            entries,
        };
        let Some(least_bytes) = least_bytes else { return (every, LeftOut::default()) };
        let is_shown = |lifetime: &Lifetime| every.bytes_of(lifetime) >= least_bytes;
        let rows_of: Vec<usize> = (0..all.rows.len()).filter(|&row| is_shown(&all.rows[row])).collect();
        let rows: Vec<Lifetime> = rows_of.iter().map(|&row| all.rows[row]).collect();
        let before = all.at_start().iter().filter(|lifetime| is_shown(lifetime)).count();
        let left_out = all.rows.iter().filter(|lifetime| !is_shown(lifetime));
        let left_out = LeftOut { allocations: all.rows.len() - rows.len(), bytes: every.highest(left_out) };
        (Self { rows: Cow::Owned(rows), rows_of: Some(rows_of), before, ..every }, left_out)
    }

    /// The most bytes of some lifetimes at once.
    fn highest<'l>(&self, lifetimes: impl Iterator<Item = &'l Lifetime>) -> u64 {
        let mut changes = vec![0_i64; self.entries as usize + 1];
        for lifetime in lifetimes {
            let bytes = self.bytes_of(lifetime).cast_signed();
            let (start, end) = self.span(lifetime);
            changes[start as usize] = changes[start as usize].saturating_add(bytes);
            changes[end as usize] = changes[end as usize].saturating_sub(bytes);
        }
        let mut running = 0_i64;
        let totals = changes.iter().map(|change| {
            running = running.saturating_add(*change);
            running
        });
        totals.max().map_or(0, |highest| u64::try_from(highest).unwrap_or(0))
    }

    /// The bytes of a lifetime.
    #[inline]
    fn bytes_of(&self, lifetime: &Lifetime) -> u64 {
        match measure(self.device) {
            Total::Requested => lifetime.requested_bytes,
            _ => self.device.blocks().of(lifetime, self.snapshot),
        }
    }

    /// It is live after the entries of this range.
    #[inline]
    fn span(&self, lifetime: &Lifetime) -> (u32, u32) {
        let start = lifetime.alloc().map_or(0, highwater_snapshot::EntryId::get);
        let end = lifetime.free_completed().map_or(self.entries, highwater_snapshot::EntryId::get);
        (start, end.max(start))
    }

    fn column(&self, of: impl Fn(&Lifetime) -> u32) -> Section {
        let values: Vec<u32> = self.rows.iter().map(of).collect();
        Section::of_u32(&values)
    }

    pub(super) fn starts(&self) -> Section {
        self.column(|lifetime| self.span(lifetime).0)
    }

    pub(super) fn ends(&self) -> Section {
        self.column(|lifetime| self.span(lifetime).1)
    }

    pub(super) fn sizes_bytes(&self) -> Vec<u64> {
        self.rows.iter().map(|lifetime| self.bytes_of(lifetime)).collect()
    }

    pub(super) fn requested(&self) -> Section {
        let values: Vec<u64> = self.rows.iter().map(|lifetime| lifetime.requested_bytes).collect();
        Section::of(&values)
    }

    pub(super) fn stacks(&self) -> Section {
        self.column(|lifetime| stack_row(self.snapshot, lifetime.stack, lifetime.is_live_at_start()))
    }

    pub(super) fn column_of(&self, row: impl Fn(usize, &Lifetime) -> u32) -> Section {
        let values: Vec<u32> = self.rows.iter().enumerate().map(|(at, lifetime)| row(at, lifetime)).collect();
        Section::of_u32(&values)
    }

    /// The category of each, with the names; `None` if none is known.
    pub(super) fn categories(&self) -> Option<(Vec<String>, Section)> {
        let category = |at: usize| self.device.decided(self.rows_of.as_ref().map_or(at, |rows| rows[at])).category;
        if (0..self.rows.len()).all(|at| category(at) == Category::Unknown) {
            return None;
        }
        let names = Category::ALL.iter().map(|category| category.name().to_owned()).collect();
        Some((names, self.column_of(|at, _| category(at) as u32)))
    }

    /// Rows that await their free for more than an entry, with the entry from which on they do.
    pub(super) fn pending(&self) -> (Section, Section) {
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        for (row, lifetime) in self.rows.iter().enumerate() {
            let (_, end) = self.span(lifetime);
            let requested = if lifetime.awaits_free_at_start() {
                Some(0)
            } else {
                // Where the dump comes next, its free is not completed.
                let completes = lifetime.free_completed().is_some();
                let requested = lifetime.free_requested().map(highwater_snapshot::EntryId::get);
                requested.filter(|&entry| !completes || entry + 1 != end)
            };
            if let Some(entry) = requested.filter(|&entry| entry < end) {
                rows.push(number(row));
                entries.push(entry);
            }
        }
        (Section::of_u32(&rows), Section::of_u32(&entries))
    }
}

/// The row of a stack: behind those of the snapshot come "no stack recorded" and "allocated before the recording".
pub(super) fn stack_row(snapshot: &Snapshot, stack: StackId, from_before: bool) -> u32 {
    let stacks = number(snapshot.stacks.len());
    match stack {
        StackId::EMPTY | StackId::MISSING if from_before => stacks + 1,
        StackId::MISSING => stacks,
        stack => stack.get(),
    }
}
