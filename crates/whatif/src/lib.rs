//! A recorded program under other settings, with less memory, or without the allocations that cost it memory.
//!
//! # Design constraints
//!
//! - Every number has a [`Confidence`]: nothing here was recorded.
//! - Nothing is judged: thresholds and advice are those of `highwater-findings`.

mod conf;
pub mod counterfactual;
pub mod empty_cache;
pub mod fit;
pub mod gaps;
pub mod largest;
mod least;
pub mod live;
pub mod packing;
pub mod pinned;
pub mod pinning;
mod progress;
pub mod replay;
mod replayable;
mod replayed;
pub mod reserved;
mod retries;
pub mod run;
pub mod sites;
pub mod study;
pub mod verdict;
pub mod waterfall;
pub mod whole_step;

pub use conf::{Conf, RefusedConf, conf};
pub use fit::Fit;
pub use gaps::Gaps;
pub use least::Least;
pub use progress::{LOOK_STEPS, Progress, Watch};
pub use replayable::{busiest, check_replayable, is_asynchronous, replayable, without_trace};
pub use replayed::Replayed;
pub use reserved::Reserved;
pub use retries::alloc_retries;
pub use run::{Machine, Outcome, Run, run};
pub use study::{Case, Confidence, Study};
