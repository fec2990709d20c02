//! Reads PyTorch CUDA memory snapshots: bytes to typed columns. Writes them, too.
//!
//! ```no_run
//! let snapshot = highwater_snapshot::Snapshot::open("run.pickle")?;
//! for device in snapshot.devices() {
//!     let entries = snapshot.trace(device).map_or(0, |trace| trace.len());
//!     println!("device {device}: {entries} entries, {} bytes reserved", snapshot.end_totals(device).reserved_bytes);
//! }
//! # Ok::<(), highwater_snapshot::Error>(())
//! ```
//!
//! # Design constraints
//!
//! - A snapshot is untrusted. Nothing in it is executed; opcodes that would run code are refused by name. No input
//!   panics, hangs, or takes more memory than a small multiple of its decompressed size, which is limited by the size of
//!   what was compressed ([`Unpacking`]). Memory that the system refuses is an error, too.
//! - Files reach gigabytes. One forward pass, no copy of the file in memory, each distinct string, frame and stack kept
//!   once, about 40 bytes for each trace entry.
//! - Partial beats nothing. What is odd is counted in [`Warnings`] and kept where it can be; [`Error`] means that
//!   nothing could be read.
//! - No analysis: that is `highwater-analysis`.

mod annotations;
mod decode;
mod entries;
mod error;
mod ids;
mod limits;
mod pickle;
mod profiler;
mod room;
mod segments;
mod settings;
mod snapshot;
mod source;
mod spans;
mod stacks;
mod strings;
mod unpack;
mod warnings;
mod write;

pub use annotations::{Annotation, Stage};
pub use entries::{Action, Column, Entry, EntryTable, Sparse};
pub use error::{Error, ErrorKind, LooksLike};
pub use ids::{EntryId, FrameId, PoolId, StackId, StreamId, StringId};
pub use profiler::{Profile, ProfileForm};
pub use segments::{Block, BlockState, Segment, SegmentType};
pub use settings::{Setting, Settings};
pub use snapshot::{Cut, Encoding, EndTotals, HostMemory, Layout, Snapshot};
pub use source::open_file;
pub use stacks::{Frame, FrameTable, StackTable};
pub use strings::StringTable;
pub use unpack::{Unpacking, decompressed};
pub use warnings::{Place, Warning, Warnings};
