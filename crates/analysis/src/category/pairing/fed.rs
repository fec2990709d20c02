//! What the program feeds to modules: batches that come and go.

use std::collections::BTreeMap;

use highwater_snapshot::StackId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::alloc;
use crate::category::case::{BEHIND_OUTPUT, OF_LOSS};
use crate::category::course::Course;
use crate::category::origin::Origin;
use crate::lifetime::{Lifetime, Lifetimes};

/// Smaller blocks may be anything: counters, masks, losses.
const MIN_BYTES: u64 = 4096;

/// What one place makes and frees so often stays for an iteration to come: what a leak keeps is never freed.
const MIN_FED: usize = 2;

/// The blocks that the program makes before a forward pass and frees after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Fed {
    /// Their sizes.
    sizes: FxHashSet<u64>,
    /// Places that make several of a size so.
    places: FxHashSet<(StackId, u64)>,
    /// Places that make at least one: an input may be as large as a parameter, and follow a backward pass whose gradients accumulate.
    once: FxHashSet<(StackId, u64)>,
    /// The sizes of what modules make and the program holds beyond the backward pass: the model's outputs.
    outputs: FxHashSet<u64>,
    /// By the binary logarithm of their bytes, where each is allocated, with the latest free of all up to it.
    held: BTreeMap<u32, Vec<(u32, u32)>>,
    /// In a program without modules, the places that visit all parameters, each with the sizes of the blocks that it replaces.
    sweeping: FxHashMap<StackId, FxHashSet<u64>>,
}

/// Where no modules run: places of the program that make so many blocks in so many sizes, before the first pass or between two passes, and keep
/// them, that they go through parameters. A batch has few tensors.
fn sweeping(
    lifetimes: &Lifetimes,
    course: &Course,
    told: &impl Fn(usize) -> Origin,
) -> FxHashMap<StackId, FxHashSet<u64>> {
    const MIN_BLOCKS: usize = 16;
    const MIN_SIZES: usize = 4;
    if !course.modules.is_empty() {
        return FxHashMap::default();
    }
    let mut made: FxHashMap<(u32, StackId), (usize, FxHashSet<u64>)> = FxHashMap::default();
    let mut replaced: FxHashMap<StackId, FxHashSet<u64>> = FxHashMap::default();
    for (row, lifetime) in lifetimes.rows.iter().enumerate().skip(lifetimes.before_recording) {
        let (alloc, freed) = (alloc(lifetime), course.freed(lifetime));
        let next = course.pass_after(alloc).map_or(course.entries, |pass| pass.end);
        if told(row) == Origin::Program && freed >= next {
            let of = made.entry((next, lifetime.stack)).or_default();
            of.0 += 1;
            of.1.insert(lifetime.requested_bytes);
            if freed < course.entries {
                replaced.entry(lifetime.stack).or_default().insert(lifetime.requested_bytes);
            }
        }
    }
    let sweeps = made.into_iter().filter(|(_, of)| of.0 >= MIN_BLOCKS && of.1.len() >= MIN_SIZES);
    sweeps.map(|((_, stack), _)| (stack, replaced.get(&stack).cloned().unwrap_or_default())).collect()
}

impl Fed {
    pub(super) fn new(
        lifetimes: &Lifetimes,
        course: &Course,
        told: &impl Fn(usize) -> Origin,
        is_gradient_size: impl Fn(u64) -> bool,
    ) -> Self {
        let mut counts: FxHashMap<(StackId, u64), usize> = FxHashMap::default();
        if course.passes.is_empty() {
            return Self::default();
        }
        let sweeping = sweeping(lifetimes, course, told);
        let mut outputs: FxHashSet<u64> = FxHashSet::default();
        let mut program: Vec<&Lifetime> = Vec::new();
        for (row, lifetime) in lifetimes.rows.iter().enumerate() {
            if lifetime.requested_bytes < MIN_BYTES || lifetime.alloc().is_none() {
                continue;
            }
            match told(row) {
                Origin::Program if sweeping.contains_key(&lifetime.stack) => {}
                Origin::Program => program.push(lifetime),
                Origin::Module | Origin::Compiled if course.is_held(alloc(lifetime), course.freed(lifetime)) => {
                    outputs.insert(lifetime.requested_bytes);
                }
                _ => {}
            }
        }
        let mut held: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for lifetime in program {
            let size = lifetime.requested_bytes;
            let (alloc, freed) = (alloc(lifetime), course.freed(lifetime));
            let is_of_loss = outputs.contains(&size) && course.is_behind_layers(alloc, freed, OF_LOSS);
            if is_of_loss || (is_gradient_size(size) && course.is_right_after_pass(alloc)) {
                continue;
            }
            // A thread may fetch the next batch while modules run.
            let is_amid = course.module_after(course.turn_before(alloc)).is_some_and(|module| module < alloc);
            let meets_layers = course.modules_between(alloc, freed) > BEHIND_OUTPUT;
            let meets_pass = course.pass_after(alloc).is_some_and(|pass| pass.end <= freed);
            if (!is_amid || meets_layers) && meets_pass && course.pass_at(freed).is_none() {
                *counts.entry((lifetime.stack, size)).or_default() += 1;
                let of_size = held.entry(size.ilog2()).or_default();
                of_size.push((alloc, of_size.last().map_or(freed, |last| freed.max(last.1))));
            }
        }
        let fed = |least: usize| counts.iter().filter(move |(_, freed)| **freed >= least).map(|(&of, _)| of);
        Self {
            sizes: fed(1).map(|(_, size)| size).collect(),
            places: fed(MIN_FED).collect(),
            once: fed(1).collect(),
            outputs,
            held,
            sweeping,
        }
    }

    /// Whether a place goes through the parameters of a program without modules.
    pub(super) fn sweeps(&self, stack: StackId) -> bool {
        self.sweeping.contains_key(&stack)
    }

    /// Whether such a place replaces blocks of this size.
    pub(super) fn replaces(&self, stack: StackId, size_bytes: u64) -> bool {
        self.sweeping.get(&stack).is_some_and(|sizes| sizes.contains(&size_bytes))
    }

    /// Whether a block may be computed from an input: one is there that is as large or not much smaller.
    pub(super) fn may_be_source(&self, alloc: u32, size_bytes: u64) -> bool {
        /// Eight times: a pixel of a byte becomes a number of eight.
        const MOST_DOUBLINGS: u32 = 3;
        let least = size_bytes.max(1).ilog2().saturating_sub(MOST_DOUBLINGS);
        self.held.range(least..).any(|(_, held)| {
            let before = held.partition_point(|held| held.0 < alloc);
            before.checked_sub(1).is_some_and(|last| held[last].1 > alloc)
        })
    }

    /// Whether the model's outputs have a size.
    pub(super) fn is_output_size(&self, size_bytes: u64) -> bool {
        self.outputs.contains(&size_bytes)
    }

    /// Whether such a block was made at a place, and not right after a backward pass if it is as large as a gradient.
    pub(super) fn is_made_at(&self, stack: StackId, size_bytes: u64) -> bool {
        self.once.contains(&(stack, size_bytes))
    }

    /// Whether a block of a size is like those: made at the place of such, or before the recording.
    pub(super) fn is_like(&self, size_bytes: u64, stack: Option<StackId>) -> bool {
        match stack {
            Some(stack) => self.places.contains(&(stack, size_bytes)),
            None => self.sizes.contains(&size_bytes),
        }
    }
}
