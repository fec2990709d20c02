//! Kernels and copies of memory: how many, by device and direction.

use std::collections::BTreeMap;

use highwater_outside::Work;
use highwater_problem::Problem;
use highwater_sqlite::Database;

use crate::rows::{Table, columns_of};

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
pub(crate) const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const FILLS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
/// Kinds of work at most: a file with more is made to hurt.
const MAX_KINDS: usize = 4096;

/// Kinds of copies that move pages of managed memory: `CUDA_MEMCPY_KIND_UVM_HTOD` and the two after it.
pub(crate) const MOVED: std::ops::RangeInclusive<i64> = 11..=13;

/// How a kind of copy is called: `CUpti_ActivityMemcpyKind`.
pub(crate) fn direction(kind: i64) -> &'static str {
    match kind {
        1 => "copies from host to device",
        2 => "copies from device to host",
        3..=7 => "copies of arrays",
        8 => "copies within a device",
        9 => "copies within the host",
        10 => "copies between devices",
        11 => "moves of managed memory to the device",
        12 => "moves of managed memory to the host",
        13 => "moves of managed memory between devices",
        _ => "copies of another kind",
    }
}

/// Counts them; a missing table has none.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn work(database: &Database, epoch_ns: u64) -> Result<Vec<Work>, Problem> {
    let mut sums: BTreeMap<(i64, &'static str), (u64, u64, i64)> = BTreeMap::new();
    for table in [KERNELS, COPIES, FILLS] {
        let columns = columns_of(database, table)?;
        if !columns.contains(&"deviceId") {
            continue;
        }
        Table::new(database, table, &columns).read(&["deviceId", "copyKind", "bytes", "end"], |row| {
            let what = match table {
                KERNELS => "kernels",
                COPIES => direction(row[1].unwrap_or(0)),
                _ => "fills",
            };
            let key = (row[0].unwrap_or(0), what);
            if sums.len() == MAX_KINDS && !sums.contains_key(&key) {
                return;
            }
            let (count, bytes, last) = sums.entry(key).or_default();
            *count += 1;
            *bytes = bytes.saturating_add(u64::try_from(row[2].unwrap_or(0)).unwrap_or(0));
            *last = (*last).max(row[3].unwrap_or(0));
        })?;
    }
    let work = sums.into_iter().map(|((device, what), (count, bytes, last))| Work {
        device: i32::try_from(device).unwrap_or(0),
        what: what.to_owned(),
        count,
        bytes,
        last_ns: last.cast_unsigned().wrapping_add(epoch_ns),
    });
    Ok(work.collect())
}
