//! The set-up as text.

use std::io;

use highwater_documents::doctor::{DoctorView, Severity};
use highwater_top::driver_line;

use crate::printable::printable;
use crate::style::{BAD, DIM, GOOD, Ink, STRONG};
use crate::table::{Align, Table};
use crate::units::{counted, size};

/// Writes it.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: &mut impl Ink, document: &DoctorView, width: Option<usize>) -> io::Result<()> {
    setup(document).write(out, width)?;
    if document.findings.is_empty() && document.absence.is_some() {
        return Ok(());
    }
    writeln!(out)?;
    if document.findings.is_empty() {
        return writeln!(out, "Nothing to change.");
    }
    for finding in &document.findings {
        let (word, style) = match finding.severity {
            Severity::Problem => ("problem", BAD),
            Severity::Advice => ("advice", STRONG),
            Severity::Note => ("note", DIM),
        };
        out.ink(style, word)?;
        writeln!(out, ": {}", printable(&finding.title))?;
        if let Some(change) = &finding.change {
            out.ink(GOOD, &format!("    {}\n", printable(change)))?;
        }
    }
    Ok(())
}

fn setup(document: &DoctorView) -> Table {
    let mut table = Table::new([("", Align::Left), ("", Align::Left)]).wrapped();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    match &document.gpus {
        Some(sample) => {
            row("driver", driver_line(sample).to_string());
            for gpu in &sample.gpus {
                let memory = gpu.memory.map_or_else(
                    || "memory unknown".to_owned(),
                    |memory| {
                        format!(
                            "{} free of {}, {} used by {}",
                            size(memory.free_bytes),
                            size(memory.total_bytes),
                            size(memory.used_bytes),
                            counted(gpu.processes.len(), "process", "processes")
                        )
                    },
                );
                row(&format!("GPU {}", gpu.label()), format!("{}: {memory}", gpu.name));
            }
        }
        // Why is said by the error at the end.
        None => row("GPUs", "none".to_owned()),
    }
    if let Some(torch) = &document.torch {
        let version = torch.torch.as_deref().unwrap_or("none");
        let cuda = torch.cuda.as_deref().map_or_else(|| "without CUDA".to_owned(), |cuda| format!("for CUDA {cuda}"));
        row("torch", format!("{version}, {cuda}, Python {}", torch.python));
    }
    for setting in &document.settings {
        let hidden = if setting.is_used { "" } else { " (hidden by the one above)" };
        row(setting.variable, format!("{}{hidden}", setting.value));
    }
    table
}
