//! `highwater`: shows and explains the GPU memory use of PyTorch programs, from the command line.
//!
//! The only crate that prints or exits. Data go to standard output, all else to standard error; the exit status is 0
//! when done, 1 when a check or budget failed, 2 for bad usage or input.
//!
//! It is a library so that the Python package is the same program: [`run`] is all of it, and
//! [`texts`] what its commands print of a snapshot that is read already. Documents for Python come from `highwater-answers`.

mod args;
mod browser;
mod commands;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod output;
mod progress;
mod python;
mod report;
pub mod texts;
mod units;
mod warnings;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

pub use error::Problem;
use highwater_output::{markdown, printable, table};

/// Does what a command line asks, the program's name being its first word, and gives the exit status.
pub fn run<I>(arguments: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let cli = match args::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            // Nobody is left to tell if the output is closed.
            let _ = usage.print();
            return if usage.use_stderr() { ExitCode::from(error::BAD_INPUT) } else { ExitCode::SUCCESS };
        }
    };
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) => error::report(&error),
    }
}
