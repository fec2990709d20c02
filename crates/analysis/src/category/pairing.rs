//! Sizes that pair up: a gradient has its parameter's size, and so has what the optimizer keeps for it.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::course::{Course, is_backward};
use super::origin::Origin;
use crate::lifetime::{Lifetime, Lifetimes};

/// The sizes of the workspaces that cuBLAS and cuBLASLt get: Hopper's and later, earlier GPUs', cuBLASLt's,
/// those of AMD's.
///
/// # Source
/// PyTorch v2.11, `aten/src/ATen/cuda/CublasHandlePool.cpp`, `parseChosenWorkspaceSize` and
/// `parseCUDABlasLtWorkspaceSize`; the recordings.
const WORKSPACES: [u64; 5] = [32 << 20, 8_519_680, 1 << 20, 128 << 20, 76 << 20];

/// What sizes tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairing {
    sizes: FxHashSet<u64>,
    /// Entries of allocations of the forward pass that backward frees, in order.
    saved: Vec<u32>,
    /// Rows that are a library's workspace.
    pub(crate) workspaces: FxHashSet<usize>,
    /// Rows that are parameters, though nothing shows how they were made.
    pub(crate) parameters: FxHashSet<usize>,
    /// Rows from before the recording that are optimizer state.
    pub(crate) states: FxHashSet<usize>,
    /// The most bytes that outlive one backward pass.
    gradient_bytes: u64,
    /// The most bytes of buckets at once, counted as those that are never freed.
    bucket_bytes: u64,
}

/// What there is of one size.
#[derive(Clone, Debug, Default)]
struct OfSize {
    /// Made as modules were built, and there when backward first begins.
    built: usize,
    /// The most that outlive one backward pass.
    gradients: usize,
    /// Of the pass that is counted.
    in_pass: (u32, usize),
    /// Kept by the optimizer.
    states: usize,
}

/// Everything that pairing looks at.
struct Known<'a, T> {
    lifetimes: &'a Lifetimes,
    course: &'a Course,
    told: T,
    /// By size.
    of_size: FxHashMap<u64, OfSize>,
    /// Where the first backward pass begins; the end of the recording if there is none.
    first_pass: u32,
    is_bare: bool,
}

impl<T> Known<'_, T> {
    /// Without stacks, building is not told from running.
    fn may_be_made_by_hand(&self, origin: Origin) -> bool {
        origin == Origin::Program || (self.is_bare && origin == Origin::Module)
    }

    /// Whether it stays for good, or at least to the end of the next pass: a trainer gives workspaces back when it is done.
    fn is_kept(&self, lifetime: &Lifetime, in_backward: bool) -> bool {
        let (alloc, freed, passes) = (alloc(lifetime), freed(lifetime, self.course), &self.course.passes);
        let after = passes.partition_point(|pass| pass.start <= alloc);
        let outlives_next = passes.get(after + usize::from(!in_backward)).is_some_and(|next| next.end <= freed);
        outlives_next || (freed == self.course.entries && passes.len() < 2)
    }
}

fn freed(lifetime: &Lifetime, course: &Course) -> u32 {
    lifetime.free_requested().map_or(course.entries, highwater_snapshot::EntryId::get)
}

fn alloc(lifetime: &Lifetime) -> u32 {
    lifetime.alloc().map_or(0, highwater_snapshot::EntryId::get)
}

impl Pairing {
    pub(crate) fn new(lifetimes: &Lifetimes, course: &Course, told: impl Fn(usize) -> Origin, is_bare: bool) -> Self {
        let mut pairing = Self::default();
        let mut known = Known {
            lifetimes,
            course,
            told,
            of_size: FxHashMap::default(),
            first_pass: course.passes.first().map_or(course.entries, |pass| pass.start),
            is_bare,
        };
        pairing.find_parameters_made_by_hand(&mut known);
        pairing.find_before(&known);
        pairing.find_workspaces(&known);
        pairing.sizes.extend(known.of_size.iter().filter(|(_, of)| of.built > 0).map(|(&size, _)| size));
        pairing.sizes.extend(pairing.parameters.iter().map(|&row| lifetimes.rows[row].requested_bytes));
        pairing
    }

    pub(crate) fn is_parameter_size(&self, size_bytes: u64) -> bool {
        self.sizes.contains(&size_bytes)
    }

    /// Allocations of the forward pass between two entries that backward frees.
    pub(crate) fn saved_between(&self, start: u32, end: u32) -> usize {
        let before = self.saved.partition_point(|&saved| saved <= start);
        self.saved.partition_point(|&saved| saved < end).saturating_sub(before)
    }

    /// Whether gradients have no place but the buckets that they are sent from.
    pub(crate) fn buckets_are_gradients(&self) -> bool {
        self.gradient_bytes < self.bucket_bytes / 2
    }

    /// Those that the program made itself, as many as gradients or states ask for.
    fn find_parameters_made_by_hand<T: Fn(usize) -> Origin>(&mut self, known: &mut Known<'_, T>) {
        let course = known.course;
        let mut in_pass = (0, 0);
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate() {
            let (alloc, freed, size) = (alloc(lifetime), freed(lifetime, course), lifetime.requested_bytes);
            match (known.told)(row) {
                Origin::Build if freed > known.first_pass.min(course.entries.saturating_sub(1)) => {
                    known.of_size.entry(size).or_default().built += 1;
                }
                Origin::Optimizer if course.step_at(alloc).is_none_or(|step| freed >= step.end) => {
                    known.of_size.entry(size).or_default().states += 1;
                }
                Origin::Engine | Origin::Hook => {
                    let Some(pass) = course.pass_at(alloc).filter(|pass| freed >= pass.sure_end) else { continue };
                    let of = known.of_size.entry(size).or_default();
                    if of.in_pass.0 != pass.start {
                        of.in_pass = (pass.start, 0);
                    }
                    of.in_pass.1 += 1;
                    of.gradients = of.gradients.max(of.in_pass.1);
                    if in_pass.0 != pass.start {
                        in_pass = (pass.start, 0);
                    }
                    in_pass.1 += if WORKSPACES.contains(&size) { 0 } else { size };
                    self.gradient_bytes = self.gradient_bytes.max(in_pass.1);
                }
                Origin::Module | Origin::Compiled | Origin::Program if course.pass_at(freed).is_some() => {
                    self.saved.push(alloc);
                }
                Origin::Bucket if freed == course.entries => self.bucket_bytes = self.bucket_bytes.saturating_add(size),
                _ => {}
            }
        }
        let mut wanted: FxHashMap<u64, usize> = FxHashMap::default();
        for (&size, of) in &known.of_size {
            // A workspace or two outlive a pass, too.
            let is_short = of.gradients > of.built && !(WORKSPACES.contains(&size) && of.gradients == of.built + 1);
            if is_short || (of.built == 0 && of.states > 0) {
                wanted.insert(size, of.gradients.max(of.states).saturating_sub(of.built));
            }
        }
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate().skip(known.lifetimes.before_recording) {
            if alloc(lifetime) >= known.first_pass {
                break;
            }
            // A parameter is there for as long as there is anything to learn.
            if freed(lifetime, course) >= course.passes.last().map_or(course.entries, |pass| pass.end)
                && known.may_be_made_by_hand((known.told)(row))
                && let Some(count) = wanted.get_mut(&lifetime.requested_bytes)
                && *count > 0
            {
                *count -= 1;
                self.parameters.insert(row);
            }
        }
    }

    /// The first that stays for good, for each size, stream and kind of thread.
    fn find_workspaces<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let mut seen = FxHashSet::default();
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for &row in &self.parameters {
            *there.entry(known.lifetimes.rows[row].requested_bytes).or_default() += 1;
        }
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate() {
            let size = lifetime.requested_bytes;
            if !WORKSPACES.contains(&size) || self.parameters.contains(&row) || self.states.contains(&row) {
                continue;
            }
            let origin = (known.told)(row);
            let in_backward = is_backward(origin);
            let may_be =
                in_backward || matches!(origin, Origin::Module | Origin::Compiled | Origin::Program | Origin::Untold);
            if !may_be || !known.is_kept(lifetime, in_backward) {
                continue;
            }
            // As many gradients as parameters: none is a workspace.
            let of = known.of_size.get(&size);
            let parameters = of.map_or(0, |of| of.built) + there.get(&size).copied().unwrap_or(0);
            if in_backward && parameters > 0 && of.is_some_and(|of| of.gradients <= parameters) {
                continue;
            }
            if seen.insert((size, lifetime.stream, in_backward)) {
                self.workspaces.insert(row);
            }
        }
    }

    /// What was there before the recording and stays: of each size as many parameters as gradients, the rest the
    /// optimizer's.
    ///
    /// Parameters are allocated one after the other by a young process, so they lie together: the stretch of addresses
    /// that holds one for each gradient, and the fewest bytes beside, holds them.
    fn find_before<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        if known.course.passes.is_empty() && known.course.modules.is_empty() {
            return;
        }
        let stays =
            |row: &usize| (known.told)(*row) == Origin::Untold && known.lifetimes.rows[*row].free_requested().is_none();
        let mut rows: Vec<usize> = (0..known.lifetimes.before_recording).filter(stays).collect();
        rows.sort_unstable_by_key(|&row| known.lifetimes.rows[row].address);
        let size = |row: usize| known.lifetimes.rows[row].requested_bytes;
        let gradients = |size: u64| known.of_size.get(&size).map_or(0, |of| of.gradients);
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for &row in &rows {
            *there.entry(size(row)).or_default() += 1;
        }
        // Small blocks and large ones come from segments of their own.
        for is_small in [true, false] {
            let paired = rows.iter().copied().filter(|&row| gradients(size(row)) > 0);
            let paired: Vec<usize> = paired.filter(|&row| (size(row) <= 1 << 20) == is_small).collect();
            let sizes: Vec<u64> = paired.iter().map(|&row| size(row)).collect();
            let found = chosen(&sizes, &there, gradients);
            for (&row, is_parameter) in paired.iter().zip(found) {
                if is_parameter {
                    self.parameters.insert(row)
                } else {
                    self.states.insert(row)
                };
            }
        }
        // What no gradient pairs with: frozen, or a buffer.
        self.parameters
            .extend(rows.iter().filter(|&&row| gradients(size(row)) == 0 && !WORKSPACES.contains(&size(row))));
    }
}

/// Which of these, in order of their addresses, are parameters: of each size as many as there are gradients, those of the
/// narrowest stretch first.
fn chosen(sizes: &[u64], there: &FxHashMap<u64, usize>, gradients: impl Fn(u64) -> usize) -> Vec<bool> {
    let wanted = |size: u64| there.get(&size).map_or(0, |&count| count.min(gradients(size)));
    let mut left: FxHashMap<u64, usize> = sizes.iter().map(|&size| (size, wanted(size))).collect();
    let stretch = narrowest(sizes, &left);
    let mut is_chosen = vec![false; sizes.len()];
    for inside in [true, false] {
        for (at, size) in sizes.iter().enumerate().filter(|(at, _)| stretch.contains(at) == inside) {
            if let Some(count) = left.get_mut(size).filter(|count| **count > 0) {
                *count -= 1;
                is_chosen[at] = true;
            }
        }
    }
    is_chosen
}

/// The stretch with all that is wanted of each size and the fewest bytes.
fn narrowest(sizes: &[u64], wanted: &FxHashMap<u64, usize>) -> Range<usize> {
    let mut missing: FxHashMap<u64, isize> =
        wanted.iter().map(|(&size, &count)| (size, isize::try_from(count).unwrap_or(isize::MAX))).collect();
    let mut short = missing.len();
    let (mut start, mut bytes, mut best) = (0, 0_u64, (u64::MAX, 0..0));
    for (end, size) in sizes.iter().enumerate() {
        bytes = bytes.saturating_add(*size);
        if let Some(count) = missing.get_mut(size) {
            *count -= 1;
            short -= usize::from(*count == 0);
        }
        while short == 0 && start <= end {
            if bytes < best.0 {
                best = (bytes, start..end + 1);
            }
            bytes -= sizes[start];
            if let Some(count) = missing.get_mut(&sizes[start]) {
                short += usize::from(*count == 0);
                *count += 1;
            }
            start += 1;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_stretch_has_all_that_is_wanted() {
        let wanted: FxHashMap<u64, usize> = [(8, 2), (1, 1)].into_iter().collect();
        assert_eq!(narrowest(&[8, 5, 8, 1, 8, 8, 1], &wanted), 2..5);
        assert_eq!(narrowest(&[8, 1], &wanted), 0..0);
        assert_eq!(narrowest(&[], &FxHashMap::default()), 0..0);
    }
}
