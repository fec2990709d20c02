//! The files of `testdata/`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file or folder of the repository, by its path there.
pub fn repository(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A file or folder of `testdata/`, by its path there.
pub fn testdata(path: impl AsRef<Path>) -> PathBuf {
    repository("testdata").join(path)
}

/// The files of a folder whose names end so, in order of their names; at least one.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    assert!(!paths.is_empty(), "no {ending} in {}", folder.display());
    paths
}

/// The bytes of a file behind gzip.
pub fn gunzip(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    let unpacked = flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes);
    unpacked.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}

/// The bytes, as small as gzip makes them.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::best()).read_to_end(&mut packed).expect("memory takes it");
    packed
}

/// The JSON in a file.
pub fn json(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The JSON in a file behind gzip.
pub fn json_gz(path: &Path) -> Value {
    serde_json::from_slice(&gunzip(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
