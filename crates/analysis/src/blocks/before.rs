//! The memory before the first entry: what was reserved, and which blocks were in use.

use highwater_snapshot::PoolId;

use super::follow::{Follower, Observer};
use super::map::{Doubt, Kind, Splitting};
use crate::initial::ReservedRun;
use crate::lifetime::number;

impl<O: Observer> Follower<'_, O> {
    /// Lays out what was there before the first entry.
    ///
    /// A block of which only the free was recorded may be larger than its rounded request, if what follows it is free.
    ///
    /// # Source
    /// `spec/snapshot-format.md` section 13.2.
    pub(super) fn begin(&mut self, runs: &[ReservedRun]) {
        let lifetimes = self.recording.lifetimes.at_start();
        let mut rows: Vec<u32> = (0..number(lifetimes.len())).collect();
        rows.sort_by_key(|&row| lifetimes[row as usize].address);
        let mut rows = rows.into_iter().peekable();
        for run in self.joined(runs) {
            self.map.add_memory(run.address, run.bytes, run.kind);
            let end = run.address.saturating_add(run.bytes);
            // Where the free memory begins that is not yet looked at.
            let mut start = run.address;
            while let Some(row) = rows.next_if(|&row| lifetimes[row as usize].address < end) {
                let next = rows.peek().map_or(end, |&row| lifetimes[row as usize].address.min(end));
                let bounds = Bounds { start, next, end };
                start = self.place(row, bounds, run.kind).unwrap_or(start);
            }
        }
        for row in rows {
            self.lose(row);
        }
    }

    /// Puts a block where it was; where the free memory begins behind it, or `None` if it cannot have been there.
    fn place(&mut self, row: u32, bounds: Bounds, kind: Kind) -> Option<u64> {
        let lifetime = &self.recording.lifetimes.rows[row as usize];
        let rounded = self.rules.settings.round(lifetime.requested_bytes);
        let room = bounds.next.saturating_sub(lifetime.address);
        let known = self.size_at_dump(lifetime);
        let size = match (known, kind.splitting) {
            (Some(size), _) => size,
            (None, Splitting::Never) => bounds.end - lifetime.address,
            (None, _) => rounded,
        };
        // Overlapping others, or below what is there: all that is left of it is its size.
        let fits = room > 0 && size <= room && lifetime.address >= bounds.start;
        let id = if fits { self.map.carve(bounds.start, lifetime.address, size) } else { None };
        let Some(id) = id else {
            self.lose(row);
            return None;
        };
        if known.is_none() {
            let slack = self.rules.slack(kind.is_expandable, kind.splitting, rounded).min(room - size);
            if slack > 0 && kind.splitting != Splitting::Never {
                self.map.doubt(id, Doubt { bytes: slack, row, pool: PoolId::MISSING });
            }
        }
        self.hold(row, id);
        Some(lifetime.address + size)
    }

    /// A block in memory that is not known.
    fn lose(&mut self, row: u32) {
        let lifetime = &self.recording.lifetimes.rows[row as usize];
        let rounded = self.rules.settings.round(lifetime.requested_bytes);
        let size = self.size_at_dump(lifetime).unwrap_or(rounded);
        self.contradict(None);
        let id = self.stray(lifetime, size);
        self.hold(row, id);
    }

    /// The runs by address, those of one expandable segment as one where they touch.
    fn joined(&self, runs: &[ReservedRun]) -> Vec<Memory> {
        let mut joined: Vec<Memory> = Vec::with_capacity(runs.len());
        for run in runs {
            let memory = Memory { address: run.address, bytes: run.bytes, kind: self.kind_before(run) };
            match joined.last_mut() {
                Some(last)
                    if last.kind.is_expandable
                        && memory.kind.is_expandable
                        && last.address.saturating_add(last.bytes) == memory.address
                        && last.kind.continues(&memory.kind) =>
                {
                    last.bytes = last.bytes.saturating_add(memory.bytes);
                }
                _ => joined.push(memory),
            }
        }
        joined
    }

    fn kind_before(&self, run: &ReservedRun) -> Kind {
        let source = &run.source;
        Kind {
            is_expandable: source.is_expandable,
            is_small: run.is_small(self.rules.settings),
            splitting: self.rules.splitting(source.pool),
            stream: source.stream,
            pool: source.pool,
        }
    }
}

/// Memory before the first entry.
struct Memory {
    address: u64,
    bytes: u64,
    kind: Kind,
}

/// What lies around a block.
#[derive(Clone, Copy)]
struct Bounds {
    /// Where the free memory before it begins.
    start: u64,
    /// Where the next block begins, or the run ends.
    next: u64,
    /// Where the run ends.
    end: u64,
}
