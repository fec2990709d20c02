//! temp
use highwater_allocator::TorchVersion;
fn main() {
    for path in std::env::args().skip(1) {
        let snapshot = highwater_snapshot::Snapshot::open(&path).unwrap();
        let analysis = highwater_analysis::analyse(&snapshot);
        for device in &analysis.devices {
            let settings = highwater_analysis::replay::recorded_settings(&snapshot, TorchVersion::v2(11));
            let start = std::time::Instant::now();
            let replay = highwater_analysis::replay::replay(&snapshot, device, &settings);
            let secs = start.elapsed().as_secs_f64();
            let name = path.rsplit('/').next().unwrap();
            print!("{name} d{} {}/{} {:.0} ns/e limit {:?}", device.device, replay.fidelity.equal, replay.fidelity.entries, secs * 1e9 / device.entries.len().max(1) as f64, replay.inferred_limit_bytes);
            if let Some(d) = &replay.fidelity.first_difference { print!(" DIFF at {:?} rec {:?} pred {:?} {}", d.entry, (d.entry.index() < device.entries.len()).then(|| { let e = device.entries.get(d.entry); (device.entries.actions()[d.entry.index()].code(), e.address, e.size_bytes) }), d.predicted, d.note); }
            println!();
        }
    }
}
