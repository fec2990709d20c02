//! Findings on whole recordings: one binary, so that there is one thing to link.

mod batch;
mod counterfactual;
mod diff_stacks;
mod findings;
mod out_of_memory;
