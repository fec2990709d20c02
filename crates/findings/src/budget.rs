//! Budgets: upper limits for a run, measured against a recording.
//!
//! A budget holds only where it is known to hold: of a number with bounds the upper one counts, and what cannot be measured
//! is over budget, with the reason.

use highwater_analysis::callsite::Site;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::timeline::{Peak, Total};
use highwater_snapshot::EntryId;

/// The measures that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// The peak of requested bytes.
    PeakRequested,
    /// The most in blocks that tensors own: `torch.cuda.max_memory_allocated()`.
    PeakAllocated,
    /// The most held from the driver: `torch.cuda.max_memory_reserved()`.
    PeakReserved,
    /// How much more is allocated at the end of an iteration than at the end of the one before, in the mean.
    GrowthPerIteration,
    /// At the moment of the largest allocated bytes: of the reserved bytes, the share in no active block.
    Fragmentation,
}

impl Measure {
    /// Every one, in the order in which they are told.
    pub const ALL: [Self; 5] =
        [Self::PeakRequested, Self::PeakAllocated, Self::PeakReserved, Self::GrowthPerIteration, Self::Fragmentation];

    /// The name of its rule: of the flag, without the dashes.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::PeakRequested => "max-peak-requested",
            Self::PeakAllocated => "max-peak-allocated",
            Self::PeakReserved => "max-peak-reserved",
            Self::GrowthPerIteration => "max-growth-per-iteration",
            Self::Fragmentation => "max-fragmentation",
        }
    }
}

/// A number of a measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// A share, 1 being all.
    Share(f64),
}

impl Amount {
    /// Whether it is at most another of its kind.
    fn is_within(self, limit: Self) -> bool {
        match (self, limit) {
            (Self::Bytes(bytes), Self::Bytes(limit)) => bytes <= limit,
            (Self::Share(share), Self::Share(limit)) => share <= limit,
            _ => false,
        }
    }
}

/// The measures of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The number; the upper bound, where it has bounds.
    pub amount: Amount,
    /// The entry after which it is reached.
    pub entry: Option<EntryId>,
    /// The largest call site.
    pub largest: Option<Largest>,
    /// Why the run may have needed more, or less, than this.
    pub caveat: Option<String>,
}

/// The call site with the most bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Largest {
    /// The site.
    pub site: Site,
    /// Its bytes.
    pub bytes: u64,
}

/// A rule, applied to a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The limited measure.
    pub measure: Measure,
    /// The limit.
    pub limit: Amount,
    /// The measured value, or the reason why it cannot be measured.
    pub measured: Result<Measured, &'static str>,
}

impl Checked {
    /// Whether the budget is kept.
    pub fn holds(&self) -> bool {
        self.measured.as_ref().is_ok_and(|measured| measured.amount.is_within(self.limit))
    }
}

/// Checks a limit.
pub fn check(
    analysis: &highwater_analysis::Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    measure: Measure,
    limit: Amount,
) -> Checked {
    Checked { measure, limit, measured: measure_of(analysis, device, measure) }
}

/// Measures a device.
///
/// # Errors
/// Why that is not possible, as a fragment.
pub fn measure_of(
    analysis: &highwater_analysis::Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    measure: Measure,
) -> Result<Measured, &'static str> {
    if device.entries.is_empty() && measure != Measure::Fragmentation {
        return Err("there is no trace: only the state at the dump was recorded");
    }
    if device.profile.is_some() && matches!(measure, Measure::PeakReserved | Measure::Fragmentation) {
        return Err("a profiler's file does not record reserved memory");
    }
    match measure {
        Measure::PeakRequested => Ok(peak(analysis, device, Total::Requested, device.timeline.requested_peak())),
        Measure::PeakAllocated => Ok(peak(analysis, device, Total::Allocated, device.timeline.allocated_peak())),
        Measure::PeakReserved => Ok(peak(analysis, device, Total::Reserved, device.timeline.reserved_peak())),
        Measure::GrowthPerIteration => growth(device),
        Measure::Fragmentation => fragmentation(device),
    }
}

fn peak(
    analysis: &highwater_analysis::Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    total: Total,
    peak: Peak,
) -> Measured {
    let of_blocks = (total == Total::Allocated).then(|| device.blocks().reason()).flatten();
    let unseen = device.recorded.unseen().map(str::to_owned);
    let largest = device.counted_by_site(peak.entry, analysis.snapshot, &analysis.sites).into_iter().next();
    Measured {
        amount: Amount::Bytes(peak.at_most_bytes),
        entry: peak.entry,
        largest: largest.map(|site| Largest { site: site.site, bytes: site.bytes }),
        caveat: unseen.or(of_blocks),
    }
}

/// Iterations below which a growth is chance.
const MIN_ITERATIONS: usize = 4;

/// From the second complete iteration's end to the last one's: the first one leaves the optimizer's state by design.
fn growth(device: &DeviceAnalysis<'_>) -> Result<Measured, &'static str> {
    let complete: Vec<_> = device.iterations.rows.iter().filter(|iteration| iteration.is_complete).collect();
    if complete.len() < MIN_ITERATIONS {
        return Err("fewer than 4 complete iterations were recorded");
    }
    let ends: Vec<u64> = complete.iter().skip(1).map(|iteration| device.by.of(&iteration.end)).collect();
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    let steps = ends.len() as u64 - 1;
    let growth = last.saturating_sub(first).div_ceil(steps);
    let largest = device.growth.first();
    Ok(Measured {
        amount: Amount::Bytes(growth),
        entry: None,
        largest: largest.map(|site| Largest { site: site.site, bytes: site.bytes_per_iteration() }),
        caveat: None,
    })
}

fn fragmentation(device: &DeviceAnalysis<'_>) -> Result<Measured, &'static str> {
    let peak = device.peak();
    let totals = device.totals(peak.entry);
    if totals.reserved_bytes == 0 {
        return Err("nothing was reserved");
    }
    let free = totals.reserved_bytes.saturating_sub(totals.active_bytes);
    #[expect(clippy::cast_precision_loss, reason = "a ratio of bytes")]
    let share = free as f64 / totals.reserved_bytes as f64;
    let caveat = device.recorded.unseen().map(str::to_owned).or_else(|| device.blocks().reason());
    Ok(Measured { amount: Amount::Share(share), entry: peak.entry, largest: None, caveat })
}

/// The limit from a baseline's number with a tolerance, as a share of it.
pub fn with_tolerance(baseline: Amount, tolerance: f64) -> Amount {
    match baseline {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a tolerance is no exact number; the cast saturates"
        )]
        Amount::Bytes(bytes) => Amount::Bytes(bytes.saturating_add((bytes as f64 * tolerance).max(0.0) as u64)),
        Amount::Share(share) => Amount::Share(share * (1.0 + tolerance)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_allows_a_share_more_and_never_less() {
        assert_eq!(with_tolerance(Amount::Bytes(1000), 0.02), Amount::Bytes(1020));
        assert_eq!(with_tolerance(Amount::Bytes(u64::MAX), 0.5), Amount::Bytes(u64::MAX));
        assert_eq!(with_tolerance(Amount::Bytes(0), 0.5), Amount::Bytes(0));
        assert_eq!(with_tolerance(Amount::Share(0.5), 0.5), Amount::Share(0.75));
    }

    #[test]
    fn a_limit_is_kept_up_to_the_byte() {
        assert!(Amount::Bytes(10).is_within(Amount::Bytes(10)));
        assert!(!Amount::Bytes(11).is_within(Amount::Bytes(10)));
        assert!(!Amount::Share(0.0).is_within(Amount::Bytes(10)), "kinds are never compared");
    }
}
