//! What would have been: a recorded program under other settings, with less memory, or without what cost it memory.

pub mod empty_cache;
pub mod fit;
pub mod gaps;
pub mod largest;
mod least;
pub mod live;
pub mod packing;
pub mod parallel;
pub mod pinned;
pub mod pinning;
pub mod reserved;
pub mod run;
pub mod sites;
pub mod study;
pub mod verdict;
pub mod waterfall;

pub use fit::{Fit, Progress};
pub use gaps::Gaps;
pub use least::Least;
pub use reserved::Reserved;
pub use run::{Machine, Outcome, Run, run};
pub use study::{Case, Confidence, Memory, Study};
