//! The shape of the command line: `highwater COMMAND FILE [options]`.
//!
//! The options of a command stand in the command's own file.

use std::fmt::Write as _;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use highwater_analysis::callsite::Lines;

use crate::commands::{
    check, completions, demo, diff, doctor, dryrun, estimate, explain, export, help, live, man, ranks, report, run,
    segments, simulate, sql, stats, trace, view,
};
use crate::style::{DIM, STRONG};
use crate::table::{broken, prose_width, terminal_width};

/// Shows and explains the GPU memory use of PyTorch programs.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// When to use colours: `auto` means on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    #[arg(display_order = 1000, help = "Use colours: auto, always or never")]
    pub(crate) color: Color,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// The choice of a line that is no command line, or asks for help.
    pub(crate) fn of_words(words: &[std::ffi::OsString]) -> Self {
        let mut words = words.iter().filter_map(|word| word.to_str());
        let choice = words.by_ref().find_map(|word| match word {
            "--color" => Some(None),
            _ => word.strip_prefix("--color=").map(Some),
        });
        let choice = choice.and_then(|choice| choice.or_else(|| words.next()));
        choice.and_then(|choice| Self::from_str(choice, true).ok()).unwrap_or_default()
    }

    /// Has everything that is printed from now on follow the choice.
    pub(crate) fn set(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// One subcommand each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the use of GPU memory over time, its largest call sites, and findings
    Report(report::Args),
    /// Explain why memory ran out and how to fix it: from the error's text, a log or a snapshot
    Explain(explain::Args),
    /// List the memory allocated at a moment, by call site or block by block
    Live(live::Args),
    /// Print the output of `torch.cuda.memory_summary()` at the dump
    Stats(stats::Args),
    /// List the entries of the trace, filtered
    Trace(trace::Args),
    /// Draw the segments and the blocks in them, as they were at the dump
    Segments(segments::Args),
    /// Replay a recording with other settings, less memory or another GPU
    Simulate(simulate::Args),
    /// Compute the GPU memory of a model, for training or inference, from its configuration
    Estimate(Box<estimate::Args>),
    /// Show the changes from one recording to another
    Diff(diff::Args),
    /// Compare the ranks of a job: which differ, by how much, and why
    Ranks(ranks::Args),
    /// Check a recording against memory budgets; exits 1 if one is exceeded
    Check(check::Args),
    /// Run a Python script and record its memory
    Run(run::Args),
    /// Run a Python script without a GPU, and show the memory that it would use on one
    Dryrun(dryrun::Args),
    /// Look at snapshots of any size in the browser: timeline, segments, flame graph
    View(view::Args),
    /// Watch the GPUs: memory, processes, and how PyTorch uses it
    Top(highwater_top::Args),
    /// Check this machine's GPU memory setup and suggest fixes
    Doctor(doctor::Args),
    /// Convert the snapshot for another program, or many into a database
    Export(export::Args),
    /// Query one recording or many in SQL
    Sql(sql::Args),
    /// Explain a bundled recording of a failure; needs no file
    Demo(demo::Args),
    /// Print the help of a command, or the page of a finding
    Help(help::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
    /// Print the manual page, or write one page for each command
    Man(man::Args),
}

/// The commands as the help shows them, in groups.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Something failed", &["explain", "report", "view"]),
    ("Before you run", &["estimate", "dryrun", "simulate"]),
    ("Compare and guard", &["diff", "ranks", "check"]),
    ("Watch", &["run", "top", "doctor"]),
    ("Details", &["live", "trace", "segments", "stats", "export", "sql"]),
    ("About highwater", &["demo", "help", "completions", "man"]),
];

/// Where to begin.
const FIRST: [(&str, &str); 3] = [
    ("highwater explain train.log", "why memory ran out, and how to fix it"),
    ("highwater run.pickle", "the use of GPU memory over time"),
    ("highwater estimate llama3.1-8b --fit 24GiB", "the memory of a model, before you run it"),
];

/// The command line, with its commands in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let width = prose_width(terminal_width());
    let mut text = format!("{{about}}\n\n{STRONG}Begin with{STRONG:#}\n");
    for (example, says) in FIRST {
        // Both stand in one line where there is room.
        let gap = if width < 90 { "\n      ".to_owned() } else { " ".repeat(46 - example.len()) };
        let _ = writeln!(text, "  {example}{gap}{DIM}{says}{DIM:#}");
    }
    for (group, names) in GROUPS {
        let _ = writeln!(text, "\n{STRONG}{group}{STRONG:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            for (number, line) in broken(&about, width.saturating_sub(15)).iter().enumerate() {
                let _ = writeln!(text, "  {:11}  {line}", if number == 0 { *name } else { "" });
            }
        }
    }
    let _ = write!(
        text,
        "\n{STRONG}Usage{STRONG:#}\n  highwater COMMAND [OPTIONS]\n  highwater FILE\n\n{STRONG}Options{STRONG:#}\n{{options}}"
    );
    command.help_template(text)
}

/// Whether there is a command of this name.
pub(crate) fn is_command(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// The names of the commands.
pub(crate) fn commands() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| names.iter().copied())
}

/// The words that somebody may have meant, the most likely first.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Vec<&'a str> {
    /// Below this two words have little in common.
    const ALIKE: f64 = 0.8;
    let word = word.to_ascii_lowercase();
    let alike = |known: &str| {
        let is_part = word.split('-').any(|part| part.len() > 3 && known.split('-').any(|other| other == part));
        if is_part { 1.0 } else { strsim::jaro_winkler(&word, known) }
    };
    let mut near: Vec<_> =
        known.iter().map(|&known| (alike(known), known)).filter(|(alike, _)| *alike > ALIKE).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(3).map(|(_, known)| known).collect()
}

/// Which lines stand for allocations.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SitesArgs {
    /// Line to show for an allocation: a library's, the program's own, or both
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
    /// The innermost line of the program itself, and totals by that line
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

/// For people, for programs, or for an issue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatToPaste {
    /// For people
    #[default]
    Text,
    /// For programs: has a version, stays compatible
    Json,
    /// For pasting into an issue
    Markdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_command_in_one_group() {
        let mut grouped: Vec<_> = commands().collect();
        let cli = Cli::command();
        let mut known: Vec<_> = cli.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
        command().debug_assert();
    }

    #[test]
    fn a_word_that_is_nearly_known_is_found() {
        let known = ["growth", "garbage-collector", "report"];
        assert_eq!(nearest("leak-growth", &known), ["growth"]);
        assert_eq!(nearest("reprot", &known), ["report"]);
        assert!(nearest("xyz", &known).is_empty());
    }
}
