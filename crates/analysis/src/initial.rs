//! Segments before the first recorded entry: the dump's, with the trace run backwards.

use std::collections::BTreeMap;

use highwater_allocator::Settings;
use highwater_allocator::sizes::SMALL_SEGMENT_BYTES;
use highwater_snapshot::{Action, EntryTable, Place, PoolId, Segment, SegmentType, StreamId, Warnings};

/// One run of memory from the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedRun {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// What kind of memory it is.
    pub source: Source,
}

impl ReservedRun {
    /// Whether it is of a small pool. Where the dump does not say, its length does.
    pub fn is_small(&self, settings: &Settings) -> bool {
        match self.source.segment_type {
            SegmentType::Small => true,
            SegmentType::Large => false,
            SegmentType::Unknown if self.source.is_expandable => {
                !self.bytes.is_multiple_of(settings.large_segment_bytes.max(1))
            }
            SegmentType::Unknown => self.bytes == SMALL_SEGMENT_BYTES,
        }
    }
}

/// What kind of memory a run is: runs of different kinds are never one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Whether it is mapped into an expandable segment.
    pub is_expandable: bool,
    /// The stream that owns it.
    pub stream: StreamId,
    /// The pool; [`PoolId::MISSING`] where the file does not say.
    pub pool: PoolId,
    /// Small or large, of what is there at the dump.
    pub segment_type: SegmentType,
}

impl Source {
    /// That of a segment at the dump.
    pub fn of_segment(segment: &Segment) -> Self {
        Self {
            is_expandable: segment.is_expandable,
            stream: segment.stream,
            pool: segment.pool,
            segment_type: segment.segment_type,
        }
    }

    /// That of the memory that an entry reserves or releases.
    pub fn of_entry(entries: &EntryTable, row: usize) -> Self {
        Self {
            is_expandable: matches!(entries.actions()[row], Action::SEGMENT_MAP | Action::SEGMENT_UNMAP),
            stream: entries.streams()[row],
            pool: entries.pools().get(row),
            segment_type: SegmentType::Unknown,
        }
    }
}

/// Undoes every entry that reserves or releases memory, from the last to the first.
///
/// # Source
/// `spec/snapshot-format.md` section 13.2.
pub(crate) fn segments_before(
    entries: &EntryTable,
    at_dump: &[&Segment],
    device: u32,
    warnings: &mut Warnings,
) -> Vec<ReservedRun> {
    let mut runs = Runs::default();
    for segment in at_dump {
        runs.insert(segment.address, segment.total_bytes, Source::of_segment(segment));
    }
    let columns = entries.actions().iter().zip(entries.addresses()).zip(entries.sizes_bytes());
    for (row, ((&action, &address), &bytes)) in columns.enumerate().rev() {
        let known = match action {
            Action::SEGMENT_ALLOC | Action::SEGMENT_MAP => runs.remove(address, bytes),
            Action::SEGMENT_FREE | Action::SEGMENT_UNMAP => {
                runs.insert(address, bytes, Source::of_entry(entries, row));
                true
            }
            _ => true,
        };
        if !known {
            warnings.add(
                "unexplained-segment",
                "a segment was reserved and is neither released nor there at the dump",
                Place::entry(device, u32::try_from(row).unwrap_or(u32::MAX)),
            );
        }
    }
    runs.0.into_iter().map(|(address, (bytes, source))| ReservedRun { address, bytes, source }).collect()
}

/// Disjoint runs by address. Runs that touch stay apart, as two segments do; removing cuts through several.
#[derive(Default)]
struct Runs(BTreeMap<u64, (u64, Source)>);

impl Runs {
    fn insert(&mut self, address: u64, bytes: u64, source: Source) {
        if bytes > 0 {
            // Over a run that is there already (a file that contradicts itself) the longer one stays.
            let there = self.0.entry(address).or_insert((bytes, source));
            if there.0 < bytes {
                *there = (bytes, source);
            }
        }
    }

    /// Takes the range away; whether all of it was there.
    fn remove(&mut self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let first = self.0.range(..=address).next_back().map_or(address, |(&start, _)| start);
        let touched: Vec<_> = self.0.range(first..end).map(|(&start, &run)| (start, run)).collect();
        let mut removed = 0;
        for (start, (len, source)) in touched {
            let stop = start.saturating_add(len);
            let (cut_from, cut_to) = (start.max(address), stop.min(end));
            if cut_from >= cut_to {
                continue;
            }
            removed += cut_to - cut_from;
            self.0.remove(&start);
            self.insert(start, cut_from - start, source);
            self.insert(cut_to, stop - cut_to, source);
        }
        removed == bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_cuts_through_touching_runs() {
        let source = Source {
            is_expandable: false,
            stream: StreamId::DEFAULT,
            pool: PoolId::DEFAULT,
            segment_type: SegmentType::Small,
        };
        let mut runs = Runs::default();
        for (address, bytes) in [(0, 10), (10, 10), (40, 5)] {
            runs.insert(address, bytes, source);
        }
        assert!(runs.remove(5, 10));
        assert_eq!(runs.0.iter().map(|(&a, &(b, _))| (a, b)).collect::<Vec<_>>(), [(0, 5), (15, 5), (40, 5)]);
        assert!(!runs.remove(15, 10), "half of it is not there");
        assert!(!runs.remove(100, 1));
    }
}
