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

/// Processor time of this thread: the clock on the wall says how busy the machine is.
fn processor_time() -> std::time::Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    std::time::Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs().try_into().unwrap())
}
