//! The trace as CSV: one line for each entry, as RFC 4180 has it.
//!
//! An entry that allocates or frees is about one lifetime, and says what that was for.
//!
//! A cell without a value is empty.

use std::io::{self, Write};

use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_answers::frames;
use highwater_output::csv::{Piece, Row};
use highwater_snapshot::{Action, Entry, EntryId, PoolId, Snapshot, StackId};

const HEADER: &str = "device,entry,action,address,size_bytes,stream,pool,time_us,device_free_bytes,user_metadata,\
                      compile_context,stack,category,category_rule";

/// Writes the entries of the devices, one after the other.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, analysis: &Analysis<'_>, devices: &[u32]) -> io::Result<()> {
    let stacks = Stacks::new(analysis.snapshot);
    writeln!(out, "{HEADER}")?;
    for device in devices.iter().filter_map(|&device| analysis.device(device)) {
        let lifetimes = lifetimes(device);
        device.entries.ids().try_for_each(|id| {
            let row = lifetimes.get(id.index()).copied().filter(|&row| row != NONE);
            write_row(out, analysis.snapshot, &stacks, device, id, row)
        })?;
    }
    Ok(())
}

/// Stands for an entry that is about no lifetime.
const NONE: u32 = u32::MAX;

/// The lifetime that each entry is about.
fn lifetimes(device: &DeviceAnalysis<'_>) -> Vec<u32> {
    let mut rows = vec![NONE; device.entries.len()];
    for (number, lifetime) in (0..NONE).zip(&device.lifetimes.rows) {
        for entry in [lifetime.alloc(), lifetime.free_requested(), lifetime.free_completed()].into_iter().flatten() {
            let Entry { action, address, .. } = device.entries.get(entry);
            let is_of_block = matches!(action, Action::ALLOC | Action::FREE_REQUESTED | Action::FREE_COMPLETED);
            // An end that was not recorded stands at an entry about something else.
            if is_of_block && address == lifetime.address {
                rows[entry.index()] = number;
            }
        }
    }
    rows
}

fn write_row(
    out: &mut impl Write,
    snapshot: &Snapshot,
    stacks: &Stacks,
    device: &DeviceAnalysis<'_>,
    id: EntryId,
    lifetime: Option<u32>,
) -> io::Result<()> {
    let trace = device.entries;
    let entry = trace.get(id);
    let mut cells = Row::new(out);
    cells.number(Some(device.device))?;
    cells.number(Some(id.get()))?;
    cells.text(snapshot.action_name(entry.action))?;
    cells.number((entry.action != Action::OOM).then_some(entry.address))?;
    cells.number(Some(entry.size_bytes))?;
    cells.number(Some(snapshot.stream_handle(entry.stream)))?;
    match snapshot.pool_id(entry.pool) {
        (by_graph, by_user) if entry.pool != PoolId::MISSING => cells.text(&format!("{by_graph},{by_user}"))?,
        _ => cells.text("")?,
    }
    cells.number(entry.time_us)?;
    cells.number(trace.device_free_bytes(id))?;
    cells.text(snapshot.text(entry.user_metadata))?;
    cells.text(snapshot.text(entry.compile_context))?;
    cells.joined(stacks.of(entry.stack))?;
    let decided = lifetime.map(|row| device.decided(row as usize));
    cells.text(decided.map_or("", |decided| decided.category.name()))?;
    cells.text(decided.map_or("", |decided| decided.rule))?;
    cells.end()
}

/// The cells of stacks: millions of entries share few frames, so that each frame is put into words once.
struct Stacks<'a> {
    snapshot: &'a Snapshot,
    /// By frame.
    frames: Vec<Piece>,
}

impl<'a> Stacks<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let texts = snapshot.frames.iter().map(|(_, frame)| frames::full(snapshot, frame));
        Self { snapshot, frames: texts.map(|text| Piece::new(&text)).collect() }
    }

    /// `file:line name` of each frame, innermost first.
    fn of(&self, stack: StackId) -> impl Iterator<Item = &Piece> + Clone {
        self.snapshot.stacks.get(stack).iter().map(|frame| &self.frames[frame.index()])
    }
}
