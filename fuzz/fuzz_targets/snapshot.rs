//! Any bytes: the reader does not panic, and what it read is what it reads again after it was written.

#![no_main]

use highwater_snapshot::{Settings, Snapshot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut snapshot) = Snapshot::read(bytes) else { return };
    // Settings with the keys of a trace entry, or with NaN, are the one thing that need not come back.
    snapshot.settings = Settings::default();
    let written = pickled(&snapshot);
    let again = Snapshot::read(written.as_slice()).expect("what was written is readable");
    assert!(pickled(&again) == written, "a written pickle reads otherwise");
    // JSON spells every stack out: a large input would take minutes.
    if bytes.len() < 4096 {
        let mut json = Vec::new();
        snapshot.write_json(&mut json).expect("a vector takes all bytes");
        let again = Snapshot::read(json.as_slice()).expect("what was written is readable");
        assert!(pickled(&again) == written, "a written JSON text reads otherwise");
    }
});

fn pickled(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::new();
    snapshot.write_pickle(&mut out).expect("a vector takes all bytes");
    out
}
