//! What was odd in a snapshot, told to people and to programs.

use std::io::{self, Write as _};

use highwater_snapshot::Warnings;
use serde::Serialize;

use crate::error::WARNING;
use crate::printable::printable;

/// Prints each warning to standard error.
///
/// # Errors
/// Those of standard error.
pub(crate) fn print(warnings: &Warnings) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    for warning in warnings {
        writeln!(err, "{WARNING}warning:{WARNING:#} {}", printable(&warning.to_string()))?;
    }
    Ok(())
}

/// A warning as JSON.
#[derive(Serialize)]
pub(crate) struct WarningJson<'a> {
    id: &'a str,
    message: &'a str,
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
}

/// All warnings, in order of first appearance.
pub(crate) fn json(warnings: &Warnings) -> Vec<WarningJson<'_>> {
    warnings
        .iter()
        .map(|warning| WarningJson {
            id: warning.id,
            message: &warning.message,
            count: warning.count,
            device: warning.first.device,
            entry: warning.first.entry,
            byte: warning.first.byte,
        })
        .collect()
}
