//! Allocator settings under which the recording would have reserved less: the recording, run through the allocator again.

use highwater_allocator::{Memory, Settings};
use highwater_analysis::Reconstruction;
use highwater_snapshot::Snapshot;
use highwater_units::size;
use highwater_whatif::replay::Step;
use highwater_whatif::{Least, Replayed, Study, is_asynchronous};

use super::{Evidence, Finding, LEAST_WORTH_BYTES, Severity};

/// Unused memory below this share of what is reserved is not worth the replay, in percent.
const WORTH_PERCENT: u64 = 10;

/// Settings are tried by runs of the whole program: for recordings of more requests, `highwater simulate` does.
const MOST_REQUESTS: usize = 1_000_000;

/// Of a recording that began late, each setting is run under several conditions, to their ends.
const MOST_LATE_REQUESTS: usize = 100_000;

/// What was recorded explains what was reserved before if, begun with nothing reserved, it reserves so much of it, in percent.
const EXPLAINED_PERCENT: u64 = 95;

/// The recorded program, if it may be that other settings would reserve less and a replay can tell.
pub(super) fn study(snapshot: &Snapshot, device: &Reconstruction<'_>) -> Option<Study> {
    let reserved = device.timeline.reserved_peak().bytes;
    let unused = reserved.saturating_sub(device.timeline.active_peak().bytes);
    let is_small = unused < LEAST_WORTH_BYTES || unused < reserved / 100 * WORTH_PERCENT;
    let is_whole = device.recorded.is_whole();
    let most = if is_whole { MOST_REQUESTS } else { MOST_LATE_REQUESTS };
    if device.recorded.is_cut || is_small || device.lifetimes.rows.len() > most || is_asynchronous(snapshot) {
        return None;
    }
    // From what contradicts itself, there is no layout to begin with.
    if !is_whole && device.blocks().contradictions() > 0 {
        return None;
    }
    let study = Replayed::new(snapshot, device, None).study;
    let is_asked = study.program.steps.iter().any(|step| matches!(step, Step::Alloc { .. }));
    (study.fidelity.is_exact() && is_asked).then_some(study)
}

/// One finding: the settings that reserve least.
///
/// A recording that began late is run from its first entry, once with all that was reserved by then where it lay, and once with
/// nothing reserved but for the blocks in use: under other settings, what came before would have left something of its own.
/// Settings count for the worse of the two. If all was reserved before the recording, the second tells alone, provided that it
/// explains how much that was: then more of the same came before.
pub(super) fn settings(evidence: &Evidence<'_>) -> Option<Finding> {
    let device = evidence.device;
    let study = evidence.study()?;
    let reserved = device.timeline.reserved_peak().bytes;
    if device.recorded.is_whole() {
        return of_whole(study, reserved);
    }
    let candidates = study.candidates();
    let mut outlooks = candidates.iter().map(|(conf, settings)| (conf.as_str(), Outlook::new(study, settings)));
    let (_, own) = outlooks.next()?;
    let others: Vec<(&str, Outlook)> = outlooks.filter(|(_, outlook)| outlook.holds).collect();
    let before = device.timeline.start().reserved_bytes;
    from_first_entry(&own, &others, reserved, before).or_else(|| begun_anew(&own, &others, reserved, before))
}

/// The peak of reserved memory under some settings, as far as the recording tells.
struct Outlook {
    /// The program would have run as it did.
    holds: bool,
    /// In the run whose numbers `highwater simulate` shows.
    shown_bytes: u64,
    /// The most in any run from where the recording began, if it began late.
    most_bytes: u64,
    /// Begun with nothing reserved.
    anew_bytes: u64,
}

impl Outlook {
    fn new(study: &Study, settings: &Settings) -> Self {
        let case = study.case(settings, Memory::Ample);
        let shown_bytes = case.run.peak_reserved_bytes();
        let holds = case.run.outcome.fits() && case.run.spared.is_none();
        if study.program.layouts.is_empty() {
            return Self { holds, shown_bytes, most_bytes: shown_bytes, anew_bytes: shown_bytes };
        }
        let anew = study.run_anew(settings, Memory::Ample);
        Self {
            holds: holds && anew.outcome.fits(),
            shown_bytes,
            most_bytes: case.reserved_range.1,
            anew_bytes: anew.peak_reserved_bytes(),
        }
    }
}

fn of_whole(study: &Study, reserved: u64) -> Option<Finding> {
    let most = |own: u64| own.saturating_sub(LEAST_WORTH_BYTES.max(own / 100 * WORTH_PERCENT));
    let Least { conf, bytes, own_bytes } = study.least_reserved(reserved, most)?;
    let saving = own_bytes.saturating_sub(bytes);
    let detail =
        format!("in a replay with `{conf}`, the reserved peak is {} instead of {}", size(bytes), size(own_bytes));
    Some(finding(&conf, saving, detail).saves(saving))
}

/// Most was reserved in the recording: what came before decides between two ends.
fn from_first_entry(own: &Outlook, others: &[(&str, Outlook)], reserved: u64, before: u64) -> Option<Finding> {
    let (conf, best) = others.iter().min_by_key(|(_, outlook)| outlook.most_bytes.max(outlook.anew_bytes))?;
    let own_bytes = own.shown_bytes.min(reserved);
    let (least, most) = (best.most_bytes.min(best.anew_bytes), best.most_bytes.max(best.anew_bytes));
    let saving = worth(own_bytes, most)?;
    let range =
        if size(least) == size(most) { size(most) } else { format!("between {} and {}", size(least), size(most)) };
    let detail = format!(
        "in a replay from the first entry with `{conf}`, the reserved peak is {range} instead of {}; the layout of \
         the {} reserved before the recording is unknown under these settings",
        size(own_bytes),
        size(before)
    );
    Some(finding(conf, saving, detail).saves_about(saving))
}

/// Most was reserved before the recording, which goes on with more of the same.
fn begun_anew(own: &Outlook, others: &[(&str, Outlook)], reserved: u64, before: u64) -> Option<Finding> {
    if own.anew_bytes < reserved / 100 * EXPLAINED_PERCENT {
        return None;
    }
    let (conf, best) = others.iter().min_by_key(|(_, outlook)| outlook.anew_bytes)?;
    let saving = worth(own.anew_bytes.min(reserved), best.anew_bytes)?;
    let detail = format!(
        "{} was reserved before the recording; a replay that starts with nothing reserved needs {}, and {} with \
         `{conf}`; the saving assumes that the unrecorded part does not need more than the recorded one",
        size(before),
        size(own.anew_bytes),
        size(best.anew_bytes)
    );
    Some(finding(conf, saving, detail).saves_about(saving))
}

/// How much less is reserved, if that is worth a word.
fn worth(own_bytes: u64, bytes: u64) -> Option<u64> {
    let saving = own_bytes.saturating_sub(bytes);
    (saving >= LEAST_WORTH_BYTES && saving >= own_bytes / 100 * WORTH_PERCENT).then_some(saving)
}

fn finding(conf: &str, saving: u64, detail: String) -> Finding {
    let title = format!("other allocator settings would reserve {} less", size(saving));
    let change = format!(
        "set `PYTORCH_CUDA_ALLOC_CONF={conf}`; `highwater simulate` compares all settings and finds the least \
         memory that is enough"
    );
    let conf = Some(conf.to_owned());
    Finding { conf, ..Finding::new("allocator-settings", Severity::Warning, title, detail).change(change) }
}
