//! `highwater diff`: what changed from one recording to another.

mod batch;
mod events;
mod text;

use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use highwater_analysis::{Analysis, StackClasses, analyse_with};
use highwater_answers::diff::{Asked, Comparison, moment};
use highwater_documents::diff::DiffView;
use highwater_findings::diff::Moment;
use highwater_snapshot::Snapshot;

use crate::args::{FormatToPaste, SitesArgs};
use crate::style::Ink;
use crate::units::parse_size;
use crate::{input, output};

/// Nobody's batch has more.
const MAX_ROWS: u64 = 1 << 40;

/// The options of `highwater diff`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater diff before.pickle after.pickle
  highwater diff first.pickle second.pickle --at end     growth between dumps
  highwater diff batch8.pickle batch16.pickle --at iteration:2
  highwater diff batch8.pickle batch16.pickle --rows 8,16 --capacity 24GiB
  highwater diff rank0.pickle rank1.pickle --device 0,1
  highwater diff real.pickle dryrun.pickle --events      the same requests?")]
pub(crate) struct Args {
    /// The snapshots: each is compared with the first
    #[arg(num_args = 2.., required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Moment to compare: `peak`, `end`, or `iteration:N` for the peak of one [default: end for two dumps of one process,
    /// else peak]
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    at: Option<Moment>,
    /// Rows in the batch of each file, such as `8,16` [default: from the inputs, in batches of the first file]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=MAX_ROWS))]
    rows: Option<Vec<u64>>,
    /// Print the largest batch whose peak fits in this much memory, such as `24GiB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Compare action, size and stream, entry by entry: did two runs make exactly the same requests?
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
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: FormatToPaste,
}

/// The comparison, with this many rows in each table.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(out: &mut impl Ink, view: &DiffView<'_>, top: usize) -> io::Result<()> {
    text::write(out, view, text::Options { top, asks_for_batch: false })
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
    let sides: Vec<&Analysis<'_>> = analyses.iter().collect();
    let names = args.files.iter().map(|file| input::short_name(file)).collect();
    let asked =
        Asked { at: args.at, device: args.device.clone(), rows: args.rows.clone(), capacity_bytes: args.capacity };
    let comparison = Comparison::new(names, &sides, asked)?;
    let options = text::Options { top: args.top, asks_for_batch: args.rows.is_some() || args.capacity.is_some() };
    let view = comparison.view();
    output::print(args.format, &view, |_| text::document(&view, options))?;
    analyses.iter().try_for_each(crate::warnings::print_all).context("cannot write to standard error")
}
