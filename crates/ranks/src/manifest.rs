//! What the recorder writes of a rank: in the snapshot, so that it travels with it, and beside it, so that a rank without a file is
//! known.

use std::path::Path;

pub use highwater_documents::manifest::Manifest;
use highwater_snapshot::Snapshot;

/// How the files beside snapshots end.
pub(crate) const ENDING: &str = ".manifest.json";

/// Larger files are something else.
const MAX_BYTES: u64 = 1 << 20;

/// The manifest in a snapshot, if it has one: `python/highwater/_job.py` writes it, and `torch.profiler` a part of it, with the same names
/// for the rank and the number of ranks.
pub(crate) fn in_snapshot(snapshot: &Snapshot) -> Option<Manifest> {
    let text = snapshot.extra(Snapshot::MANIFEST).or_else(|| snapshot.extra(Snapshot::DISTRIBUTED))?;
    serde_json::from_str(text).ok()
}

/// Whether a file's name is that of a manifest.
pub(crate) fn is_one(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ENDING))
}

/// The manifest in a file of its own.
///
/// # Errors
/// Why it cannot be read, as a fragment.
pub(crate) fn read(path: &Path) -> Result<Manifest, String> {
    let length = path.metadata().map_err(|error| error.to_string())?.len();
    if length > MAX_BYTES {
        return Err("it is too large for a manifest".to_owned());
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| format!("it is not a manifest: {error}"))
}
