//! Tests of the reader and the writers on whole files: one binary, so that there is one thing to link.

mod bad_input;
mod bombs;
mod common;
mod cost;
mod cut_and_flip;
mod differential;
mod layouts;
mod odd_state;
mod profiler;
mod recordings;
mod roundtrip;
