//! Recordings, and the parts of a made-up snapshot.

use std::fmt::Write as _;
use std::path::PathBuf;

use highwater_snapshot::{Action, Entry, PoolId, Snapshot, StackId, StreamId, StringId};

use crate::files::{files, testdata};

/// The snapshot `testdata/PATH.pickle.gz`.
pub fn open(path: &str) -> Snapshot {
    let path = testdata(format!("{path}.pickle.gz"));
    Snapshot::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The path `testdata/recordings/NAME.pickle.gz`.
pub fn recording_path(name: &str) -> PathBuf {
    testdata(format!("recordings/{name}.pickle.gz"))
}

/// The snapshot `testdata/recordings/NAME.pickle.gz`.
pub fn recording(name: &str) -> Snapshot {
    open(&format!("recordings/{name}"))
}

/// The paths of the snapshots in a folder of `testdata/`, in order of their names; at least one.
pub fn snapshots(folder: &str) -> Vec<PathBuf> {
    files(&testdata(folder), ".pickle.gz")
}

/// The paths of the recordings, in order of their names.
pub fn recordings() -> Vec<PathBuf> {
    snapshots("recordings")
}

/// An entry on the default stream of which nothing else is known.
pub fn entry(action: Action, address: u64, size_bytes: u64) -> Entry {
    Entry {
        action,
        address,
        size_bytes,
        stream: StreamId::DEFAULT,
        time_us: None,
        stack: StackId::MISSING,
        pool: PoolId::MISSING,
        compile_context: StringId::MISSING,
        user_metadata: StringId::MISSING,
        category: StringId::MISSING,
    }
}

/// The warnings of a snapshot, one a line.
pub fn warnings(snapshot: &Snapshot) -> String {
    snapshot.warnings.iter().fold(String::new(), |mut text, warning| {
        let _ = writeln!(text, "{warning}");
        text
    })
}

/// Why bytes are refused as a snapshot, as a program would print it of a file `FILE`.
pub fn refusal(bytes: &[u8]) -> String {
    let error = match Snapshot::read(bytes) {
        Ok(snapshot) => panic!("it is not refused: {}", warnings(&snapshot)),
        Err(error) => error,
    };
    let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    format!("FILE {}: {error}{hint}", error.headline())
}
