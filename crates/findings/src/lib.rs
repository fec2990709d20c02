//! Judgements on recordings: findings with their evidence and saving, budgets, comparisons, and failures explained.
//!
//! # Design constraints
//!
//! - The only crate with thresholds and advice: `highwater-analysis` has the recorded facts, `highwater-whatif` the simulated
//!   ones.
//! - A saving is replayed, or marked as an estimate.

pub mod batch;
pub mod budget;
pub mod diff;
pub mod diff_stacks;
pub mod events;
pub mod explain;
mod rules;
pub mod verdict;

pub use rules::*;
