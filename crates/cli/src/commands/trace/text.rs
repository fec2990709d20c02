//! The listing for people: a line for each entry.

use std::fmt::Write as _;
use std::io::{self, Write};

use highwater_analysis::callsite::Sites;
use highwater_answers::frames;
use highwater_documents::trace::Selected;
use highwater_findings::verdict::NOTHING_RECORDED;
use highwater_snapshot::{Action, Entry, EntryId, EntryTable, PoolId, Snapshot};

use crate::printable::printable;
use crate::{table, units};

/// Writes the listings of the devices, one below the other.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(out: &mut impl Write, traces: &[Selected], sites: &Sites, stacks: bool) -> io::Result<()> {
    if traces.is_empty() {
        writeln!(out, "{NOTHING_RECORDED}")?;
    }
    for (i, selected) in traces.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        match selected.trace() {
            Some(trace) => write_device(out, selected, trace, sites, stacks)?,
            None => writeln!(out, "device {}: no entries were recorded", selected.device)?,
        }
    }
    Ok(())
}

fn write_device(
    out: &mut impl Write,
    selected: &Selected,
    trace: &EntryTable,
    sites: &Sites,
    stacks: bool,
) -> io::Result<()> {
    let layout = Layout::new(selected, trace, sites);
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
        more => writeln!(out, "… {}; `--top 0` shows all", units::counted(more, "more entry", "more entries")),
    }
}

/// As wide as `free_completed`.
const ACTION: usize = 14;
/// As wide as `0x7f8b40000000`.
const ADDRESS: usize = 14;
/// As wide as `1023.99 GiB`.
const SIZE: usize = 11;
/// Remarks are never cut below this.
const MIN_REMARKS: usize = 24;

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
    fn new(selected: &Selected<'a>, trace: &'a EntryTable, sites: &'a Sites) -> Self {
        let snapshot = selected.snapshot;
        let start_us = trace.ids().find_map(|id| trace.time_us(id));
        let end_us = trace.ids().rev().find_map(|id| trace.time_us(id));
        let span_us = end_us.unwrap_or(0).saturating_sub(start_us.unwrap_or(0));
        let widest_stream = snapshot.streams.iter().map(|stream| stream.to_string().len()).max().unwrap_or(0);
        let entry = trace.len().to_string().len().max("entry".len());
        let seconds = units::seconds(span_us).len().max("seconds".len());
        let stream = widest_stream.max("stream".len());
        let taken = entry + seconds + ACTION + ADDRESS + SIZE + stream + 6 * "  ".len();
        let remarks = table::terminal_width().map(|width| width.saturating_sub(taken).max(MIN_REMARKS));
        Self { snapshot, sites, trace, start_us, entry, seconds, stream, remarks }
    }

    fn write_header(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { entry, seconds, stream, .. } = *self;
        writeln!(
            out,
            "{:>entry$}  {:>seconds$}  {:<ACTION$}  {:<ADDRESS$}  {:>SIZE$}  {:>stream$}  where",
            "entry", "seconds", "action", "address", "size", "stream"
        )
    }

    fn write_entry(&self, out: &mut impl Write, id: EntryId, entry: &Entry) -> io::Result<()> {
        let time_us = entry.time_us.zip(self.start_us).map(|(time, start)| time.saturating_sub(start));
        let remarks = self.remarks(id, entry);
        writeln!(
            out,
            "{:>entry$}  {:>seconds$}  {:<ACTION$}  {:<ADDRESS$}  {:>SIZE$}  {:>stream$}  {}",
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
