//! The subcommands, a file each.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dryrun;
pub(crate) mod estimate;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod live;
pub(crate) mod man;
pub(crate) mod ranks;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod segments;
pub(crate) mod simulate;
pub(crate) mod sql;
pub(crate) mod stats;
pub(crate) mod trace;
pub(crate) mod view;

use std::process::ExitCode;

use crate::args::Command;

/// What a check exits with that finds what it looks for.
pub(crate) const CHECK_FAILED: u8 = 1;

/// Does what the command line asks, and gives the exit status.
///
/// # Errors
/// What went wrong, for [`crate::error::report`].
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Report(args) => report::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Live(args) => live::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Segments(args) => segments::run(&args),
        Command::Simulate(args) => return simulate::run(&args),
        Command::Run(args) => return run::run(&args),
        Command::Check(args) => return check::run(&args),
        Command::Dryrun(args) => return dryrun::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Ranks(args) => return ranks::run(&args),
        Command::Estimate(args) => estimate::run(&args),
        Command::View(args) => view::run(&args),
        Command::Top(args) => highwater_top::run(&args),
        Command::Doctor(args) => return doctor::run(&args),
        Command::Export(args) => return export::run(&args),
        Command::Sql(args) => return sql::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Help(args) => return help::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}
