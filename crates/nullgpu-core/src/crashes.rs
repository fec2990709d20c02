//! A process that crashes says after which call, and leaves what it can.
//!
//! A function that only said success may have left a result unwritten that its caller trusts. Nothing can be done then, but
//! for telling which call it may have been and for keeping what was recorded.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::register;

/// What is called: with the signal, and with the name of the last function.
type WhenCrashed = extern "C" fn(c_int, *const c_char);

static THEN: OnceLock<WhenCrashed> = OnceLock::new();

/// The signals of a process that has gone wrong, `SIGILL`, `SIGABRT`, `SIGBUS`, `SIGFPE` and `SIGSEGV` of Linux on x86-64.
const SIGNALS: [c_int; 5] = [4, 6, 7, 8, 11];
/// After so many seconds a process that hangs over its own end is ended. On a busy machine a snapshot takes twenty.
const PATIENCE_SECONDS: u32 = 60;

unsafe extern "C" {
    fn signal(number: c_int, handler: usize) -> usize;
    fn raise(number: c_int) -> c_int;
    fn alarm(seconds: u32) -> u32;
}

/// Has `then` called when this process crashes, and the process end as it would have.
///
/// What was there to handle these signals is replaced.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_nullgpu_when_crashed(then: WhenCrashed) {
    if THEN.set(then).is_err() {
        return;
    }
    for number in SIGNALS {
        // SAFETY: the handler is a function of the type that the C library expects.
        unsafe { signal(number, handle as *const () as usize) };
    }
}

/// Far from what a signal handler may do: `then` takes locks and allocates. But the process is lost, and most crashes are reads of
/// what is no address, by a thread that holds no lock. Should it hang, the alarm ends it.
extern "C" fn handle(number: c_int) {
    static HANDLING: AtomicBool = AtomicBool::new(false);
    // SAFETY: functions that a signal handler may call; 0 is the default of every signal.
    unsafe {
        alarm(PATIENCE_SECONDS);
        signal(number, 0);
    }
    if !HANDLING.swap(true, Ordering::Relaxed)
        && let Some(then) = THEN.get()
    {
        let last = register::last_called().and_then(|name| CString::new(name).ok()).unwrap_or_default();
        then(number, CStr::as_ptr(&last));
    }
    // SAFETY: as above; the process ends by the signal that came.
    unsafe { raise(number) };
}
