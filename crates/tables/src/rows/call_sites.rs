use std::collections::BTreeMap;
use std::io;

use highwater_analysis::DeviceAnalysis;

use super::lifetimes::last;
use super::place::Places;
use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// The allocations of a call site on a device: the sums of its rows in `lifetimes`.
    "call_sites" => CallSite<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// The line, or node of autograd, that stands for its stacks. Directories are left out, so that runs can be compared.
        call_site: &'a str,
        /// Allocations in the whole recording.
        allocations: u64,
        /// Requested bytes of all of them, also of those that were freed.
        requested_bytes: u64,
        /// Requested bytes of the largest.
        largest_requested_bytes: u64,
        /// Allocations that count at the peak.
        at_peak_allocations: u64,
        /// Bytes that count at the peak that `devices.at_peak_by` names.
        at_peak_bytes: u64,
        /// Allocations that count after the last entry.
        at_end_allocations: u64,
        /// Bytes that count after the last entry, of the same total.
        at_end_bytes: u64,
    }
}

/// The sums of a site.
#[derive(Default)]
struct Sums {
    allocations: u64,
    requested_bytes: u64,
    largest_requested_bytes: u64,
    at_peak: (u64, u64),
    at_end: (u64, u64),
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    for device in &recording.analysis.devices {
        for (call_site, sums) in &of_device(recording, device) {
            let row = CallSite {
                file: &recording.id.file,
                device: device.device,
                call_site,
                allocations: sums.allocations,
                requested_bytes: sums.requested_bytes,
                largest_requested_bytes: sums.largest_requested_bytes,
                at_peak_allocations: sums.at_peak.0,
                at_peak_bytes: sums.at_peak.1,
                at_end_allocations: sums.at_end.0,
                at_end_bytes: sums.at_end.1,
            };
            row.send(rows)?;
        }
    }
    Ok(())
}

/// The sums by the words for a site: sites with equal words cannot be told apart in other tables either.
fn of_device(recording: &Recording<'_>, device: &DeviceAnalysis<'_>) -> BTreeMap<String, Sums> {
    let analysis = recording.analysis;
    let mut places = Places::new(analysis);
    let mut sites: BTreeMap<String, Sums> = BTreeMap::new();
    let mut sums_of = |row: usize, add: &mut dyn FnMut(&mut Sums, u64)| {
        let lifetime = &device.lifetimes.rows[row];
        let words = &places.of(device.site(lifetime, &analysis.sites), lifetime.stack).call_site;
        if !sites.contains_key(words) {
            sites.insert(words.clone(), Sums::default());
        }
        if let Some(sums) = sites.get_mut(words) {
            add(sums, lifetime.requested_bytes);
        }
    };
    for row in 0..device.lifetimes.rows.len() {
        sums_of(row, &mut |sums, requested| {
            sums.allocations += 1;
            sums.requested_bytes = sums.requested_bytes.saturating_add(requested);
            sums.largest_requested_bytes = sums.largest_requested_bytes.max(requested);
        });
    }
    for (row, bytes) in device.counted_rows(device.peak().entry, analysis.snapshot) {
        sums_of(row, &mut |sums, _| sums.at_peak = (sums.at_peak.0 + 1, sums.at_peak.1.saturating_add(bytes)));
    }
    for (row, bytes) in device.counted_rows(last(device), analysis.snapshot) {
        sums_of(row, &mut |sums, _| sums.at_end = (sums.at_end.0 + 1, sums.at_end.1.saturating_add(bytes)));
    }
    sites
}
