//! Estimates beside measured peaks, and what holds of every set-up: one binary, so that there is one thing to link.

mod golden;
mod properties;
mod rows;
