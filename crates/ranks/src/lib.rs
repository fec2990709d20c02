//! The ranks of one job: which differ, by how much, and because of what.
//!
//! Two phases, so that thousands of files are read on as many cores or machines as there are: [`digest`] makes of one analysed
//! snapshot a small value that can be sent and stored, and [`compare`] makes of many such values the document.
//!
//! ```no_run
//! use highwater_ranks::{Digest, compare};
//!
//! let digest = |file: &str| -> Result<Digest, highwater_snapshot::Error> {
//!     let snapshot = highwater_snapshot::Snapshot::open(file)?;
//!     Ok(highwater_ranks::digest(file, &highwater_analysis::analyse(&snapshot)))
//! };
//! let digests = vec![digest("rank0.pickle")?, digest("rank1.pickle")?];
//! println!("{}", compare(digests, Vec::new()).verdict);
//! # Ok::<(), highwater_snapshot::Error>(())
//! ```
//!
//! # Design constraints
//!
//! - A digest has a bounded size, whatever the file: tables keep their largest rows, and the rest as a sum.
//! - Of a file nothing stays but its digest; as many files are open as threads read.
//! - The answer does not depend on the order of digests, or on the number of threads.
//! - A cause is told if the digests show it; else the answer says `unknown` and names the call sites that differ.

mod causes;
mod clocks;
mod compare;
mod digest;
mod files;
mod inputs;
mod manifest;
mod numbering;
mod parts;
mod programs;
mod verdict;

pub use compare::{compare, spans};
pub use digest::{
    DeviceDigest, Digest, Failure, Growing, Held, Iterations, Moment, Site, SiteBytes, Sizes, Work, digest,
};
pub use files::{Found, expand, is_recording, natural, read_all};
pub use manifest::Manifest;
