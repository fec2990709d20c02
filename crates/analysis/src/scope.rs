//! Annotations as ranges of entries.

use hashbrown::HashMap;
use highwater_snapshot::{EntryTable, Snapshot, Stage, StringId};

/// One scope that an annotation opened, on the entries of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Its name.
    pub name: StringId,
    /// First entry inside; equal to `end` if none is.
    pub start: usize,
    /// One past the last entry inside.
    pub end: usize,
    /// How many scopes were open around it.
    pub depth: usize,
    /// When it began, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// When it ended; `None` if it was still open at the dump.
    pub end_us: Option<i64>,
}

/// Annotations of other devices for each entry of this one, beyond [`FEW_ANNOTATIONS`]. A training step has a handful for
/// some hundred entries.
const MAX_FOREIGN_PER_ENTRY: usize = 8;
const FEW_ANNOTATIONS: usize = 1024;

/// The scopes of a snapshot on the entries of one device, in the order of their starts.
///
/// An annotation names the device that was current, not the one it concerns: one thread's optimizer steps parameters on
/// every device. So where this device has annotations of its own, those count, else all; but not where they are far more
/// than its entries, or a file of many short traces would get all annotations for each.
///
/// # Source
/// `spec/snapshot-format.md` section 9: a `START` and an `END` of the same name pair by nesting.
pub(crate) fn scopes(snapshot: &Snapshot, device: u32, entries: &EntryTable) -> Vec<Scope> {
    let own = |annotated: i32| u32::try_from(annotated) == Ok(device);
    let has_own = snapshot.annotations.iter().any(|annotation| own(annotation.device));
    if !has_own && snapshot.annotations.len() > FEW_ANNOTATIONS + MAX_FOREIGN_PER_ENTRY * entries.len() {
        return Vec::new();
    }
    let clock = Clock::new(entries);
    let mut scopes: Vec<Scope> = Vec::new();
    // By name, since of scopes that never end there may be many.
    let mut open: HashMap<StringId, Vec<usize>> = HashMap::default();
    let mut depth = 0;
    for annotation in snapshot.annotations.iter().filter(|a| !has_own || own(a.device)) {
        let Some(time) = annotation.time_us else { continue };
        match annotation.stage {
            Stage::Start => {
                let start = clock.first_at_or_after(time);
                let end = entries.len();
                open.entry(annotation.name).or_default().push(scopes.len());
                scopes.push(Scope { name: annotation.name, start, end, depth, start_us: time, end_us: None });
                depth += 1;
            }
            Stage::End => {
                let Some(row) = open.get_mut(&annotation.name).and_then(Vec::pop) else { continue };
                let scope = &mut scopes[row];
                scope.end = clock.first_after(time).max(scope.start);
                scope.end_us = Some(time);
                depth -= 1;
            }
            Stage::Other(_) => {}
        }
    }
    scopes
}

/// From time to entry. Times rise with few exceptions, which a running maximum irons out.
struct Clock {
    latest: Vec<i64>,
}

impl Clock {
    fn new(entries: &EntryTable) -> Self {
        let mut latest = i64::MIN;
        let times = entries.ids().map(|id| {
            latest = latest.max(entries.time_us(id).unwrap_or(latest));
            latest
        });
        Self { latest: times.collect() }
    }

    fn first_at_or_after(&self, time: i64) -> usize {
        self.latest.partition_point(|&t| t < time)
    }

    fn first_after(&self, time: i64) -> usize {
        self.latest.partition_point(|&t| t <= time)
    }
}
