//! The shape of the command line: `highwater COMMAND FILE [options]`.
//!
//! The options of a command stand in the command's own file.

use clap::{Parser, Subcommand, ValueEnum};
use highwater_analysis::callsite::Lines;

use crate::commands::{
    check, completions, diff, doctor, dryrun, estimate, explain, export, live, man, report, run, segments, simulate,
    stats, trace, view,
};

/// Shows and explains the GPU memory use of PyTorch programs.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One subcommand each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what filled the GPU, and when
    Report(report::Args),
    /// Say why memory ran out and what to change, from the error's text, a log or a snapshot
    Explain(explain::Args),
    /// List what was allocated at a moment, by call site or block by block
    Live(live::Args),
    /// Print what `torch.cuda.memory_summary()` would have printed at the dump
    Stats(stats::Args),
    /// List the entries of the trace, filtered
    Trace(trace::Args),
    /// Draw the segments and the blocks in them, as they were at the dump
    Segments(segments::Args),
    /// Run PyTorch's allocator on what a program asked for: under other settings, with less memory
    Simulate(simulate::Args),
    /// Work out what a model needs, for training or inference, from its configuration
    Estimate(Box<estimate::Args>),
    /// Say what changed from one recording to another
    Diff(diff::Args),
    /// Hold a recording against budgets: exit status 1 if one is not kept
    Check(check::Args),
    /// Run a Python script and record its memory
    Run(run::Args),
    /// Run a Python script with no GPU, and say what it would have taken on one
    Dryrun(dryrun::Args),
    /// Look at snapshots in the browser: timeline, segments, flame graph, at any size
    View(view::Args),
    /// Watch the GPUs: memory, processes, and how PyTorch uses it
    Top(highwater_top::Args),
    /// Say what of this machine's set-up matters for GPU memory, and what to change
    Doctor(doctor::Args),
    /// Convert the snapshot for another program
    Export(export::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
    /// Print the manual page, or write one page for each command
    Man(man::Args),
}

/// Which lines stand for allocations.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SitesArgs {
    /// Which line to show for an allocation: a library's, the program's own, or both
    #[arg(long = "sites", value_name = "LINES", value_enum, default_value_t)]
    lines: ShownLines,
}

impl SitesArgs {
    /// Those lines.
    pub(crate) const fn lines(self) -> Lines {
        match self.lines {
            ShownLines::Library => Lines::Library,
            ShownLines::Own => Lines::Own,
            ShownLines::Both => Lines::Both,
        }
    }
}

/// A line of a library, of the program, or of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ShownLines {
    /// The innermost line that is not PyTorch's
    Library,
    /// The innermost line of the program itself, and sums by that line
    Own,
    /// The line of the library, and the program's own beside it
    #[default]
    Both,
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: has a version, stays compatible
    Json,
}

impl Format {
    /// How many rows to show: as many as asked for, 0 meaning all; else `as_text` of them as text, and all as JSON.
    pub(crate) fn limit(self, asked: Option<usize>, as_text: usize) -> usize {
        match (asked, self) {
            (Some(0), _) | (None, Self::Json) => usize::MAX,
            (Some(limit), _) => limit,
            (None, Self::Text) => as_text,
        }
    }
}
