//! The answer of `highwater estimate` as a document.

use highwater_analysis::whatif::cards::CARDS;
use highwater_estimate::{Architecture, Change, Estimate, Setup, Simple};
use serde::Serialize;

/// What `format` says.
const FORMAT: &str = "highwater-estimate";
/// The version of the document.
const VERSION: u32 = 1;

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct EstimateView {
    format: &'static str,
    version: u32,
    /// The answer.
    #[serde(flatten)]
    pub(super) estimate: Estimate,
    /// The parameters that a file of weights lists, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counted_parameters: Option<u64>,
    pub(super) setup: SetupView,
    /// What the requested peak would be less if the script held the loss only.
    pub(super) held_outputs_bytes: u64,
    pub(super) cards: Vec<CardView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) simple: Option<Simple>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fit: Option<FitView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sweep: Option<SweepView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<AgainstView>,
}

/// What was estimated.
#[derive(Debug, Serialize)]
pub(super) struct SetupView {
    pub(super) batch: u64,
    pub(super) seq: u64,
    pub(super) dtype: String,
    pub(super) autocast: Option<String>,
    pub(super) checkpointing: bool,
}

/// Whether it fits a card.
#[derive(Debug, Serialize)]
pub(super) struct CardView {
    pub(super) name: &'static str,
    pub(super) memory_bytes: u64,
    pub(super) fits: bool,
    /// What is left, negative for what is missing.
    pub(super) spare_bytes: i64,
}

/// What to change to fit.
#[derive(Debug, Serialize)]
pub(super) struct FitView {
    pub(super) limit_bytes: u64,
    pub(super) fits: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) largest_batch: Option<u64>,
    pub(super) changes: Vec<Change>,
}

/// Estimates over a range.
#[derive(Debug, Serialize)]
pub(super) struct SweepView {
    pub(super) name: &'static str,
    pub(super) rows: Vec<SweepRow>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub(super) struct SweepRow {
    pub(super) value: u64,
    pub(super) peak_requested_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) peak_phase: String,
}

/// A recording beside the estimate.
#[derive(Debug, Serialize)]
pub(super) struct AgainstView {
    pub(super) snapshot: String,
    pub(super) device: u32,
    pub(super) peak_requested_bytes: u64,
    pub(super) peak_reserved_bytes: u64,
    /// The phase that the recording's peak falls in, where iterations are known.
    pub(super) peak_phase: Option<&'static str>,
    /// What of the program's life the recording does not have.
    pub(super) unseen: Option<&'static str>,
    pub(super) categories: Vec<AgainstRow>,
}

/// A category of both.
#[derive(Debug, Serialize)]
pub(super) struct AgainstRow {
    pub(super) category: &'static str,
    pub(super) estimated_bytes: u64,
    pub(super) recorded_bytes: u64,
}

impl EstimateView {
    pub(super) fn new(
        architecture: &Architecture,
        setup: &Setup,
        estimate: Estimate,
        held_outputs_bytes: u64,
    ) -> EstimateView {
        let cards = CARDS
            .iter()
            .map(|card| {
                let memory_bytes = card.total_bytes();
                let spare = i128::from(memory_bytes) - i128::from(estimate.total_bytes);
                let spare_bytes = i64::try_from(spare).unwrap_or(i64::MIN);
                CardView { name: card.name, memory_bytes, fits: spare_bytes >= 0, spare_bytes }
            })
            .collect();
        EstimateView {
            format: FORMAT,
            version: VERSION,
            counted_parameters: architecture.counted_parameters,
            setup: SetupView {
                batch: setup.batch,
                seq: setup.seq,
                dtype: setup.dtype.to_string(),
                autocast: setup.autocast.map(|dtype| dtype.to_string()),
                checkpointing: setup.checkpointing,
            },
            estimate,
            held_outputs_bytes,
            cards,
            simple: None,
            fit: None,
            sweep: None,
            against: None,
        }
    }
}
