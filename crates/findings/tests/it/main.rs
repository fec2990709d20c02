//! Findings on whole recordings: one binary, so that there is one thing to link.

mod batch;
mod counterfactual;
mod findings;
mod out_of_memory;
