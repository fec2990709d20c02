use std::io;

use super::lifetimes::stack;
use super::place::Places;
use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// A request that failed.
    "out_of_memory" => OutOfMemory<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// The entry.
        entry: u32,
        /// The time.
        time_us: Option<i64>,
        /// The request, rounded.
        requested_bytes: u64,
        /// Bytes requested from the driver.
        segment_bytes: u64,
        /// Free memory that the driver reported.
        device_free_bytes: Option<u64>,
        /// Memory available to this process: reserved, plus free on the device.
        available_bytes: Option<u64>,
        /// Why it failed: one of the causes of `highwater explain`.
        cause: &'a str,
        /// Requested bytes of the live blocks at that moment.
        live_requested_bytes: u64,
        /// Allocated bytes at that moment.
        allocated_bytes: u64,
        /// Active bytes at that moment.
        active_bytes: u64,
        /// Reserved bytes at that moment.
        reserved_bytes: u64,
        /// Why it failed, in words.
        explanation: &'a str,
        /// The line that made the request.
        call_site: &'a str,
        /// The program's own line, where `call_site` is a library's.
        called_from: Option<&'a str>,
        /// Its stack: a number of the table `stacks`.
        stack: Option<usize>,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    let analysis = recording.analysis;
    let mut places = Places::new(analysis);
    for (view, device) in recording.report.devices.iter().zip(&analysis.devices) {
        for (oom, event) in view.oom.iter().zip(&device.oom) {
            let place = places.of(analysis.sites.site(event.stack), event.stack);
            let row = OutOfMemory {
                file: &recording.id.file,
                device: view.device,
                entry: oom.entry,
                time_us: oom.time_us,
                requested_bytes: oom.requested_bytes,
                segment_bytes: oom.segment_bytes,
                device_free_bytes: oom.device_free_bytes,
                available_bytes: oom.available_bytes,
                cause: oom.cause,
                live_requested_bytes: oom.live_requested_bytes,
                allocated_bytes: oom.allocated_bytes,
                active_bytes: oom.active_bytes,
                reserved_bytes: oom.reserved_bytes,
                explanation: &oom.explanation,
                call_site: &place.call_site,
                called_from: place.called_from.as_deref(),
                stack: stack(event.stack),
            };
            row.send(rows)?;
        }
    }
    Ok(())
}
