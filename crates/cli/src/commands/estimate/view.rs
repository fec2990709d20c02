//! The answer of `highwater estimate` as a document: the library's, and what only the command line adds.

use highwater_estimate::{Document, Simple};
use serde::Serialize;

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct EstimateView {
    #[serde(flatten)]
    pub(super) document: Document,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) simple: Option<Simple>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sweep: Option<SweepView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<AgainstView>,
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
