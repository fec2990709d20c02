//! All that is known of one device.

use std::sync::Arc;

use highwater_allocator::Settings;
use highwater_snapshot::Snapshot;

use crate::backward::{ForwardLines, forward_lines};
use crate::callsite::{Site, SiteTotal, Sites, totals};
use crate::category::origin::StackOrigins;
use crate::category::{Categories, Category, Decided};
use crate::fragmentation::{Fragmentation, fragmentation};
use crate::growth::{Growth, growth};
use crate::iteration::{Iterations, iterations, unit};
use crate::lifetime::{Lifetime, number};
use crate::oom::{OutOfMemory, events};
use crate::outline::{ModuleCall, Outline, Seen};
use crate::phase::StackPhases;
use crate::reconstruction::{Reconstruction, has_frames, preexisting};
use crate::scope::{Scope, scopes};
use crate::timeline::{Peak, Total, Totals};

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
    /// Its memory, as entries and dump tell it without any stack.
    pub reconstruction: Arc<Reconstruction<'a>>,
    /// The forward lines of autograd's nodes, as far as they are known.
    forward_lines: ForwardLines,
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
}

impl<'a> std::ops::Deref for DeviceAnalysis<'a> {
    type Target = Reconstruction<'a>;

    fn deref(&self) -> &Reconstruction<'a> {
        &self.reconstruction
    }
}

impl<'a> DeviceAnalysis<'a> {
    /// Interprets a reconstructed device by its stacks: iterations, categories, growth.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        reconstruction: Arc<Reconstruction<'a>>,
        settings: &Settings,
        stacks: Stacks<'_>,
    ) -> Self {
        let Reconstruction { device, entries, ref recorded, ref timeline, by, ref lifetimes, .. } = *reconstruction;
        let scopes = scopes(snapshot, device, entries);
        let outline = Outline::new(snapshot, entries, stacks.sites, stacks.origins);
        let mut iterations = iterations(
            snapshot,
            (entries, lifetimes),
            timeline,
            &scopes,
            (&outline, stacks.phases),
            recorded.from_start,
            by,
        );
        let called_again = outline.called_again(snapshot).map(number).collect();
        let categories = Categories::new(
            snapshot,
            (device, entries),
            lifetimes,
            (&scopes, &iterations, called_again),
            stacks.origins,
        );
        iterations.unit = unit(&iterations, &outline, lifetimes, &categories);
        let seen = if iterations.rows.is_empty() { outline.seen(lifetimes, entries) } else { None };
        let growth = growth(lifetimes, &iterations, &categories, stacks.sites);
        let oom = events(entries, timeline, settings);
        Self {
            forward_lines: forward_lines(snapshot, entries, stacks.sites),
            scopes,
            iterations,
            seen,
            growth,
            categories,
            fragmentation: fragmentation(snapshot, device),
            failed_call: oom.first().and_then(|event| outline.call_at(event.entry.index(), snapshot)),
            oom,
            reconstruction,
        }
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

    /// The peak that the report speaks of: see [`by`](Reconstruction::by).
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
