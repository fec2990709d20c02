//! Growth: what each iteration leaves behind, by call site. A leak shows here.

use std::ops::Range;

use highwater_snapshot::{EntryId, StackId};
use rustc_hash::FxHashMap;

use crate::callsite::{Site, Sites};
use crate::category::course::Pass;
use crate::category::{Categories, Category};
use crate::iteration::{IterationSource, Iterations};
use crate::lifetime::{Lifetime, Lifetimes};

/// A call site whose allocations stay, iteration after iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Where they are made.
    pub site: Site,
    /// The stack with the most bytes among them.
    pub stack: StackId,
    /// Requested bytes left behind by all counted iterations.
    pub bytes: u64,
    /// Allocations left behind.
    pub count: u64,
    /// Iterations that left something here.
    pub iterations: usize,
    /// Iterations that were counted: without the first and the last where there are enough.
    pub counted: usize,
    /// It is the loss that stays, of every iteration: a number that is made right before the backward pass.
    pub is_loss: bool,
    /// Backward passes make it: gradients of no parameter.
    pub is_of_backward: bool,
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

/// From so many iterations on, the first and the last do not count: of the first, state and caches stay by design, and of the last,
/// what is still in use. Of fewer, what stays by design is there once, and what is in use is there for the last alone.
const ENOUGH: usize = 5;

/// The sites that leave something behind in at least three of four counted iterations, most bytes first.
///
/// Left behind: allocated in a counted iteration and active after the last one. What is bounded is none: a queue, from which as much
/// goes as comes, or what the category says that a program keeps: parameters, their gradients, the optimizer's state, a KV cache.
/// Where tokens are generated, each leaves something by design: nothing grows but the cache, and that has its own words.
pub(crate) fn growth(
    lifetimes: &Lifetimes,
    iterations: &Iterations,
    categories: &Categories,
    sites: &Sites,
) -> Vec<Growth> {
    let Some((counted, end)) = counted(iterations) else { return Vec::new() };
    if iterations.source == IterationSource::ModelCalls && categories.has(Category::Cache) {
        return Vec::new();
    }
    let counted = &iterations.rows[counted];
    let start = counted[0].entries.start;
    let mut by_site: FxHashMap<Site, Left> = FxHashMap::default();
    // Of a queue that was full before the recording, what goes has no stack: bytes that go, by size.
    let mut untold: FxHashMap<u64, u64> = FxHashMap::default();
    for (row, lifetime) in lifetimes.rows.iter().enumerate() {
        let freed = lifetime.free_completed().map(EntryId::index).filter(|&freed| freed < end);
        let Some(alloc) = lifetime.alloc().map(EntryId::index).filter(|&alloc| alloc >= start) else {
            if freed.is_some_and(|freed| freed >= start) {
                if lifetime.alloc().is_none() && lifetime.block().is_none() {
                    let gone = untold.entry(lifetime.requested_bytes).or_default();
                    *gone = gone.saturating_add(lifetime.requested_bytes);
                } else {
                    by_site.entry(sites.site(lifetime.stack)).or_default().went(lifetime.requested_bytes);
                }
            }
            continue;
        };
        let own = counted.partition_point(|iteration| iteration.entries.end <= alloc);
        if !counted.get(own).is_some_and(|iteration| iteration.entries.contains(&alloc)) {
            if alloc >= end && freed.is_none() && lifetime.free_completed().is_none() {
                by_site.entry(sites.site(lifetime.stack)).or_default().is_left_behind_last = true;
            }
            continue;
        }
        if let Some(freed) = freed {
            // It was kept past the next iteration, and let go: a queue.
            if counted.get(own + 1).is_some_and(|next| next.entries.end <= freed) {
                by_site.entry(sites.site(lifetime.stack)).or_default().went(lifetime.requested_bytes);
            }
            continue;
        }
        if !is_kept_by_design(categories.get(row).category) {
            let passes = categories.passes();
            let left = by_site.entry(sites.site(lifetime.stack)).or_default();
            left.losses += u64::from(is_loss(lifetimes, lifetime, passes));
            left.of_backward += u64::from(is_of_backward(lifetime, passes));
            left.add(own, lifetime);
        }
    }
    let mut rows: Vec<Growth> = by_site
        .into_iter()
        .filter(|(_, left)| left.gone_bytes_with(&untold) <= left.bytes / 2)
        .map(|(site, left)| left.into_growth(site, counted.len()))
        .filter(|growth| growth.iterations > 1 && growth.iterations * 4 >= growth.counted * 3)
        .collect();
    rows.sort_by_key(|growth| (std::cmp::Reverse(growth.bytes), growth.site));
    rows
}

/// The iterations that count, at least one, and the entry at which the last one ends that was recorded to its end; `None` where
/// there are too few to tell.
pub fn counted(iterations: &Iterations) -> Option<(Range<usize>, usize)> {
    let mut rows = &iterations.rows[..];
    if let [before @ .., last] = rows
        && !last.is_complete
        && !before.is_empty()
    {
        rows = before;
    }
    let end = rows.last().map(|last| last.entries.end).filter(|_| rows.len() > 1)?;
    Some((if rows.len() >= ENOUGH { 1..rows.len() - 1 } else { 0..rows.len() }, end))
}

/// Whether a program keeps such blocks for good.
pub fn is_kept_by_design(category: Category) -> bool {
    matches!(
        category,
        Category::Parameter | Category::Gradient | Category::OptimizerState | Category::Cache | Category::Workspace
    )
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

/// Whether a backward pass makes a block.
fn is_of_backward(lifetime: &Lifetime, passes: &[Pass]) -> bool {
    lifetime.alloc().map(EntryId::get).is_some_and(|entry| {
        let before = &passes[..passes.partition_point(|pass| pass.start <= entry)];
        before.last().is_some_and(|pass| pass.contains(entry))
    })
}

/// What was left behind at one site.
#[derive(Default)]
struct Left {
    bytes: u64,
    /// What had come before and went.
    gone_bytes: u64,
    count: u64,
    losses: u64,
    of_backward: u64,
    iterations: usize,
    first_iteration: Option<usize>,
    last_iteration: Option<usize>,
    /// Whether something stays that was made after the last iteration.
    is_left_behind_last: bool,
    by_stack: FxHashMap<StackId, u64>,
    by_size: FxHashMap<u64, u64>,
}

impl Left {
    /// What has gone, with what may have come from here before the recording: of the sizes that are left.
    fn gone_bytes_with(&self, untold: &FxHashMap<u64, u64>) -> u64 {
        let of_size = self.by_size.iter().filter_map(|(size, left)| Some(*untold.get(size)?.min(left)));
        of_size.fold(self.gone_bytes, u64::saturating_add)
    }

    /// Allocations come in order of entries, so an iteration's come together.
    fn add(&mut self, iteration: usize, lifetime: &Lifetime) {
        let (stack, bytes) = (lifetime.stack, lifetime.requested_bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        self.count += 1;
        if self.last_iteration != Some(iteration) {
            self.iterations += 1;
            self.first_iteration.get_or_insert(iteration);
            self.last_iteration = Some(iteration);
        }
        for sum in [self.by_stack.entry(stack).or_default(), self.by_size.entry(bytes).or_default()] {
            *sum = sum.saturating_add(bytes);
        }
    }

    fn went(&mut self, bytes: u64) {
        self.gone_bytes = self.gone_bytes.saturating_add(bytes);
    }

    fn into_growth(self, site: Site, counted: usize) -> Growth {
        let largest = self.by_stack.into_iter().max_by_key(|&(stack, bytes)| (bytes, std::cmp::Reverse(stack)));
        let stack = largest.map_or(StackId::MISSING, |(stack, _)| stack);
        let (is_loss, is_of_backward) = (self.losses == self.count, self.of_backward == self.count);
        // What an evaluation leaves after a step belongs to the next iteration: the first has none, and the last one's comes behind it.
        let is_shifted = self.is_left_behind_last && self.first_iteration.is_some_and(|first| first > 0);
        let counted = counted - usize::from(is_shifted);
        let Self { bytes, count, iterations, .. } = self;
        Growth { site, stack, bytes, count, iterations, counted, is_loss, is_of_backward }
    }
}
