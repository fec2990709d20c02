//! `highwater diff`: what changed from one recording to another.

mod batch;
mod events;
mod text;

use std::path::PathBuf;

use anyhow::Context as _;
use highwater_analysis::{Analysis, StackClasses, analyse_with};
use highwater_documents::diff::{Compared, DiffView};
use highwater_findings::batch::{NoFit, fit};
use highwater_findings::diff::{Moment, SettingDiff, compare_devices, matching_devices, settings};
use highwater_snapshot::Snapshot;

use crate::args::{Format, SitesArgs};
use crate::error::Problem;
use crate::input;
use crate::output::{text_to_stdout, to_stdout, write_json};
use crate::units::{counted, parse_size};

/// Nobody's batch has more.
const MAX_ROWS: u64 = 1 << 40;

/// The options of `highwater diff`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater diff before.pickle after.pickle
  highwater diff first.pickle second.pickle --at end     two dumps of one process: what grew between them
  highwater diff batch8.pickle batch16.pickle --at iteration:2
  highwater diff batch8.pickle batch16.pickle --rows 8,16 --capacity 24GiB     the largest batch that fits
  highwater diff rank0.pickle rank1.pickle --device 0,1     device 0 of the one and device 1 of the other
  highwater diff real.pickle dryrun.pickle --events     whether both did the very same")]
pub(crate) struct Args {
    /// The snapshots: each is compared with the first
    #[arg(num_args = 2.., required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// When to compare: `peak`, `end`, or `iteration:N` for the peak of one [default: end for two dumps of one process,
    /// else peak]
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    at: Option<Moment>,
    /// Rows in the batch of each file, such as `8,16` [default: by the inputs, in batches of the first file]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=MAX_ROWS))]
    rows: Option<Vec<u64>>,
    /// Say the largest batch whose peak is within so much memory, such as `24GiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Compare entry by entry, action, size and stream: whether a program did the very same in two runs
    #[arg(long, conflicts_with_all = ["at", "rows", "capacity"])]
    events: bool,
    /// Only this device; or the device of each file, such as `0,1` [default: every device that all files have, or the
    /// only one of each]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    device: Option<Vec<u32>>,
    #[command(flatten)]
    size: input::SizeArgs,
    #[command(flatten)]
    sites: SitesArgs,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What is asked of recordings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// When to compare.
    pub(crate) at: Option<Moment>,
    /// Only this device, or that of each recording.
    pub(crate) device: Option<Vec<u32>>,
    /// Rows in the batch of each recording.
    pub(crate) rows: Option<Vec<u64>>,
    /// Memory that the largest batch is to fit.
    pub(crate) capacity_bytes: Option<u64>,
}

/// All that is printed.
pub(crate) struct Comparison<'a> {
    /// What the recordings are called.
    files: Vec<String>,
    analyses: &'a [Analysis<'a>],
    asked: Asked,
    devices: Vec<Compared<'a>>,
    settings: Vec<SettingDiff<'a>>,
}

/// When to compare, as it is said on the command line.
pub(crate) fn moment(text: &str) -> Result<Moment, &'static str> {
    match text {
        "peak" => Ok(Moment::Peak),
        "end" => Ok(Moment::End),
        _ => text
            .strip_prefix("iteration:")
            .and_then(|number| number.parse().ok())
            .map(Moment::Iteration)
            .ok_or("expected `peak`, `end` or `iteration:N`"),
    }
}

/// Reads all, compares, prints.
///
/// # Errors
/// If a snapshot cannot be read, or they have no device in common.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let snapshots =
        args.files.iter().map(|file| input::read_snapshot(file, args.size)).collect::<Result<Vec<Snapshot>, _>>()?;
    if args.events {
        return events::run(args, &snapshots);
    }
    let analyses: Vec<Analysis<'_>> = snapshots
        .iter()
        .map(|snapshot| analyse_with(snapshot, StackClasses::with(snapshot, args.sites.lines())))
        .collect();
    let names = args.files.iter().map(|file| input::short_name(file)).collect();
    let asked =
        Asked { at: args.at, device: args.device.clone(), rows: args.rows.clone(), capacity_bytes: args.capacity };
    let comparison = Comparison::new(names, &analyses, asked)?;
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &comparison.view()))?,
        Format::Text => {
            let options =
                text::Options { top: args.top, asks_for_batch: args.rows.is_some() || args.capacity.is_some() };
            text_to_stdout(|out| text::write(out, &comparison.view(), options))?;
        }
    }
    analyses.iter().try_for_each(crate::warnings::print_all).context("cannot write to standard error")
}

impl<'a> Comparison<'a> {
    /// Compares recordings; `files` is what they are called.
    ///
    /// # Errors
    /// If they have no such device in common, or one of them has no such iteration.
    pub(crate) fn new(files: Vec<String>, analyses: &'a [Analysis<'a>], asked: Asked) -> Result<Self, Problem> {
        if let Some(rows) = asked.rows.as_ref().filter(|rows| rows.len() != files.len()) {
            let (rows, files) = (counted(rows.len(), "number", "numbers"), counted(files.len(), "file", "files"));
            return Err(Problem::new(format!("`--rows` has {rows} for {files}"))
                .hint("give the rows of each file's batch, in the order of the files: `--rows 8,16`"));
        }
        let of_each: Vec<Vec<u32>> =
            analyses.iter().map(|analysis| analysis.devices.iter().map(|device| device.device).collect()).collect();
        let matching = chosen_devices(asked.device.as_deref(), &of_each, &files)?;
        if let Some(Moment::Iteration(number)) = asked.at {
            matching.iter().try_for_each(|devices| check_iteration(&files, analyses, devices, number))?;
        }
        let diffs = matching.iter().filter_map(|devices| compare_devices(analyses, devices, asked.at));
        let devices = diffs.map(|(at, diff)| {
            let batch = match diff.later_by {
                Some(_) => Err(NoFit::OneProcess),
                None => fit(analyses, &diff.devices, asked.rows.as_deref()),
            };
            Compared { at, diff, batch }
        });
        let devices = devices.collect();
        Ok(Self { files, analyses, devices, settings: settings(analyses), asked })
    }

    /// The document for programs.
    pub(crate) fn view(&self) -> DiffView<'_> {
        DiffView::new(self.files.clone(), self.analyses, &self.devices, &self.settings, self.asked.capacity_bytes)
    }
}

/// The devices to compare, a number for each file: those that are asked for, or else those that match.
///
/// # Errors
/// If a file has no such device, or none match.
fn chosen_devices(asked: Option<&[u32]>, of_each: &[Vec<u32>], files: &[String]) -> Result<Vec<Vec<u32>>, Problem> {
    let matching = match asked {
        None => matching_devices(of_each),
        Some(&[device]) => vec![vec![device; files.len()]],
        Some(devices) if devices.len() == files.len() => vec![devices.to_vec()],
        Some(devices) => {
            let (devices, files) = (counted(devices.len(), "number", "numbers"), counted(files.len(), "file", "files"));
            return Err(Problem::new(format!("`--device` has {devices} for {files}"))
                .hint("give one number for all files, or one for each, in their order: `--device 0,1`"));
        }
    };
    let is_there = |devices: &Vec<u32>| devices.iter().zip(of_each).all(|(device, of)| of.contains(device));
    if matching.is_empty() || !matching.iter().all(is_there) {
        return Err(none_in_common(files, of_each));
    }
    Ok(matching)
}

/// Says if a recording ends before the iteration that is asked for.
fn check_iteration(names: &[String], analyses: &[Analysis<'_>], devices: &[u32], number: usize) -> Result<(), Problem> {
    for ((name, analysis), &device) in names.iter().zip(analyses).zip(devices) {
        let there = analysis.device(device).map_or(0, |device| device.iterations.rows.len());
        if number >= there {
            let what = format!("`{name}` has no iteration {number} on device {device}");
            return Err(Problem::new(what).hint(match there {
                0 => "no iterations were found in it; compare at `peak` or `end`".to_owned(),
                _ => format!("it has iterations 0 to {}", there - 1),
            }));
        }
    }
    Ok(())
}

fn none_in_common(names: &[String], of_each: &[Vec<u32>]) -> Problem {
    let has: Vec<String> = names
        .iter()
        .zip(of_each)
        .map(|(name, devices)| {
            let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
            format!("`{name}` has {}", if devices.is_empty() { "none".to_owned() } else { devices.join(", ") })
        })
        .collect();
    let problem = Problem::new("the snapshots have no such device in common").because(has.join("; "));
    problem.hint("give the device of each, in the order of the files: `--device 0,1`")
}
