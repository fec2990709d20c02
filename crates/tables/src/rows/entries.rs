use std::io;

use highwater_snapshot::Action;

use super::lifetimes::{pool, pools, stack};
use crate::declaration::{Bits, table};
use crate::{Recording, Rows};

table! {
    /// An entry of the trace, with the totals after it.
    "entries", on_request => Entry<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// Its number on the device.
        entry: u32,
        /// The action, in PyTorch's word.
        action: &'a str,
        /// First byte of the block or segment; null of an `oom`.
        address: Option<Bits>,
        /// Its bytes: of a block, as requested.
        size_bytes: u64,
        /// The stream's handle.
        stream: Bits,
        /// The private pool, as PyTorch writes it; null of the default pool.
        pool: Option<&'a str>,
        /// The time.
        time_us: Option<i64>,
        /// Free memory that the driver reported, of an `oom`.
        device_free_bytes: Option<u64>,
        /// The stack: a number of the table `stacks`.
        stack: Option<usize>,
        /// Requested bytes after the entry.
        requested_bytes: u64,
        /// Allocated bytes after the entry.
        allocated_bytes: u64,
        /// Active bytes after the entry.
        active_bytes: u64,
        /// Reserved bytes after the entry.
        reserved_bytes: u64,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    let snapshot = recording.analysis.snapshot;
    let pools = pools(snapshot);
    for device in &recording.analysis.devices {
        for (id, totals) in device.timeline.iter(0..device.entries.len()) {
            let entry = device.entries.get(id);
            let row = Entry {
                file: &recording.id.file,
                device: device.device,
                entry: id.get(),
                action: snapshot.action_name(entry.action),
                address: (entry.action != Action::OOM).then_some(Bits(entry.address)),
                size_bytes: entry.size_bytes,
                stream: Bits(snapshot.stream_handle(entry.stream)),
                pool: pool(&pools, entry.pool),
                time_us: entry.time_us,
                device_free_bytes: device.entries.device_free_bytes(id),
                stack: stack(entry.stack),
                requested_bytes: totals.requested_bytes,
                allocated_bytes: totals.allocated_bytes,
                active_bytes: totals.active_bytes,
                reserved_bytes: totals.reserved_bytes,
            };
            row.send(rows)?;
        }
    }
    Ok(())
}
