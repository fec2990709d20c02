//! The memory of a device, reconstructed from its entries and its dump without any stack: all that a replay needs.

use highwater_allocator::Settings;
use highwater_snapshot::{Action, EndTotals, EntryTable, Place, Profile, Segment, Snapshot, StackId, Warnings};
use highwater_units::{count, counted, size};

use crate::blocks::{BlockSizes, Knowledge, Recording, follow};
use crate::device::{Cause, Recorded};
use crate::initial::{ReservedRun, segments_before};
use crate::lifetime::{FinalBlocks, Lifetime, Lifetimes, pair};
use crate::timeline::{Timeline, Total};

/// The memory of one device over its recording, without what stacks tell.
#[derive(Clone, Debug)]
pub struct Reconstruction<'a> {
    /// CUDA ordinal.
    pub device: u32,
    /// Its trace.
    pub entries: &'a EntryTable,
    /// How much of the program's life it holds.
    pub recorded: Recorded,
    /// The totals at the dump.
    pub end: EndTotals,
    /// The totals at every entry.
    pub timeline: Timeline<'a>,
    /// The total that peaks are told by: allocated bytes, or requested bytes where blocks' sizes are estimates.
    pub by: Total,
    /// Every use of an address.
    pub lifetimes: Lifetimes,
    /// Memory from the driver before the first entry.
    pub segments_before: Vec<ReservedRun>,
    /// What it is from, if a profiler wrote it: then nothing is known of segments and reserved bytes.
    pub profile: Option<&'a Profile>,
}

impl<'a> Reconstruction<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, device: u32, settings: &Settings, warnings: &mut Warnings) -> Self {
        let entries = snapshot.trace(device).unwrap_or(&NO_ENTRIES);
        let segments: Vec<&Segment> = snapshot.segments_of(device).collect();
        let profile = snapshot.profile.as_ref();
        let is_complete = snapshot.cut.as_ref().is_none_or(|cut| cut.segments_complete && cut.traces_complete);
        // A profile has no dump at its end, only the entries.
        let leads_to_dump = is_complete && profile.is_none();
        let last = FinalBlocks { segments: &segments, blocks: &snapshot.blocks };
        let lifetimes = pair(entries, leads_to_dump.then_some(&last), device, warnings);
        let segments_before =
            if leads_to_dump { segments_before(entries, &segments, device, warnings) } else { Vec::new() };
        let recording = Recording {
            snapshot,
            device,
            entries,
            lifetimes: &lifetimes,
            segments_before: &segments_before,
            settings,
            leads_to_dump,
        };
        let blocks = match profile {
            Some(_) => BlockSizes::as_recorded(entries),
            None => follow(&recording, &mut (), warnings),
        };
        let by = if blocks.knowledge() == Knowledge::Estimate { Total::Requested } else { Total::Allocated };
        let dumped = snapshot.end_totals(device);
        let end_reserved = leads_to_dump.then_some(dumped.reserved_bytes);
        let timeline = Timeline::new(snapshot, entries, &lifetimes, blocks, end_reserved);
        if leads_to_dump {
            check_end(&timeline, dumped, device, warnings);
        }
        let end = profile.map_or(dumped, |_| end_of_entries(&timeline));
        let recorded = match profile {
            Some(profile) => recorded_by_profile(profile, device, &lifetimes, is_complete),
            None => {
                let others = snapshot.devices().into_iter().filter(|&other| other != device);
                let mut traces = others.filter_map(|other| snapshot.trace(other));
                let others_have_history = traces.any(has_history);
                recorded(entries, &lifetimes, &timeline, leads_to_dump, others_have_history)
            }
        };
        Self { device, entries, recorded, end, timeline, by, lifetimes, segments_before, profile }
    }

    /// Whether its trace tells how it came to the dump: `_record_memory_history("state")` leaves one entry, the last.
    pub fn has_history(&self) -> bool {
        has_history(self.entries)
    }

    /// The sizes of its blocks.
    pub fn blocks(&self) -> &BlockSizes {
        self.timeline.blocks()
    }
}

/// The number of leading entries of a device that stand for memory from before the profile.
pub(crate) fn preexisting(profile: &Profile, device: u32) -> u32 {
    profile.preexisting.get(device as usize).copied().unwrap_or(0)
}

/// The totals at the end of a recording that no dump follows.
fn end_of_entries(timeline: &Timeline<'_>) -> EndTotals {
    let end = timeline.end();
    EndTotals {
        requested_bytes: end.requested_bytes,
        allocated_bytes: end.allocated_bytes,
        active_bytes: end.active_bytes,
        reserved_bytes: 0,
        inactive_split_bytes: 0,
    }
}

/// How much a profile holds: memory from before it is known only as far as it says.
fn recorded_by_profile(profile: &Profile, device: u32, lifetimes: &Lifetimes, is_complete: bool) -> Recorded {
    let first = preexisting(profile, device);
    let is_before = |lifetime: &&Lifetime| lifetime.alloc().is_none_or(|alloc| alloc.get() < first);
    let (found, bytes) =
        lifetimes.rows.iter().filter(is_before).fold((0_u64, 0_u64), |(found, bytes), lifetime| {
            (found + 1, bytes.saturating_add(lifetime.requested_bytes))
        });
    let from_start = found == 0 && profile.knows_start;
    let reason = if !is_complete {
        Some("the newest entries are missing from the file".to_owned())
    } else if from_start {
        None
    } else if profile.knows_start {
        Some(format!("{} were allocated before the profile began", size(bytes)))
    } else {
        let known = if found == 0 { "none".to_owned() } else { format!("{} of it", size(bytes)) };
        Some(format!(
            "memory from before the profile is known only if it was used or freed meanwhile: {known} is shown"
        ))
    };
    let cause = if is_complete { reason.as_ref().map(|_| Cause::BegunLate) } else { Some(Cause::Cut) };
    Recorded { from_start, truncated: !is_complete, is_cut: !is_complete, cause, reason }
}

static NO_ENTRIES: std::sync::LazyLock<EntryTable> = std::sync::LazyLock::new(EntryTable::default);

fn has_history(entries: &EntryTable) -> bool {
    entries.len() > 1
}

pub(crate) fn has_frames(stack: StackId) -> bool {
    stack.is_recorded() && stack != StackId::EMPTY
}

/// Says so where the trace does not add up to the dump.
fn check_end(timeline: &Timeline<'_>, end: EndTotals, device: u32, warnings: &mut Warnings) {
    let reached = timeline.end();
    for (what, reached, want) in [
        ("requested", reached.requested_bytes, end.requested_bytes),
        ("reserved", reached.reserved_bytes, end.reserved_bytes),
    ] {
        if reached != want {
            let message = format!(
                "the trace ends at {reached} {what} bytes, the segments at {want}: entries are missing (`skip_actions`?), \
                 so peaks may be too low or too high"
            );
            warnings.add("totals-differ", message, Place::device(device));
        }
    }
}

fn recorded(
    entries: &EntryTable,
    lifetimes: &Lifetimes,
    timeline: &Timeline<'_>,
    leads_to_dump: bool,
    others_have_history: bool,
) -> Recorded {
    let before = lifetimes.at_start();
    let start = timeline.start();
    let from_start = before.is_empty() && start.reserved_bytes == 0;
    let because = |cause, reason: String| Recorded {
        from_start,
        truncated: matches!(cause, Cause::Cut | Cause::Wrapped),
        is_cut: cause == Cause::Cut,
        cause: Some(cause),
        reason: Some(reason),
    };
    if !leads_to_dump {
        return because(Cause::Cut, "the newest entries are missing from the file".to_owned());
    }
    if has_history(entries) && frees_are_skipped(entries) {
        let reason = "the trace holds allocations and no frees (`skip_actions`)";
        return because(Cause::FreesSkipped, reason.to_owned());
    }
    if from_start {
        return Recorded { from_start, truncated: false, is_cut: false, cause: None, reason: None };
    }
    if !has_history(entries) {
        let reason = if others_have_history {
            "other devices have a trace and this one does not: only its state at the dump is known"
        } else {
            "only the state at the dump was recorded, no history"
        };
        return because(Cause::StateOnly, reason.to_owned());
    }
    let (cause, why) = why_not_from_start(entries, before);
    let held = size(start.reserved_bytes);
    let found = if before.is_empty() {
        format!("{held} was already reserved at the first entry, and nothing allocated")
    } else {
        let allocations = counted(before.len(), "allocation", "allocations");
        let requested = size(start.requested_bytes);
        format!("{allocations} ({requested} requested) already existed at the first entry, with {held} reserved")
    };
    because(cause, format!("{why}; {found}"))
}

/// Why a trace with a history does not begin with the program.
///
/// Two things leave blocks with the stack of an `alloc` that is not in the trace: a ring buffer that wrapped, and recording
/// that was stopped and begun again. A buffer wraps when it is full, and people choose its size as a round number.
///
/// # Source
/// `spec/snapshot-format.md` sections 1 and 7: stopping clears the trace, and blocks keep their stacks.
fn why_not_from_start(entries: &EntryTable, before: &[Lifetime]) -> (Cause, String) {
    let reserves = |action: &Action| matches!(*action, Action::SEGMENT_ALLOC | Action::SEGMENT_MAP);
    if before.is_empty() && !entries.actions().iter().any(reserves) {
        let reason = "memory was allocated from segments whose reservation was not recorded (`skip_actions`?)";
        return (Cause::SegmentsSkipped, reason.to_owned());
    }
    let dumped = || before.iter().filter(|lifetime| lifetime.block().is_some());
    let lost = dumped().filter(|lifetime| has_frames(lifetime.stack)).count();
    let begins_amid = entries.actions().first() == Some(&Action::FREE_COMPLETED);
    // Where stacks were recorded, blocks without one were allocated while nothing was: what they tell is no wrapping.
    let tells_nothing = dumped().next().is_none() || !entries.stacks().iter().any(|&stack| has_frames(stack));
    let blocks = || counted(lost, "block", "blocks");
    let have = if lost == 1 { "has" } else { "have" };
    if is_ring_size(entries.len()) && (lost > 0 || begins_amid || tells_nothing) {
        let ring = format!("a ring buffer of {} entries wrapped", count(entries.len()));
        let evidence = if lost > 0 {
            format!(": {} still {have} the stack of an `alloc` that is gone", blocks())
        } else {
            ", judging by their number".to_owned()
        };
        return (Cause::Wrapped, format!("{ring}{evidence}"));
    }
    if lost > 0 {
        let again = "recording was stopped, which discards its entries, and started again";
        return (Cause::BegunAgain, format!("{again}: {} still {have} the stack of an earlier recording", blocks()));
    }
    (Cause::BegunLate, "recording started, or restarted, after the program had allocated".to_owned())
}

/// Whether memory is allocated anew where nothing was freed.
fn frees_are_skipped(entries: &EntryTable) -> bool {
    let frees = |action: &Action| matches!(*action, Action::FREE_REQUESTED | Action::FREE_COMPLETED);
    if entries.actions().iter().any(frees) {
        return false;
    }
    let mut seen = rustc_hash::FxHashSet::default();
    let mut allocations = entries.ids().filter(|&id| entries.get(id).action == Action::ALLOC);
    allocations.any(|id| !seen.insert(entries.get(id).address))
}

/// Whether a number of entries looks like somebody's `max_entries`.
fn is_ring_size(entries: usize) -> bool {
    entries >= 1000 && (entries.is_multiple_of(1000) || entries.is_power_of_two())
}
