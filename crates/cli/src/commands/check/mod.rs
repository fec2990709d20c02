//! `highwater check`: budgets, with an exit status.

pub(crate) mod budgets;
mod output;

pub(crate) use output::text;

use std::path::PathBuf;
use std::process::ExitCode;

use highwater_analysis::{Analysis, DeviceAnalysis, StackClasses, analyse_with};
use highwater_documents::check::{CheckView, Row};
use highwater_findings::budget::{Measure, check, measure_of, with_tolerance};

use self::budgets::Budgets;
use crate::args::SitesArgs;
use crate::commands::CHECK_FAILED;
use crate::error::Problem;
use crate::input::{self, InputArgs, SizeArgs};
use crate::output::{to_stdout, write_json};
use crate::printable::Lines;
use crate::units::{parse_bytes, parse_size};

/// For people, for programs, or for a workflow of GitHub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people: one line per rule
    #[default]
    Text,
    /// For programs: has a version, stays compatible
    Json,
    /// For pasting into an issue
    Markdown,
    /// Annotations of a workflow: an error for each rule that fails
    Github,
}

/// The options of `highwater check`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Exit status: 0 if every budget is kept, 1 if one is not, 2 for bad usage or input.

Examples:
  highwater check run.pickle --max-peak-reserved 16GiB --max-fragmentation 10%
  highwater check run.pickle --baseline last-release.pickle --tolerance 2%")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    sites: SitesArgs,
    #[command(flatten)]
    limits: Limits,
    /// Use this recording's peaks and growth as limits
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Allowed excess over the baseline, such as `2%` [default: 0%]
    #[arg(long, value_name = "PERCENT", value_parser = highwater_answers::check::parse_share)]
    tolerance: Option<f64>,
    /// File with budgets; flags take precedence [default: highwater.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One flag a measure.
#[expect(clippy::struct_field_names, reason = "the flags' names")]
#[derive(Clone, Copy, Debug, Default, clap::Args)]
struct Limits {
    /// Limit on the peak of requested bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_peak_requested: Option<u64>,
    /// Limit on the peak of allocated bytes, `torch.cuda.max_memory_allocated()`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_peak_allocated: Option<u64>,
    /// Limit on the peak of reserved bytes, `torch.cuda.max_memory_reserved()`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_peak_reserved: Option<u64>,
    /// Limit on the mean growth of allocated bytes from the end of one iteration to the next
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_growth_per_iteration: Option<u64>,
    /// Limit on the share of reserved memory outside active blocks at the peak, such as `10%`
    #[arg(long, value_name = "PERCENT", value_parser = highwater_answers::check::parse_share)]
    max_fragmentation: Option<f64>,
}

/// Reads, measures, compares.
///
/// # Errors
/// If a snapshot or the budgets cannot be read, or there is no budget.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let budgets = budgets::gather(args)?;
    let (snapshot, classes) = args.input.read_with(|snapshot| StackClasses::with(snapshot, args.sites.lines()))?;
    let analysis = analyse_with(&snapshot, classes);
    let devices = args.input.devices(&snapshot);
    let shown: Vec<&DeviceAnalysis<'_>> = analysis.devices.iter().filter(|d| devices.contains(&d.device)).collect();
    if shown.is_empty() {
        return Err(Problem::new(format!("{} has no device to check", args.input.name()))
            .hint("record with `torch.cuda.memory._record_memory_history()` before the program allocates")
            .into());
    }
    let mut rows = highwater_answers::check::rows(&analysis, &shown, &budgets.limits);
    if let Some(baseline) = &budgets.baseline {
        against_baseline(&budgets, (baseline, args.input.size), &analysis, &shown, &mut rows)?;
    }
    let view = CheckView::new(&analysis, &rows);
    let title = args.input.short_name();
    to_stdout(|out| match args.format {
        Format::Text => output::text(&mut Lines::for_stdout(out), &view),
        Format::Json => write_json(out, &view),
        Format::Markdown => output::document(&view).write_markdown(out),
        Format::Github => output::github(&mut Lines::plain(out), &view, &title),
    })?;
    crate::warnings::print_all(&analysis)?;
    Ok(if view.passed { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

/// What a baseline limits: fragmentation is left out, for it follows from the two peaks.
const COMPARED: [Measure; 4] =
    [Measure::PeakRequested, Measure::PeakAllocated, Measure::PeakReserved, Measure::GrowthPerIteration];

fn against_baseline(
    budgets: &Budgets,
    (baseline, size): (&std::path::Path, SizeArgs),
    analysis: &Analysis<'_>,
    devices: &[&DeviceAnalysis<'_>],
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let old = input::read_snapshot(baseline, size)?;
    let old = highwater_analysis::analyse(&old);
    for device in devices {
        old.snapshot.check_device(&input::name(baseline), Some(device.device))?;
        let Some(before) = old.device(device.device) else { continue };
        for measure in COMPARED {
            // What the baseline cannot tell is no budget.
            let Ok(was) = measure_of(&old, before, measure) else { continue };
            let checked = check(analysis, device, measure, with_tolerance(was.amount, budgets.tolerance));
            rows.push(Row { device: device.device, is_baseline: true, checked });
        }
    }
    Ok(())
}
