//! The recorder, where there is a CUPTI that it knows.

mod book;
#[expect(unsafe_code, reason = "is called by CUPTI")]
mod callback;
mod calls;
#[expect(unsafe_code, reason = "loads CUPTI, and calls it and the driver")]
mod ffi;
mod recorder;

pub use recorder::{is_on, mark, pause, recording, start, stop};
