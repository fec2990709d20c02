//! `highwater-top`, a moment of the GPUs, and `highwater-log`, many of them in a file.

use highwater_monitor::{Sample, log};
use serde::Serialize;

use crate::{Document, Format, Version};

/// The GPUs at a moment.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopView<'a> {
    format: Format<Self>,
    version: Version<Self>,
    /// The samples.
    #[serde(flatten)]
    pub sample: &'a Sample,
}

impl Document for TopView<'_> {
    const FORMAT: &'static str = "highwater-top";
    const VERSION: u32 = 1;
}

impl<'a> TopView<'a> {
    /// The document of a moment.
    pub fn new(sample: &'a Sample) -> Self {
        Self { format: Format::default(), version: Version::default(), sample }
    }
}

/// A line of a log: the first has its name, each further one is a moment.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LogLine {
    /// The first line.
    Header(log::Header),
    /// Each further line.
    Sample(Sample),
}

impl Document for LogLine {
    const FORMAT: &'static str = log::FORMAT;
    const VERSION: u32 = log::VERSION;
}
