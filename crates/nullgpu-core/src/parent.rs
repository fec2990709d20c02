//! A process of a run ends with the program that runs it, however that ends: also by a signal that it cannot catch.
//!
//! The kernel sends the signal that a process has asked for when its parent is gone. A process has to ask for itself, and only those do
//! that the parent has started: others may live longer than theirs, as they may in every program.

use std::ffi::{c_int, c_ulong};

/// The process that runs this one.
const VARIABLE: &str = "HIGHWATER_NULLGPU_PARENT";

/// `PR_SET_PDEATHSIG` of linux/prctl.h.
const SET_DEATH_SIGNAL: c_int = 1;
/// `SIGKILL` of Linux on x86-64.
const KILL: c_int = 9;

unsafe extern "C" {
    fn prctl(option: c_int, argument: c_ulong, ...) -> c_int;
    fn raise(number: c_int) -> c_int;
}

// SAFETY: the loader calls what stands in this section, with arguments that a function of C may leave alone; the C library, on which
// this one depends, is ready by then.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = {
    extern "C" fn end_with_parent() {
        let named = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        if named.is_some_and(|named: u32| named == std::os::unix::process::parent_id()) {
            end_with(std::os::unix::process::parent_id());
        }
    }
    end_with_parent
};

fn end_with(parent: u32) {
    // SAFETY: an option that takes one number.
    unsafe { prctl(SET_DEATH_SIGNAL, KILL.unsigned_abs().into()) };
    // It may have ended before it was asked for.
    if std::os::unix::process::parent_id() != parent {
        // SAFETY: takes a number.
        unsafe { raise(KILL) };
    }
}
