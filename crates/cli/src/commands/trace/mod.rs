//! `highwater trace FILE`: the entries, one line each.

mod filter;

use std::fmt::Write as _;
use std::io::{self, Write};

use highwater_analysis::callsite::Sites;
use highwater_snapshot::{Action, Entry, EntryId, EntryTable, PoolId, Snapshot};
use serde::{Serialize, Serializer};

use crate::args::Format;
use crate::frames::{self, Frames};
use crate::input::InputArgs;
use crate::printable::printable;
use crate::warnings::{self, WarningJson};
use crate::{output, table, units};
use filter::{Filter, FilterArgs};

/// Entries of a device that are shown as text unless `--limit` says otherwise.
const DEFAULT_LIMIT: usize = 1000;

/// Options of `highwater trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: what happened to the block at an address, with whole stacks
  highwater trace run.pickle --address 0x7f8b40000000 --covering --stacks")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Show at most this many entries of each device, the oldest first; 0 for all [default: 1000 as text, all as JSON]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print the whole stack below each entry
    #[arg(long)]
    stacks: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    filter: FilterArgs,
}

impl Args {
    fn limit(&self) -> usize {
        self.format.limit(self.limit, DEFAULT_LIMIT)
    }
}

/// Lists the entries.
///
/// # Errors
/// If the snapshot cannot be read, a filter names what is not in it, or the output cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (snapshot, sites) = args.input.read_with(Sites::new)?;
    let filter = Filter::new(&args.filter, &snapshot)?;
    let traces: Vec<_> = args
        .input
        .devices(&snapshot)
        .into_iter()
        .map(|device| Selected { snapshot: &snapshot, sites: &sites, filter: &filter, device, limit: args.limit() })
        .collect();
    match args.format {
        Format::Text => {
            output::to_stdout(|out| write_text(out, &traces, args.stacks))?;
            warnings::print(&snapshot.warnings)?;
        }
        Format::Json => {
            let document = Document {
                format: "highwater-trace",
                version: 1,
                devices: &traces,
                warnings: warnings::json(&snapshot.warnings),
            };
            output::to_stdout(|out| output::write_json(out, &document))?;
        }
    }
    Ok(())
}

/// The entries of one device that are to be shown.
struct Selected<'a> {
    snapshot: &'a Snapshot,
    sites: &'a Sites,
    filter: &'a Filter,
    device: u32,
    limit: usize,
}

impl<'a> Selected<'a> {
    /// The trace; none for a device that has segments only.
    fn trace(&self) -> Option<&'a EntryTable> {
        self.snapshot.trace(self.device).filter(|trace| !trace.is_empty())
    }

    /// Every entry that the filter accepts, whatever the limit.
    fn matching(&self) -> impl Iterator<Item = (EntryId, Entry)> + use<'a> {
        let filter = self.filter;
        self.trace()
            .into_iter()
            .flat_map(|trace| trace.ids().map(|id| (id, trace.get(id))))
            .filter(|&(id, ref entry)| filter.accepts(id, entry))
    }
}

fn write_text(out: &mut impl Write, traces: &[Selected], stacks: bool) -> io::Result<()> {
    if traces.is_empty() {
        writeln!(out, "the snapshot has no entries and no segments")?;
    }
    for (i, selected) in traces.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        match selected.trace() {
            Some(trace) => write_device(out, selected, trace, stacks)?,
            None => writeln!(out, "device {}: no entries were recorded", selected.device)?,
        }
    }
    Ok(())
}

fn write_device(out: &mut impl Write, selected: &Selected, trace: &EntryTable, stacks: bool) -> io::Result<()> {
    let layout = Layout::new(selected, trace);
    writeln!(out, "device {}: {}", selected.device, units::counted(trace.len(), "entry", "entries"))?;
    let mut matching = selected.matching();
    let mut shown = 0;
    for (id, entry) in matching.by_ref().take(selected.limit) {
        if shown == 0 {
            layout.write_header(out)?;
        }
        layout.write_entry(out, id, &entry)?;
        if stacks {
            for frame in selected.snapshot.stack(entry.stack) {
                writeln!(out, "{:>indent$}{}", "", frames::full(selected.snapshot, frame), indent = layout.entry + 4)?;
            }
        }
        shown += 1;
    }
    match matching.count() {
        0 if shown == 0 => writeln!(out, "no entry matches"),
        0 => Ok(()),
        more => writeln!(out, "… {}; `--limit 0` shows all", units::counted(more, "more entry", "more entries")),
    }
}

/// How wide the columns of one device's listing are, and where its time begins.
struct Layout<'a> {
    snapshot: &'a Snapshot,
    sites: &'a Sites,
    trace: &'a EntryTable,
    start_us: Option<i64>,
    entry: usize,
    seconds: usize,
    stream: usize,
    /// What is left for the remarks on a terminal.
    remarks: Option<usize>,
}

impl<'a> Layout<'a> {
    fn new(selected: &Selected<'a>, trace: &'a EntryTable) -> Self {
        let snapshot = selected.snapshot;
        let start_us = trace.ids().find_map(|id| trace.time_us(id));
        let end_us = trace.ids().rev().find_map(|id| trace.time_us(id));
        let span_us = end_us.unwrap_or(0).saturating_sub(start_us.unwrap_or(0));
        let widest_stream = snapshot.streams.iter().map(|stream| stream.to_string().len()).max().unwrap_or(0);
        let entry = trace.len().to_string().len().max("entry".len());
        let seconds = units::seconds(span_us).len().max("seconds".len());
        let stream = widest_stream.max("stream".len());
        let taken = entry + seconds + stream + 14 + 14 + 11 + 6 * 2;
        let remarks = table::terminal_width().map(|width| width.saturating_sub(taken).max(24));
        Self { snapshot, sites: selected.sites, trace, start_us, entry, seconds, stream, remarks }
    }

    fn write_header(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { entry, seconds, stream, .. } = *self;
        writeln!(
            out,
            "{:>entry$}  {:>seconds$}  {:<14}  {:<14}  {:>11}  {:>stream$}  where",
            "entry", "seconds", "action", "address", "size", "stream"
        )
    }

    fn write_entry(&self, out: &mut impl Write, id: EntryId, entry: &Entry) -> io::Result<()> {
        let time_us = entry.time_us.zip(self.start_us).map(|(time, start)| time.saturating_sub(start));
        let remarks = self.remarks(id, entry);
        writeln!(
            out,
            "{:>entry$}  {:>seconds$}  {:<14}  {:<14}  {:>11}  {:>stream$}  {}",
            id.get(),
            time_us.map_or_else(|| "-".to_owned(), units::seconds),
            printable(self.snapshot.action_name(entry.action)),
            if entry.address == 0 { "-".to_owned() } else { format!("{:#x}", entry.address) },
            units::size(entry.size_bytes),
            self.snapshot.stream_handle(entry.stream),
            self.remarks.map_or_else(|| remarks.clone(), |width| table::shorten(&remarks, width)),
            entry = self.entry,
            seconds = self.seconds,
            stream = self.stream,
        )
    }

    /// The owner, and what only few entries have.
    fn remarks(&self, id: EntryId, entry: &Entry) -> String {
        let mut text = match entry.action {
            Action::SNAPSHOT => "-".to_owned(),
            _ => frames::owner(self.snapshot, self.sites, entry.stack),
        };
        // Writing to a string does not fail.
        if let Some(free) = self.trace.device_free_bytes(id) {
            let _ = write!(text, "  [{} free on the device]", units::size(free));
        }
        if !matches!(entry.pool, PoolId::DEFAULT | PoolId::MISSING) {
            let (by_graph, by_user) = self.snapshot.pool_id(entry.pool);
            let _ = write!(text, "  [pool {by_graph},{by_user}]");
        }
        let metadata = self.snapshot.text(entry.user_metadata);
        if !metadata.is_empty() {
            let _ = write!(text, "  # {}", printable(metadata));
        }
        text
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    devices: &'a [Selected<'a>],
    warnings: Vec<WarningJson<'a>>,
}

#[derive(Serialize)]
struct DeviceJson<'a> {
    device: u32,
    entries: EntriesJson<'a>,
}

/// Serialized as it is read: millions of entries are never in memory as JSON.
struct EntriesJson<'a>(&'a Selected<'a>);

#[derive(Serialize)]
struct EntryJson<'a> {
    entry: u32,
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    size_bytes: u64,
    stream: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_metadata: &'a str,
    #[serde(skip_serializing_if = "is_outside_compiled_code")]
    compile_context: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    category: &'a str,
    frames: Frames<'a>,
}

/// What PyTorch writes for an entry that no compiled region caused.
fn is_outside_compiled_code(context: &str) -> bool {
    matches!(context, "" | "N/A")
}

impl Serialize for Selected<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DeviceJson { device: self.device, entries: EntriesJson(self) }.serialize(serializer)
    }
}

impl Serialize for EntriesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(selected) = *self;
        let snapshot = selected.snapshot;
        let entries = selected.matching().take(selected.limit).map(|(id, entry)| EntryJson {
            entry: id.get(),
            action: snapshot.action_name(entry.action),
            address: (entry.action != Action::OOM).then_some(entry.address),
            size_bytes: entry.size_bytes,
            stream: snapshot.stream_handle(entry.stream),
            time_us: entry.time_us,
            device_free_bytes: selected.trace().and_then(|trace| trace.device_free_bytes(id)),
            pool: (entry.pool != PoolId::MISSING).then(|| snapshot.pool_id(entry.pool)),
            user_metadata: snapshot.text(entry.user_metadata),
            compile_context: snapshot.text(entry.compile_context),
            category: snapshot.text(entry.category),
            frames: Frames { snapshot, stack: entry.stack },
        });
        serializer.collect_seq(entries)
    }
}
