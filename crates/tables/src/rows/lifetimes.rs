use std::io;

use highwater_analysis::DeviceAnalysis;
use highwater_snapshot::{EntryId, PoolId, Snapshot, StackId};

use super::place::Places;
use crate::declaration::{Bits, table};
use crate::{Recording, Rows};

table! {
    /// A use of an address, from its allocation to its free: a tensor's memory.
    "lifetimes" => Lifetime<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// Its number on the device: those that began before the recording come first.
        lifetime: usize,
        /// First byte of the block.
        address: Bits,
        /// Requested bytes.
        requested_bytes: u64,
        /// Bytes of the block; the lower bound, if they have bounds.
        size_bytes: u64,
        /// The upper bound of the block's bytes.
        size_bytes_at_most: u64,
        /// The stream's handle.
        stream: Bits,
        /// The private pool, as PyTorch writes it; null of the default pool.
        pool: Option<&'a str>,
        /// Its category.
        category: &'a str,
        /// The rule that decided the category.
        category_rule: &'a str,
        /// The line, or node of autograd, that stands for its stack.
        call_site: &'a str,
        /// The program's own line, where `call_site` is a library's.
        called_from: Option<&'a str>,
        /// The name that the program gave it (`user_metadata`).
        name: Option<&'a str>,
        /// Its stack: a number of the table `stacks`.
        stack: Option<usize>,
        /// The entry that allocated it; null if that came before the recording.
        alloc_entry: Option<u32>,
        /// The entry in which its owner freed it.
        free_requested_entry: Option<u32>,
        /// The entry in which it returned to its pool; null if it is active at the dump.
        free_completed_entry: Option<u32>,
        /// The time of `alloc_entry`.
        alloc_time_us: Option<i64>,
        /// The time of `free_requested_entry`.
        free_requested_time_us: Option<i64>,
        /// The time of `free_completed_entry`.
        free_completed_time_us: Option<i64>,
        /// Bytes that count at the peak that `devices.at_peak_by` names: their sum is that peak, to the byte.
        at_peak_bytes: u64,
        /// Bytes that count after the last entry, of the same total.
        at_end_bytes: u64,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    let snapshot = recording.analysis.snapshot;
    let mut places = Places::new(recording.analysis);
    let pools = pools(snapshot);
    for device in &recording.analysis.devices {
        let [at_peak, at_end] = [device.peak().entry, last(device)].map(|moment| counted(device, moment, snapshot));
        for (row, lifetime) in device.lifetimes.rows.iter().enumerate() {
            let size_bytes = device.blocks().of(lifetime, snapshot);
            let decided = device.decided(row);
            let place = places.of(device.site(lifetime, &recording.analysis.sites), lifetime.stack);
            let time = |entry: Option<EntryId>| entry.and_then(|entry| device.entries.time_us(entry));
            let name = lifetime.alloc().map(|entry| snapshot.text(device.entries.user_metadata().get(entry.index())));
            let row = Lifetime {
                file: &recording.id.file,
                device: device.device,
                lifetime: row,
                address: Bits(lifetime.address),
                requested_bytes: lifetime.requested_bytes,
                size_bytes,
                size_bytes_at_most: size_bytes.saturating_add(device.blocks().doubt(lifetime)),
                stream: Bits(snapshot.stream_handle(lifetime.stream)),
                pool: pool(&pools, lifetime.pool),
                category: decided.category.name(),
                category_rule: decided.rule,
                call_site: &place.call_site,
                called_from: place.called_from.as_deref(),
                name: name.filter(|name| !name.is_empty()),
                stack: stack(lifetime.stack),
                alloc_entry: lifetime.alloc().map(EntryId::get),
                free_requested_entry: lifetime.free_requested().map(EntryId::get),
                free_completed_entry: lifetime.free_completed().map(EntryId::get),
                alloc_time_us: time(lifetime.alloc()),
                free_requested_time_us: time(lifetime.free_requested()),
                free_completed_time_us: time(lifetime.free_completed()),
                at_peak_bytes: at_peak[row],
                at_end_bytes: at_end[row],
            };
            row.send(rows)?;
        }
    }
    Ok(())
}

/// The last entry of a device.
pub(super) fn last(device: &DeviceAnalysis<'_>) -> Option<EntryId> {
    device.entries.len().checked_sub(1).map(EntryId::from_index)
}

/// The bytes of each lifetime that count at a moment.
fn counted(device: &DeviceAnalysis<'_>, moment: Option<EntryId>, snapshot: &Snapshot) -> Vec<u64> {
    let mut bytes = vec![0; device.lifetimes.rows.len()];
    for (row, counted) in device.counted_rows(moment, snapshot) {
        bytes[row] = counted;
    }
    bytes
}

/// The private pools as PyTorch writes them, by their rows.
pub(super) fn pools(snapshot: &Snapshot) -> Vec<String> {
    snapshot.pools.iter().map(|(by_graph, by_user)| format!("{by_graph},{by_user}")).collect()
}

/// The text of a pool; none of the default one.
pub(super) fn pool(pools: &[String], id: PoolId) -> Option<&str> {
    (id != PoolId::MISSING && id.index() != 0).then(|| &*pools[id.index()])
}

/// The number of a stack, if one was recorded.
pub(super) fn stack(id: StackId) -> Option<usize> {
    id.is_recorded().then(|| id.index())
}
