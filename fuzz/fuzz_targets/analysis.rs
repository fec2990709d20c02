//! Whatever the reader makes of any bytes, neither the analysis nor a replay of it panics, and totals are those of what
//! is live.

#![no_main]

use highwater_allocator::{AddressPolicy, TorchVersion};
use highwater_analysis::view::columns::{Options, columns};
use highwater_analysis::whatif::{Memory, Study};
use highwater_analysis::{Analysis, DeviceAnalysis, analyse, stats, view};
use highwater_snapshot::Snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = Snapshot::read(bytes) {
        let analysis = analyse(&snapshot);
        assert_eq!(analysis.devices.len(), snapshot.devices().len());
        let _ = view::report(&analysis);
        check_columns(&analysis);
        for device in &analysis.devices {
            let _ = stats::stats(&snapshot, device);
            check_active(&snapshot, device);
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

/// What the viewer draws at the peak is what is live there.
fn check_columns(analysis: &Analysis<'_>) {
    let columns = columns(analysis, "fuzz", &Options::default());
    for device in &columns.manifest.devices {
        let numbers = |name: &str| columns.sections[&format!("{}/{name}", device.device)].numbers();
        let peak = u64::from(device.peak.entry);
        let rows = numbers("start").into_iter().zip(numbers("end")).zip(numbers("size"));
        let live = rows.filter(|&((start, end), _)| start <= peak && peak < end);
        // Doubles hold what is drawn to the unit, below 2^53 of them.
        let sum = live.fold(0_u64, |sum, (_, size)| sum.saturating_add(size.saturating_mul(device.unit_bytes)));
        assert!(sum == device.peak.bytes || sum >= 1 << 53, "{sum} drawn, {} told", device.peak.bytes);
    }
}

/// At the peak, active bytes are those of the blocks that are live.
fn check_active(snapshot: &Snapshot, device: &DeviceAnalysis<'_>) {
    let sizes = device.live(device.peak().entry).map(|lifetime| device.blocks().of(lifetime, snapshot));
    let live = sizes.fold(0_u64, u64::saturating_add);
    let told = device.totals(device.peak().entry).active_bytes;
    assert!(told == live || live > i64::MAX.unsigned_abs(), "{told} active, {live} of what is live");
}
