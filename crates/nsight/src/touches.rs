//! When managed memory was touched: the driver moves its pages, and those rows alone have addresses.

use std::collections::BTreeMap;

use highwater_outside::{Event, Kind, Touch};
use highwater_problem::Problem;
use highwater_sqlite::Database;

use crate::rows::{Table, columns_of};
use crate::work::{COPIES, MOVED, direction};

/// Faults of the program's own threads.
const OF_HOST: &str = "CUDA_UM_CPU_PAGE_FAULT_EVENTS";
/// Faults of kernels, several in a row of the table.
const OF_DEVICE: &str = "CUDA_UM_GPU_PAGE_FAULT_EVENTS";
/// Earlier allocations at lower addresses that are looked through for the one that a page lies in.
const LOOKED_AT: usize = 64;

/// The managed allocations of a file, by process and address.
#[derive(Debug, Default)]
pub(crate) struct Managed {
    at: BTreeMap<(i64, i64), Vec<Made>>,
}

/// One of them; times as in the file.
#[derive(Clone, Copy, Debug)]
struct Made {
    from: i64,
    to: i64,
    bytes: i64,
    /// As the recording has it, which tells processes apart by it.
    address: u64,
}

impl Managed {
    /// Follows an event of a process, in the order of time; `address` is that of the file.
    pub(crate) fn follow(&mut self, process: i64, address: u64, event: &Event) {
        let key = (process, address.cast_signed());
        let time = event.time_ns.cast_signed();
        match event.kind {
            Kind::Managed => {
                let made = Made { from: time, to: i64::MAX, bytes: event.bytes, address: event.address };
                self.at.entry(key).or_default().push(made);
            }
            Kind::Free => {
                if let Some(last) = self.at.get_mut(&key).and_then(|all| all.last_mut()) {
                    last.to = last.to.min(time);
                }
            }
            _ => {}
        }
    }

    /// The allocation that has a byte at a time.
    fn find(&self, process: i64, address: i64, time: i64) -> Option<Made> {
        let mut below = self.at.range((process, i64::MIN)..=(process, address)).rev().take(LOOKED_AT);
        below.find_map(|((_, from), all)| {
            // In the order of time: an address that is given out again and again is searched, not looked through.
            let made = all[..all.partition_point(|made| made.from <= time)].last()?;
            let is_inside = address.checked_sub(*from).is_some_and(|offset| offset < made.bytes);
            (is_inside && time < made.to).then_some(*made)
        })
    }

    /// The process of all of them, for rows that do not say it.
    fn process(&self) -> Option<i64> {
        let (first, last) = (self.at.keys().next()?.0, self.at.keys().next_back()?.0);
        (first == last).then_some(first)
    }
}

/// Counts them, by allocation.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn touches(database: &Database, managed: &Managed, process_bits: u32) -> Result<Vec<Touch>, Problem> {
    let mut sums: BTreeMap<(u64, i64, &'static str), (u64, u64, i64)> = BTreeMap::new();
    if managed.at.is_empty() {
        return Ok(Vec::new());
    }
    let names = ["globalPid", "start", "end", "copyKind", "virtualAddress", "address", "bytes", "numberOfPageFaults"];
    for (table, place) in [(COPIES, 4), (OF_HOST, 5), (OF_DEVICE, 5)] {
        let columns = columns_of(database, table)?;
        if !columns.contains(&names[place]) {
            continue;
        }
        Table::new(database, table, &columns).read(&names, |row| {
            let (what, count) = match table {
                OF_HOST => ("page faults of the host", 1),
                OF_DEVICE => ("page faults of the device", row[7].unwrap_or(1)),
                _ => (direction(row[3].unwrap_or(0)), 1),
            };
            let is_moved = table != COPIES || row[3].is_some_and(|kind| MOVED.contains(&kind));
            let process = row[0].map(|process| process >> process_bits).or_else(|| managed.process());
            let (Some(process), Some(address), Some(start)) = (process, row[place].filter(|_| is_moved), row[1]) else {
                return;
            };
            let Some(made) = managed.find(process, address, start) else { return };
            let (counted, bytes, last) = sums.entry((made.address, made.from, what)).or_default();
            *counted = counted.saturating_add(u64::try_from(count).unwrap_or(0));
            if table == COPIES {
                *bytes = bytes.saturating_add(u64::try_from(row[6].unwrap_or(0)).unwrap_or(0));
            }
            *last = (*last).max(row[2].unwrap_or(start));
        })?;
    }
    let touch = |((address, made, what), (count, bytes, last)): ((u64, i64, &str), (u64, u64, i64))| Touch {
        address,
        made_ns: made.cast_unsigned(),
        what: what.to_owned(),
        count,
        bytes,
        last_ns: last.cast_unsigned(),
    };
    Ok(sums.into_iter().map(touch).collect())
}
