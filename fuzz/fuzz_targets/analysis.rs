//! Whatever the reader makes of any bytes, the analysis does not panic on it.

#![no_main]

use highwater_snapshot::Snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = Snapshot::read(bytes) {
        let analysis = highwater_analysis::analyse(&snapshot);
        assert_eq!(analysis.devices.len(), snapshot.devices().len());
    }
});
