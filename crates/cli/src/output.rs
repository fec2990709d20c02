//! The options of commands that can write to a file.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

pub(crate) use highwater_output::sink::{
    STDOUT, Sink, exists, is_stdout, note, text_to_stdout, to_stdout, write_json, write_to,
};

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

    /// Whether the data would be shown on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.output.as_deref().is_none_or(is_stdout) && io::stdout().is_terminal()
    }
}
