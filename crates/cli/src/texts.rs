//! What commands print, for a snapshot that is read already: the same text, made by the same code.

use highwater_analysis::Analysis;
use highwater_documents::check::CheckView;
use highwater_documents::diff::DiffView;
use highwater_documents::estimate::EstimateView;
use highwater_documents::ranks::RanksView;
use highwater_documents::{ReportView, SimulateView};

use crate::commands::simulate::what_if_text;
use crate::commands::{check, diff, estimate, explain, ranks};
use crate::error::Problem;
use crate::printable::Lines;
use crate::report;

/// Rows of each table of the report, as where the command line is not told.
const ROWS: usize = 15;

/// Cells of a line of the simulator's tables: a notebook's page is hardly wider, and the settings, which are the answer, stand last.
const SIMULATE_WIDTH: usize = 100;

/// What `highwater report` prints; `name` is the file's. Lines have at most `width` cells, if it is given.
pub fn report_text(report: &ReportView<'_>, name: &str, width: Option<usize>) -> String {
    let options = report::Options { top: ROWS, capacity_bytes: None, width, leads_on: true };
    text(|out| report::document(report, name, options).write_text(out, width))
}

/// What `highwater check` prints.
pub fn check_text(view: &CheckView) -> String {
    text(|out| check::text(out, view))
}

/// What `highwater simulate` prints; `name` is the file's.
pub fn simulate_text(view: &SimulateView<'_>, name: &str) -> String {
    let width = Some(SIMULATE_WIDTH);
    text(|out| what_if_text::document(view, name, width).write_text(out, width))
}

/// What `highwater diff` prints.
pub fn diff_text(view: &DiffView<'_>) -> String {
    text(|out| diff::text(out, view, ROWS))
}

/// What `highwater estimate --serve` prints.
pub fn serve_text(view: &highwater_documents::serve::ServeView) -> String {
    text(|out| estimate::served_text(out, view))
}

/// What `highwater estimate` prints.
pub fn estimate_text(view: &EstimateView) -> String {
    text(|out| estimate::text(out, view))
}

/// What `highwater ranks` prints.
pub fn ranks_text(view: &RanksView) -> String {
    text(|out| ranks::document(view, false, 0).write_text(out, None))
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
