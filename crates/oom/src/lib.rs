//! Out of memory, explained: from a text to the cause and the remedies.
//!
//! ```text
//! text ──log──▶ messages ──▶ Situation ──▶ Diagnosis ──▶ steps
//! ```
//!
//! # Design constraints
//!
//! - A text in, a diagnosis out: this crate knows no snapshot. Who has one fills a [`Situation`] from it.
//! - A log is untrusted and may be long: it is read once, in linear time and bounded memory.
//!
//! More than 9,000 lines, because it holds the wordings of every backend, library and engine, and the steps that help with each.

mod answer;
mod cause;
mod diagnosis;
mod engine;
mod grammar;
mod known;
mod less;
mod log;
mod message;
mod options;
mod program;
mod situation;
mod steps;

pub use answer::{Answer, Subject, answer, printed};
pub use diagnosis::{Cause, Diagnosis, diagnosis};
pub use engine::{EngineLog, Printed};
pub use known::{Decimal, Value};
pub use less::missing;
pub use log::{
    AskedAt, Command, Compiled, Dimensions, Event, Figure, Flag, Found, FrontEnd, Group, Growth, LogReader,
    MemorySummary, Mention, Purpose, Refusal, Settled, Side, Surroundings, TableGpu, TracebackFrame,
};
pub use message::{Kind, Message, Process, Releases};
pub use options::Named;
pub use program::Program;
pub use situation::{Holder, Limit, Share, Situation, StepNeed};
pub use steps::{Step, record_a_snapshot, sort, steps};
