//! Signals that end a dry run: it cleans up, and says what was recorded until then.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::{consts, flag};

/// Catches them from now on; the flag is set when the program that runs is to be ended.
///
/// Ctrl-C alone does not set it: a terminal sends that to the script, too.
pub(super) fn end_on_signals() -> Arc<AtomicBool> {
    let end = Arc::new(AtomicBool::new(false));
    // Without a handler this program would be gone before the script has left what it recorded. Where one cannot be set, it is.
    let _ = flag::register(consts::SIGINT, Arc::default());
    let _ = flag::register(consts::SIGTERM, Arc::clone(&end));
    #[cfg(unix)]
    if !is_ignored(consts::SIGHUP) {
        let _ = flag::register(consts::SIGHUP, Arc::clone(&end));
    }
    end
}

/// Whether who started this program has it ignore a signal, as `nohup` does.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}
