//! `highwater-estimate`: the memory that a model needs, computed from its configuration.

use highwater_driver::{CARDS, Card};
use highwater_estimate::{
    Architecture, Change, Estimate, MOST_BYTES, RequestError, Setup, Simple, changes_to_fit, estimate, largest_batch,
    saved_by_holding_the_loss_only,
};
use serde::Serialize;

use crate::{Document, Format, Version};

/// A model in a set-up.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EstimateView {
    format: Format<Self>,
    version: Version<Self>,
    /// The answer.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The parameters that a file of weights lists, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_parameters: Option<u64>,
    /// The estimated setup.
    pub setup: SetupView,
    /// Bytes less at the requested peak if the script kept only the loss.
    pub held_outputs_bytes: u64,
    /// Every known GPU, by its nominal gigabytes.
    pub cards: Vec<CardView>,
    /// Changes that would make it fit, if a capacity was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitView>,
    /// The well-known formula for comparison, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simple: Option<Simple>,
    /// Estimates over a range, if they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepView>,
    /// A recording beside the estimate, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstView>,
}

impl Document for EstimateView {
    const FORMAT: &'static str = "highwater-estimate";
    const VERSION: u32 = 1;
}

/// The estimated setup.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetupView {
    /// The GPU whose kernels and workspaces are assumed, by its name on the command line.
    pub gpu: &'static str,
    /// Sequences, or images, in a micro-batch.
    pub batch: u64,
    /// Tokens of a sequence.
    pub seq: u64,
    /// The type of the weights.
    pub dtype: String,
    /// The type that the model's configuration names, if it names one: the default of `dtype`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured_dtype: Option<String>,
    /// The type that the forward pass runs in, if it is another.
    pub autocast: Option<String>,
    /// Whether blocks are computed again in the backward pass.
    pub checkpointing: bool,
}

/// Whether it fits a GPU.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CardView {
    /// The name of the GPU on the command line.
    pub name: &'static str,
    /// The total that the driver reports.
    pub memory_bytes: u64,
    /// Whether the run fits at the upper end of the error band.
    pub fits: bool,
    /// Whether it fits at the lower end only.
    pub may_fit: bool,
    /// Spare bytes at the upper end of the error band, negative if the run may need more.
    pub spare_bytes: i64,
}

/// A change that makes the run fit.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FitView {
    /// The GPU's memory.
    pub limit_bytes: u64,
    /// Whether it fits as it is, at the upper end of the error band.
    pub fits: bool,
    /// Whether it fits at the lower end only.
    pub may_fit: bool,
    /// The largest batch that fits, if any does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_batch: Option<u64>,
    /// The changes that were tried, the cheapest that fits first.
    pub changes: Vec<Change>,
}

/// Estimates over a range.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepView {
    /// The option that takes each value: `batch` or `seq`.
    pub name: &'static str,
    /// One for each value.
    pub rows: Vec<SweepRow>,
}

/// The estimate of a value.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepRow {
    /// The value.
    pub value: u64,
    /// The peak of requested memory.
    pub peak_requested_bytes: u64,
    /// The memory of the run on the GPU.
    pub total_bytes: u64,
    /// In words, when the peak is.
    pub peak_phase: String,
}

/// A recording beside the estimate: the busiest device, at its peak of requested bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgainstView {
    /// The name of the recording.
    pub snapshot: String,
    /// CUDA ordinal.
    pub device: u32,
    /// The recorded peak of requested bytes.
    pub peak_requested_bytes: u64,
    /// The recorded peak of reserved bytes.
    pub peak_reserved_bytes: u64,
    /// The phase that the recorded peak falls in; null where no iterations are known.
    pub peak_phase: Option<&'static str>,
    /// The part of the run that the recording lacks; null if it covers the whole run.
    pub unseen: Option<&'static str>,
    /// Each category of both.
    pub categories: Vec<AgainstRow>,
}

/// A category of both.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgainstRow {
    /// Its name, such as `optimizer_state`.
    pub category: &'static str,
    /// By the estimate.
    pub estimated_bytes: u64,
    /// By the recording.
    pub recorded_bytes: u64,
}

impl EstimateView {
    /// The document of a model in a set-up.
    ///
    /// # Errors
    /// If it needs more than any machine has.
    pub fn new(architecture: &Architecture, setup: &Setup) -> Result<Self, RequestError> {
        let estimate = estimate(architecture, setup);
        if estimate.peak_requested_bytes >= MOST_BYTES {
            return Err(RequestError::TooMuch);
        }
        Ok(Self {
            format: Format::default(),
            version: Version::default(),
            counted_parameters: architecture.counted_parameters,
            setup: SetupView {
                gpu: setup.platform.gpu,
                batch: setup.batch,
                seq: setup.seq,
                dtype: setup.dtype.to_string(),
                configured_dtype: architecture.dtype.map(|dtype| dtype.to_string()),
                autocast: setup.autocast.map(|dtype| dtype.to_string()),
                checkpointing: setup.checkpointing,
            },
            held_outputs_bytes: saved_by_holding_the_loss_only(architecture, setup, &estimate),
            cards: cards(&estimate),
            fit: None,
            simple: None,
            sweep: None,
            against: None,
            estimate,
        })
    }

    /// With changes to stay within a limit.
    #[must_use]
    pub fn fitted(self, architecture: &Architecture, setup: &Setup, limit_bytes: u64) -> Self {
        let fit = FitView {
            limit_bytes,
            fits: self.estimate.highest_total_bytes() <= limit_bytes,
            may_fit: may_fit(&self.estimate, limit_bytes),
            largest_batch: largest_batch(architecture, setup, limit_bytes),
            changes: changes_to_fit(architecture, setup, limit_bytes),
        };
        Self { fit: Some(fit), ..self }
    }
}

/// Whether a capacity is within the error band.
fn may_fit(estimate: &Estimate, capacity: u64) -> bool {
    estimate.lowest_total_bytes() <= capacity && capacity < estimate.highest_total_bytes()
}

fn cards(estimate: &Estimate) -> Vec<CardView> {
    let view = |card: &Card| {
        let spare = i128::from(card.memory_bytes) - i128::from(estimate.highest_total_bytes());
        let spare_bytes = i64::try_from(spare).unwrap_or(i64::MIN);
        CardView {
            name: card.key,
            memory_bytes: card.memory_bytes,
            fits: estimate.highest_total_bytes() <= card.memory_bytes,
            may_fit: may_fit(estimate, card.memory_bytes),
            spare_bytes,
        }
    };
    CARDS.iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use highwater_estimate::{Setup, read};

    use super::*;

    /// One rule: the spare bytes are those that are left when the run needs as much as its error band says at most.
    #[test]
    fn a_run_fits_where_bytes_are_spare() {
        for (name, batch) in [("gpt2", 8), ("llama3.1-8b", 1), ("qwen-image", 1), ("jamba-v0.1", 1)] {
            let view = EstimateView::new(&read::named(name).unwrap(), &Setup::training(batch, 512)).unwrap();
            for card in &view.cards {
                assert_eq!(card.fits, card.spare_bytes >= 0, "{name} on {}", card.name);
                assert!(!(card.fits && card.may_fit));
            }
        }
    }
}
