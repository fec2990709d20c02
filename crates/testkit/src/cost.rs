//! How much work something is.

use std::time::Duration;

/// Processor time of this thread so far: a clock on the wall says how busy the machine is.
pub fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs().try_into().expect("below a second"))
}
