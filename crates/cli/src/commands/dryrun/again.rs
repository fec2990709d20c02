//! The other end of a peak that depends on what cannot be known: a further run of the script, in which streams finish as late as they can,
//! or in which few elements of masks are set, experts are chosen unevenly and scaled gradients overflow. It is silent, and its writes
//! stay in a sandbox: the script has already run.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use highwater_nullgpu::alike::Kind;
use highwater_nullgpu::run::{Ending, Outcome, Peaks, Process, Ranks, Run, Timing, Watch};

use super::folder::Folder;

/// Such a run may take so many times as long as the first, and a little more.
const TIMES: u32 = 4;
const MORE: Duration = Duration::from_secs(60);
/// Assumptions that leave most out: a hundredth of each mask, but one element at least, and each step of an optimizer whose gradients
/// are scaled, as the first ones of a real run are, so that it keeps nothing.
const FEW: [(&str, &str); 3] = [("nonzero", "0.01"), ("routing", "uneven"), ("overflow", "always")];

/// A number below the limits that programs compare distances and divergences with.
const SMALL_FRACTION: &str = "0.001";

/// Runs the script with streams that finish late, if the first run says that timing decides which memory is free. `None` if it does
/// not, or if there cannot be such a run: of a script that was cut short, or without a sandbox.
pub(super) fn late(first: &Run<'_>, outcome: &Outcome, cache: Option<&Path>) -> Option<Outcome> {
    if !outcome.processes.iter().any(|process| process.timing_decides) {
        return None;
    }
    let why = "the peak depends on when streams finish: running once more, silently and in a sandbox, with streams that finish late; \
               `--timing at-once` skips this";
    run(first, outcome, cache, why, Watch { timing: Timing::Late, ..first.watch.clone() })
}

/// Runs it once more, with streams that finish at once in the first step: a real host then loads kernels, and the card is done
/// before it. So the first step takes fewer segments than if streams finish late, and the later ones need others. `None` if no
/// optimizer stepped twice.
pub(super) fn late_after_first_step(first: &Run<'_>, outcome: &Outcome, cache: Option<&Path>) -> Option<Outcome> {
    if !outcome.processes.iter().any(|process| process.steps > 1) {
        return None;
    }
    let why = "running once more, with streams that finish late after the first step";
    run(first, outcome, cache, why, Watch { timing: Timing::LateAfterFirstStep, ..first.watch.clone() })
}

/// A run that got to its end where the first one failed.
pub(super) struct Otherwise {
    pub(super) outcome: Outcome,
    /// The assumption that made the difference, as `--assume` takes it.
    pub(super) assumed: (String, String),
    /// What ended the first run.
    pub(super) error: String,
}

/// Runs a script that failed with other values in the place of those that only a GPU can compute, if it read any: first with small
/// fractions, which stop no loop that waits for a large one, then with the other answer where it read the last. `None` if it fails all the
/// same, or if assumptions were given.
pub(super) fn otherwise(first: &Run<'_>, outcome: &Outcome, cache: Option<&Path>, folder: &Path) -> Option<Otherwise> {
    let [main] = &outcome.processes[..] else { return None };
    let is_free = first.watch.assume.is_empty() && !first.watch.without_values;
    let read = main.last_read.as_ref().filter(|_| is_free && main.how == Ending::Error)?;
    let other = match read.assumed.as_deref() {
        Some("it is True") => "false",
        Some("it is False") => "true",
        _ => "1",
    };
    let line = read.place.split(' ').next().filter(|line| line.contains(':'));
    let small = ("fraction".to_owned(), SMALL_FRACTION.to_owned());
    let attempts = [Some(small), line.map(|line| (line.to_owned(), other.to_owned()))];
    for (attempt, assumed) in attempts.into_iter().flatten().enumerate() {
        if first.end.load(Ordering::Relaxed) {
            break;
        }
        tell(&format!(
            "the script failed after it had read values that only a GPU can compute: running once more, silently and in a sandbox, with \
             `--assume {}={}`; `--assume fraction=0.5` skips this",
            assumed.0, assumed.1
        ));
        let folder = folder.join(format!("otherwise{attempt}"));
        std::fs::create_dir(&folder).ok()?;
        let assume = [assumed.clone()].into();
        let mut again = silently(first, cache, &folder, Watch { assume, ..first.watch.clone() })?;
        if main_with_peaks(&again).is_some() {
            if !first.sandbox {
                again.writes = None;
            }
            return Some(Otherwise { outcome: again, assumed, error: main.error.clone() });
        }
    }
    None
}

/// Runs the script with masks of which little is set, if the first run has assumed how much is.
pub(super) fn few(first: &Run<'_>, outcome: &Outcome, cache: Option<&Path>) -> Option<Outcome> {
    if !outcome.processes.iter().any(|process| process.could_differ) {
        return None;
    }
    let why = "sizes depend on values that only a GPU can compute: running once more, silently and in a sandbox, with the smallest \
               that are likely; \
               `--assume nonzero=full` skips this";
    let mut assume = first.watch.assume.clone();
    assume.extend(FEW.map(|(what, how)| (what.to_owned(), how.to_owned())));
    run(first, outcome, cache, why, Watch { assume, ..first.watch.clone() })
}

/// The ranks of each kind, with the process of one of them: runs the script as each rank that may differ from those before.
/// `None` if the first run did not get to its end, or did not use a GPU.
pub(super) fn kinds(
    first: &Run<'_>,
    ranks: u32,
    outcome: &Outcome,
    cache: Option<&Path>,
) -> Option<Vec<Kind<Option<Process>>>> {
    let Some(main) = main_with_peaks(outcome) else {
        tell("the other kinds of ranks were not run, because the first rank did not reach its end");
        return None;
    };
    let process_of = |rank: u32| {
        if main.rank == Some(rank) {
            return Some(SamePeaks(main.clone()));
        }
        if first.end.load(Ordering::Relaxed) {
            return None;
        }
        let why = format!("running rank {rank} of {ranks}, silently and in a sandbox");
        let watch = first.watch.clone();
        let other = Run {
            ranks: Ranks::Imagined { ranks, rank },
            machine: first.machine.clone(),
            watch: watch.clone(),
            ..*first
        };
        run(&other, outcome, cache, &why, watch)?.processes.into_iter().next().map(SamePeaks)
    };
    let kinds = highwater_nullgpu::alike::kinds(ranks, &main.groups, process_of).into_iter();
    Some(kinds.map(|kind| Kind { ranks: kind.ranks, ran: kind.ran, found: kind.found.map(|same| same.0) }).collect())
}

/// A process. It equals those that ended in the same way and have the same peaks, on the GPU that reserved most.
#[derive(Clone)]
struct SamePeaks(Process);

impl PartialEq for SamePeaks {
    fn eq(&self, other: &Self) -> bool {
        let of = |process: &Process| {
            let peaks = |peaks: &Peaks| {
                let bytes = [peaks.peak_requested_bytes, peaks.peak_allocated_bytes, peaks.peak_active_bytes];
                (peaks.peak_reserved_bytes, bytes, peaks.num_alloc_retries)
            };
            (process.how, process.devices.iter().map(peaks).max())
        };
        of(&self.0) == of(&other.0)
    }
}

fn main_with_peaks(outcome: &Outcome) -> Option<&Process> {
    let all_ended_well = outcome.processes.iter().all(|process| matches!(process.how, Ending::Exit | Ending::Steps));
    outcome.processes.first().filter(|_| all_ended_well)
}

fn run(first: &Run<'_>, outcome: &Outcome, cache: Option<&Path>, why: &str, watch: Watch) -> Option<Outcome> {
    main_with_peaks(outcome)?;
    // The script's output ends here, and nothing else would say why the answer is not there yet.
    tell(why);
    let folder = Folder::new().ok()?;
    // With other values the script may search without an end.
    let timeout = watch.timeout.unwrap_or(Duration::MAX).min(outcome.duration * TIMES + MORE);
    let again = silently(first, cache, folder.path(), Watch { timeout: Some(timeout), ..watch })?;
    (!again.processes.is_empty() && !again.asked_to_end).then_some(again)
}

/// Runs the script once more, without its output, in a sandbox.
fn silently(first: &Run<'_>, cache: Option<&Path>, folder: &Path, watch: Watch) -> Option<Outcome> {
    let again = Run { watch, machine: first.machine.clone(), sandbox: true, silent: true, ..*first };
    again.run(cache, folder).ok()
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "highwater: {text}");
}
