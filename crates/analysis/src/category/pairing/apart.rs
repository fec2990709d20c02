//! What constructors of the program make beside the model: data, a cache, a queue, or a memory that is filled later.

use highwater_snapshot::StackId;
use rustc_hash::FxHashSet;

use super::{Known, LARGE, OfSize, Pairing, WORKSPACES, alloc};
use crate::category::origin::Origin;
use crate::category::rows;
use crate::lifetime::Lifetime;

impl Pairing {
    /// What constructors of the program make before the first module or after the last, and no gradient pairs with: of a model as well as
    /// of data, a cache, a queue, or a memory that is filled later.
    pub(super) fn find_apart<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let is_built = |&(row, _): &(usize, &Lifetime)| (known.told)(row) == Origin::Build;
        let of = |lifetime: &Lifetime| known.of_size.get(&lifetime.requested_bytes);
        // The workspace of autograd's thread is no gradient: those are made anew in each step.
        let is_remade = known.of_size.values().any(|of| of.spans.len() > 1);
        let is_workspace = |lifetime: &Lifetime| {
            let is_alone = |of: &OfSize| of.spans.len() == 1 && of.spans[0].1 == known.course.entries;
            WORKSPACES.contains(&lifetime.requested_bytes) && is_remade && of(lifetime).is_some_and(is_alone)
        };
        let is_pairless = |lifetime: &Lifetime| {
            of(lifetime).is_none_or(|of| of.gradients == 0 && !of.is_made_in_pass) || is_workspace(lifetime)
        };
        // A state has no order: what constructors make is of the model, unless all of that was there before.
        let (before, all) = (known.lifetimes.before_recording, known.lifetimes.rows.len());
        let is_state = before == all;
        let rows = known.lifetimes.rows.iter().enumerate().skip(if is_state { 0 } else { before });
        let rows: Vec<(usize, &Lifetime)> = rows.filter(is_built).collect();
        let rows = || rows.iter().copied();
        let modules = || rows().filter(|(_, lifetime)| !known.stacks.is_in_constructor(lifetime.stack));
        let first = modules().map(|(_, lifetime)| alloc(lifetime)).min();
        let modules = modules().map(|(_, lifetime)| alloc(lifetime)).max();
        let is_untold = |(row, lifetime): (usize, &Lifetime)| {
            (known.told)(row) == Origin::Untold && lifetime.requested_bytes > LARGE
        };
        let has_model = if is_state {
            modules.is_none() && known.lifetimes.rows.iter().enumerate().any(is_untold)
        } else {
            modules.is_some() || before > 0
        };
        if !has_model {
            return;
        }
        let states = &self.constructed_states;
        self.apart.extend(
            rows()
                .filter(|(row, lifetime)| {
                    let at = alloc(lifetime);
                    let precedes = known.first_pass < known.course.entries && first.is_some_and(|first| at < first);
                    known.stacks.is_in_constructor(lifetime.stack)
                        && (precedes || modules.is_none_or(|last| last < at))
                        && is_pairless(lifetime)
                        && !states.contains(row)
                })
                .map(|(row, _)| row),
        );
        let sizes: Vec<u64> = self.apart.iter().map(|&row| known.lifetimes.rows[row].requested_bytes).collect();
        let trained: Vec<u64> =
            known.of_size.iter().filter(|(_, of)| of.gradients > 0).map(|(&size, _)| size).collect();
        let data = rows::row_bytes(&sizes, &trained);
        let picked = known.sets(sizes);
        let stack = |row: usize| known.lifetimes.rows[row].stack;
        let of_data = self.apart.iter().copied().filter(|&row| {
            let size = known.lifetimes.rows[row].requested_bytes;
            data.is_some_and(|data| size.is_multiple_of(data)) || picked.sizes.contains(&size)
        });
        let of_data: FxHashSet<usize> = of_data.collect();
        // What the same constructor makes beside: a graph's edges.
        let constructors: FxHashSet<StackId> =
            of_data.iter().filter_map(|&row| known.stacks.constructor(stack(row))).collect();
        let is_beside = |row: usize| known.stacks.constructor(stack(row)).is_some_and(|c| constructors.contains(&c));
        self.data.extend(self.apart.iter().copied().filter(|&row| of_data.contains(&row) || is_beside(row)));
    }
}
