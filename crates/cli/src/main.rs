//! The program: [`highwater_cli`] does it all.

use std::process::ExitCode;

fn main() -> ExitCode {
    highwater_cli::run(std::env::args_os())
}
