//! The peak by the batch.

use highwater_findings::batch::{BatchFit, Covers, Ratio};
use serde::Serialize;

/// The peak by the batch: the larger of `floor_bytes` and `fixed_bytes + bytes_per_unit * batch +
/// bytes_per_unit_squared * batch²`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchView {
    /// The unit of a batch: `row`, or `first-batch`, where the first file's batch is 1.
    pub unit: &'static str,
    /// The iteration that it was fitted to; absent if it was fitted to the whole recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<usize>,
    /// Bytes that do not depend on the batch.
    pub fixed_bytes: u64,
    /// Bytes per unit of the batch.
    pub bytes_per_unit: f64,
    /// Bytes per square of the batch; 0 where the points lie on a line.
    pub bytes_per_unit_squared: f64,
    /// The lowest possible peak, for any batch.
    pub floor_bytes: u64,
    /// The largest distance of a point from the fit.
    pub largest_residual_bytes: u64,
    /// One for each file.
    pub points: Vec<PointView>,
    /// The peaks by the line, smallest batch first: of the recorded batches, of the doublings between them, and of
    /// twice the largest.
    pub peaks: Vec<BatchPeakView>,
    /// A file whose inputs imply a batch other than the given one; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<ContradictionView>,
    /// The largest batch for a capacity, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityView>,
}

/// A file's batch and its peak.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointView {
    /// The batch, in the unit.
    pub batch: f64,
    /// The batch as a fraction: numerator and denominator.
    pub batch_ratio: [u64; 2],
    /// The peak that was recorded.
    pub peak_bytes: u64,
    /// The peak by the line.
    pub fitted_bytes: u64,
}

/// The peak of a batch by the line.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchPeakView {
    /// The batch, in the unit, as a fraction: numerator and denominator.
    pub batch_ratio: [u64; 2],
    /// The peak.
    pub peak_bytes: u64,
}

/// A file whose inputs imply a batch other than the given one.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContradictionView {
    /// Its place in `files`.
    pub file: usize,
    /// Its batch by its inputs, in batches of the first file: numerator and denominator.
    pub batch_ratio: [u64; 2],
}

/// The largest batch for a capacity.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityView {
    /// The capacity.
    pub bytes: u64,
    /// The largest batch whose peak is within it; null if none is.
    pub largest_batch: Option<f64>,
}

impl BatchView {
    pub(super) fn new(fit: &BatchFit, capacity_bytes: Option<u64>) -> Self {
        Self {
            unit: if fit.is_by_rows { "row" } else { "first-batch" },
            iteration: if let Covers::Iteration(number) = fit.covers { Some(number) } else { None },
            fixed_bytes: fit.fixed_bytes,
            bytes_per_unit: fit.bytes_per_batch,
            bytes_per_unit_squared: fit.bytes_per_batch_squared,
            floor_bytes: fit.floor_bytes,
            largest_residual_bytes: fit.largest_residual_bytes(),
            points: fit
                .points
                .iter()
                .map(|point| PointView {
                    batch: point.batch.value(),
                    batch_ratio: ratio(point.batch),
                    peak_bytes: point.peak_bytes,
                    fitted_bytes: point.fitted_bytes,
                })
                .collect(),
            peaks: shown(fit)
                .into_iter()
                .map(|batch| BatchPeakView { batch_ratio: ratio(batch), peak_bytes: fit.peak_bytes(batch.value()) })
                .collect(),
            contradiction: fit.contradiction.map(|(file, batch)| ContradictionView { file, batch_ratio: ratio(batch) }),
            capacity: capacity_bytes.map(|bytes| CapacityView { bytes, largest_batch: fit.largest_batch(bytes) }),
        }
    }

    /// Whether the batch is counted in rows.
    pub fn is_by_rows(&self) -> bool {
        self.unit == "row"
    }

    /// Whether the points lie on no line.
    pub fn is_curve(&self) -> bool {
        self.bytes_per_unit_squared != 0.0
    }
}

/// The batches whose peaks are shown.
fn shown(fit: &BatchFit) -> Vec<Ratio> {
    /// Recordings of batches that are far apart have many doublings between them.
    const DOUBLINGS: u32 = 10;
    let recorded = || fit.points.iter().map(|point| point.batch);
    let by_size = |a: &Ratio, b: &Ratio| a.value().total_cmp(&b.value());
    let (Some(least), Some(most)) = (recorded().min_by(by_size), recorded().max_by(by_size)) else { return Vec::new() };
    let doubled = |batch: Ratio, times: u32| Ratio::new(batch.times.checked_mul(1 << times)?, batch.per);
    let between =
        (1..DOUBLINGS).map_while(|times| doubled(least, times)).take_while(|batch| batch.value() < most.value());
    let mut batches: Vec<Ratio> = recorded().chain(between).chain(doubled(most, 1)).collect();
    batches.sort_by(by_size);
    batches.dedup();
    batches
}

fn ratio(batch: Ratio) -> [u64; 2] {
    [batch.times, batch.per]
}
