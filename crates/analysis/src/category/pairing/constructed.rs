//! What an optimizer of the program's own constructs for the parameters, such as momenta.

use highwater_snapshot::StackId;
use rustc_hash::FxHashMap;

use super::{Keeps, Known, MAX_STATES, MIN_LEFT, OfSize, Pairing, alloc};
use crate::category::origin::Origin;

impl Pairing {
    /// Where PyTorch's optimizers take no step: what one constructor of the program's makes after the model, of each size as many blocks as
    /// there are gradients, or each time as many more; all twice as large, they are copies of half-precision weights in full precision. If
    /// one of PyTorch's optimizers took steps, such blocks would be an average of the weights.
    pub(super) fn find_constructed_states<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        if !known.course.steps.is_empty() || known.memory.keeps != Keeps::Untold {
            return;
        }
        let first = known.lifetimes.before_recording;
        let rows = known.lifetimes.rows.iter().enumerate().skip(first);
        let built = || rows.clone().filter(|(row, _)| (known.told)(*row) == Origin::Build);
        let modules = built().filter(|(_, lifetime)| !known.stacks.is_in_constructor(lifetime.stack));
        let Some(model) = modules.map(|(_, lifetime)| alloc(lifetime)).max() else { return };
        let mut made: FxHashMap<StackId, Vec<usize>> = FxHashMap::default();
        for (row, lifetime) in built() {
            let stays = known.course.freed(lifetime) == known.course.entries;
            let constructor = known.stacks.constructor(lifetime.stack).filter(|_| alloc(lifetime) > model && stays);
            if let Some(constructor) = constructor {
                made.entry(constructor).or_default().push(row);
            }
        }
        let trained =
            || known.of_size.iter().filter(|(size, of)| **size >= MIN_LEFT && of.gradients > 0 && of.built > 0);
        for rows in made.into_values() {
            let size = |row: usize| known.lifetimes.rows[row].requested_bytes;
            let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
            for &row in &rows {
                *counts.entry(size(row)).or_default() += 1;
            }
            let has_all = |width: u64, times: usize| {
                let has = |(size, of): (&u64, &OfSize)| {
                    counts.get(&size.saturating_mul(width)) == Some(&(times * of.gradients))
                };
                trained().all(has)
            };
            // In the precision of the weights, or in full precision beside half.
            let found = [1, 2].into_iter().find(|&width| (1..=MAX_STATES).any(|times| has_all(width, times)));
            if let Some(width) = found.filter(|_| trained().next().is_some()) {
                let pairs = |row: &usize| {
                    let bytes = size(*row);
                    bytes.is_multiple_of(width)
                        && known.of_size.get(&(bytes / width)).is_some_and(|of| of.gradients > 0)
                };
                self.constructed_states.extend(rows.into_iter().filter(pairs));
            }
        }
    }
}
