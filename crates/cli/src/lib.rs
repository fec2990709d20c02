//! `highwater`: shows and explains the GPU memory use of PyTorch programs, from the command line.
//!
//! The only crate that prints or exits. Data go to standard output, all else to standard error; the exit status is 0
//! when done, 1 when a check or budget failed, 2 for bad usage or input.
//!
//! More than 9,000 lines, because each command keeps its arguments, its text and its exit status in one place: a crate for the texts alone
//! would take half of every command away.
//!
//! It is a library so that the Python package is the same program: [`run`] is all of it, and
//! [`texts`] what its commands print of a snapshot that is read already. Documents for Python come from `highwater-answers`.

mod args;
mod browser;
mod commands;
mod error;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod output;
mod progress;
mod python;
mod recordings;
mod report;
pub mod texts;
mod units;
mod warnings;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::FromArgMatches as _;

pub use error::Problem;
use highwater_output::{document, printable, style, table};

/// Does what a command line asks, the program's name being its first word, and gives the exit status.
pub fn run<I>(arguments: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let words: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let words = match front::with_command(words) {
        Ok(words) => words,
        Err(problem) => return error::report(&problem.into()),
    };
    let matches = args::command().try_get_matches_from(&words);
    let cli = match matches.and_then(|matches| args::Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(usage) => {
            if let Some(problem) = front::several(&words).filter(|_| usage.use_stderr()) {
                return error::report(&problem.into());
            }
            args::Color::of_words(&words).set();
            let choice = if usage.use_stderr() { style::choice(&io::stderr()) } else { style::choice(&io::stdout()) };
            choice.write_global();
            // Nobody is left to tell if the output is closed.
            let _ = usage.print();
            return if usage.use_stderr() { ExitCode::from(error::BAD_INPUT) } else { ExitCode::SUCCESS };
        }
    };
    cli.color.set();
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) => error::report(&error),
    }
}
