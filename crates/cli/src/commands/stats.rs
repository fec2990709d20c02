//! `highwater stats`: the table of `torch.cuda.memory_summary()`, from a file.

use std::io::{self, Write as _};

use anyhow::Context as _;
use highwater_analysis::stats::stats;
use highwater_analysis::{StackClasses, analyse_with};
use highwater_documents::stats::{DeviceStatsView, StatsView};
use highwater_findings::verdict::NOTHING_RECORDED;
use highwater_whatif::alloc_retries;

use crate::args::Format;
use crate::input::InputArgs;
use crate::output::{text_to_stdout, to_stdout, write_json};
use crate::style::Ink;
use crate::table::{Align, Table, terminal_width};

/// The options of `highwater stats`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  highwater stats run.pickle --device 0")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Leave out the rows of the large and the small pool
    #[arg(long)]
    abbreviated: bool,
    /// Output format
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
    let shown = analysis
        .devices
        .iter()
        .filter(|device| devices.contains(&device.device))
        .map(|device| (device.device, stats(&snapshot, device, alloc_retries(&snapshot, device))));
    let view = StatsView::new(shown, highwater_documents::warnings(&analysis));
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &view)),
        Format::Text => {
            text_to_stdout(|out| {
                if view.devices.is_empty() {
                    writeln!(out, "{NOTHING_RECORDED}")?;
                }
                let is_narrow = terminal_width().is_some_and(|width| width < WIDTH);
                view.devices.iter().try_for_each(|device| {
                    let write = if is_narrow { narrow_summary } else { summary };
                    write(out, device, args.abbreviated)
                })
            })?;
            crate::warnings::print_all(&analysis).context("cannot write to standard error")
        }
    }
}

/// Cells of a line of PyTorch's table.
const WIDTH: usize = 77;

/// The rows of the table: the name, the metric, its unit.
const ROWS: [(&str, &str, Unit); 9] = [
    ("Allocated memory", "allocated_bytes", Unit::Bytes),
    ("Active memory", "active_bytes", Unit::Bytes),
    ("Requested memory", "requested_bytes", Unit::Bytes),
    ("GPU reserved memory", "reserved_bytes", Unit::Bytes),
    ("Non-releasable memory", "inactive_split_bytes", Unit::Bytes),
    ("Allocations", "allocation", Unit::Count),
    ("Active allocs", "active", Unit::Count),
    ("GPU reserved segments", "segment", Unit::Count),
    ("Non-releasable allocs", "inactive_split", Unit::Count),
];

/// The rows of requests that are too large for any pool.
const OVERSIZE: [(&str, &str); 2] =
    [("Oversize allocations", "oversize_allocations"), ("Oversize GPU segments", "oversize_segments")];

/// The columns, and how PyTorch calls them.
const COLUMNS: [(&str, &str); 4] =
    [("Cur Usage", "current"), ("Peak Usage", "peak"), ("Tot Alloc", "allocated"), ("Tot Freed", "freed")];

/// Writes the same numbers where the table is too wide: each name above its numbers.
fn narrow_summary(out: &mut impl Ink, view: &DeviceStatsView, abbreviated: bool) -> io::Result<()> {
    let number = |key: &str| view.get(key).map_or_else(|| "-".to_owned(), |value| value.to_string());
    writeln!(out, "PyTorch CUDA memory summary, device ID {}", view.device)?;
    writeln!(out, "CUDA OOMs: {}, cudaMalloc retries: {}", number("num_ooms"), number("num_alloc_retries"))?;
    let mut table = Table::new(COLUMNS.map(|(title, _)| (title, Align::Right))).indented(4);
    let mut add = |name: &str, (metric, all): (&str, &str), unit: Unit| {
        table.heading(name);
        let cell = |column: &str| {
            let (value, scale) = (view.get(&format!("{metric}.{column}")), view.get(&format!("{all}.{column}")));
            unit.show(value, scale).trim().to_owned()
        };
        table.row(COLUMNS.map(|(_, column)| cell(column)));
    };
    for (name, metric, unit) in ROWS {
        let all = format!("{metric}.all");
        add(name, (&all, &all), unit);
        if !abbreviated {
            add("  from large pool", (&format!("{metric}.large_pool"), &all), unit);
            add("  from small pool", (&format!("{metric}.small_pool"), &all), unit);
        }
    }
    for (name, metric) in &OVERSIZE {
        add(name, (metric, metric), Unit::Count);
    }
    table.write(out, None)
}

/// How a column's numbers are shortened.
#[derive(Clone, Copy, Debug)]
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
fn summary(out: &mut impl Ink, view: &DeviceStatsView, abbreviated: bool) -> io::Result<()> {
    let number = |key: &str| view.get(key).map_or_else(|| "-".to_owned(), |value| value.to_string());
    let (double, single) = ("=".repeat(75), "-".repeat(75));
    let device = view.device;
    writeln!(out, "|{double}|")?;
    writeln!(out, "|{:18}PyTorch CUDA memory summary, device ID {device:<17} |", "")?;
    writeln!(out, "|{single}|")?;
    let (ooms, retries) = (number("num_ooms"), number("num_alloc_retries"));
    writeln!(out, "|{:12}CUDA OOMs: {ooms:<12} |{:8}cudaMalloc retries: {retries:<8}  |", "", "")?;
    writeln!(out, "|{double}|")?;
    writeln!(out, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |")?;
    for (name, metric, unit) in ROWS {
        writeln!(out, "|{single}|")?;
        let all = format!("{metric}.all");
        row(out, view, name, (&all, &all), unit)?;
        if !abbreviated {
            row(out, view, "      from large pool", (&format!("{metric}.large_pool"), &all), unit)?;
            row(out, view, "      from small pool", (&format!("{metric}.small_pool"), &all), unit)?;
        }
    }
    for (name, metric) in OVERSIZE {
        writeln!(out, "|{single}|")?;
        row(out, view, name, (metric, metric), Unit::Count)?;
    }
    writeln!(out, "|{double}|")
}

/// A row of the numbers under a key, in the units of those under another.
fn row(
    out: &mut impl Ink,
    view: &DeviceStatsView,
    name: &str,
    (metric, all): (&str, &str),
    unit: Unit,
) -> io::Result<()> {
    write!(out, "| {name:<21} |")?;
    for (_, column) in COLUMNS {
        let (value, scale) = (view.get(&format!("{metric}.{column}")), view.get(&format!("{all}.{column}")));
        write!(out, " {} |", unit.show(value, scale))?;
    }
    writeln!(out)
}
