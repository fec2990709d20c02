//! `highwater doctor`: the set-up at a glance, and what to change.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use highwater_doctor::{ask, examined};
use highwater_documents::doctor::Severity;
use highwater_monitor::{Absence, Detail, Sample, Sampler};

use crate::args::Format;
use crate::commands::CHECK_FAILED;
use crate::output::{to_stdout, write_json};
use crate::printable::Lines;
use crate::table::terminal_width;

/// The options of `highwater doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 if there is no problem (advice is not one), 1 if there is one, 2 without a GPU.

Examples:
  highwater doctor
  highwater doctor --python .venv/bin/python --format json"
)]
pub(crate) struct Args {
    /// The interpreter that has torch, to read its version; torch is not imported
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Looks at everything once.
///
/// # Errors
/// There is no GPU, which is said after everything else; or the interpreter cannot be asked.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let looked = look();
    let torch = args.python.as_deref().map(ask).transpose()?;
    let document = examined(looked.as_ref(), torch, &|name| std::env::var(name).ok());
    to_stdout(|out| match args.format {
        Format::Json => write_json(out, &document),
        Format::Text => text::write(&mut Lines::for_stdout(out), &document, terminal_width()),
    })?;
    if let Err(absence) = looked {
        return Err(crate::error::Problem::from(absence).into());
    }
    let is_wrong = document.findings.iter().any(|finding| finding.severity == Severity::Problem);
    Ok(if is_wrong { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS })
}

fn look() -> Result<Sample, Absence> {
    let time_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    Sampler::open(None)?.sample(u64::try_from(time_us).unwrap_or(u64::MAX), Detail::All)
}
