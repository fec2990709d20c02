//! The settings that reserve least: runs side by side, each of which ends as soon as it cannot win.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_allocator::{Memory, Settings};
use highwater_analysis::parallel;

use super::run::run_within;
use super::study::{ADDRESS_ORDERS, Study, machine};

/// What is reserved under the best of some settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Least {
    /// The string that gives them.
    pub conf: String,
    /// The peak of reserved memory under them.
    pub bytes: u64,
    /// The most that the recorded settings reserve, in bytes: in the recording and in a run under the same conditions, whichever
    /// is less.
    pub own_bytes: u64,
}

impl Study {
    /// Of the [candidates](Self::candidates) the settings under which the program reserves least in memory without end, if that
    /// is no more than `most(own)` bytes, where `own` is what the recorded settings reserve. `recorded` is the peak of reserved
    /// memory in the recording, in bytes.
    ///
    /// A run ends once it holds more than another held at its peak, so all but the best cost little.
    pub fn least_reserved(&self, recorded: u64, most: impl Fn(u64) -> u64) -> Option<Least> {
        let mut candidates = self.candidates();
        let (_, own) = candidates.remove(0);
        // Of equals the first is taken; but those that mostly win run first, for then the others end early.
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by_key(|&row| !candidates[row].1.expandable_segments);
        let bound = AtomicU64::new(most(recorded));
        let peaks = parallel::map(&order, |&row| {
            let bytes = self.reserved_within(&candidates[row].1, || bound.load(Ordering::Relaxed))?;
            bound.fetch_min(bytes, Ordering::Relaxed);
            Some((bytes, row))
        });
        let (bytes, row) = peaks.into_iter().flatten().min()?;
        let (conf, settings) = candidates.swap_remove(row);
        // Expandable segments grow where they are. Of others the driver's addresses decide, so the recorded settings are to meet
        // the same ones: what addresses save is not what the settings save.
        let own_bytes = if settings.expandable_segments {
            recorded
        } else {
            self.run(&own, Memory::Ample, ADDRESS_ORDERS[0].clone()).peak_reserved_bytes().min(recorded)
        };
        (bytes <= most(own_bytes)).then_some(Least { conf, bytes, own_bytes })
    }

    /// The peak of reserved memory of a run that does what the program did, if it never exceeds a bound.
    fn reserved_within(&self, settings: &Settings, most: impl Fn() -> u64) -> Option<u64> {
        let machine = machine(settings, Memory::Ample, ADDRESS_ORDERS[0].clone());
        let run = run_within(&self.program, &machine, most)?;
        self.broken_premise(settings, &run).is_none().then(|| run.peak_reserved_bytes())
    }
}
