//! The inside of commands for `crates/fuzz-targets`, which calls it with any bytes.

use highwater_monitor::Sample;

use crate::commands::check;
use crate::error::Problem;

/// Reads the text of a `highwater.toml`, and forgets it.
///
/// # Errors
/// It is not a table of known budgets.
pub fn read_budgets(text: Vec<u8>) -> Result<(), Problem> {
    check::budgets::read_budgets(text)
}

/// Everything that `highwater top` says of a sample: the table with the rows of CSV, and the metrics of Prometheus.
pub fn printed(sample: &Sample) -> (Vec<u8>, String) {
    highwater_top::printed(sample).expect("a vector takes all bytes")
}
