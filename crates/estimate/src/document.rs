//! The answer as a document: `highwater-estimate`, which the command line prints and the page shows.

use highwater_driver::CARDS;
use serde::Serialize;

use crate::advise::{Change, changes_to_fit, largest_batch, saved_by_holding_the_loss_only};
use crate::architecture::Architecture;
use crate::estimate::{Estimate, MOST_BYTES, estimate};
use crate::request::RequestError;
use crate::setup::Setup;

/// What `format` says.
const FORMAT: &str = "highwater-estimate";
/// The version of the document.
const VERSION: u32 = 1;

/// The document.
#[derive(Debug, Serialize)]
pub struct Document {
    format: &'static str,
    version: u32,
    /// The answer.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The parameters that a file of weights lists, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_parameters: Option<u64>,
    /// What was estimated.
    pub setup: SetupView,
    /// What the requested peak would be less if the script held the loss only.
    pub held_outputs_bytes: u64,
    /// Every card that is known, by the gigabytes on the box.
    pub cards: Vec<CardView>,
    /// What to change to fit, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitView>,
}

/// What was estimated.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "fields of `Setup`")]
pub struct SetupView {
    pub batch: u64,
    pub seq: u64,
    pub dtype: String,
    pub autocast: Option<String>,
    pub checkpointing: bool,
}

/// Whether it fits a card.
#[derive(Debug, Serialize)]
pub struct CardView {
    /// How the card is called on the command line.
    pub name: &'static str,
    /// What the driver says is there.
    pub memory_bytes: u64,
    /// Whether the total is no more.
    pub fits: bool,
    /// What is left, negative for what is missing.
    pub spare_bytes: i64,
}

/// What to change to fit.
#[derive(Debug, Serialize)]
pub struct FitView {
    /// What the card has.
    pub limit_bytes: u64,
    /// Whether it fits as it is.
    pub fits: bool,
    /// The largest batch that fits, if any does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_batch: Option<u64>,
    /// The changes that were tried, the cheapest that fits first.
    pub changes: Vec<Change>,
}

impl Document {
    /// The document of a model in a set-up.
    ///
    /// # Errors
    /// If it needs more than any machine has.
    pub fn new(architecture: &Architecture, setup: &Setup) -> Result<Document, RequestError> {
        let estimate = estimate(architecture, setup);
        if estimate.peak_requested_bytes >= MOST_BYTES {
            return Err(RequestError::TooMuch);
        }
        Ok(Document {
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
            held_outputs_bytes: saved_by_holding_the_loss_only(architecture, setup, &estimate),
            cards: cards(estimate.total_bytes),
            fit: None,
            estimate,
        })
    }

    /// With what to change to stay within a limit.
    #[must_use]
    pub fn fitted(self, architecture: &Architecture, setup: &Setup, limit_bytes: u64) -> Document {
        let fit = FitView {
            limit_bytes,
            fits: self.estimate.total_bytes <= limit_bytes,
            largest_batch: largest_batch(architecture, setup, limit_bytes),
            changes: changes_to_fit(architecture, setup, limit_bytes),
        };
        Document { fit: Some(fit), ..self }
    }
}

fn cards(total_bytes: u64) -> Vec<CardView> {
    let view = |card: &highwater_driver::Card| {
        let spare = i128::from(card.memory_bytes) - i128::from(total_bytes);
        let spare_bytes = i64::try_from(spare).unwrap_or(i64::MIN);
        CardView { name: card.key, memory_bytes: card.memory_bytes, fits: spare_bytes >= 0, spare_bytes }
    };
    CARDS.iter().map(view).collect()
}
