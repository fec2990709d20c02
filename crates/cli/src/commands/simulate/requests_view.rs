//! What runs of a request program led to: as tables for people, and as `highwater-simulate`.

use std::fmt;
use std::io::{self, Write};

use highwater_allocator::program::{Options, Summary};
use serde::Serialize;

use super::program_file::ProgramFile;
use super::{FORMAT, VERSION};
use crate::args::Format;
use crate::error::WARNING;
use crate::output::{to_stdout, write_json};
use crate::printable::{Lines, printable};
use crate::table::{Align, Table, terminal_width};
use crate::units::{count, counted, size};

/// What was odd and kept nothing from running.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Warning {
    pub(super) id: &'static str,
    pub(super) message: String,
    pub(super) count: u64,
    /// The first line concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.count, self.line) {
            (1, None) => Ok(()),
            (1, Some(line)) => write!(f, " (line {line})"),
            (times, None) => write!(f, " ({} times)", count(times)),
            (times, Some(line)) => write!(f, " ({} times, first: line {line})", count(times)),
        }
    }
}

/// Prints each warning to standard error.
///
/// # Errors
/// Those of standard error.
pub(super) fn print_warnings(warnings: &[Warning]) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    for warning in warnings {
        writeln!(err, "{WARNING}warning:{WARNING:#} {}", printable(&warning.to_string()))?;
    }
    Ok(())
}

/// The figures that a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    fits: bool,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    num_alloc_retries: u64,
    num_ooms: u64,
}

impl Figures {
    fn new(summary: &Summary) -> Self {
        let stats = &summary.statistics;
        Self {
            fits: summary.first_failure.is_none(),
            peak_allocated_bytes: stats.allocated_bytes.all().peak,
            peak_reserved_bytes: stats.reserved_bytes.all().peak,
            num_alloc_retries: stats.num_alloc_retries,
            num_ooms: stats.num_ooms,
        }
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct RunView {
    conf: String,
    capacity_bytes: u64,
    outcome: &'static str,
    /// The row whose request failed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_op: Option<usize>,
    /// The line of the log that this row was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_requested_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_message: Option<String>,
    peak_allocated_bytes: u64,
    peak_reserved_bytes: u64,
    num_alloc_retries: u64,
    num_ooms: u64,
    confidence: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl RunView {
    /// `others` are runs that differ in nothing but where the driver puts segments.
    pub(super) fn new(machine: &Options, summary: &Summary, others: &[Summary], file: &ProgramFile) -> Self {
        let figures = Figures::new(summary);
        let all: Vec<_> = std::iter::once(figures).chain(others.iter().map(Figures::new)).collect();
        let reason = all.iter().any(|other| *other != figures).then(|| spread(&all));
        let failure = summary.first_failure.as_ref();
        Self {
            conf: machine.conf.clone(),
            capacity_bytes: machine.capacity_bytes,
            outcome: if figures.fits { "fits" } else { "oom" },
            oom_op: failure.map(|failure| failure.op),
            oom_line: failure.and_then(|failure| file.line(failure.op)),
            oom_requested_bytes: failure.map(|failure| failure.requested_bytes),
            oom_message: failure.map(|failure| failure.message.clone()),
            peak_allocated_bytes: figures.peak_allocated_bytes,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            num_alloc_retries: figures.num_alloc_retries,
            num_ooms: figures.num_ooms,
            confidence: if reason.is_some() { "address-sensitive" } else { "exact" },
            reason,
        }
    }
}

/// In which figures runs differ, and how far.
fn spread(all: &[Figures]) -> String {
    let range = |of: fn(&Figures) -> u64, show: fn(u64) -> String, what: &str| {
        let (least, most) = (all.iter().map(of).min()?, all.iter().map(of).max()?);
        let (from, to) = (show(least), show(most));
        let text = if from == to {
            format!("{to} (or up to {} less) {what}", show(most - least))
        } else {
            format!("{from} to {to} {what}")
        };
        (least != most).then_some(text)
    };
    let fitting = all.iter().filter(|figures| figures.fits).count();
    let outcome = (1..all.len()).contains(&fitting).then(|| format!("it fits in {fitting} of them"));
    let ranges = [
        range(|figures| figures.peak_reserved_bytes, size, "reserved at the peak"),
        range(|figures| figures.peak_allocated_bytes, size, "allocated at the peak"),
        range(|figures| figures.num_alloc_retries, count, "retries"),
        range(|figures| figures.num_ooms, count, "failures"),
    ];
    let found: Vec<_> = outcome.into_iter().chain(ranges.into_iter().flatten()).collect();
    format!("over {} orders of addresses: {}", all.len(), found.join(", "))
}

/// Whose rules held.
#[derive(Debug, Serialize)]
pub(super) struct TorchView {
    pub(super) version: String,
    /// `flag`, or `default`, which is the newest version whose rules are known.
    pub(super) chosen_by: &'static str,
}

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    format: &'static str,
    version: u32,
    torch: TorchView,
    /// The policy of `--va`, or the one that the figures are of where none was given.
    addresses: String,
    program: ProgramView,
    runs: Vec<RunView>,
    warnings: &'a [Warning],
}

#[derive(Debug, Serialize)]
struct ProgramView {
    #[serde(skip)]
    title: String,
    /// `requests` or `rmm-log`.
    kind: &'static str,
    rows: usize,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        title: String,
        file: &ProgramFile,
        torch: TorchView,
        addresses: String,
        runs: Vec<RunView>,
        warnings: &'a [Warning],
    ) -> Self {
        let kind = if file.log.is_some() { "rmm-log" } else { "requests" };
        let program = ProgramView { title, kind, rows: file.program.ops.len() };
        Self { format: FORMAT, version: VERSION, torch, addresses, program, runs, warnings }
    }

    /// Prints it to standard output.
    ///
    /// # Errors
    /// Those of standard output.
    pub(super) fn print(&self, format: Format) -> anyhow::Result<()> {
        to_stdout(|out| match format {
            Format::Json => write_json(out, self),
            Format::Text => self.write_text(&mut Lines(out)),
        })
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let ProgramView { title, kind, rows } = &self.program;
        let kind = if *kind == "rmm-log" { " made of a log of RMM" } else { "" };
        let rows = counted(*rows, "row", "rows");
        writeln!(out, "{title}: {rows}{kind}, torch {}'s rules, addresses {}", self.torch.version, self.addresses)?;
        let mut table = Table::new([
            ("capacity", Align::Right),
            ("outcome", Align::Left),
            ("peak allocated", Align::Right),
            ("peak reserved", Align::Right),
            ("retries", Align::Right),
            ("settings", Align::Left),
        ])
        .indented(2);
        for run in &self.runs {
            table.row([
                size(run.capacity_bytes),
                run.outcome_text(),
                size(run.peak_allocated_bytes),
                size(run.peak_reserved_bytes),
                count(run.num_alloc_retries),
                if run.conf.is_empty() { "(PyTorch's default)".to_owned() } else { printable(&run.conf).into_owned() },
            ]);
            if let Some(reason) = &run.reason {
                table.below(format!("  {reason}"));
            }
        }
        table.write(out, terminal_width())?;
        // One message is worth its length; a table of runs says more than all of them.
        if let [RunView { oom_message: Some(message), .. }] = &self.runs[..] {
            writeln!(out, "\n{message}")?;
        }
        Ok(())
    }
}

impl RunView {
    fn outcome_text(&self) -> String {
        match (self.oom_op, self.oom_line) {
            (None, _) => "fits".to_owned(),
            (Some(_), Some(line)) => format!("out of memory at line {}", count(line)),
            (Some(op), None) => format!("out of memory at row {}", count(op)),
        }
    }
}
