//! What commands print, for a snapshot that is read already: the same text, made by the same code.

use highwater_analysis::Analysis;
use highwater_documents::ReportView;
use highwater_documents::check::CheckView;

use crate::commands::{check, explain};
use crate::error::Problem;
use crate::printable::Lines;
use crate::report;

/// Rows of each table of the report, as where the command line is not told.
const ROWS: usize = 15;

/// What `highwater report` prints; `name` is the file's.
pub fn report_text(report: &ReportView<'_>, name: &str) -> String {
    let options = report::Options { top: ROWS, capacity_bytes: None, width: None };
    text(|out| report::document(report, name, options).write_text(out, None))
}

/// What `highwater check` prints.
pub fn check_text(view: &CheckView) -> String {
    text(|out| check::text(out, view))
}

/// What `highwater explain` prints of a snapshot in which a request failed; `message` is the error's text, if it is known.
///
/// # Errors
/// If no request failed in it.
pub fn explain_text(analysis: &Analysis<'_>, message: Option<&str>, name: &str) -> Result<String, Problem> {
    let view = explain::view_of_snapshot(analysis, message, name)?;
    Ok(text(|out| explain::text::write(out, &view, name)))
}

fn text(write: impl FnOnce(&mut Lines<&mut Vec<u8>>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail, and commands write text.
    write(&mut Lines::plain(&mut out)).expect("memory takes it");
    String::from_utf8_lossy(&out).into_owned()
}
