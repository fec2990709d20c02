//! Failures of a recording, explained: the snapshot's part of a diagnosis, and the message's beside it.

mod cause;
mod disagreement;
mod failure;
mod live;
mod outside;

pub use cause::{Why, why};
pub use disagreement::disagreements;
pub use failure::{Asked, Failure, failures, failures_elsewhere};
