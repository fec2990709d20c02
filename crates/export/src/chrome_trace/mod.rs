//! Trace events, as <https://ui.perfetto.dev> and `chrome://tracing` open them.
//!
//! A process for each device: counters of requested and reserved bytes, and of the driver's memory by owner where it was recorded, instants for `oom` and `snapshot`, slices for
//! annotations. Written as it is computed, one event a line.
//!
//! # Source
//! "Trace Event Format", the document that Chromium's `docs/memory-infra` and Perfetto's `docs/data-sources` refer to.

mod lanes;

use std::cmp::Reverse;
use std::io::{self, Write};

use highwater_analysis::scope::Scope;
use highwater_analysis::timeline::Totals;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_outside::Timeline;
use highwater_snapshot::{Action, Entry, EntryId, EntryTable, Snapshot, StringId};
use serde::Serialize;

/// Writes the events of the devices.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, analysis: &Analysis, wanted: &[u32]) -> io::Result<()> {
    let devices: Vec<_> = wanted.iter().filter_map(|&device| analysis.device(device)).collect();
    let driver = analysis.driver.as_ref().map(Timeline::new);
    let first_call =
        analysis.driver.as_ref().and_then(|recording| recording.events.first()).map(|event| micros(event.time_ns));
    let epoch_us = devices.iter().filter_map(|device| first_time(device.entries)).chain(first_call).min();
    let mut events = Events { out, written: 0 };
    events.begin()?;
    for device in devices {
        events.name("process_name", device.device, 0, &format!("device {}", device.device))?;
        write_entries(&mut events, analysis.snapshot, device, epoch_us)?;
        if let Some(epoch_us) = epoch_us {
            write_scopes(&mut events, analysis.snapshot, device, epoch_us)?;
        }
    }
    if let Some((driver, epoch_us)) = driver.zip(epoch_us) {
        write_cards(&mut events, &driver, wanted, epoch_us)?;
    }
    events.end()
}

/// The sequence of events, with commas between.
struct Events<'a, W> {
    out: &'a mut W,
    written: usize,
}

/// One event. Several phases leave some keys out.
#[derive(Serialize)]
struct Event<'a, A> {
    ph: &'static str,
    name: &'a str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<i64>,
    /// How far an instant reaches: `p`, over its whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: A,
}

#[derive(Serialize)]
struct NameArgs<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct CounterArgs {
    bytes: u64,
}

#[derive(Serialize)]
struct EntryArgs {
    entry: u32,
    size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_free_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ScopeArgs {
    is_open: bool,
}

impl<W: Write> Events<'_, W> {
    fn begin(&mut self) -> io::Result<()> {
        self.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")
    }

    fn end(&mut self) -> io::Result<()> {
        writeln!(self.out, "\n]}}")
    }

    fn write<A: Serialize>(&mut self, event: &Event<'_, A>) -> io::Result<()> {
        self.out.write_all(if self.written == 0 { b"\n" } else { b",\n" })?;
        self.written += 1;
        Ok(serde_json::to_writer(&mut *self.out, event)?)
    }

    fn name(&mut self, kind: &str, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        self.write(&Event { ph: "M", name: kind, pid, tid, ts: None, dur: None, s: None, args: NameArgs { name } })
    }

    fn counter(&mut self, name: &str, pid: u32, ts: i64, bytes: u64) -> io::Result<()> {
        self.write(&Event { ph: "C", name, pid, tid: 0, ts: Some(ts), dur: None, s: None, args: CounterArgs { bytes } })
    }
}

fn first_time(entries: &EntryTable) -> Option<i64> {
    entries.ids().find_map(|id| entries.time_us(id))
}

/// Writes what the driver gave each owner, where it changes.
fn write_cards<W: Write>(
    events: &mut Events<'_, W>,
    driver: &Timeline<'_>,
    wanted: &[u32],
    epoch_us: i64,
) -> io::Result<()> {
    for device in driver.devices() {
        let Ok(pid) = u32::try_from(device) else { continue };
        // A file without anything of PyTorch's has no devices but these.
        if !wanted.is_empty() && !wanted.contains(&pid) {
            continue;
        }
        if wanted.is_empty() {
            events.name("process_name", pid, 0, &format!("device {pid}"))?;
        }
        let names: Vec<String> = driver.owners().iter().map(|owner| format!("card: {}", owner.title())).collect();
        let (mut latest, mut result) = (0, Ok(()));
        driver.over_time(device, |time_ns, owner, bytes| {
            latest = latest.max(micros(time_ns).saturating_sub(epoch_us));
            if result.is_ok() {
                result = events.counter(&names[owner], pid, latest, u64::try_from(bytes).unwrap_or(0));
            }
        });
        result?;
    }
    Ok(())
}

fn micros(time_ns: u64) -> i64 {
    i64::try_from(time_ns / 1000).unwrap_or(i64::MAX)
}

/// Writes the counters where they change, and the instants.
fn write_entries<W: Write>(
    events: &mut Events<'_, W>,
    snapshot: &Snapshot,
    device: &DeviceAnalysis,
    epoch_us: Option<i64>,
) -> io::Result<()> {
    let mut clock = Clock { epoch_us, latest: 0 };
    let mut before = device.timeline.start();
    write_totals(events, device.device, 0, before, None)?;
    for (id, totals) in device.timeline.iter(0..device.entries.len()) {
        let ts = clock.at(device.entries, id);
        write_totals(events, device.device, ts, totals, Some(before))?;
        before = totals;
        let action = device.entries.actions()[id.index()];
        if matches!(action, Action::OOM | Action::SNAPSHOT) {
            let entry = device.entries.get(id);
            write_instant(events, snapshot, device, ts, id, &entry)?;
        }
    }
    Ok(())
}

fn write_totals<W: Write>(
    events: &mut Events<'_, W>,
    pid: u32,
    ts: i64,
    totals: Totals,
    before: Option<Totals>,
) -> io::Result<()> {
    if before.is_none_or(|before| before.requested_bytes != totals.requested_bytes) {
        events.counter("requested_bytes", pid, ts, totals.requested_bytes)?;
    }
    if before.is_none_or(|before| before.allocated_bytes != totals.allocated_bytes) {
        events.counter("allocated_bytes", pid, ts, totals.allocated_bytes)?;
    }
    if before.is_none_or(|before| before.reserved_bytes != totals.reserved_bytes) {
        events.counter("reserved_bytes", pid, ts, totals.reserved_bytes)?;
    }
    Ok(())
}

fn write_instant<W: Write>(
    events: &mut Events<'_, W>,
    snapshot: &Snapshot,
    device: &DeviceAnalysis,
    ts: i64,
    id: EntryId,
    entry: &Entry,
) -> io::Result<()> {
    events.write(&Event {
        ph: "i",
        name: snapshot.action_name(entry.action),
        pid: device.device,
        tid: 0,
        ts: Some(ts),
        dur: None,
        s: Some("p"),
        args: EntryArgs {
            entry: id.get(),
            size_bytes: entry.size_bytes,
            device_free_bytes: device.entries.device_free_bytes(id),
        },
    })
}

/// From entries to `ts`: microseconds since the first entry, or the entry's number where no times were recorded.
struct Clock {
    epoch_us: Option<i64>,
    latest: i64,
}

impl Clock {
    /// The `ts` of the next entry; never less than the one before, so that the last value of a counter is the last one.
    fn at(&mut self, entries: &EntryTable, id: EntryId) -> i64 {
        let ts = match self.epoch_us {
            None => Some(i64::from(id.get())),
            Some(epoch) => entries.time_us(id).map(|time| time.saturating_sub(epoch)),
        };
        self.latest = self.latest.max(ts.unwrap_or(self.latest));
        self.latest
    }
}

/// A scope on the time axis of the file.
struct Slice {
    name: StringId,
    start_us: i64,
    end_us: i64,
    is_open: bool,
}

/// Writes a slice for each annotated scope; what lies before the first entry is cut off, since viewers drop it.
fn write_scopes<W: Write>(
    events: &mut Events<'_, W>,
    snapshot: &Snapshot,
    device: &DeviceAnalysis,
    epoch_us: i64,
) -> io::Result<()> {
    let last_us = device.entries.ids().rev().find_map(|id| device.entries.time_us(id)).unwrap_or(epoch_us);
    let slice = |scope: &Scope| {
        let start_us = scope.start_us.saturating_sub(epoch_us).max(0);
        let end_us = scope.end_us.unwrap_or(last_us).saturating_sub(epoch_us);
        Slice { name: scope.name, start_us, end_us, is_open: scope.end_us.is_none() }
    };
    let mut slices: Vec<_> = device.scopes.iter().map(slice).filter(|slice| slice.start_us <= slice.end_us).collect();
    slices.sort_by_key(|slice| (slice.start_us, Reverse(slice.end_us)));
    let mut lanes = lanes::Lanes::default();
    for Slice { name, start_us, end_us, is_open } in slices {
        let lane = lanes.place(start_us, end_us);
        // Lane 0 is where the instants are.
        let tid = lane.number + 1;
        if lane.is_new {
            events.name("thread_name", device.device, tid, "annotations")?;
        }
        events.write(&Event {
            ph: "X",
            name: snapshot.text(name),
            pid: device.device,
            tid,
            ts: Some(start_us),
            dur: Some(end_us - start_us),
            s: None,
            args: ScopeArgs { is_open },
        })?;
    }
    Ok(())
}
