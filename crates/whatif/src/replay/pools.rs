//! Which private pool a recorded allocation came from.

use highwater_analysis::Reconstruction;
use highwater_snapshot::{Action, PoolId, Snapshot};

/// A private pool's segment that is there at the dump.
struct PrivateRange {
    address: u64,
    end: u64,
    pool: PoolId,
    /// The entry that reserved it: before that its addresses were somebody else's.
    since: u32,
}

/// The pool of each allocation, by what the entries say (since torch 2.12) or else by the segments of the dump.
///
/// A private pool whose segments are gone at the dump cannot be told from the default one before torch 2.12.
pub(super) struct Pools<'a> {
    recorded: &'a highwater_snapshot::Column<PoolId>,
    ranges: Vec<PrivateRange>,
}

impl<'a> Pools<'a> {
    pub(super) fn new(snapshot: &Snapshot, device: &Reconstruction<'a>) -> Self {
        let entries = device.entries;
        let private = snapshot.segments_of(device.device).filter(|segment| segment.pool != PoolId::DEFAULT);
        let mut ranges: Vec<PrivateRange> = private
            .filter(|segment| segment.pool != PoolId::MISSING)
            .map(|segment| PrivateRange { address: segment.address, end: segment.end(), pool: segment.pool, since: 0 })
            .collect();
        ranges.sort_unstable_by_key(|range| range.address);
        if !ranges.is_empty() {
            for (row, (&action, &address)) in entries.actions().iter().zip(entries.addresses()).enumerate() {
                if action == Action::SEGMENT_ALLOC
                    && let Some(range) = range_of(&mut ranges, address)
                {
                    range.since = highwater_analysis::lifetime::number(row);
                }
            }
        }
        Self { recorded: entries.pools(), ranges }
    }

    /// The pool that an entry's address belongs to.
    pub(super) fn of(&self, row: usize, address: u64) -> PoolId {
        match self.recorded.get(row) {
            PoolId::MISSING => {
                let index = self.ranges.partition_point(|range| range.address <= address).checked_sub(1);
                let range = index.map(|index| &self.ranges[index]);
                let found = range.filter(|range| address < range.end && row >= range.since as usize);
                found.map_or(PoolId::DEFAULT, |range| range.pool)
            }
            pool => pool,
        }
    }
}

fn range_of(ranges: &mut [PrivateRange], address: u64) -> Option<&mut PrivateRange> {
    let index = ranges.partition_point(|range| range.address <= address).checked_sub(1)?;
    let range = &mut ranges[index];
    (address < range.end).then_some(range)
}
