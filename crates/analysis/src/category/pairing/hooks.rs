//! Blocks of the backward passes that hooks keep, such as the gradients of a layer's outputs.

use std::collections::BTreeMap;

use super::{Known, NUMBER, Pairing, alloc};
use crate::category::origin::Origin;

/// Passes that leave a block for good: fewer may be models that are trained one after the other, each with its last gradients.
const MIN_PASSES: usize = 3;

/// At least one in so many of the passes from the first to the last of these leaves some: of models that are trained one after the other,
/// each makes more steps than that.
const MOST_PASSES_FOR_ONE: usize = 3;

/// The blocks of one size that outlive the passes that made them.
#[derive(Default)]
struct OfSize {
    /// Those that stay: the pass, and the row.
    staying: Vec<(usize, usize)>,
    /// Whether others are freed, as gradients are.
    are_some_freed: bool,
}

impl Pairing {
    /// A parameter has one gradient. So if one pass after another leaves a block of a size and nothing frees it, the program keeps those of all
    /// passes but the last, and of the last one, too, if no block of the size is ever freed.
    pub(super) fn find_kept_by_hooks<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        let course = known.course;
        let Some(last) = course.passes.len().checked_sub(1) else { return };
        let mut of_size: BTreeMap<u64, OfSize> = BTreeMap::new();
        for (row, lifetime) in known.lifetimes.rows.iter().enumerate().skip(known.lifetimes.before_recording) {
            if lifetime.requested_bytes <= NUMBER || !matches!((known.told)(row), Origin::Engine | Origin::Hook) {
                continue;
            }
            let (alloc, freed) = (alloc(lifetime), course.freed(lifetime));
            let own = course.passes.partition_point(|pass| pass.start <= alloc).saturating_sub(1);
            if !course.passes[own].contains(alloc) || freed < course.passes[own].sure_end {
                continue;
            }
            let of = of_size.entry(lifetime.requested_bytes).or_default();
            if freed == course.entries {
                of.staying.push((own, row));
            } else {
                of.are_some_freed = true;
            }
        }
        for OfSize { staying, are_some_freed } in of_size.into_values() {
            let mut passes: Vec<usize> = staying.iter().map(|row| row.0).filter(|&pass| pass < last).collect();
            passes.dedup();
            let Some(span) = passes.last().map(|last| last - passes[0] + 1) else { continue };
            if passes.len() >= MIN_PASSES && span <= passes.len() * MOST_PASSES_FOR_ONE {
                let kept = staying.into_iter().filter(|row| row.0 < last || !are_some_freed);
                self.keeping.extend(kept.map(|row| row.1));
            }
        }
    }
}
