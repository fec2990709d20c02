//! `highwater`: shows and explains the GPU memory use of PyTorch programs, from the command line.
//!
//! The only crate that prints or exits. Data go to standard output, all else to standard error; the exit status is 0
//! when done, 1 when a check or budget failed, 2 for bad usage or input.

mod args;
mod commands;
mod error;
mod export;
mod frames;
mod input;
mod moment;
mod output;
mod printable;
mod progress;
mod report;
mod table;
mod units;
mod warnings;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) => error::report(&error),
    }
}
