//! What an analysis says, as tables. Rows are those of the analysis, one device after another.

use arrow_array::ArrayRef;
use highwater_analysis::category::Category;
use highwater_analysis::lifetime::Lifetime;
use highwater_analysis::place::{self, place_in};
use highwater_analysis::timeline::Totals;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_snapshot::{Action, EntryId, StackId};

use crate::column::{large, optional, small, texts, words};
use crate::error::Failure;
use crate::table::Table;

/// What a block is to its owner.
const STATES: [&str; 2] = ["active_allocated", "active_awaiting_free"];

/// A lifetime with its device and its row there.
type Row<'b, 'a> = (&'b DeviceAnalysis<'a>, usize, &'b Lifetime);

/// Every use of an address on these devices.
pub(crate) fn lifetimes(analysis: &Analysis<'_>, devices: &[u32]) -> Result<Table, Failure> {
    let shown = shown(analysis, devices);
    let rows: Vec<Row<'_, '_>> = shown
        .flat_map(|device| device.lifetimes.rows.iter().enumerate().map(move |(row, lifetime)| (device, row, lifetime)))
        .collect();
    let mut columns = of_lifetimes(analysis, &rows);
    let entry = |of: fn(&Lifetime) -> Option<EntryId>| optional(rows.iter().map(move |row| of(row.2).map(number)));
    let time = |of: fn(&Lifetime) -> Option<EntryId>| {
        optional(rows.iter().map(move |row| of(row.2).and_then(|entry| row.0.entries.time_us(entry))))
    };
    columns.extend([
        ("free_requested_entry", entry(Lifetime::free_requested)),
        ("free_completed_entry", entry(Lifetime::free_completed)),
        ("alloc_time_us", time(Lifetime::alloc)),
        ("free_completed_time_us", time(Lifetime::free_completed)),
    ]);
    Table::new(columns)
}

/// What is active at a moment of each device, by address.
pub(crate) fn live(analysis: &Analysis<'_>, moments: &[(u32, Option<EntryId>)]) -> Result<Table, Failure> {
    let mut rows: Vec<Row<'_, '_>> = Vec::new();
    let mut states: Vec<u8> = Vec::new();
    for &(device, after) in moments {
        let Some(device) = analysis.devices.iter().find(|shown| shown.device == device) else { continue };
        let mut own: Vec<Row<'_, '_>> = device.live_rows(after).map(|(row, block)| (device, row, block)).collect();
        own.sort_by_key(|row| row.2.address);
        states.extend(own.iter().map(|row| u8::from(row.2.awaits_free(after))));
        rows.extend(own);
    }
    let mut columns = of_lifetimes(analysis, &rows);
    columns.push(("state", words(states, &STATES)));
    Table::new(columns)
}

/// The columns that lifetimes and live blocks have in common.
fn of_lifetimes(analysis: &Analysis<'_>, rows: &[Row<'_, '_>]) -> Vec<(&'static str, ArrayRef)> {
    let snapshot = analysis.snapshot;
    let block = |row: &Row<'_, '_>| row.0.blocks().of(row.2, snapshot);
    let at_most = |row: &Row<'_, '_>| block(row).saturating_add(row.0.blocks().doubt(row.2));
    let category = |row: &Row<'_, '_>| u8::try_from(row.0.decided(row.1).category as usize).unwrap_or(u8::MAX);
    let name = |row: &Row<'_, '_>| row.2.alloc().map(|entry| row.0.entries.user_metadata().get(entry.index()));
    let site = |row: &Row<'_, '_>| (row.0.site(row.2, &analysis.sites), row.2.stack);
    let stream = |row: &Row<'_, '_>| snapshot.stream_handle(row.2.stream);
    vec![
        ("device", small(rows.iter().map(|row| row.0.device).collect())),
        ("address", large(rows.iter().map(|row| row.2.address).collect())),
        ("requested_bytes", large(rows.iter().map(|row| row.2.requested_bytes).collect())),
        ("size_bytes", large(rows.iter().map(block).collect())),
        ("where", texts(rows.iter().map(site), |&(site, stack)| place_in(snapshot, &analysis.sites, site, stack))),
        ("size_bytes_at_most", large(rows.iter().map(at_most).collect())),
        ("stream", large(rows.iter().map(stream).collect())),
        ("category", words(rows.iter().map(category).collect(), &Category::ALL.map(Category::name))),
        ("name", texts(rows.iter().map(name), |id| id.map_or_else(String::new, |id| snapshot.text(id).to_owned()))),
        ("stack", optional(rows.iter().map(|row| stack(row.2.stack)))),
        ("alloc_entry", optional(rows.iter().map(|row| row.2.alloc().map(number)))),
    ]
}

/// Every entry of these devices, with the totals after it.
pub(crate) fn timeline(analysis: &Analysis<'_>, devices: &[u32]) -> Result<Table, Failure> {
    let snapshot = analysis.snapshot;
    let rows: Vec<(&DeviceAnalysis<'_>, EntryId)> =
        shown(analysis, devices).flat_map(|device| device.entries.ids().map(move |entry| (device, entry))).collect();
    let totals: Vec<Totals> = shown(analysis, devices)
        .flat_map(|device| device.timeline.iter(0..device.entries.len()).map(|(_, totals)| totals))
        .collect();
    let total = |of: fn(&Totals) -> u64| large(totals.iter().map(of).collect());
    let of = |of: fn(&highwater_snapshot::EntryTable, usize) -> u64| {
        large(rows.iter().map(|(device, entry)| of(device.entries, entry.index())).collect())
    };
    let action = |row: &(&DeviceAnalysis<'_>, EntryId)| row.0.entries.actions()[row.1.index()];
    let stack_of = |row: &(&DeviceAnalysis<'_>, EntryId)| row.0.entries.stacks()[row.1.index()];
    let named: Vec<&str> = Action::NAMES
        .into_iter()
        .chain(snapshot.unknown_actions.iter().map(|&name| snapshot.text(name)))
        .take(usize::from(u8::MAX) + 1)
        .collect();
    let stream = |row: &(&DeviceAnalysis<'_>, EntryId)| snapshot.stream_handle(row.0.entries.streams()[row.1.index()]);
    Table::new(vec![
        ("device", small(rows.iter().map(|row| row.0.device).collect())),
        ("entry", small(rows.iter().map(|row| row.1.get()).collect())),
        ("action", words(rows.iter().map(|row| action(row).code()).collect(), &named)),
        ("address", of(|entries, row| entries.addresses()[row])),
        ("size_bytes", of(|entries, row| entries.sizes_bytes()[row])),
        ("stream", large(rows.iter().map(stream).collect())),
        ("time_us", optional(rows.iter().map(|row| row.0.entries.time_us(row.1)))),
        ("stack", optional(rows.iter().map(|row| stack(stack_of(row))))),
        ("where", texts(rows.iter().map(stack_of), |&stack| place::stack(snapshot, &analysis.sites, stack))),
        ("requested_bytes", total(|totals| totals.requested_bytes)),
        ("allocated_bytes", total(|totals| totals.allocated_bytes)),
        ("allocated_bytes_at_most", total(Totals::allocated_at_most_bytes)),
        ("active_bytes", total(|totals| totals.active_bytes)),
        ("active_bytes_at_most", total(Totals::active_at_most_bytes)),
        ("reserved_bytes", total(|totals| totals.reserved_bytes)),
    ])
}

/// The highest totals in each of so many equal parts of a device's trace.
pub(crate) fn envelope(device: &DeviceAnalysis<'_>, columns: usize) -> Result<Table, Failure> {
    let totals = device.timeline.envelope(columns);
    let total = |of: fn(&Totals) -> u64| large(totals.iter().map(of).collect());
    Table::new(vec![
        ("requested_bytes", total(|totals| totals.requested_bytes)),
        ("allocated_bytes", total(|totals| totals.allocated_bytes)),
        ("active_bytes", total(|totals| totals.active_bytes)),
        ("reserved_bytes", total(|totals| totals.reserved_bytes)),
    ])
}

fn shown<'b, 'a>(analysis: &'b Analysis<'a>, devices: &'b [u32]) -> impl Iterator<Item = &'b DeviceAnalysis<'a>> {
    analysis.devices.iter().filter(|device| devices.contains(&device.device))
}

fn number(entry: EntryId) -> i64 {
    i64::from(entry.get())
}

/// The number of a stack, if one was recorded.
fn stack(id: StackId) -> Option<i64> {
    id.is_recorded().then(|| i64::try_from(id.index()).unwrap_or(i64::MAX))
}
