//! Growth: what each iteration leaves behind, by call site. A leak shows here.

use highwater_snapshot::StackId;
use rustc_hash::FxHashMap;

use crate::callsite::{Site, Sites};
use crate::iteration::Iterations;
use crate::lifetime::Lifetimes;

/// A call site whose allocations stay, iteration after iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Where they are made.
    pub site: Site,
    /// The stack with the most bytes among them.
    pub stack: StackId,
    /// Requested bytes left behind, of all counted iterations.
    pub bytes: u64,
    /// Allocations left behind.
    pub count: u64,
    /// Iterations that left something here.
    pub iterations: usize,
    /// Iterations that were counted: complete ones, without the first (its optimizer state stays by design) and the
    /// last (what it made may still be in use).
    pub counted: usize,
}

impl Growth {
    /// Bytes an iteration, in the mean.
    pub fn bytes_per_iteration(&self) -> u64 {
        self.bytes / self.counted.max(1) as u64
    }

    /// Allocations in an iteration that left some, in the mean: at least one.
    pub fn count_per_iteration(&self) -> u64 {
        let iterations = self.iterations.max(1) as u64;
        (self.count + iterations / 2) / iterations
    }
}

/// Counted iterations below which nothing is said.
const MIN_COUNTED: usize = 3;

/// The sites that leave something behind in at least three of four counted iterations, most bytes first.
///
/// Left behind: allocated in a counted iteration and active after the last one.
pub(crate) fn growth(lifetimes: &Lifetimes, iterations: &Iterations, sites: &Sites) -> Vec<Growth> {
    let complete: Vec<_> = iterations.rows.iter().filter(|iteration| iteration.is_complete).collect();
    let Some(end) = complete.last().map(|last| last.entries.end) else { return Vec::new() };
    let counted = complete.get(1..complete.len() - 1).unwrap_or(&[]);
    if counted.len() < MIN_COUNTED {
        return Vec::new();
    }
    let mut by_site: FxHashMap<Site, Left> = FxHashMap::default();
    for lifetime in &lifetimes.rows {
        let Some(alloc) = lifetime.alloc() else { continue };
        if lifetime.free_completed().is_some_and(|freed| freed.index() < end) {
            continue;
        }
        let after = counted.partition_point(|iteration| iteration.entries.end <= alloc.index());
        if counted.get(after).is_some_and(|iteration| iteration.entries.contains(&alloc.index())) {
            by_site.entry(sites.site(lifetime.stack)).or_default().add(after, lifetime.stack, lifetime.requested_bytes);
        }
    }
    let mut rows: Vec<Growth> = by_site
        .into_iter()
        .map(|(site, left)| left.into_growth(site, counted.len()))
        .filter(|growth| growth.iterations * 4 >= growth.counted * 3)
        .collect();
    rows.sort_by_key(|growth| (std::cmp::Reverse(growth.bytes), growth.site));
    rows
}

/// What was left behind at one site.
#[derive(Default)]
struct Left {
    bytes: u64,
    count: u64,
    iterations: usize,
    last_iteration: Option<usize>,
    by_stack: FxHashMap<StackId, u64>,
}

impl Left {
    /// Allocations come in order of entries, so an iteration's come together.
    fn add(&mut self, iteration: usize, stack: StackId, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.count += 1;
        if self.last_iteration != Some(iteration) {
            self.iterations += 1;
            self.last_iteration = Some(iteration);
        }
        let sum = self.by_stack.entry(stack).or_default();
        *sum = sum.saturating_add(bytes);
    }

    fn into_growth(self, site: Site, counted: usize) -> Growth {
        let largest = self.by_stack.into_iter().max_by_key(|&(stack, bytes)| (bytes, std::cmp::Reverse(stack)));
        let stack = largest.map_or(StackId::MISSING, |(stack, _)| stack);
        Growth { site, stack, bytes: self.bytes, count: self.count, iterations: self.iterations, counted }
    }
}
