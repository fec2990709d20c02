//! Whatever the reader makes of any bytes, neither the analysis nor a replay of it panics.

#![no_main]

use highwater_allocator::{AddressPolicy, TorchVersion};
use highwater_analysis::whatif::{Memory, Study};
use highwater_snapshot::Snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = Snapshot::read(bytes) {
        let analysis = highwater_analysis::analyse(&snapshot);
        assert_eq!(analysis.devices.len(), snapshot.devices().len());
        for device in &analysis.devices {
            for torch in [TorchVersion::v2(11), TorchVersion::NEWEST] {
                let study = Study::new(&snapshot, device, torch);
                assert!(study.fidelity.equal <= study.fidelity.entries);
                for memory in [Memory::Ample, Memory::Limit(64 << 20)] {
                    let run = study.run(&study.recorded, memory, AddressPolicy::FirstFit);
                    assert!(run.peak_allocated_bytes() <= run.peak_reserved_bytes());
                }
                study.pinned(&study.recorded, Memory::Limit(64 << 20), device, &analysis.sites);
                study.packing();
            }
        }
    }
});
