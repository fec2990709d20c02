//! Clocks of several hosts, set by what all ranks do together: the ends of iterations, at which they wait for each other.

use std::collections::BTreeSet;

use crate::numbering::Row;

/// How far each rank's clock is ahead of the first's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// Microseconds ahead, by row; `None` where nothing tells.
    pub(crate) ahead_us: Vec<Option<i64>>,
    /// The word for how they were found.
    pub(crate) by: &'static str,
}

/// Sets the clocks.
pub(crate) fn clocks(rows: &[Row<'_>]) -> Clocks {
    let hosts: BTreeSet<&Option<String>> = rows.iter().map(|row| &row.host).collect();
    if hosts.len() <= 1 {
        return Clocks { ahead_us: vec![Some(0); rows.len()], by: "clock" };
    }
    let Some(reference) = rows.iter().max_by_key(|row| row.device.iterations.complete) else {
        return Clocks { ahead_us: Vec::new(), by: "unknown" };
    };
    let ahead_us: Vec<Option<i64>> = rows.iter().map(|row| ahead(row, reference)).collect();
    let by = if ahead_us.iter().all(Option::is_some) { "iterations" } else { "unknown" };
    Clocks { ahead_us, by }
}

/// The median difference at the ends of iterations that both recorded; recordings that began together count them alike.
fn ahead(row: &Row<'_>, reference: &Row<'_>) -> Option<i64> {
    if row.host.is_some() && row.host == reference.host {
        return Some(0);
    }
    let ends = |row: &Row<'_>| row.device.iterations.end_us.clone();
    let pairs = ends(row).into_iter().zip(ends(reference));
    let mut ahead: Vec<i64> = pairs.filter_map(|(own, other)| Some(own?.saturating_sub(other?))).collect();
    ahead.sort_unstable();
    ahead.get(ahead.len() / 2).copied()
}
