//! All that is known of one device.

use highwater_allocator::Settings;
use highwater_snapshot::{Action, EndTotals, EntryTable, Place, Profile, Segment, Snapshot, StackId, Warnings};

use crate::blocks::{BlockSizes, Knowledge, Recording, follow};
use crate::callsite::{Site, SiteTotal, Sites, totals};
use crate::category::origin::StackOrigins;
use crate::category::{Categories, Category, Decided};
use crate::fragmentation::{Fragmentation, fragmentation};
use crate::growth::{Growth, growth};
use crate::initial::{ReservedRun, segments_before};
use crate::iteration::{Iterations, iterations};
use crate::lifetime::{FinalBlocks, Lifetime, Lifetimes, pair};
use crate::oom::{OutOfMemory, events};
use crate::outline::Outline;
use crate::phase::StackPhases;
use crate::scope::{Scope, scopes};
use crate::timeline::{Peak, Timeline, Total, Totals};
use crate::units::{count, counted, size};

/// How much of the program's life the trace holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Nothing was allocated or reserved before the first entry: every total and peak is the program's own.
    pub from_start: bool,
    /// The trace lost entries: its ring buffer wrapped, or the file was cut.
    pub truncated: bool,
    /// The file was cut: what is missing are the newest entries.
    pub is_cut: bool,
    /// Why, if it does not hold the whole run.
    pub reason: Option<String>,
}

impl Recorded {
    /// Whether it holds the run from its start to the dump: then every peak is the program's own.
    pub fn is_whole(&self) -> bool {
        self.from_start && !self.truncated
    }

    /// What the trace would not show, as a fragment; `None` if it is whole.
    pub fn unseen(&self) -> Option<&'static str> {
        match (self.is_cut, self.is_whole()) {
            (true, _) => Some("the file is incomplete: a later peak would not be seen"),
            (false, false) => Some("the recording may not hold the whole run: an earlier peak would not be seen"),
            (false, true) => None,
        }
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
    /// Memory from the driver before the first entry.
    pub segments_before: Vec<ReservedRun>,
    /// Annotated scopes.
    pub scopes: Vec<Scope>,
    /// The iterations.
    pub iterations: Iterations,
    /// What each iteration leaves behind.
    pub growth: Vec<Growth>,
    /// What each lifetime is for, by its row.
    pub categories: Categories,
    /// Free memory at the dump.
    pub fragmentation: Fragmentation,
    /// Out-of-memory events.
    pub oom: Vec<OutOfMemory>,
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
            None => recorded(entries, &lifetimes, &timeline, leads_to_dump),
        };
        let scopes = scopes(snapshot, device, entries);
        let outline = Outline::new(snapshot, entries, stacks.origins);
        let iterations =
            iterations(snapshot, entries, &timeline, &scopes, (&outline, stacks.phases), recorded.from_start, by);
        let categories =
            Categories::new(snapshot, (device, entries), &lifetimes, (&scopes, &iterations), stacks.origins);
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
            segments_before,
            scopes,
            iterations,
            growth,
            categories,
            fragmentation: fragmentation(snapshot, device),
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
        if is_from_before && !has_frames(lifetime.stack) { Site::BeforeRecording } else { sites.site(lifetime.stack) }
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
            "memory from before the profile is known only where it was used or freed meanwhile: {known} is shown"
        ))
    };
    Recorded { from_start, truncated: !is_complete, is_cut: !is_complete, reason }
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

fn recorded(entries: &EntryTable, lifetimes: &Lifetimes, timeline: &Timeline<'_>, leads_to_dump: bool) -> Recorded {
    let before = lifetimes.at_start();
    let start = timeline.start();
    let from_start = before.is_empty() && start.reserved_bytes == 0;
    if !leads_to_dump {
        let reason = "the newest entries are missing from the file".to_owned();
        return Recorded { from_start, truncated: true, is_cut: true, reason: Some(reason) };
    }
    if from_start {
        return Recorded { from_start, truncated: false, is_cut: false, reason: None };
    }
    let lost = before.iter().filter(|lifetime| lifetime.block().is_some() && has_frames(lifetime.stack)).count();
    let begins_amid = entries.actions().first() == Some(&Action::FREE_COMPLETED);
    let full = is_ring_size(entries.len());
    if !has_history(entries) {
        let reason = "only the state at the dump was recorded, no history".to_owned();
        return Recorded { from_start, truncated: false, is_cut: false, reason: Some(reason) };
    }
    let reserves = |action: &Action| matches!(*action, Action::SEGMENT_ALLOC | Action::SEGMENT_MAP);
    let (truncated, why) = if before.is_empty() && !entries.actions().iter().any(reserves) {
        (false, "memory was allocated from segments whose reservation was not recorded (`skip_actions`?)".to_owned())
    } else if lost > 0 {
        (
            true,
            format!(
                "the ring buffer wrapped: {} still have the stack of an `alloc` that is gone",
                counted(lost, "block", "blocks")
            ),
        )
    } else if begins_amid || full {
        (true, format!("the ring buffer of {} entries seems to have wrapped", count(entries.len())))
    } else {
        (false, "recording began after the program had allocated".to_owned())
    };
    let held = size(start.reserved_bytes);
    let found = if before.is_empty() {
        format!("{held} reserved and nothing allocated")
    } else {
        let allocations = counted(before.len(), "allocation", "allocations");
        format!("{allocations} with {} requested, and {held} reserved", size(start.requested_bytes))
    };
    Recorded { from_start, truncated, is_cut: false, reason: Some(format!("{why}; the first entry finds {found}")) }
}

/// Whether a number of entries looks like somebody's `max_entries`.
fn is_ring_size(entries: usize) -> bool {
    entries >= 1000 && (entries.is_multiple_of(1000) || entries.is_power_of_two())
}
