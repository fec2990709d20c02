//! `highwater-totals`: written by the recorder of the Python package for an allocator that keeps no history.

use serde::{Deserialize, Serialize};

use crate::{Document, Format, Version};

/// The totals of each device at every mark.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TotalsView {
    format: Format<Self>,
    version: Version<Self>,
    /// In the order in which they were made.
    pub marks: Vec<Mark>,
}

impl Document for TotalsView {
    const FORMAT: &'static str = "highwater-totals";
    const VERSION: u32 = 1;
}

/// A mark of the program.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    /// Its name: `start`, `step`, `end`, or the program's own.
    pub name: String,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// Every device that PyTorch sees.
    pub devices: Vec<DeviceTotals>,
}

/// The values of `torch.cuda` for a device.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceTotals {
    /// CUDA ordinal.
    pub device: u32,
    /// `torch.cuda.memory_allocated()`
    pub allocated_bytes: u64,
    /// `torch.cuda.max_memory_allocated()`
    pub peak_allocated_bytes: u64,
    /// `torch.cuda.memory_reserved()`
    pub reserved_bytes: u64,
    /// `torch.cuda.max_memory_reserved()`
    pub peak_reserved_bytes: u64,
}
