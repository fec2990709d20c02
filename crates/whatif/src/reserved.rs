//! What a run holds from the driver, entry by entry of the recording.

use highwater_allocator::{Action, Memory, Observer, Settings, TraceEntry};
use highwater_analysis::lifetime::number;
use highwater_snapshot::{Action as Recorded, EntryTable};

use super::Study;
use super::run::Runner;
use super::study::{ADDRESS_ORDERS, machine};
use crate::replay::Step;

/// Reserved bytes over a recording: a step function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Entries of the recording, ascending, the first of them 0.
    pub entries: Vec<u32>,
    /// Reserved memory from each of them to the next.
    pub bytes: Vec<u64>,
}

/// What memory came and went since the last look.
#[derive(Debug, Default)]
struct Changes(Vec<i64>);

impl Observer for Changes {
    #[inline]
    fn record(&mut self, entry: TraceEntry) {
        let bytes = entry.bytes.cast_signed();
        match entry.action {
            Action::SegmentAlloc | Action::SegmentMap => self.0.push(bytes),
            Action::SegmentFree | Action::SegmentUnmap => self.0.push(bytes.saturating_neg()),
            _ => {}
        }
    }
}

impl Study {
    /// What a run holds over time: the run whose numbers are shown of a [`Case`](super::Case).
    ///
    /// A request has its changes where the recording has those of the same request: at the entries just before its own.
    /// So what a faithful run of the recorded settings holds is what the recording says, at every entry.
    pub fn reserved(&self, settings: &Settings, memory: Memory, recording: &EntryTable) -> Reserved {
        let machine = machine(settings, memory, ADDRESS_ORDERS[0].clone());
        let mut runner = Runner::observed(&self.program, &machine, Changes::default());
        let mut reserved = Drawn::new(recording, runner.reserved_bytes());
        runner.allocator.observer_mut().0.clear();
        for step in runner.steps() {
            let has_ended = runner.step(step).is_err();
            let changes = &mut runner.allocator.observer_mut().0;
            if !changes.is_empty() {
                reserved.add(step, changes);
                changes.clear();
            } else if let Step::Alloc { entry, .. } | Step::Attempt { entry, .. } = *step {
                reserved.see(entry);
            }
            if has_ended {
                break;
            }
        }
        reserved.steps
    }
}

struct Drawn<'a> {
    actions: &'a [Recorded],
    /// The first entry that no change has been put at or before.
    next: u32,
    running: u64,
    steps: Reserved,
}

impl<'a> Drawn<'a> {
    fn new(recording: &'a EntryTable, running: u64) -> Self {
        let steps = Reserved { entries: vec![0], bytes: vec![running] };
        Self { actions: recording.actions(), next: 0, running, steps }
    }

    /// A request that changes nothing.
    fn see(&mut self, entry: u32) {
        if entry != u32::MAX {
            self.next = self.next.max(entry.saturating_add(1));
        }
    }

    fn add(&mut self, step: &Step, changes: &[i64]) {
        let last = number(self.actions.len().saturating_sub(1));
        let (first, last) = match *step {
            Step::Alloc { entry, .. } | Step::Attempt { entry, .. } if entry != u32::MAX => (self.lead(entry), entry),
            Step::EmptyCache { entry } if entry != u32::MAX => (entry.max(self.next), last),
            // Before the recording, or between its entries.
            _ => (self.next.saturating_sub(1), self.next.saturating_sub(1)),
        };
        for (at, &change) in (0_u32..).zip(changes) {
            self.running = self.running.saturating_add_signed(change);
            self.put(first.saturating_add(at).min(last));
        }
        if !matches!(step, Step::EmptyCache { .. }) {
            self.next = self.next.max(last.saturating_add(1));
        }
    }

    /// The first of the entries before a request's own that tell of memory which it got or gave back.
    fn lead(&self, entry: u32) -> u32 {
        let is_own = |row: u32| {
            matches!(
                self.actions[row as usize],
                Recorded::SEGMENT_ALLOC | Recorded::SEGMENT_MAP | Recorded::SEGMENT_FREE | Recorded::SEGMENT_UNMAP
            )
        };
        let before = (self.next.min(entry)..entry).rev().take_while(|&row| is_own(row));
        before.last().unwrap_or(entry)
    }

    fn put(&mut self, entry: u32) {
        let Reserved { entries, bytes } = &mut self.steps;
        let latest = entries.len() - 1;
        if entry <= entries[latest] {
            bytes[latest] = self.running;
        } else {
            entries.push(entry);
            bytes.push(self.running);
        }
        self.next = self.next.max(entry.saturating_add(1));
    }
}

impl Reserved {
    /// What is held after an entry.
    pub fn after(&self, entry: u32) -> u64 {
        let at = self.entries.partition_point(|&step| step <= entry);
        at.checked_sub(1).map_or(0, |at| self.bytes[at])
    }

    /// At most so many steps and the first: where there were more, those to the highest and the last value in each stretch of
    /// equal length remain.
    #[must_use]
    pub fn thinned(self, most: usize) -> Self {
        if self.entries.len() <= most {
            return self;
        }
        let stretches = (most / 2).max(1) as u64;
        let length = u64::from(self.entries.last().copied().unwrap_or(0)) + 1;
        let stretch_of = |entry: u32| u64::from(entry) * stretches / length;
        let mut thinned = Self { entries: self.entries[..1].to_vec(), bytes: self.bytes[..1].to_vec() };
        let mut from = 1;
        while from < self.entries.len() {
            let stretch = stretch_of(self.entries[from]);
            let to = from + self.entries[from..].partition_point(|&entry| stretch_of(entry) == stretch);
            let carried = thinned.bytes.last().copied();
            let highest = (from..to).rev().max_by_key(|&at| self.bytes[at]).unwrap_or(from);
            let is_higher = carried.is_none_or(|carried| self.bytes[highest] > carried);
            for at in [highest, to - 1] {
                let is_last = at == to - 1;
                if (is_higher || is_last) && thinned.entries.last() != Some(&self.entries[at]) {
                    thinned.entries.push(self.entries[at]);
                    thinned.bytes.push(self.bytes[at]);
                }
            }
            from = to;
        }
        thinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_highest_of_each_stretch_and_where_it_ends() {
        let entries: Vec<u32> = (0..1000).map(|i| i * 10).collect();
        let bytes: Vec<u64> = (0..1000).map(|i| if i == 777 { 9999 } else { (i * 37) % 100 }).collect();
        let all = Reserved { entries, bytes };
        let thinned = all.clone().thinned(40);
        assert!(thinned.entries.len() <= 41 && thinned.entries.is_sorted());
        assert_eq!((thinned.after(7770), thinned.after(9990)), (9999, all.after(9990)));
        assert_eq!(thinned.entries[0], 0);
        for (&entry, &bytes) in thinned.entries.iter().zip(&thinned.bytes) {
            assert_eq!(all.after(entry), bytes);
        }
        assert_eq!(all.clone().thinned(1000), all);
        assert_eq!(Reserved::default().thinned(10), Reserved::default());
    }
}
