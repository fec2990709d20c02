//! The level that reserved memory could not pass, as the first out-of-memory event of a device shows it.

use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::oom::Cause;
use highwater_units::size;

/// The level that reserved memory could not pass, for a line in a picture.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CeilingView {
    /// The level.
    pub bytes: u64,
    /// Its label, with the number: `limit below 8.12 GiB` or `available 7.91 GiB`.
    pub label: String,
}

impl CeilingView {
    /// Of a device on which a request failed: the reserved total that a limit refused, else all that the process could have had.
    pub(crate) fn of(device: &DeviceAnalysis<'_>) -> Option<Self> {
        let event = device.oom.first()?;
        if event.cause == Cause::Limit {
            let bytes = event.totals.reserved_bytes.saturating_add(event.segment_bytes);
            return Some(Self { bytes, label: format!("limit below {}", size(bytes)) });
        }
        let bytes = event.available_bytes()?;
        Some(Self { bytes, label: format!("available {}", size(bytes)) })
    }
}
