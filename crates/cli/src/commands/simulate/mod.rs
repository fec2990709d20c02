//! `highwater simulate`: PyTorch's allocator on what a program asked for, by recording or by request program.

mod args;
mod program_file;
mod requests;
mod requests_view;
mod verify;
pub(crate) mod what_if;
pub(crate) mod what_if_text;

use std::process::ExitCode;

pub(crate) use args::Args;

/// Runs the mode that the options choose.
///
/// # Errors
/// If an input or an option is bad, or an output cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.requests.file {
        Some(program) => requests::run(args, program).map(|()| ExitCode::SUCCESS),
        None if args.verify => verify::run(args),
        None => what_if::run(args),
    }
}
