//! The tests' common ground: the files of `testdata/`, snapshots made up for a test, and processor time.
//!
//! A development dependency only. Each function panics where a file is missing or damaged: that is the test's failure.

pub mod made;

mod cost;
mod files;
mod snapshots;

pub use cost::processor_time;
pub use files::{files, gunzip, gzip, json, json_gz, repository, testdata};
pub use snapshots::{entry, open, recording, recording_path, recordings, refusal, snapshots, warnings};
