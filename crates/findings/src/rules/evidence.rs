//! What findings rest on: a device of a recording, its passes, and what the peak would be with other lifetimes.

use std::ops::Range;
use std::sync::OnceLock;

use highwater_analysis::Analysis;
use highwater_analysis::callsite::Site;
use highwater_analysis::category::Category;
use highwater_analysis::category::course::Pass;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::lifetime::{Lifetime, number};
use highwater_analysis::place::place;
use highwater_analysis::timeline::{Peak, Total};
use highwater_outside::{Moment, Timeline};
use highwater_snapshot::{EntryId, Frame, StackId};
use highwater_units::{counted, size};
use highwater_whatif::Study;
use highwater_whatif::counterfactual::{Change, History};

use super::settings;

/// A saving is worth a word from this share of the peak on, in percent.
const WORTH_PERCENT: u64 = 1;

/// Places that a finding names.
const NAMED: usize = 3;

/// A device of an analysis, and what several findings ask of it: made once, for the rules of all threads.
pub(super) struct Evidence<'a> {
    pub(super) analysis: &'a Analysis<'a>,
    pub(super) device: &'a DeviceAnalysis<'a>,
    pub(super) peak: Peak,
    history: OnceLock<History>,
    by_category: OnceLock<[Vec<u32>; Category::ALL.len()]>,
    driver: OnceLock<Option<(Timeline<'a>, Moment)>>,
    study: OnceLock<Option<Study>>,
}

impl<'a> Evidence<'a> {
    /// `study` is the recorded program, where it was looked at already.
    pub(super) fn new(
        analysis: &'a Analysis<'a>,
        device: &'a DeviceAnalysis<'a>,
        study: OnceLock<Option<Study>>,
    ) -> Self {
        Self {
            analysis,
            device,
            peak: device.peak(),
            history: OnceLock::new(),
            by_category: OnceLock::new(),
            driver: OnceLock::new(),
            study,
        }
    }

    /// The recorded program, where other settings may help.
    pub(super) fn study(&self) -> Option<&Study> {
        self.study.get_or_init(|| settings::study(self.analysis.snapshot, self.device)).as_ref()
    }

    /// The driver's recording, and the moment when the process had most of this device.
    pub(super) fn driver_at_peak(&self) -> Option<&(Timeline<'a>, Moment)> {
        let find = || {
            let timeline = Timeline::new(self.analysis.driver.as_ref()?);
            let moment = timeline.peak(i32::try_from(self.device.device).ok()?);
            Some((timeline, moment))
        };
        self.driver.get_or_init(find).as_ref()
    }

    /// Every lifetime, with its row.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &'a Lifetime)> + use<'a> {
        self.device.lifetimes.rows.iter().enumerate()
    }

    /// The lifetimes of a category, with their rows, in order.
    pub(super) fn of(&self, category: Category) -> impl Iterator<Item = (usize, &'a Lifetime)> {
        let device = self.device;
        let by_category = self.by_category.get_or_init(|| {
            let mut rows = [const { Vec::new() }; Category::ALL.len()];
            for row in 0..device.lifetimes.rows.len() {
                rows[device.decided(row).category as usize].push(number(row));
            }
            rows
        });
        by_category[category as usize].iter().map(|&row| (row as usize, &device.lifetimes.rows[row as usize]))
    }

    /// The lifetimes of a category that are there after an entry.
    pub(super) fn live(&self, entry: EntryId, category: Category) -> impl Iterator<Item = (usize, &'a Lifetime)> {
        self.of(category).filter(move |(_, lifetime)| lifetime.is_live_after(entry))
    }

    /// What a lifetime counts for in the total that the report goes by.
    pub(super) fn bytes(&self, lifetime: &Lifetime) -> u64 {
        match self.device.by {
            Total::Requested => lifetime.requested_bytes,
            _ => self.device.blocks().of(lifetime, self.analysis.snapshot),
        }
    }

    /// The entries after which a lifetime counts: requested bytes until the block is back in its pool, allocated bytes until
    /// its owner lets go.
    pub(super) fn span(&self, lifetime: &Lifetime) -> Range<usize> {
        let start = lifetime.alloc().map_or(0, EntryId::index);
        let end = match self.device.by {
            Total::Requested => lifetime.free_completed(),
            _ => lifetime.free_requested().or(lifetime.free_completed()),
        };
        start..end.map_or(self.device.entries.len(), EntryId::index)
    }

    /// The peak without some lifetimes.
    pub(super) fn peak_without<'b>(&self, lifetimes: impl Iterator<Item = &'b Lifetime>) -> u64 {
        let changes: Vec<Change> = lifetimes.map(|l| Change::without(self.span(l), self.bytes(l))).collect();
        self.peak_with(&changes)
    }

    /// The peak with some changes.
    pub(super) fn peak_with(&self, changes: &[Change]) -> u64 {
        self.history.get_or_init(|| History::new(self.device)).peak_with(changes)
    }

    /// How much lower another peak is, if that is worth a word.
    pub(super) fn worth(&self, peak: u64) -> Option<u64> {
        let saving = self.peak.bytes.saturating_sub(peak);
        (saving > 0 && saving >= self.share_of_peak(WORTH_PERCENT)).then_some(saving)
    }

    /// So many percent of the peak.
    pub(super) fn share_of_peak(&self, percent: u64) -> u64 {
        self.peak.bytes / 100 * percent
    }

    /// The backward passes, in order.
    pub(super) fn passes(&self) -> &'a [Pass] {
        self.device.categories.passes()
    }

    /// The complete iteration that the peak lies in; else the last one.
    pub(super) fn typical_iteration(&self) -> Option<Range<usize>> {
        let complete = || self.device.iterations.rows.iter().filter(|iteration| iteration.is_complete);
        let at = self.peak.entry.map(EntryId::index);
        let own = complete().find(|iteration| at.is_some_and(|at| iteration.entries.contains(&at)));
        own.or_else(|| complete().next_back()).map(|iteration| iteration.entries.clone())
    }

    /// The site that stands for a lifetime.
    pub(super) fn site(&self, lifetime: &Lifetime) -> Site {
        self.device.site(lifetime, &self.analysis.sites)
    }

    /// The stacks with a frame of such a function and file.
    pub(super) fn stacks_with(&self, holds: impl Fn(&str, &str) -> bool) -> StackSet {
        let snapshot = self.analysis.snapshot;
        let holds = |frame: &Frame| holds(snapshot.text(frame.name), snapshot.text(frame.filename));
        let frames: Vec<bool> = snapshot.frames.iter().map(|(_, frame)| holds(&frame)).collect();
        StackSet(snapshot.stacks.iter().map(|(_, stack)| stack.iter().any(|frame| frames[frame.index()])).collect())
    }

    /// `3.00 GiB at train.py:12 step; …; and 4 more places`, the largest first.
    pub(super) fn places(&self, sites: impl Iterator<Item = (Site, u64)>) -> String {
        let mut sums: Vec<(Site, u64)> = Vec::new();
        let mut sites: Vec<(Site, u64)> = sites.collect();
        sites.sort_unstable_by_key(|&(site, _)| site);
        for (site, bytes) in sites {
            match sums.last_mut().filter(|last| last.0 == site) {
                Some(last) => last.1 = last.1.saturating_add(bytes),
                None => sums.push((site, bytes)),
            }
        }
        sums.sort_by_key(|&(site, bytes)| (std::cmp::Reverse(bytes), site));
        let mut named: Vec<String> = sums
            .iter()
            .take(NAMED)
            .map(|&(site, bytes)| format!("{} at {}", size(bytes), place(self.analysis, site)))
            .collect();
        let rest = sums.len().saturating_sub(NAMED);
        if rest > 0 {
            named.push(format!("and {}", counted(rest, "more call site", "more call sites")));
        }
        named.join("; ")
    }
}

/// Some of the stacks of a snapshot.
pub(super) struct StackSet(Vec<bool>);

impl StackSet {
    pub(super) fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }

    pub(super) fn has(&self, stack: StackId) -> bool {
        self.0.get(stack.index()).copied().unwrap_or(false)
    }
}
