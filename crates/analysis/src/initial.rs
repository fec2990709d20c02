//! Segments before the first recorded entry: the dump's, with the trace run backwards.

use std::collections::BTreeMap;

use highwater_snapshot::{Action, EntryTable, Place, Segment, Warnings};

/// One run of memory from the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedRun {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
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
        runs.insert(segment.address, segment.total_bytes);
    }
    let columns = entries.actions().iter().zip(entries.addresses()).zip(entries.sizes_bytes());
    for (row, ((&action, &address), &bytes)) in columns.enumerate().rev() {
        let known = match action {
            Action::SEGMENT_ALLOC | Action::SEGMENT_MAP => runs.remove(address, bytes),
            Action::SEGMENT_FREE | Action::SEGMENT_UNMAP => {
                runs.insert(address, bytes);
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
    runs.0.into_iter().map(|(address, bytes)| ReservedRun { address, bytes }).collect()
}

/// Disjoint runs by address. Runs that touch stay apart, as two segments do; removing cuts through several.
#[derive(Default)]
struct Runs(BTreeMap<u64, u64>);

impl Runs {
    fn insert(&mut self, address: u64, bytes: u64) {
        if bytes > 0 {
            // Over a run that is there already (a file that contradicts itself) the longer one stays.
            let there = self.0.entry(address).or_default();
            *there = bytes.max(*there);
        }
    }

    /// Takes the range away; whether all of it was there.
    fn remove(&mut self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let first = self.0.range(..=address).next_back().map_or(address, |(&start, _)| start);
        let touched: Vec<(u64, u64)> = self.0.range(first..end).map(|(&start, &len)| (start, len)).collect();
        let mut removed = 0;
        for (start, len) in touched {
            let stop = start.saturating_add(len);
            let (cut_from, cut_to) = (start.max(address), stop.min(end));
            if cut_from >= cut_to {
                continue;
            }
            removed += cut_to - cut_from;
            self.0.remove(&start);
            self.insert(start, cut_from - start);
            self.insert(cut_to, stop - cut_to);
        }
        removed == bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_cuts_through_touching_runs() {
        let mut runs = Runs::default();
        runs.insert(0, 10);
        runs.insert(10, 10);
        runs.insert(40, 5);
        assert!(runs.remove(5, 10));
        assert_eq!(runs.0.iter().map(|(&a, &b)| (a, b)).collect::<Vec<_>>(), [(0, 5), (15, 5), (40, 5)]);
        assert!(!runs.remove(15, 10), "half of it is not there");
        assert!(!runs.remove(100, 1));
    }
}
