//! `highwater live`: who is there at a moment.

use std::io::Write as _;

use anyhow::Context as _;
use highwater_analysis::{Analysis, DeviceAnalysis, StackClasses, analyse_with};
use highwater_answers::frames;
use highwater_answers::moment::Moment;
use highwater_findings::verdict::verdict;
use highwater_snapshot::EntryId;

use crate::args::{Format, SitesArgs};
use crate::input::InputArgs;
use crate::output::{text_to_stdout, to_stdout, write_json};
use crate::style::Ink;
use crate::table::{Align, Table, terminal_width};
use crate::units::percent;
use crate::units::{count, counted, size};

/// The options of `highwater live`.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  highwater live run.pickle --at 17632\n  highwater live run.pickle --at end --blocks"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    sites: SitesArgs,
    /// The state after this entry: its number, `peak` or `end`
    #[arg(long, value_name = "ENTRY", default_value = "peak")]
    at: Moment,
    /// The state after the last entry that is not later than this time, in microseconds since the Unix epoch
    #[arg(long, value_name = "US", conflicts_with = "at")]
    at_time: Option<i64>,
    /// List each block rather than call sites
    #[arg(long)]
    blocks: bool,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads, analyses, lists.
///
/// # Errors
/// If the snapshot cannot be read, or the moment is not in it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (snapshot, classes) = args.input.read_with(|snapshot| StackClasses::with(snapshot, args.sites.lines()))?;
    let analysis = analyse_with(&snapshot, classes);
    let devices = args.input.devices(&snapshot);
    if args.at_time.is_none() {
        args.at.check(&analysis, &devices)?;
    }
    let shown = analysis.devices.iter().filter(|device| devices.contains(&device.device));
    let moments: Vec<_> = shown.map(|device| (device.device, moment(args, device))).collect();
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &highwater_documents::live(&analysis, &moments))),
        Format::Text => {
            text_to_stdout(|out| {
                if moments.is_empty() {
                    writeln!(out, "{}", verdict(&analysis))?;
                }
                moments.iter().try_for_each(|&moment| write_device(out, args, &analysis, moment))
            })?;
            crate::warnings::print_all(&analysis).context("cannot write to standard error")
        }
    }
}

/// The entry after which the state is wanted; `None` for the state before the first.
fn moment(args: &Args, device: &DeviceAnalysis<'_>) -> Option<EntryId> {
    match args.at_time {
        Some(time) => device.entries.ids().rev().find(|&id| device.entries.time_us(id).is_some_and(|t| t <= time)),
        None => args.at.entry(device),
    }
}

fn write_device(
    out: &mut impl Ink,
    args: &Args,
    analysis: &Analysis<'_>,
    (device, after): (u32, Option<EntryId>),
) -> std::io::Result<()> {
    let Some(device) = analysis.device(device) else { return Ok(()) };
    let bytes = device.live(after).map(|l| l.requested_bytes).fold(0, u64::saturating_add);
    let active = device.totals(after).active_bytes;
    let blocks = device.live(after).count();
    let at = match after {
        Some(entry) => format!("after entry {}", count(entry.index())),
        None if device.entries.is_empty() => "at the dump".to_owned(),
        None => "before the first entry".to_owned(),
    };
    writeln!(
        out,
        "Device {}, {at}: {} requested, {} active in {}",
        device.device,
        size(bytes),
        size(active),
        counted(blocks, "block", "blocks")
    )?;
    let (table, rows) = if args.blocks {
        block_table(analysis, device, after, args.top)
    } else {
        site_table(analysis, device, after, args.top)
    };
    table.write(out, terminal_width())?;
    if rows > args.top {
        writeln!(out, "  … {} more; `--top {rows}` shows all", count(rows - args.top))?;
    }
    Ok(())
}

/// The table, and how many rows there are in all.
fn site_table(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    after: Option<EntryId>,
    top: usize,
) -> (Table, usize) {
    let sites = device.live_by_site(after, &analysis.sites);
    let all = sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add).max(1);
    let mut table = Table::new([
        ("requested", Align::Right),
        ("share", Align::Right),
        ("count", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2);
    for site in sites.iter().take(top) {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
        let share = percent(site.bytes as f64 / all as f64);
        table.row([size(site.bytes), share, count(site.count), frames::place(analysis, site.site, site.stack)]);
    }
    (table, sites.len())
}

fn block_table(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    after: Option<EntryId>,
    top: usize,
) -> (Table, usize) {
    let mut blocks: Vec<_> = device.live_rows(after).collect();
    blocks.sort_by_key(|(_, block)| (std::cmp::Reverse(block.requested_bytes), block.address));
    let mut table = Table::new([
        ("requested", Align::Right),
        ("block", Align::Right),
        ("address", Align::Left),
        ("stream", Align::Right),
        ("state", Align::Left),
        ("category", Align::Left),
        ("allocated at", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2);
    for &(row, block) in blocks.iter().take(top) {
        let awaits = block.awaits_free(after);
        table.row([
            size(block.requested_bytes),
            size(device.blocks().of(block, analysis.snapshot)),
            format!("0x{:x}", block.address),
            analysis.snapshot.stream_handle(block.stream).to_string(),
            if awaits { "awaiting free" } else { "allocated" }.to_owned(),
            device.decided(row).category.name().replace('_', " "),
            block.alloc().map_or_else(|| "before".to_owned(), |entry| count(entry.index())),
            frames::place(analysis, device.site(block, &analysis.sites), block.stack),
        ]);
    }
    (table, blocks.len())
}
