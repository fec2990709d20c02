//! Whatever the reader makes of any bytes, the analysis does not panic on it, and its totals are those of what is live.

#![no_main]

use highwater_analysis::{analyse, stats, view};
use highwater_snapshot::Snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = Snapshot::read(bytes) {
        let analysis = analyse(&snapshot);
        assert_eq!(analysis.devices.len(), snapshot.devices().len());
        let _ = view::report(&analysis);
        for device in &analysis.devices {
            let _ = stats::stats(&snapshot, device);
            let sizes = device.live(device.peak().entry).map(|lifetime| device.blocks().of(lifetime, &snapshot));
            let active = sizes.fold(0_u64, u64::saturating_add);
            let told = device.totals(device.peak().entry).active_bytes;
            assert!(told == active || active > i64::MAX.unsigned_abs(), "{told} active, {active} of what is live");
        }
    }
});
