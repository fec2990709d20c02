//! What a larger batch would need: a bound from one recording, a [line](fit) from recordings of several batches.
//!
//! Activations, inputs and intermediates may grow with the batch, up to in proportion; parameters, gradients, optimizer state
//! and what libraries work in do not. So a peak is at most what does not grow, and as many times the rest as the batch is larger.

mod fit;
mod ratio;

use highwater_snapshot::Snapshot;

pub use fit::{BatchFit, Covers, NoFit, Point, fit};
pub use ratio::{Ratio, agreed};

use highwater_analysis::category::{Category, Decided};
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::timeline::Total;

/// Rules of which no block grows with the batch, though what they decide is temporary.
const FIXED_RULES: [&str; 2] = ["optimizer-scratch", "build-scratch"];
/// With more than a share of this much untold at the peak, nothing is claimed.
const UNTOLD_SHARE: u64 = 10;

/// What a peak consists of, by what may grow with the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchBound {
    /// At the peak, what does not grow: parameters, gradients, optimizer state, workspaces, what the optimizer works in; and
    /// what is not told.
    pub fixed_bytes: u64,
    /// At the peak, what may grow in proportion: activations, inputs, intermediates.
    pub batch_bytes: u64,
    /// The peak of a batch twice as large, at most. It may lie elsewhere: where the peak is the optimizer's, a larger batch
    /// peaks in the forward pass.
    pub doubled_bytes: u64,
}

impl BatchBound {
    /// The peak that was recorded.
    pub fn peak_bytes(&self) -> u64 {
        self.fixed_bytes.saturating_add(self.batch_bytes)
    }

    /// What a batch twice as large needs more than that, at most.
    pub fn doubling_adds_bytes(&self) -> u64 {
        self.doubled_bytes.saturating_sub(self.peak_bytes())
    }
}

/// Splits the peak of a device into what does not grow with the batch, and what may.
///
/// In the total that the report goes by, [`Reconstruction::by`](highwater_analysis::Reconstruction::by). `None` if nothing that may
/// grow was recorded, or if a tenth of the peak or more is not told.
///
/// ```no_run
/// let snapshot = highwater_snapshot::Snapshot::open("run.pickle")?;
/// let analysis = highwater_analysis::analyse(&snapshot);
/// if let Some(bound) = highwater_findings::batch::bound(&analysis.devices[0], &snapshot) {
///     println!("a batch twice as large needs at most {} bytes more", bound.doubling_adds_bytes());
/// }
/// # Ok::<(), highwater_snapshot::Error>(())
/// ```
pub fn bound(device: &DeviceAnalysis<'_>, snapshot: &Snapshot) -> Option<BatchBound> {
    let (mut fixed_bytes, mut batch_bytes, mut untold_bytes) = (0_u64, 0_u64, 0_u64);
    for (row, bytes) in device.counted_rows(device.peak().entry, snapshot) {
        let decided = device.decided(row);
        let sum = if grows(decided) { &mut batch_bytes } else { &mut fixed_bytes };
        *sum = sum.saturating_add(bytes);
        if decided.category == Category::Unknown {
            untold_bytes = untold_bytes.saturating_add(bytes);
        }
    }
    let peak = fixed_bytes.saturating_add(batch_bytes);
    if untold_bytes.saturating_mul(UNTOLD_SHARE) >= peak {
        return None;
    }
    if !(0..device.lifetimes.rows.len()).any(|row| grows(device.decided(row))) {
        return None;
    }
    let doubled_bytes = peak_with_batch(device, snapshot, 2).max(peak);
    Some(BatchBound { fixed_bytes, batch_bytes, doubled_bytes })
}

/// Whether blocks so decided may grow with the batch.
fn grows(decided: Decided) -> bool {
    matches!(decided.category, Category::Activation | Category::Input | Category::Temporary)
        && !FIXED_RULES.contains(&decided.rule)
}

/// The peak if everything that may grow with the batch were so many times as large.
pub fn peak_with_batch(device: &DeviceAnalysis<'_>, snapshot: &Snapshot, times: u64) -> u64 {
    levels(device, snapshot).iter().map(|level| level.with_batch(times, 1)).max().unwrap_or(0)
}

/// What is allocated at a moment, by what may grow with the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    fixed_bytes: u64,
    batch_bytes: u64,
}

impl Level {
    /// All of it, were the batch `times / per` as large.
    fn with_batch(self, times: u64, per: u64) -> u64 {
        let batch = u128::from(self.batch_bytes) * u128::from(times) / u128::from(per.max(1));
        self.fixed_bytes.saturating_add(u64::try_from(batch).unwrap_or(u64::MAX))
    }

    fn bytes(self) -> u64 {
        self.fixed_bytes.saturating_add(self.batch_bytes)
    }
}

/// The levels before the first entry and after each, in the total that the report goes by.
fn levels(device: &DeviceAnalysis<'_>, snapshot: &Snapshot) -> Vec<Level> {
    // Changes first. Where a file claims more than 2^64 bytes in all, the sums wrap, and come back when it is freed.
    let mut levels = vec![Level::default(); device.entries.len() + 1];
    let is_requested = device.by == Total::Requested;
    for (row, lifetime) in device.lifetimes.rows.iter().enumerate() {
        if !is_requested && lifetime.awaits_free_at_start() {
            continue;
        }
        let bytes = if is_requested { lifetime.requested_bytes } else { device.blocks().of(lifetime, snapshot) };
        let freed = if is_requested { None } else { lifetime.free_requested() }.or(lifetime.free_completed());
        let from = lifetime.alloc().map_or(0, |entry| entry.index() + 1);
        let grows = grows(device.decided(row));
        let mut change = |at: usize, by: fn(u64, u64) -> u64| {
            if let Some(level) = levels.get_mut(at) {
                let sum = if grows { &mut level.batch_bytes } else { &mut level.fixed_bytes };
                *sum = by(*sum, bytes);
            }
        };
        change(from, u64::wrapping_add);
        if let Some(freed) = freed {
            // What a file frees before it allocates was never there.
            change((freed.index() + 1).max(from), u64::wrapping_sub);
        }
    }
    let mut live = Level::default();
    for level in &mut levels {
        live.fixed_bytes = live.fixed_bytes.wrapping_add(level.fixed_bytes);
        live.batch_bytes = live.batch_bytes.wrapping_add(level.batch_bytes);
        *level = live;
    }
    levels
}
