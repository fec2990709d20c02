//! What would have been: a recorded program under other settings, with less memory, or without what cost it memory.

pub mod run;

pub use run::{Machine, Outcome, Run, run};
