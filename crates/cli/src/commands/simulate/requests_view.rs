//! What runs of a request program led to, as tables for people.

use std::io::{self, Write as _};

use highwater_documents::requests::{RequestsView, RunView, Warning};

use crate::document::{Document, Section};
use crate::printable::printable;
use crate::style::{self, WARNING};
use crate::table::{Align, Table};
use crate::units::{count, counted, size};

/// Prints each warning to standard error.
///
/// # Errors
/// Those of standard error.
pub(super) fn print_warnings(warnings: &[Warning]) -> io::Result<()> {
    let mut err = style::stderr();
    for warning in warnings {
        let times = match (warning.count, warning.line) {
            (1, None) => String::new(),
            (1, Some(line)) => format!(" (line {line})"),
            (times, None) => format!(" ({} times)", count(times)),
            (times, Some(line)) => format!(" ({} times, first: line {line})", count(times)),
        };
        writeln!(err, "{WARNING}warning:{WARNING:#} {}", printable(&format!("{}{times}", warning.message)))?;
    }
    Ok(())
}

/// The runs of the program that is called `title`.
pub(super) fn document(view: &RequestsView, title: &str) -> Document {
    let kind = if view.program.kind == "rmm-log" { " made from a log of RMM" } else { "" };
    let rows = counted(view.program.rows, "row", "rows");
    let title = format!("{title}: {rows}{kind}, torch {}'s rules, addresses {}", view.torch.version, view.addresses);
    let mut document = Document { title: title.into(), ..Document::default() };
    let mut table = Table::new([
        ("capacity", Align::Right),
        ("outcome", Align::Left),
        ("peak allocated", Align::Right),
        ("peak reserved", Align::Right),
        ("retries", Align::Right),
        ("settings", Align::Left),
    ])
    .indented(2);
    for run in &view.runs {
        table.row([
            size(run.capacity_bytes),
            outcome(run),
            size(run.peak_allocated_bytes),
            size(run.peak_reserved_bytes),
            count(run.num_alloc_retries),
            if run.conf.is_empty() { "(PyTorch's default)".to_owned() } else { printable(&run.conf).into_owned() },
        ]);
        if let Some(reason) = &run.reason {
            table.below(format!("  {reason}"));
        }
    }
    let mut section = Section::without_heading();
    section.table(table);
    document.sections.push(section);
    // One message is worth its length; a table of runs says more than all of them.
    if let [RunView { oom_message: Some(message), .. }] = &view.runs[..] {
        let mut section = Section::new("PyTorch would have said");
        section.line(message.as_str());
        document.sections.push(section);
    }
    document
}

fn outcome(run: &RunView) -> String {
    match (run.oom_op, run.oom_line) {
        (None, _) => "fits".to_owned(),
        (Some(_), Some(line)) => format!("out of memory at line {}", count(line)),
        (Some(op), None) => format!("out of memory at row {}", count(op)),
    }
}
