//! Failures of a recording, explained: the snapshot's part of a diagnosis, and the message's beside it.

mod disagreement;
mod failure;
mod live;

pub use disagreement::disagreements;
pub use failure::{Asked, Failure, failures};
