//! What constructors of the program make beside the model: data, a cache, a queue, or a memory that is filled later.

use highwater_snapshot::StackId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Known, LARGE, MIN_FROZEN, OfSize, Pairing, WORKSPACES, alloc};
use crate::category::origin::Origin;
use crate::category::rows;
use crate::lifetime::Lifetime;

/// Sizes of which there are several blocks, where they are those of layers.
const MIN_LAYER_SIZES: usize = 2;

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
        let staying = || rows().filter(|(_, lifetime)| known.course.freed(lifetime) == known.course.entries);
        let layers = constructors_of_layers(staying().filter_map(|(_, lifetime)| {
            known.stacks.constructor(lifetime.stack).map(|constructor| (constructor, lifetime.requested_bytes))
        }));
        self.apart.extend(
            rows()
                .filter(|(row, lifetime)| {
                    let at = alloc(lifetime);
                    let precedes = known.first_pass < known.course.entries && first.is_some_and(|first| at < first);
                    known.stacks.is_in_constructor(lifetime.stack)
                        && (precedes || modules.is_none_or(|last| last < at))
                        && is_pairless(lifetime)
                        && !states.contains(row)
                        && known.stacks.constructor(lifetime.stack).is_none_or(|c| !layers.contains(&c))
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

/// Constructors that make several large blocks of each of several sizes in turns: they build the layers of a model, as those do that replace
/// each matrix by one in fewer bits. A set of data has few tensors, and caches of several requests come one after the other.
fn constructors_of_layers(made: impl Iterator<Item = (StackId, u64)>) -> FxHashSet<StackId> {
    let mut of_constructor: FxHashMap<StackId, Vec<u64>> = FxHashMap::default();
    for (constructor, size) in made.filter(|row| row.1 > LARGE) {
        of_constructor.entry(constructor).or_default().push(size);
    }
    let builds_layers = |sizes: &[u64]| {
        let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
        for &size in sizes {
            *counts.entry(size).or_default() += 1;
        }
        let turns = sizes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        turns * 2 >= sizes.len() && counts.into_values().filter(|&count| count >= MIN_FROZEN).count() >= MIN_LAYER_SIZES
    };
    of_constructor.into_iter().filter(|row| builds_layers(&row.1)).map(|row| row.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_of_layers_make_several_sizes_in_turns() {
        let of =
            |sizes: &[u64]| constructors_of_layers(sizes.iter().map(|&size| (StackId::EMPTY, size * LARGE))).len() == 1;
        assert!(of(&[12, 4, 16, 16, 12, 4, 16, 16, 12, 4, 16, 16, 12, 4, 16, 16, 99]));
        assert!(!of(&[12, 12, 12, 12, 4, 4, 4, 4]), "caches of two requests");
        assert!(!of(&[12, 4, 12, 4, 16]), "a set of data");
        assert!(!of(&[12; 8]), "keys and values");
    }
}
