//! The same functions on systems where nothing can be recorded.

use highwater_outside::Recording;
use highwater_problem::Problem;

use crate::Options;

/// Says that it cannot.
///
/// # Errors
/// Always.
pub fn start(_: &Options) -> Result<(), Problem> {
    Err(Problem::new("the driver cannot be recorded on this system").because("it is done on Linux only"))
}

/// Never.
pub fn is_on() -> bool {
    false
}

/// Does nothing.
pub fn mark(_: &str, _: Vec<(i32, u64)>) {}

/// Does nothing.
pub fn pause(_: &str) {}

/// Nothing.
pub fn recording() -> Option<Recording> {
    None
}

/// Does nothing.
pub fn stop() {}
