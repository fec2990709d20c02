//! `highwater-check`: budgets, and whether they are kept.

use highwater_analysis::Analysis;
use highwater_analysis::place::place;
use highwater_findings::budget::{Amount, Checked};
use highwater_snapshot::EntryId;
use serde::Serialize;

use crate::{Document, Format, Version};

/// Every rule that was applied.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckView {
    format: Format<Self>,
    version: Version<Self>,
    /// Whether every budget is kept.
    pub passed: bool,
    /// One rule, applied to one device.
    pub rules: Vec<RuleView>,
}

impl Document for CheckView {
    const FORMAT: &'static str = "highwater-check";
    const VERSION: u32 = 1;
}

/// One rule, applied to one device. The limit and the measured amount are both bytes or both shares.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleView {
    /// Its name, such as `max-peak-reserved`: that of the flag.
    pub rule: &'static str,
    /// The limit is the baseline's value plus the tolerance. Absent for other limits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// CUDA ordinal.
    pub device: u32,
    /// Whether the budget is kept.
    pub passed: bool,
    /// The limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The limit as a share, 1 being all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_share: Option<f64>,
    /// The measured value; absent where it cannot be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bytes: Option<u64>,
    /// The measured share, 1 being all; absent where it cannot be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_share: Option<f64>,
    /// The entry after which it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u32>,
    /// The call site with the most bytes, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_site: Option<String>,
    /// Its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_site_bytes: Option<u64>,
    /// Why the amount is unknown or uncertain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A rule with its subject.
#[derive(Clone, Debug)]
pub struct Row {
    /// CUDA ordinal.
    pub device: u32,
    /// The limit is the baseline's value.
    pub is_baseline: bool,
    /// The result.
    pub checked: Checked,
}

impl CheckView {
    /// The document of rules that were applied to a recording.
    pub fn new(analysis: &Analysis<'_>, rows: &[Row]) -> Self {
        let rules: Vec<RuleView> = rows.iter().map(|row| RuleView::new(analysis, row)).collect();
        let passed = rules.iter().all(|rule| rule.passed);
        Self { format: Format::default(), version: Version::default(), passed, rules }
    }
}

impl RuleView {
    fn new(analysis: &Analysis<'_>, row: &Row) -> Self {
        let bytes = |amount| if let Amount::Bytes(bytes) = amount { Some(bytes) } else { None };
        let share = |amount| if let Amount::Share(share) = amount { Some(share) } else { None };
        let measured = row.checked.measured.as_ref().ok();
        let amount = measured.map(|measured| measured.amount);
        let largest = measured.and_then(|measured| measured.largest);
        Self {
            rule: row.checked.measure.rule(),
            baseline: row.is_baseline,
            device: row.device,
            passed: row.checked.holds(),
            limit_bytes: bytes(row.checked.limit),
            limit_share: share(row.checked.limit),
            measured_bytes: amount.and_then(bytes),
            measured_share: amount.and_then(share),
            entry: measured.and_then(|measured| measured.entry).map(EntryId::get),
            call_site: largest.map(|largest| place(analysis, largest.site)),
            call_site_bytes: largest.map(|largest| largest.bytes),
            reason: match &row.checked.measured {
                Ok(measured) => measured.caveat.clone(),
                Err(reason) => Some((*reason).to_owned()),
            },
        }
    }
}
