//! Tests of the analysis on whole snapshots: one binary, so that there is one thing to link.

mod batch;
mod block_sizes;
mod categories;
mod columns;
mod cost;
mod counterfactual;
mod findings;
mod messages;
mod naive;
mod packing;
mod pinning;
mod profiler;
mod recordings;
mod replay;
mod reserved;
mod whole_step;
mod wild;
