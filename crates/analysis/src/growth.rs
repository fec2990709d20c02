//! Growth: what each iteration leaves behind, by call site. A leak shows here.

use highwater_snapshot::{EntryId, StackId};
use rustc_hash::FxHashMap;

use crate::callsite::{Site, Sites};
use crate::category::course::Pass;
use crate::iteration::Iterations;
use crate::lifetime::{Lifetime, Lifetimes};

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
    /// It is the loss that stays, of every iteration: a number that is made right before the backward pass.
    pub is_loss: bool,
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
/// Left behind: allocated in a counted iteration and active after the last one. A queue is none: as much goes as comes.
pub(crate) fn growth(lifetimes: &Lifetimes, iterations: &Iterations, passes: &[Pass], sites: &Sites) -> Vec<Growth> {
    let complete: Vec<_> = iterations.rows.iter().filter(|iteration| iteration.is_complete).collect();
    let Some(end) = complete.last().map(|last| last.entries.end) else { return Vec::new() };
    let counted = complete.get(1..complete.len() - 1).unwrap_or(&[]);
    if counted.len() < MIN_COUNTED {
        return Vec::new();
    }
    let start = counted[0].entries.start;
    let mut by_site: FxHashMap<Site, Left> = FxHashMap::default();
    for lifetime in &lifetimes.rows {
        let freed = lifetime.free_completed().map(EntryId::index).filter(|&freed| freed < end);
        let Some(alloc) = lifetime.alloc().map(EntryId::index).filter(|&alloc| alloc >= start) else {
            if freed.is_some_and(|freed| freed >= start) {
                by_site.entry(sites.site(lifetime.stack)).or_default().went(lifetime.requested_bytes);
            }
            continue;
        };
        if freed.is_some() {
            continue;
        }
        let after = counted.partition_point(|iteration| iteration.entries.end <= alloc);
        if counted.get(after).is_some_and(|iteration| iteration.entries.contains(&alloc)) {
            let is_loss = is_loss(lifetimes, lifetime, passes);
            by_site.entry(sites.site(lifetime.stack)).or_default().add(after, lifetime, is_loss);
        }
    }
    let mut rows: Vec<Growth> = by_site
        .into_iter()
        .filter(|(_, left)| left.gone_bytes <= left.bytes / 2)
        .map(|(site, left)| left.into_growth(site, counted.len()))
        .filter(|growth| growth.iterations * 4 >= growth.counted * 3)
        .collect();
    rows.sort_by_key(|growth| (std::cmp::Reverse(growth.bytes), growth.site));
    rows
}

/// Whether a block is a number, and hardly anything comes between it and the next backward pass.
fn is_loss(lifetimes: &Lifetimes, lifetime: &Lifetime, passes: &[Pass]) -> bool {
    /// Bytes of the widest number.
    const NUMBER: u64 = 8;
    /// Allocations that may follow: a division, a scaling, a metric.
    const BETWEEN: usize = 4;
    let Some(alloc) = lifetime.alloc().filter(|_| lifetime.requested_bytes <= NUMBER) else { return false };
    let Some(pass) = passes.get(passes.partition_point(|pass| pass.start <= alloc.get())) else { return false };
    let rows_before =
        |entry: u32| lifetimes.rows.partition_point(|row| row.alloc().is_none_or(|alloc| alloc.get() < entry));
    rows_before(pass.start) - rows_before(alloc.get() + 1) <= BETWEEN
}

/// What was left behind at one site.
#[derive(Default)]
struct Left {
    bytes: u64,
    /// What had come before and went.
    gone_bytes: u64,
    count: u64,
    losses: u64,
    iterations: usize,
    last_iteration: Option<usize>,
    by_stack: FxHashMap<StackId, u64>,
}

impl Left {
    /// Allocations come in order of entries, so an iteration's come together.
    fn add(&mut self, iteration: usize, lifetime: &Lifetime, is_loss: bool) {
        let (stack, bytes) = (lifetime.stack, lifetime.requested_bytes);
        self.losses += u64::from(is_loss);
        self.bytes = self.bytes.saturating_add(bytes);
        self.count += 1;
        if self.last_iteration != Some(iteration) {
            self.iterations += 1;
            self.last_iteration = Some(iteration);
        }
        let sum = self.by_stack.entry(stack).or_default();
        *sum = sum.saturating_add(bytes);
    }

    fn went(&mut self, bytes: u64) {
        self.gone_bytes = self.gone_bytes.saturating_add(bytes);
    }

    fn into_growth(self, site: Site, counted: usize) -> Growth {
        let largest = self.by_stack.into_iter().max_by_key(|&(stack, bytes)| (bytes, std::cmp::Reverse(stack)));
        let stack = largest.map_or(StackId::MISSING, |(stack, _)| stack);
        let is_loss = self.losses == self.count;
        Growth { site, stack, bytes: self.bytes, count: self.count, iterations: self.iterations, counted, is_loss }
    }
}
