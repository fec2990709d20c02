//! The subcommands, a file each.

pub(crate) mod completions;
pub(crate) mod export;
pub(crate) mod man;
pub(crate) mod segments;
pub(crate) mod trace;

use crate::args::Command;

/// Does what the command line asks.
///
/// # Errors
/// What went wrong, for [`crate::error::report`].
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Trace(args) => trace::run(&args),
        Command::Segments(args) => segments::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
