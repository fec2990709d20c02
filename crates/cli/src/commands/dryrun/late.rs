//! The other end of a peak that depends on timing: a second run of the script, in which streams finish as late as they can. It is
//! silent, and its writes stay in a sandbox: the script has already run.

use std::io::Write as _;
use std::path::Path;

use highwater_nullgpu::run::{Ending, Outcome, Run, Timing, Watch};

use super::folder::Folder;

/// Runs the script once more, if the first run says that timing decides which memory is free. `None` if it does not, or if there cannot be
/// such a run: of a script that was cut short, or without a sandbox.
pub(super) fn run(first: &Run<'_>, outcome: &Outcome, cache: Option<&Path>) -> Option<Outcome> {
    let has_peaks = |outcome: &Outcome| {
        !outcome.processes.is_empty()
            && outcome.processes.iter().all(|process| matches!(process.how, Ending::Exit | Ending::Steps))
    };
    if !has_peaks(outcome) || !outcome.processes.iter().any(|process| process.timing_decides) {
        return None;
    }
    // The script's output ends here, and nothing else would say why the answer is not there yet.
    let _ = writeln!(
        std::io::stderr(),
        "highwater: the peak depends on when streams finish: running once more, silently and in a sandbox, with streams that finish late; \
         `--timing at-once` skips this"
    );
    let folder = Folder::new().ok()?;
    let late = Run {
        watch: Watch { timing: Timing::Late, ..first.watch.clone() },
        machine: first.machine.clone(),
        sandbox: true,
        silent: true,
        ..*first
    };
    late.run(cache, folder.path()).ok().filter(|late| !late.processes.is_empty() && !late.asked_to_end)
}
