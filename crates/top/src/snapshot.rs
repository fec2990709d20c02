//! `--pid N --snapshot FILE`: a snapshot of a process while it runs.

use std::io;
use std::path::Path;

use highwater_monitor::recorder::{self, AskError};
use highwater_output::sink::write_to;
use highwater_problem::Problem;

/// Asks the process, and writes what it answers.
///
/// # Errors
/// The process does not answer, or the file cannot be written.
pub(super) fn write(pid: u32, path: &Path, force: bool) -> anyhow::Result<()> {
    // A process without a socket says so before a file is made.
    if !recorder::has_socket(pid) {
        return Err(unanswered(&AskError::NoSocket { pid }).into());
    }
    let mut failed = None;
    let written = write_to(path, force, |out| match recorder::snapshot(pid, out) {
        Ok(_) => Ok(()),
        Err(error) => {
            let told = io::Error::other(error.to_string());
            failed = Some(error);
            Err(told)
        }
    });
    match failed {
        Some(error) => Err(unanswered(&error).into()),
        None => written,
    }
}

fn unanswered(error: &AskError) -> Problem {
    let problem = Problem::new(error.to_string());
    match error {
        AskError::NoSocket { .. } => problem.hint(
            "start the program with `highwater run`, with `HIGHWATER_RECORD=FILE` in its environment, or call \
             `highwater.watchable()` in it",
        ),
        AskError::NotOwn { .. } => problem.hint("remove it, or set `HIGHWATER_RUN_DIR` to another directory"),
        AskError::Io { .. } => problem.hint("it has ended, or is in a call that blocks Python: try again"),
        _ => problem,
    }
}
