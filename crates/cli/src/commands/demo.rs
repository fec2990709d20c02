//! `highwater demo`: a failure explained, without a file.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use highwater_analysis::analyse;
use highwater_snapshot::Snapshot;

use crate::commands::explain;
use crate::document::{Document, Section};
use crate::output::{text_to_stdout, write_to};
use crate::table::terminal_width;

/// A real recording of 14 KB: GPT-2 in training on an H200, with a limit of 8 GiB.
const RECORDING: &[u8] = include_bytes!("../../embedded/oom_gpt2_8gib.pickle.gz");
/// How it is called where it is explained and, by default, saved.
const NAME: &str = "oom.pickle.gz";

/// Options of `highwater demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  highwater demo -o oom.pickle.gz && highwater view oom.pickle.gz")]
pub(crate) struct Args {
    /// Write the recording to this file rather than explain it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Explains the recording, or writes it.
///
/// # Errors
/// Those of the output.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        return write_to(path, args.force, |out| out.write_all(RECORDING));
    }
    let snapshot = Snapshot::read(RECORDING.take(u64::MAX)).context("the bundled recording cannot be read")?;
    let analysis = analyse(&snapshot);
    let view = explain::view_of_snapshot(&analysis, None, NAME)?;
    text_to_stdout(|out| {
        introduction().write_text(out, terminal_width())?;
        writeln!(out)?;
        explain::text::write(out, &view, NAME)?;
        writeln!(out)?;
        continuation().write_text(out, terminal_width())
    })
}

/// What the answer is about.
fn introduction() -> Document {
    let said = "This recording comes with highwater: PyTorch trained GPT-2 on an H200, with a limit of 8 GiB, and ran out of \
                memory. `highwater explain` says of it:";
    Document { lead: vec![said.into()], ..Document::default() }
}

/// What to do next.
fn continuation() -> Document {
    let commands = [
        (format!("highwater demo -o {NAME}"), "save the recording, for the next two"),
        (format!("highwater view {NAME}"), "see it in the browser"),
        (format!("highwater simulate {NAME}"), "try other settings and other GPUs"),
        ("highwater run train.py".to_owned(), "record a program of yours"),
    ];
    let mut section = Section::new("Look further");
    section.picture(commands.map(|(command, says)| format!("{command:34}{says}")));
    Document { sections: vec![section], ..Document::default() }
}
