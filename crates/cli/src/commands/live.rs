//! `highwater live`: who is there at a moment.

use anyhow::Context as _;
use highwater_analysis::{DeviceAnalysis, StackClasses, analyse_with};
use highwater_answers::frames::place_of;
use highwater_answers::moment::Moment;
use highwater_documents::{BlockView, LiveDeviceView, LiveView, live};
use highwater_findings::verdict::NOTHING_RECORDED;
use highwater_snapshot::EntryId;

use crate::args::{Format, SitesArgs};
use crate::input::InputArgs;
use crate::output::{text_to_stdout, to_stdout, write_json};
use crate::style::{Ink, STRONG};
use crate::table::{Align, Table, broken, prose_width, terminal_width};
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
    /// The state after this entry: its number, `peak`, `oom` (the first request that failed) or `end`
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
    /// Output format
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
    let mut devices = args.input.devices(&snapshot);
    if args.at_time.is_none() {
        devices = args.at.devices(&analysis, &devices)?;
    }
    let shown = analysis.devices.iter().filter(|device| devices.contains(&device.device));
    let moments: Vec<_> = shown.map(|device| (device.device, moment(args, device))).collect();
    let view = live(&analysis, &moments);
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &view)),
        Format::Text => {
            text_to_stdout(|out| write(out, &view, args))?;
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

fn write(out: &mut impl Ink, view: &LiveView<'_>, args: &Args) -> std::io::Result<()> {
    if view.devices.is_empty() {
        writeln!(out, "{NOTHING_RECORDED}")?;
    }
    for device in &view.devices {
        write_totals(out, device)?;
        let (table, rows) = if args.blocks {
            let blocks = view.blocks.iter().filter(|block| block.device == device.device);
            (block_table(blocks.collect(), args.top), device.block_count)
        } else {
            (site_table(device, args.top), device.call_sites.len())
        };
        table.write(out, terminal_width())?;
        if rows > args.top {
            writeln!(out, "  … {} more; `--top {rows}` shows all", count(rows - args.top))?;
        }
    }
    Ok(())
}

fn write_totals(out: &mut impl Ink, device: &LiveDeviceView<'_>) -> std::io::Result<()> {
    let at = match device.after_entry {
        Some(entry) => format!("after entry {}", count(entry)),
        None if device.entries == 0 => "at the dump".to_owned(),
        None => "before the first entry".to_owned(),
    };
    // Where a block waits for another stream, more is active than tensors own.
    let waits = device.active_bytes != device.allocated_bytes;
    let active = if waits { format!(", {} active", size(device.active_bytes)) } else { String::new() };
    let totals = format!(
        "{} allocated, {} requested{active} in {}",
        size(device.allocated_bytes),
        size(device.requested_bytes),
        counted(device.block_count, "block", "blocks")
    );
    let begin = format!("Device {}, {at}:", device.device);
    for line in broken(&format!("{begin} {totals}"), prose_width(terminal_width())) {
        let strong = line.strip_prefix(&begin);
        if strong.is_some() {
            write!(out, "{begin}")?;
        }
        out.ink(STRONG, strong.unwrap_or(&line))?;
        writeln!(out)?;
    }
    Ok(())
}

fn site_table(device: &LiveDeviceView<'_>, top: usize) -> Table {
    let all = device.requested_bytes.max(1);
    let mut table = Table::new([
        ("requested", Align::Right),
        ("share", Align::Right),
        ("count", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for site in device.call_sites.iter().take(top) {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
        let share = percent(site.requested_bytes as f64 / all as f64);
        table.row([size(site.requested_bytes), share, count(site.count), place_of(&site.at)]);
    }
    table
}

/// The largest blocks first.
fn block_table(mut blocks: Vec<&BlockView<'_>>, top: usize) -> Table {
    blocks.sort_by_key(|block| (std::cmp::Reverse(block.requested_bytes), block.address));
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
    .indented(2)
    .wrapped();
    for block in blocks.into_iter().take(top) {
        table.row([
            size(block.requested_bytes),
            size(block.size_bytes),
            format!("0x{:x}", block.address),
            block.stream.to_string(),
            if block.state == "active_awaiting_free" { "awaiting free" } else { "allocated" }.to_owned(),
            block.category.replace('_', " "),
            block.alloc_entry.map_or_else(|| "before".to_owned(), count),
            place_of(&block.at),
        ]);
    }
    table
}
