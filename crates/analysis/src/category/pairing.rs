//! Sizes that pair up: a gradient has its parameter's size, and so has what the optimizer keeps for it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::course::{Course, is_backward};
use super::origin::Origin;
use crate::lifetime::{Lifetime, Lifetimes};

/// The sizes of the workspaces that cuBLAS and cuBLASLt get: Hopper's and later, earlier GPUs', cuBLASLt's, ROCm's.
///
/// # Source
/// PyTorch v2.11, `aten/src/ATen/cuda/CublasHandlePool.cpp`, `parseChosenWorkspaceSize` and
/// `parseCUDABlasLtWorkspaceSize`; the recordings.
const WORKSPACES: [u64; 5] = [32 << 20, 8_519_680, 1 << 20, 128 << 20, 76 << 20];

/// What sizes tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairing {
    sizes: FxHashSet<u64>,
    /// Rows that are a library's workspace.
    pub(crate) workspaces: FxHashSet<usize>,
    /// Rows that are parameters, though nothing shows how they were made.
    pub(crate) parameters: FxHashSet<usize>,
    /// Rows from before the recording that are optimizer state.
    pub(crate) states: FxHashSet<usize>,
}

/// What there is of one size.
#[derive(Clone, Debug, Default)]
struct OfSize {
    /// Made as modules were built, and not momentary.
    built: usize,
    /// The most that outlive one backward pass.
    gradients: usize,
    /// Of the pass that is counted.
    in_pass: (u32, usize),
    /// Kept by the optimizer.
    states: usize,
}

impl Pairing {
    pub(crate) fn new(lifetimes: &Lifetimes, course: &Course, told: impl Fn(usize) -> Origin) -> Self {
        let mut of_size: FxHashMap<u64, OfSize> = FxHashMap::default();
        let freed = |lifetime: &Lifetime| lifetime.free_requested().map_or(course.entries, highwater_snapshot::EntryId::get);
        for (row, lifetime) in lifetimes.rows.iter().enumerate() {
            let alloc = lifetime.alloc().map_or(0, highwater_snapshot::EntryId::get);
            match told(row) {
                Origin::Build if freed(lifetime) > alloc + 1 => {
                    of_size.entry(lifetime.requested_bytes).or_default().built += 1;
                }
                Origin::Optimizer if course.step_at(alloc).is_none_or(|step| freed(lifetime) >= step.end) => {
                    of_size.entry(lifetime.requested_bytes).or_default().states += 1;
                }
                Origin::Engine | Origin::Hook => {
                    let Some(pass) = course.pass_at(alloc).filter(|pass| freed(lifetime) >= pass.sure_end) else { continue };
                    let of = of_size.entry(lifetime.requested_bytes).or_default();
                    if of.in_pass.0 != pass.start {
                        of.in_pass = (pass.start, 0);
                    }
                    of.in_pass.1 += 1;
                    of.gradients = of.gradients.max(of.in_pass.1);
                }
                _ => {}
            }
        }
        let mut pairing = Self::default();
        pairing.find_workspaces(lifetimes, course, &told, &of_size);
        pairing.find_parameters(lifetimes, course, &told, &of_size);
        pairing.sizes.extend(of_size.iter().filter(|(_, of)| of.built > 0).map(|(&size, _)| size));
        pairing.sizes.extend(pairing.parameters.iter().map(|&row| lifetimes.rows[row].requested_bytes));
        pairing
    }

    pub(crate) fn is_parameter_size(&self, size_bytes: u64) -> bool {
        self.sizes.contains(&size_bytes)
    }

    /// The first that stays for good, for each size, stream and kind of thread.
    fn find_workspaces(
        &mut self,
        lifetimes: &Lifetimes,
        course: &Course,
        told: &impl Fn(usize) -> Origin,
        of_size: &FxHashMap<u64, OfSize>,
    ) {
        let mut seen = FxHashSet::default();
        for (row, lifetime) in lifetimes.rows.iter().enumerate() {
            if !WORKSPACES.contains(&lifetime.requested_bytes) || lifetime.free_requested().is_some() {
                continue;
            }
            let origin = told(row);
            if !matches!(origin, Origin::Module | Origin::Program | Origin::Untold) && !is_backward(origin) {
                continue;
            }
            let of = of_size.get(&lifetime.requested_bytes);
            if is_backward(origin) && of.is_some_and(|of| of.built > 0 && of.gradients <= of.built) {
                continue;
            }
            let _ = course;
            if seen.insert((lifetime.requested_bytes, lifetime.stream, is_backward(origin))) {
                self.workspaces.insert(row);
            }
        }
    }

    /// Those that the program made itself, as many as gradients or states ask for.
    fn find_parameters(
        &mut self,
        lifetimes: &Lifetimes,
        course: &Course,
        told: &impl Fn(usize) -> Origin,
        of_size: &FxHashMap<u64, OfSize>,
    ) {
        let Some(first) = course.passes.first() else { return };
        let mut wanted: FxHashMap<u64, usize> = FxHashMap::default();
        for (&size, of) in of_size {
            let missing = of.gradients.max(of.states).saturating_sub(of.built);
            if missing > 0 && (of.gradients > of.built || of.built == 0) {
                wanted.insert(size, missing);
            }
        }
        for (row, lifetime) in lifetimes.rows.iter().enumerate() {
            let alloc = lifetime.alloc().map_or(0, highwater_snapshot::EntryId::get);
            if alloc >= first.start {
                break;
            }
            let stays = lifetime.free_requested().is_none_or(|freed| freed.get() > first.end);
            if stays
                && matches!(told(row), Origin::Program | Origin::Module | Origin::Untold)
                && !self.workspaces.contains(&row)
                && let Some(count) = wanted.get_mut(&lifetime.requested_bytes)
                && *count > 0
            {
                *count -= 1;
                self.parameters.insert(row);
            }
        }
    }
}
