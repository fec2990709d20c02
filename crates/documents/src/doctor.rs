//! `highwater-doctor`: the GPU memory setup of this machine, with suggested fixes.

use highwater_monitor::Sample;
use serde::{Deserialize, Serialize};

use crate::{Document, Format, Version};

/// A machine's set-up.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorView {
    format: Format<Self>,
    version: Version<Self>,
    /// The GPUs as `highwater-top` has them; null if the driver does not answer.
    pub gpus: Option<Sample>,
    /// Why there are none.
    pub absence: Option<String>,
    /// The packages of the given interpreter; null if none was given.
    pub torch: Option<Torch>,
    /// Variables that change how GPU memory is used.
    pub settings: Vec<Setting>,
    /// Findings and advice, the worst first.
    pub findings: Vec<Finding>,
}

impl Document for DoctorView {
    const FORMAT: &'static str = "highwater-doctor";
    const VERSION: u32 = 1;
}

/// The packages of an interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Torch {
    /// Python's version.
    pub python: String,
    /// The version of torch, if it is installed.
    pub torch: Option<String>,
    /// The CUDA that torch is built for, if it is.
    pub cuda: Option<String>,
    /// Whether highwater's package is installed, too.
    pub recorder: bool,
}

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Its name.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// Whether it takes effect: another variable may override it, or PyTorch may refuse it.
    pub is_used: bool,
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work, or not as intended.
    Problem,
    /// It could be better.
    Advice,
    /// Good to know.
    Note,
}

/// A finding about the machine, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// A stable word for its kind.
    pub id: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// The finding in one line.
    pub title: String,
    /// The advice; null where there is nothing to change.
    pub change: Option<String>,
}

impl Finding {
    /// Something to know.
    pub fn new(severity: Severity, id: &'static str, title: impl Into<String>) -> Self {
        Self { id, severity, title: title.into(), change: None }
    }

    /// With advice.
    #[must_use]
    pub fn change(self, change: impl Into<String>) -> Self {
        Self { change: Some(change.into()), ..self }
    }
}

impl DoctorView {
    /// The document; `gpus` are those that were seen, or why there are none. The findings are sorted.
    pub fn new(
        gpus: Result<Sample, String>,
        torch: Option<Torch>,
        settings: Vec<Setting>,
        mut findings: Vec<Finding>,
    ) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        let (gpus, absence) = match gpus {
            Ok(sample) => (Some(sample), None),
            Err(absence) => (None, Some(absence)),
        };
        Self { format: Format::default(), version: Version::default(), gpus, absence, torch, settings, findings }
    }
}
