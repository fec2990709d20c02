//! Every JSON document of highwater: its shape, its name and its version.
//!
//! The only crate that decides how an answer looks as JSON. Text, Markdown, the page and the Python package are written from these
//! documents, so that none of them can know more than the JSON. Bytes are integers named `*_bytes`, entries are indexes into a device's
//! trace. Names may be added to a document; a name that is there stays, and keeps its meaning.

#[cfg(feature = "recording")]
mod analysed;
mod header;

#[cfg(feature = "recording")]
pub mod check;
#[cfg(feature = "recording")]
pub mod diff;
#[cfg(feature = "recording")]
pub mod diff_events;
#[cfg(feature = "monitor")]
pub mod doctor;
#[cfg(feature = "dryrun")]
pub mod dryrun;
#[cfg(feature = "estimate")]
pub mod estimate;
#[cfg(feature = "recording")]
pub mod frames;
#[cfg(feature = "registry")]
mod registry;
#[cfg(feature = "recording")]
pub mod requests;
#[cfg(feature = "recording")]
pub mod segments;
#[cfg(feature = "recording")]
pub mod stats;
#[cfg(feature = "monitor")]
pub mod top;
#[cfg(feature = "recording")]
pub mod totals;
#[cfg(feature = "recording")]
pub mod trace;
#[cfg(feature = "recording")]
pub mod verify;

pub use header::{Document, Format, Version};
#[cfg(feature = "registry")]
pub use registry::{ALL, Kind};
