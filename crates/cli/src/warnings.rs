//! What was odd in a snapshot, told to people.

use std::io::{self, Write as _};

use highwater_analysis::Analysis;
use highwater_snapshot::Warnings;

use crate::printable::printable;
use crate::style::{self, WARNING};

/// Prints each warning to standard error.
///
/// # Errors
/// Those of standard error.
pub(crate) fn print(warnings: &Warnings) -> io::Result<()> {
    let mut err = style::stderr();
    for warning in warnings {
        writeln!(err, "{WARNING}warning:{WARNING:#} {}", printable(&warning.to_string()))?;
    }
    Ok(())
}

/// Prints the warnings of the reader, then those of the analysis.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_all(analysis: &Analysis<'_>) -> io::Result<()> {
    print(&analysis.snapshot.warnings)?;
    print(&analysis.warnings)
}
