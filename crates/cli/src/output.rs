//! The options of commands that can write to a file.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

pub(crate) use highwater_output::sink::{
    STDOUT, Sink, exists, is_stdout, note, text_to_stdout, to_stdout, write_json, write_to,
};

use crate::args::FormatToPaste;
use crate::document::Document;
use crate::printable::Lines;
use crate::table::terminal_width;

/// Prints an answer: as JSON `view`, else the document that `document` makes for lines of the width that it is given.
///
/// # Errors
/// Those of standard output.
pub(crate) fn print(
    format: FormatToPaste,
    view: &impl serde::Serialize,
    document: impl FnOnce(Option<usize>) -> Document,
) -> anyhow::Result<()> {
    to_stdout(|out| match format {
        FormatToPaste::Json => write_json(out, view),
        FormatToPaste::Text => {
            let width = terminal_width();
            document(width).write_text(&mut Lines::for_stdout(out), width)
        }
        FormatToPaste::Markdown => document(None).write_markdown(out),
    })
}

/// The options of a command that can write to a file.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Write to this file rather than to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

impl OutputArgs {
    /// Lets `write` write to the chosen place and says on standard error what was written, if it was a file.
    ///
    /// # Errors
    /// If the file exists already, or cannot be written; nothing of it is left then.
    pub(crate) fn write(&self, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> anyhow::Result<()> {
        write_to(self.output.as_deref().unwrap_or(Path::new(STDOUT)), self.force, write)
    }

    /// Whether the data go to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.output.as_deref().is_none_or(is_stdout)
    }

    /// Whether the data would be shown on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_stdout() && io::stdout().is_terminal()
    }
}
