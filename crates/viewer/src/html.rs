//! The page that needs no server.

use std::io::{self, Write};

use highwater_analysis::Analysis;

/// What goes into the page.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// Leave out lifetimes smaller than this.
    pub least_bytes: Option<u64>,
}

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn write_page(
    _out: &mut impl Write,
    _analysis: &Analysis<'_>,
    _name: &str,
    _options: &PageOptions,
) -> io::Result<()> {
    Ok(())
}
