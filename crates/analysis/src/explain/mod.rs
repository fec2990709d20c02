//! Out of memory, explained: what a message or a snapshot says, which cause it is, and what to change.
//!
//! ```text
//! text ──log──▶ messages ─┐
//!                         ├──▶ Situation ──▶ Diagnosis ──▶ steps
//! snapshot ──▶ oom entry ─┘
//! ```
//!
//! A log is untrusted and may be long: it is read once, in linear time and bounded memory.

mod diagnosis;
mod disagreement;
mod failure;
mod live;
mod log;
mod message;
mod situation;
mod steps;

pub use diagnosis::{Cause, Diagnosis, diagnosis};
pub use disagreement::disagreements;
pub use failure::{Asked, Failure, failures};
pub use log::{Found, Group, LogReader, Surroundings};
pub use message::{Kind, Message, Process, Releases};
pub use situation::{Holder, Limit, Share, Situation};
pub use steps::{Step, record_a_snapshot, steps};
