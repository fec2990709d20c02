//! All that is known of one device.

use highwater_allocator::Settings;
use highwater_snapshot::{Action, EndTotals, EntryTable, Place, Profile, Segment, Snapshot, StackId, Warnings};
use highwater_units::{count, counted, size};

use crate::backward::{ForwardLines, forward_lines};
use crate::blocks::{BlockSizes, Knowledge, Recording, follow};
use crate::callsite::{Site, SiteTotal, Sites, totals};
use crate::category::origin::StackOrigins;
use crate::category::{Categories, Category, Decided};
use crate::fragmentation::{Fragmentation, fragmentation};
use crate::growth::{Growth, growth};
use crate::initial::{ReservedRun, segments_before};
use crate::iteration::{Iterations, iterations, unit};
use crate::lifetime::{FinalBlocks, Lifetime, Lifetimes, number, pair};
use crate::oom::{OutOfMemory, events};
use crate::outline::{ModuleCall, Outline, Seen};
use crate::phase::StackPhases;
use crate::scope::{Scope, scopes};
use crate::timeline::{Peak, Timeline, Total, Totals};

/// How much of the program's life the trace holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Nothing was allocated or reserved before the first entry: every total and peak is the program's own.
    pub from_start: bool,
    /// The trace lost entries: its ring buffer wrapped, or the file was cut.
    pub truncated: bool,
    /// The file was cut: what is missing are the newest entries.
    pub is_cut: bool,
    /// Why, if it does not hold the whole run: as one of the kinds that are told apart.
    pub cause: Option<Cause>,
    /// The same in words, with the evidence.
    pub reason: Option<String>,
}

/// Why a trace does not hold the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Recording began after the program had allocated; or began again, and nothing tells.
    BegunLate,
    /// Recording was stopped, which forgets the trace, and begun again: blocks of the first time still have their stacks.
    BegunAgain,
    /// The ring buffer was full, so that newer entries took the place of the oldest.
    Wrapped,
    /// The file ends early.
    Cut,
    /// Frees were not recorded (`skip_actions`).
    FreesSkipped,
    /// Neither were segments (`skip_actions`).
    SegmentsSkipped,
    /// Only the state at the dump is there.
    StateOnly,
}

impl Cause {
    /// The word in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BegunLate => "begun_late",
            Self::BegunAgain => "begun_again",
            Self::Wrapped => "wrapped",
            Self::Cut => "cut",
            Self::FreesSkipped => "frees_skipped",
            Self::SegmentsSkipped => "segments_skipped",
            Self::StateOnly => "state_only",
        }
    }

    /// What to do so that the next recording holds the whole run.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::BegunLate => "call `torch.cuda.memory._record_memory_history()` once, before the first allocation",
            Self::BegunAgain => {
                "call `torch.cuda.memory._record_memory_history()` once, before the first allocation, and dump \
                 before it is called with `enabled=None`: stopping discards every entry"
            }
            Self::Wrapped => {
                "call `torch.cuda.memory._record_memory_history(max_entries=…)` with room for every entry, or dump earlier"
            }
            Self::Cut => "copy the file again, or dump it again",
            Self::FreesSkipped | Self::SegmentsSkipped => {
                "call `torch.cuda.memory._record_memory_history()` without `skip_actions`"
            }
            Self::StateOnly => {
                "call `torch.cuda.memory._record_memory_history(enabled=\"all\")` before the first allocation"
            }
        }
    }
}

impl Recorded {
    /// Whether it holds the run from its start to the dump: then every peak is the program's own.
    pub fn is_whole(&self) -> bool {
        self.cause.is_none()
    }

    /// What the trace would not show, as a fragment; `None` if it is whole.
    pub fn unseen(&self) -> Option<&'static str> {
        Some(match self.cause? {
            Cause::Cut => "the file is incomplete: a later peak would not be seen",
            Cause::FreesSkipped => "frees were not recorded: freed memory still counts, and peaks are too high",
            Cause::BegunLate | Cause::BegunAgain | Cause::Wrapped | Cause::SegmentsSkipped | Cause::StateOnly => {
                "the recording may not hold the whole run: an earlier peak would not be seen"
            }
        })
    }
}

/// What the stacks of a snapshot say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stacks<'a> {
    pub(crate) sites: &'a Sites,
    pub(crate) phases: &'a StackPhases,
    pub(crate) origins: &'a StackOrigins,
}

/// The analysis of one device.
#[derive(Clone, Debug)]
pub struct DeviceAnalysis<'a> {
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
    /// The forward lines of autograd's nodes, as far as they are known.
    forward_lines: ForwardLines,
    /// Memory from the driver before the first entry.
    pub segments_before: Vec<ReservedRun>,
    /// Annotated scopes.
    pub scopes: Vec<Scope>,
    /// The iterations.
    pub iterations: Iterations,
    /// What was recorded instead, where there are none.
    pub seen: Option<Seen>,
    /// What each iteration leaves behind.
    pub growth: Vec<Growth>,
    /// What each lifetime is for, by its row.
    pub categories: Categories,
    /// Free memory at the dump.
    pub fragmentation: Fragmentation,
    /// Out-of-memory events.
    pub oom: Vec<OutOfMemory>,
    /// The call of a module that was under way at the first of them.
    pub failed_call: Option<ModuleCall>,
    /// What it is from, if a profiler wrote it: then nothing is known of segments and reserved bytes.
    pub profile: Option<&'a Profile>,
}

impl<'a> DeviceAnalysis<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        device: u32,
        settings: &Settings,
        stacks: Stacks<'_>,
        warnings: &mut Warnings,
    ) -> Self {
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
        let scopes = scopes(snapshot, device, entries);
        let outline = Outline::new(snapshot, entries, stacks.sites, stacks.origins);
        let mut iterations =
            iterations(snapshot, entries, &timeline, &scopes, (&outline, stacks.phases), recorded.from_start, by);
        let called_again = outline.called_again(snapshot).map(number).collect();
        let categories = Categories::new(
            snapshot,
            (device, entries),
            &lifetimes,
            (&scopes, &iterations, called_again),
            stacks.origins,
        );
        iterations.unit = unit(&iterations, &outline, &lifetimes, &categories);
        let seen = if iterations.rows.is_empty() { outline.seen(&lifetimes, entries) } else { None };
        let growth = growth(&lifetimes, &iterations, &categories, stacks.sites);
        let oom = events(entries, &timeline, settings);
        Self {
            device,
            entries,
            recorded,
            end,
            timeline,
            by,
            lifetimes,
            forward_lines: forward_lines(snapshot, entries, stacks.sites),
            segments_before,
            scopes,
            iterations,
            seen,
            growth,
            categories,
            fragmentation: fragmentation(snapshot, device),
            failed_call: oom.first().and_then(|event| outline.call_at(event.entry.index(), snapshot)),
            oom,
            profile,
        }
    }

    /// Whether its trace tells how it came to the dump: `_record_memory_history("state")` leaves one entry, the last.
    pub fn has_history(&self) -> bool {
        has_history(self.entries)
    }

    /// What is active after an entry; before the first one for `None`.
    pub fn live(&self, after: Option<highwater_snapshot::EntryId>) -> impl Iterator<Item = &Lifetime> {
        self.live_rows(after).map(|(_, lifetime)| lifetime)
    }

    /// As [`live`](Self::live), with the rows of the lifetimes.
    pub fn live_rows(&self, after: Option<highwater_snapshot::EntryId>) -> impl Iterator<Item = (usize, &Lifetime)> {
        self.lifetimes.rows.iter().enumerate().filter(move |(_, lifetime)| match after {
            Some(entry) => lifetime.is_live_after(entry),
            None => lifetime.is_live_at_start(),
        })
    }

    /// As [`counted_by_category`](Self::counted_by_category) at several moments at once, which ascend: one pass over the
    /// lifetimes.
    pub fn counted_by_category_at(
        &self,
        moments: &[highwater_snapshot::EntryId],
        snapshot: &Snapshot,
    ) -> Vec<[u64; Category::ALL.len()]> {
        let mut changes = vec![[0_u64; Category::ALL.len()]; moments.len() + 1];
        for (row, lifetime) in self.lifetimes.rows.iter().enumerate() {
            let is_requested = self.by == Total::Requested;
            if !is_requested && lifetime.awaits_free_at_start() {
                continue;
            }
            let bytes = if is_requested { lifetime.requested_bytes } else { self.blocks().of(lifetime, snapshot) };
            let requested = if is_requested { None } else { lifetime.free_requested() };
            let end = requested.or(lifetime.free_completed());
            let first = lifetime.alloc().map_or(0, |alloc| moments.partition_point(|&moment| moment < alloc));
            let last = end.map_or(moments.len(), |end| moments.partition_point(|&moment| moment < end));
            let category = self.decided(row).category as usize;
            changes[first][category] = changes[first][category].wrapping_add(bytes);
            changes[last][category] = changes[last][category].wrapping_sub(bytes);
        }
        let mut sums = [0_u64; Category::ALL.len()];
        let at = changes.iter().take(moments.len()).map(|change| {
            for (sum, change) in sums.iter_mut().zip(change) {
                *sum = sum.wrapping_add(*change);
            }
            sums
        });
        at.collect()
    }

    /// The sizes of its blocks.
    pub fn blocks(&self) -> &BlockSizes {
        self.timeline.blocks()
    }

    /// The peak that the report speaks of: see [`by`](Self::by).
    pub fn peak(&self) -> Peak {
        if self.by == Total::Requested { self.timeline.requested_peak() } else { self.timeline.allocated_peak() }
    }

    /// The totals after an entry; before the first one for `None`.
    pub fn totals(&self, after: Option<highwater_snapshot::EntryId>) -> Totals {
        after.map_or(self.timeline.start(), |entry| self.timeline.after(entry))
    }

    /// What counts at a moment in the total that the report goes by, with its bytes: of allocated bytes, not what awaits
    /// its free.
    pub fn counted(
        &self,
        after: Option<highwater_snapshot::EntryId>,
        snapshot: &Snapshot,
    ) -> impl Iterator<Item = (&Lifetime, u64)> {
        self.counted_rows(after, snapshot).map(|(row, bytes)| (&self.lifetimes.rows[row], bytes))
    }

    /// As [`counted`](Self::counted), by the rows of the lifetimes.
    pub fn counted_rows(
        &self,
        after: Option<highwater_snapshot::EntryId>,
        snapshot: &Snapshot,
    ) -> impl Iterator<Item = (usize, u64)> {
        self.live_rows(after).filter_map(move |(row, lifetime)| match self.by {
            Total::Requested => Some((row, lifetime.requested_bytes)),
            _ if lifetime.awaits_free(after) => None,
            _ => Some((row, self.blocks().of(lifetime, snapshot))),
        })
    }

    /// Bytes of each category at a moment, in the order of [`Category::ALL`], of what [counts](Self::counted): their sum is
    /// the total.
    pub fn counted_by_category(
        &self,
        after: Option<highwater_snapshot::EntryId>,
        snapshot: &Snapshot,
    ) -> [u64; Category::ALL.len()] {
        let mut sums = [0_u64; Category::ALL.len()];
        for (row, bytes) in self.counted_rows(after, snapshot) {
            let sum = &mut sums[self.decided(row).category as usize];
            *sum = sum.saturating_add(bytes);
        }
        sums
    }

    /// What stands for a lifetime's stack.
    pub fn site(&self, lifetime: &Lifetime, sites: &Sites) -> Site {
        let is_from_before = lifetime.is_live_at_start()
            || self.profile.is_some_and(|profile| {
                lifetime.alloc().is_some_and(|alloc| alloc.get() < preexisting(profile, self.device))
            });
        if is_from_before && !has_frames(lifetime.stack) {
            return Site::BeforeRecording;
        }
        match sites.site(lifetime.stack) {
            Site::Native { frame, forward: None } => {
                let forward = lifetime.alloc().and_then(|alloc| self.forward_lines.get(&alloc.get()).copied());
                Site::Native { frame, forward }
            }
            site => site,
        }
    }

    /// What is active after an entry, by call site, most requested bytes first.
    pub fn live_by_site(&self, after: Option<highwater_snapshot::EntryId>, sites: &Sites) -> Vec<SiteTotal> {
        totals(self.live(after).map(|l| (l.stack, self.site(l, sites), l.requested_bytes, l.requested_bytes)))
    }

    /// What [counts](Self::counted) at a moment, by call site, largest first.
    pub fn counted_by_site(
        &self,
        after: Option<highwater_snapshot::EntryId>,
        snapshot: &Snapshot,
        sites: &Sites,
    ) -> Vec<SiteTotal> {
        totals(self.counted(after, snapshot).map(|(l, bytes)| (l.stack, self.site(l, sites), bytes, l.requested_bytes)))
    }

    /// What the lifetime of a row is for, and which rule decided.
    pub fn decided(&self, row: usize) -> Decided {
        self.categories.get(row)
    }

    /// The scopes that an entry lies in, outermost first.
    pub fn scopes_at(&self, entry: highwater_snapshot::EntryId) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().filter(move |scope| (scope.start..scope.end).contains(&entry.index()))
    }
}

/// How many of the first entries of a device stand for what was there before a profile.
fn preexisting(profile: &Profile, device: u32) -> u32 {
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

fn has_frames(stack: StackId) -> bool {
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
