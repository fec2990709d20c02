//! What libraries keep for good: the workspaces of matrix products.

use std::collections::BTreeMap;

use highwater_snapshot::{StackId, StreamId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Known, Pairing, alloc};
use crate::category::course::is_backward;
use crate::category::origin::Origin;
use crate::lifetime::Lifetime;

/// Sizes of the workspaces of cuBLAS on Hopper and later, of cuBLAS on earlier GPUs, of cuBLASLt, and of AMD's libraries.
///
/// # Source
/// PyTorch v2.11, `aten/src/ATen/cuda/CublasHandlePool.cpp`, `parseChosenWorkspaceSize` and
/// `parseCUDABlasLtWorkspaceSize`; the recordings.
pub(super) const WORKSPACES: [u64; 5] = [32 << 20, 8_519_680, 1 << 20, 128 << 20, 76 << 20];

/// Of these, the one that many layers have (512 × 512 of 4 bytes): of several blocks without a stack each may be anything.
pub(super) const OF_LAYERS_TOO: u64 = 1 << 20;

/// Of these, AMD's, and those that only NVIDIA's have.
pub(super) const OF_AMD: [u64; 2] = [128 << 20, 76 << 20];
const OF_NVIDIA: [u64; 2] = [32 << 20, 8_519_680];

impl Pairing {
    /// The first that stays for good, for each size, stream and kind of thread; without a stack, those of both threads.
    pub(super) fn find_workspaces<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let mut seen = FxHashSet::default();
        let mut untold: BTreeMap<(u64, StreamId), Vec<usize>> = BTreeMap::new();
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for &row in &self.parameters {
            *there.entry(known.lifetimes.rows[row].requested_bytes).or_default() += 1;
        }
        // A place that makes such blocks time and again makes outputs. A workspace comes right after the output of the operator that needs it;
        // its segment may be reserved between the two.
        let place = |lifetime: &Lifetime| (known.stacks.place(lifetime.stack), lifetime.requested_bytes);
        let rows = &known.lifetimes.rows;
        let mut made: FxHashMap<(StackId, u64), usize> = FxHashMap::default();
        for lifetime in rows.iter().filter(|lifetime| lifetime.alloc().is_some()) {
            if WORKSPACES.contains(&lifetime.requested_bytes) {
                *made.entry(place(lifetime)).or_default() += 1;
            }
        }
        let comes_with = |before: &Lifetime, lifetime: &Lifetime| {
            let distance = alloc(lifetime).saturating_sub(alloc(before));
            let is_next = before.alloc().is_some() && distance <= 2 && before.stack == lifetime.stack;
            // What is as large as the block before it, and lets that go at once, is computed from it.
            let is_computed = before.requested_bytes == lifetime.requested_bytes
                && known.course.freed(before).saturating_sub(alloc(lifetime)) <= 2;
            is_next && !is_computed
        };
        let is_output = |row: usize, lifetime: &Lifetime| {
            let before = row.checked_sub(1).and_then(|before| rows.get(before));
            made.get(&place(lifetime)).is_some_and(|&made| made > 1)
                && !before.is_some_and(|before| comes_with(before, lifetime))
        };
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate() {
            let size = lifetime.requested_bytes;
            let found = [&self.parameters, &self.states, &self.caches, &self.behind_layers, &self.pages, &self.data];
            if !WORKSPACES.contains(&size) || found.iter().any(|found| found.contains(&row)) {
                continue;
            }
            let origin = (known.told)(row);
            let in_backward = is_backward(origin);
            let may_be =
                in_backward || matches!(origin, Origin::Module | Origin::Compiled | Origin::Program | Origin::Untold);
            let has_place = lifetime.alloc().is_some() && matches!(origin, Origin::Module | Origin::Program);
            if !may_be || !known.is_kept(lifetime, in_backward) || (has_place && is_output(row, lifetime)) {
                continue;
            }
            // As many gradients as parameters: none is a workspace.
            let of = known.of_size.get(&size);
            let parameters = of.map_or(0, |of| of.built) + there.get(&size).copied().unwrap_or(0);
            if in_backward && parameters > 0 && of.is_some_and(|of| of.gradients <= parameters) {
                continue;
            }
            if origin == Origin::Untold {
                untold.entry((size, lifetime.stream)).or_default().push(row);
            } else if seen.insert((size, lifetime.stream, in_backward)) {
                self.workspaces.insert(row);
            }
        }
        // The program's thread has one, and autograd's in a program that trains. More are something else, or some of them are.
        for ((size, _), rows) in untold {
            let most = if size == OF_LAYERS_TOO || known.course.passes.is_empty() { 1 } else { 2 };
            if rows.len() <= most {
                self.workspaces.extend(rows);
            } else if size != OF_LAYERS_TOO {
                self.workspaces.extend(rows.first());
            }
        }
        // One device is of one vendor.
        let size = |row: &usize| known.lifetimes.rows[*row].requested_bytes;
        if self.workspaces.iter().any(|row| OF_NVIDIA.contains(&size(row))) {
            self.workspaces.retain(|row| !OF_AMD.contains(&size(row)));
        }
    }
}
