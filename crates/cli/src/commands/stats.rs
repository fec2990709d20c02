//! `highwater stats`: the table of `torch.cuda.memory_summary()`, from a file.

use std::io::{self, Write};

use anyhow::Context as _;
use highwater_analysis::stats::{Metric, Stat, Stats, stats};
use highwater_analysis::{StackClasses, analyse_with};
use highwater_findings::verdict::verdict;
use highwater_findings::view::{self, WarningView};
use highwater_whatif::alloc_retries;

use crate::args::Format;
use crate::input::InputArgs;
use crate::output::{text_to_stdout, to_stdout, write_json};

/// The options of `highwater stats`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  highwater stats run.pickle --device 0")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Leave out the rows of the large and the small pool
    #[arg(long)]
    abbreviated: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads, counts, prints.
///
/// # Errors
/// If the snapshot cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (snapshot, classes) = args.input.read_with(StackClasses::new)?;
    let analysis = analyse_with(&snapshot, classes);
    let devices = args.input.devices(&snapshot);
    let shown: Vec<(u32, Stats)> = analysis
        .devices
        .iter()
        .filter(|device| devices.contains(&device.device))
        .map(|device| (device.device, stats(&snapshot, device, alloc_retries(&snapshot, device))))
        .collect();
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &StatsView::new(&shown, view::warnings(&analysis)))),
        Format::Text => {
            text_to_stdout(|out| {
                if shown.is_empty() {
                    writeln!(out, "{}", verdict(&analysis))?;
                }
                shown.iter().try_for_each(|(device, stats)| summary(out, *device, stats, args.abbreviated))
            })?;
            crate::warnings::print_all(&analysis).context("cannot write to standard error")
        }
    }
}

/// `highwater-stats`: per device the flat keys of `memory_stats()`, null where the snapshot cannot tell.
#[derive(serde::Serialize)]
struct StatsView {
    format: &'static str,
    version: u32,
    devices: Vec<DeviceStatsView>,
    warnings: Vec<WarningView>,
}

#[derive(serde::Serialize)]
struct DeviceStatsView {
    device: u32,
    stats: std::collections::BTreeMap<String, Option<u64>>,
}

impl StatsView {
    fn new(shown: &[(u32, Stats)], warnings: Vec<WarningView>) -> Self {
        let devices = shown.iter().map(|(device, stats)| DeviceStatsView { device: *device, stats: flat(stats) });
        Self { format: "highwater-stats", version: 1, devices: devices.collect(), warnings }
    }
}

fn flat(stats: &Stats) -> std::collections::BTreeMap<String, Option<u64>> {
    let mut keys = std::collections::BTreeMap::new();
    let mut add = |name: String, stat: &Stat| {
        let columns =
            [("current", stat.current), ("peak", stat.peak), ("allocated", stat.allocated), ("freed", stat.freed)];
        keys.extend(columns.map(|(column, value)| (format!("{name}.{column}"), value)));
    };
    for (name, metric) in [
        ("allocated_bytes", &stats.allocated_bytes),
        ("active_bytes", &stats.active_bytes),
        ("requested_bytes", &stats.requested_bytes),
        ("reserved_bytes", &stats.reserved_bytes),
        ("inactive_split_bytes", &stats.inactive_split_bytes),
        ("allocation", &stats.allocation),
        ("active", &stats.active),
        ("segment", &stats.segment),
        ("inactive_split", &stats.inactive_split),
    ] {
        add(format!("{name}.all"), &metric.all);
        add(format!("{name}.large_pool"), &metric.large);
        add(format!("{name}.small_pool"), &metric.small);
    }
    add("oversize_allocations".to_owned(), &stats.oversize_allocations);
    add("oversize_segments".to_owned(), &stats.oversize_segments);
    keys.insert("num_ooms".to_owned(), stats.num_ooms);
    keys.insert("num_alloc_retries".to_owned(), stats.num_alloc_retries);
    keys
}

/// How a column's numbers are shortened.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Count,
}

impl Unit {
    /// The number in the unit that the row of both pools takes, cut, not rounded.
    ///
    /// # Source
    /// PyTorch v2.11, `torch/cuda/memory.py`, `memory_summary`; `spec/snapshot-format.md` section 17.2.
    fn show(self, value: Option<u64>, all: Option<u64>) -> String {
        let (names, divisor, enough): (&[&str], u64, u64) = match self {
            Self::Bytes => (&["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024, 768 * 1024),
            Self::Count => (&["  ", "K ", "M "], 1000, 750 * 1000),
        };
        let Some(mut value) = value else {
            return match self {
                Self::Bytes => format!("{:>6} {:3}", "-", ""),
                Self::Count => format!("{:>7} {:2}", "-", ""),
            };
        };
        let mut scale = all.unwrap_or(value);
        let mut name = names[0];
        for larger in &names[1..] {
            if scale < enough {
                break;
            }
            scale /= divisor;
            value /= divisor;
            name = larger;
        }
        match self {
            Self::Bytes => format!("{value:6} {name}"),
            Self::Count => format!("{value:7} {name}"),
        }
    }
}

/// Writes the table as PyTorch does, with `-` where the snapshot cannot tell.
fn summary(out: &mut impl Write, device: u32, stats: &Stats, abbreviated: bool) -> io::Result<()> {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let (double, single) = ("=".repeat(75), "-".repeat(75));
    writeln!(out, "|{double}|")?;
    writeln!(out, "|{:18}PyTorch CUDA memory summary, device ID {device:<17} |", "")?;
    writeln!(out, "|{single}|")?;
    let (ooms, retries) = (number(stats.num_ooms), number(stats.num_alloc_retries));
    writeln!(out, "|{:12}CUDA OOMs: {ooms:<12} |{:8}cudaMalloc retries: {retries:<8}  |", "", "")?;
    writeln!(out, "|{double}|")?;
    writeln!(out, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |")?;
    for (name, metric, unit) in [
        ("Allocated memory", &stats.allocated_bytes, Unit::Bytes),
        ("Active memory", &stats.active_bytes, Unit::Bytes),
        ("Requested memory", &stats.requested_bytes, Unit::Bytes),
        ("GPU reserved memory", &stats.reserved_bytes, Unit::Bytes),
        ("Non-releasable memory", &stats.inactive_split_bytes, Unit::Bytes),
        ("Allocations", &stats.allocation, Unit::Count),
        ("Active allocs", &stats.active, Unit::Count),
        ("GPU reserved segments", &stats.segment, Unit::Count),
        ("Non-releasable allocs", &stats.inactive_split, Unit::Count),
    ] {
        writeln!(out, "|{single}|")?;
        metric_rows(out, name, metric, unit, abbreviated)?;
    }
    for (name, stat) in
        [("Oversize allocations", &stats.oversize_allocations), ("Oversize GPU segments", &stats.oversize_segments)]
    {
        writeln!(out, "|{single}|")?;
        stat_row(out, name, stat, stat, Unit::Count)?;
    }
    writeln!(out, "|{double}|")
}

fn metric_rows(out: &mut impl Write, name: &str, metric: &Metric, unit: Unit, abbreviated: bool) -> io::Result<()> {
    stat_row(out, name, &metric.all, &metric.all, unit)?;
    if !abbreviated {
        stat_row(out, "      from large pool", &metric.large, &metric.all, unit)?;
        stat_row(out, "      from small pool", &metric.small, &metric.all, unit)?;
    }
    Ok(())
}

fn stat_row(out: &mut impl Write, name: &str, stat: &Stat, all: &Stat, unit: Unit) -> io::Result<()> {
    writeln!(
        out,
        "| {name:<21} | {} | {} | {} | {} |",
        unit.show(stat.current, all.current),
        unit.show(stat.peak, all.peak),
        unit.show(stat.allocated, all.allocated),
        unit.show(stat.freed, all.freed)
    )
}
