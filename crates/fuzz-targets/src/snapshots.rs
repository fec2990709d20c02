//! The readers of snapshots and profiles, and the analysis of what they read.

use highwater_allocator::{AddressPolicy, Memory, TorchVersion};
use highwater_analysis::{Analysis, DeviceAnalysis, analyse, stats};
use highwater_documents::columns::{Options, columns};
use highwater_snapshot::{Settings, Snapshot};
use highwater_whatif::Study;

/// A snapshot that was read reads the same again after it was written, as a pickle and as JSON.
pub fn snapshot(bytes: &[u8]) {
    let Ok(mut snapshot) = Snapshot::read(bytes) else { return };
    // Settings with the keys of a trace entry, or with NaN, are the one thing that need not come back.
    snapshot.settings = Settings::default();
    let written = pickled(&snapshot);
    let again = Snapshot::read(written.as_slice()).expect("a written pickle is readable");
    assert!(pickled(&again) == written, "a written pickle reads differently");
    // JSON spells every stack out: a large input would take minutes.
    if bytes.len() < 4096 {
        let mut json = Vec::new();
        snapshot.write_json(&mut json).expect("a vector takes all bytes");
        let again = Snapshot::read(json.as_slice()).expect("written JSON is readable");
        assert!(pickled(&again) == written, "a written JSON text reads differently");
    }
}

fn pickled(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::new();
    snapshot.write_pickle(&mut out).expect("a vector takes all bytes");
    out
}

/// Analysis and replays hold together: totals are those of the live blocks, and a replay never reserves less than it allocates.
pub fn analysis(bytes: &[u8]) {
    let Ok(snapshot) = Snapshot::read(bytes) else { return };
    let analysis = check_analysis(&snapshot);
    for device in &analysis.devices {
        check_active(&snapshot, device);
        for torch in [TorchVersion::v2(11), TorchVersion::NEWEST] {
            let study = Study::new(&snapshot, device, torch);
            assert!(study.fidelity.equal <= study.fidelity.entries);
            for memory in [Memory::Ample, Memory::Limit(64 << 20)] {
                let run = study.run(&study.recorded, memory, AddressPolicy::Driver);
                assert!(run.peak_allocated_bytes() <= run.peak_reserved_bytes());
            }
            study.pinned(&study.recorded, Memory::Limit(64 << 20), device, &analysis.sites);
            study.packing();
        }
    }
}

/// A profile of `torch.profiler` is read or refused, and analysed if it was read. Its corpus has the keys of these files.
pub fn profiler(bytes: &[u8]) {
    if let Ok(snapshot) = Snapshot::read(bytes) {
        check_analysis(&snapshot);
    }
}

/// The analysis, its report, its statistics and the columns that the viewer draws.
fn check_analysis(snapshot: &Snapshot) -> Analysis<'_> {
    let analysis = analyse(snapshot);
    assert_eq!(analysis.devices.len(), snapshot.devices().len());
    let _ = highwater_documents::report(&analysis);
    check_columns(&analysis);
    for device in &analysis.devices {
        let _ = stats::stats(snapshot, device, highwater_whatif::alloc_retries(snapshot, device));
    }
    analysis
}

/// The viewer draws as much at the peak as is live there.
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
    assert!(told == live || live > i64::MAX.unsigned_abs(), "{told} active, {live} live");
}
