//! `highwater man`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap_mangen::Man;
use highwater_output::whole_file::move_file;

use crate::args;
use crate::output;

/// Options of `highwater man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  highwater man | man -l -
  highwater man -o ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write a page for each command to this directory, replacing older ones
    #[arg(short, long, alias = "out", value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints the manual page, or writes all of them.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.output {
        None => output::to_stdout(|out| Man::new(args::command()).render(out)),
        Some(directory) => write_all(directory),
    }
}

fn write_all(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .and_then(|()| {
            let pages = tempfile::tempdir()?;
            clap_mangen::generate_to(args::command(), pages.path())?;
            for page in std::fs::read_dir(pages.path())? {
                let page = page?;
                move_file(&page.path(), &directory.join(page.file_name()))?;
            }
            Ok(())
        })
        .with_context(|| format!("cannot write manual pages to `{}`", directory.display()))?;
    // The pages are written; that nobody can be told is no failure.
    let _ = writeln!(io::stderr(), "wrote the manual pages to {}", directory.display());
    Ok(())
}
