//! `highwater export FILE --to FORMAT`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use highwater_analysis::StackClasses;
use highwater_answers::moment::Moment;
use highwater_export as export;
use highwater_viewer::{PageOptions, write_page};

use crate::error::Problem;
use crate::input::InputArgs;
use crate::output::OutputArgs;
use crate::progress::SimulationBar;
use crate::recordings::{Job, RunArgs};
use crate::units::parse_bytes;
use crate::warnings;

/// Options of `highwater export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  highwater export run.pickle --to html -o run.html         one page to mail
  highwater export run.pickle --to chrome-trace -o run.json   ui.perfetto.dev
  highwater export run.pickle --to folded | inferno-flamegraph > peak.svg
  highwater export run.pickle --to pickle --redact -o to-share.pickle
  highwater export job/ --to parquet -o tables              a database of many")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// With parquet: further snapshots and folders of snapshots
    #[arg(value_name = "PATH")]
    more: Vec<PathBuf>,
    /// Format to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Target,
    /// With speedscope and folded: the moment to show: after an entry, `oom` or `end` [default: peak]
    #[arg(long, value_name = "ENTRY|peak|oom|end")]
    at: Option<Moment>,
    /// With html: leave out allocations smaller than this, such as `64KiB`; the page says so
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    min_size: Option<u64>,
    /// With html: include the simulator's answers, even for a long trace
    #[arg(long, conflicts_with = "no_what_if")]
    what_if: bool,
    /// With html: leave the simulator's answers out
    #[arg(long)]
    no_what_if: bool,
    /// With parquet: also write the table of all entries
    #[arg(long)]
    entries: bool,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// The snapshot with PyTorch's keys, as JSON
    Json,
    /// The trace, a row for each entry, with the category of its block
    Csv,
    /// The snapshot as PyTorch writes it
    Pickle,
    /// Requested and reserved bytes over time, for ui.perfetto.dev and Chrome
    ChromeTrace,
    /// The live memory at one moment, for speedscope.app
    Speedscope,
    /// The live memory at one moment, for flamegraph.pl and inferno
    Folded,
    /// The page of `highwater view` as one file, which needs no server and no network
    Html,
    /// Tables for DuckDB, polars, pandas and Spark: a folder of files
    Parquet,
}

/// Converts the snapshot.
///
/// # Errors
/// If the snapshot cannot be read, the format cannot hold what was asked for, or the output cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.check()?;
    match args.to {
        Target::Parquet => return args.export_tables(),
        Target::Json | Target::Pickle => args.export_snapshot(),
        Target::Html => args.export_page(),
        Target::Csv | Target::ChromeTrace | Target::Speedscope | Target::Folded => args.export_analysis(),
    }
    .map(|()| ExitCode::SUCCESS)
}

impl Target {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Args {
    fn check(&self) -> Result<(), Problem> {
        if self.to == Target::Pickle && self.output.is_terminal() {
            return Err(Problem::new("a pickle is not text for a terminal").hint("name a file with `-o FILE`"));
        }
        if self.to == Target::Html && self.output.is_terminal() {
            return Err(Problem::new("a page is not text for a terminal").hint("name a file with `-o FILE`"));
        }
        if self.to == Target::Html && !highwater_viewer::ui_is_built() {
            return Err(Problem::new("this build of highwater has no viewer")
                .because("it was built before the page in `ui/`")
                .hint("`make ui build` builds both"));
        }
        let of_page =
            [("--min-size", self.min_size.is_some()), ("--what-if", self.what_if), ("--no-what-if", self.no_what_if)];
        if let Some((option, _)) = of_page.iter().find(|(_, is_given)| *is_given && self.to != Target::Html) {
            return Err(Problem::new(format!("`{option}` only goes with `--to html`"))
                .hint("the other formats have every allocation, but no answers of the simulator"));
        }
        let of_tables = [("--entries", self.entries), ("--run", self.run.is_given())];
        if let Some((option, _)) = of_tables.iter().find(|(_, is_given)| *is_given && self.to != Target::Parquet) {
            return Err(Problem::new(format!("`{option}` only goes with `--to parquet`"))
                .hint("the other formats have no tables"));
        }
        if !self.more.is_empty() && self.to != Target::Parquet {
            return Err(Problem::new(format!("`--to {}` takes one snapshot", self.to.name()))
                .hint("convert the files one by one, or all of them with `--to parquet`"));
        }
        if self.to == Target::Parquet && self.output.is_stdout() {
            return Err(Problem::new("tables are a folder of files").hint("name the folder with `-o OUT`"));
        }
        if matches!(self.to, Target::Json | Target::Pickle | Target::Parquet) && self.input.device.is_some() {
            return Err(Problem::new(format!("`--device` does not go with `--to {}`", self.to.name()))
                .hint("it contains the whole snapshot"));
        }
        if !matches!(self.to, Target::Speedscope | Target::Folded) && self.at.is_some() {
            return Err(Problem::new("`--at` only goes with `--to speedscope` and `--to folded`")
                .hint("the other formats contain the whole trace"));
        }
        Ok(())
    }

    /// The tables of many recordings.
    fn export_tables(&self) -> anyhow::Result<ExitCode> {
        let paths: Vec<PathBuf> = std::iter::once(&self.input.file).chain(&self.more).cloned().collect();
        let job = Job::new(&paths, &self.run, self.input.size, self.input.redact)?;
        let out = self.output.output.as_deref().unwrap_or(std::path::Path::new("."));
        let target = export::parquet::Target { out, part: 0, force: self.output.force, with_entries: self.entries };
        job.write_tables(&target)
    }

    /// Formats that hold what the file holds.
    fn export_snapshot(&self) -> anyhow::Result<()> {
        let snapshot = self.input.read()?;
        if let Some(profile) = &snapshot.profile {
            return Err(Problem::new(format!("{} is {}", self.input.name(), profile.form.name()))
                .because("a snapshot made from it would lack segments and blocks")
                .hint(
                    "`--to csv`, `--to chrome-trace`, `--to speedscope`, `--to folded` and `--to html` contain \
                 its data",
                )
                .into());
        }
        self.output.write(|out| match self.to {
            Target::Json => snapshot.write_json(out),
            _ => snapshot.write_pickle(out),
        })?;
        Ok(warnings::print(&snapshot.warnings)?)
    }

    /// The page with all of it.
    fn export_page(&self) -> anyhow::Result<()> {
        let (snapshot, classes) = self.input.read_drawn(StackClasses::new)?;
        let mut analysis = highwater_analysis::analyse_with(&snapshot, classes);
        analysis.devices.retain(|device| self.input.device.is_none_or(|wanted| device.device == wanted));
        let what_if = match (self.what_if, self.no_what_if) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        let options = PageOptions { least_bytes: self.min_size, what_if, ..PageOptions::default() };
        let name = self.input.file_name();
        self.output.write(|out| write_page(out, &analysis, &name, &options, &SimulationBar::watch()))?;
        Ok(warnings::print_all(&analysis)?)
    }

    /// Formats that hold what follows from it.
    fn export_analysis(&self) -> anyhow::Result<()> {
        let (snapshot, classes) = self.input.read_with(StackClasses::new)?;
        let analysis = highwater_analysis::analyse_with(&snapshot, classes);
        let devices = self.input.devices(&snapshot);
        let moment = self.at.unwrap_or_default();
        let devices = moment.devices(&analysis, &devices)?;
        self.output.write(|out| match self.to {
            Target::Csv => export::csv::write(out, &analysis, &devices),
            Target::ChromeTrace => export::chrome_trace::write(out, &analysis, &devices),
            Target::Speedscope => export::speedscope::write(out, &analysis, &devices, moment),
            _ => export::folded::write(out, &analysis, &devices, moment),
        })?;
        Ok(warnings::print_all(&analysis)?)
    }
}
