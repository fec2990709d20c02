//! The fit table: how many runs an answer takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use highwater_allocator::{Settings, TorchVersion};
use highwater_analysis::analyse;
use highwater_snapshot::{Action, Entry, EntryTable};
use highwater_testkit::open;
use highwater_whatif::{Progress, Study, Watch};

/// Counts the runs that begin.
#[derive(Default)]
struct Runs(AtomicUsize);

impl Progress for Runs {
    fn ran(&self, _: &Settings, steps: usize, _: usize) {
        if steps == 0 {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_request_that_no_device_has_room_for_is_answered_by_bounds() {
    const PETABYTE: u64 = 1_000_000_000_000_000;
    /// What rounding up to a quarter of a power of two adds at most.
    const ROUNDING: u64 = PETABYTE / 4;
    /// Of each row: without limit, and with room for all in two orders of addresses.
    const RUNS: usize = 3;
    let mut snapshot = open("oom/late");
    for trace in &mut snapshot.traces {
        let mut entries = EntryTable::default();
        for id in trace.ids() {
            let entry = trace.get(id);
            let size_bytes = if entry.action == Action::OOM { PETABYTE } else { entry.size_bytes };
            entries.push(Entry { size_bytes, ..entry });
        }
        *trace = entries;
    }
    let analysis = analyse(&snapshot);
    let mut study = Study::new(&snapshot, &analysis.devices[0], TorchVersion::v2(11));
    let runs = Arc::new(Runs::default());
    study.program.watch = Watch::shared(runs.clone());
    let table = study.fit_table(&study.candidates());
    assert!(table.len() > 4);
    assert!(runs.0.load(Ordering::Relaxed) <= RUNS * table.len(), "{} runs", runs.0.load(Ordering::Relaxed));
    for fit in &table {
        let needed = [fit.min_capacity_bytes, fit.min_capacity_any_order_bytes];
        assert!(needed.iter().all(|&bytes| bytes >= study.live.bytes), "{fit:?}");
        assert!(needed.iter().all(|&bytes| bytes - study.live.bytes < ROUNDING), "{fit:?}");
        assert!(fit.cards.iter().all(|card| !card.fits), "{fit:?}");
    }
}
