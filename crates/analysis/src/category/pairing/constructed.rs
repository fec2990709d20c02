//! What an optimizer of the program's own constructs for the parameters, such as momenta.

use std::cmp::Reverse;

use highwater_snapshot::StackId;
use rustc_hash::FxHashMap;

use super::{Keeps, Known, LARGE, MAX_STATES, MIN_LEFT, OfSize, Pairing, alloc};
use crate::category::origin::Origin;

impl Pairing {
    /// What one constructor of the program's makes after the model, of each size as many blocks as there are gradients, or each time as many
    /// more; all twice as large, they are copies of half-precision weights in full precision, and all of a part of the size, they are state
    /// in fewer bits. Where PyTorch's optimizers take steps, these are the sizes for which they keep nothing, and there are no blocks of
    /// the others: an average of the weights would have all.
    pub(super) fn find_constructed_states<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        // Steps that leave nothing, of no optimizer that is known, clip gradients.
        let keeps_any = || known.of_size.iter().any(|(&size, of)| size >= MIN_LEFT && of.states > 0);
        let has_others = known.memory.keeps != Keeps::Untold || keeps_any();
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
        let trained = || {
            let large =
                known.of_size.iter().filter(|(size, of)| **size >= MIN_LEFT && of.gradients > 0 && of.built > 0);
            large.filter(|(_, of)| !has_others || of.states == 0)
        };
        let is_of_others =
            |size: u64| has_others && size >= MIN_LEFT && known.of_size.get(&size).is_some_and(|of| of.states > 0);
        let keeps_nothing = has_others && !known.of_size.keys().any(|&size| is_of_others(size));
        for rows in made.into_values() {
            let size = |row: usize| known.lifetimes.rows[row].requested_bytes;
            let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
            for &row in &rows {
                *counts.entry(size(row)).or_default() += 1;
            }
            if counts.keys().any(|&size| is_of_others(size)) {
                continue;
            }
            let has_all = |width: u64, times: usize| {
                let has = |(size, of): (&u64, &OfSize)| {
                    counts.get(&size.saturating_mul(width)) == Some(&(times * of.gradients))
                };
                trained().all(has)
            };
            if is_of_fewer_bits(rows.iter().map(|&row| size(row)), trained()) {
                self.constructed_states.extend(rows);
                continue;
            }
            if keeps_nothing {
                continue;
            }
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

/// Whether the largest blocks of a constructor are the same part of the trained parameters, one or more for each: a byte for each of their
/// numbers, up to the end of a quantisation block. The smaller ones go with these: their scales.
fn is_of_fewer_bits<'a>(
    sizes: impl Iterator<Item = u64>,
    trained: impl Iterator<Item = (&'a u64, &'a OfSize)>,
) -> bool {
    /// Numbers that share a scale, at most.
    const MOST_PADDED: u64 = 4096;
    /// Bytes of a parameter's number for each byte of state. A half of the size may be a copy of the weights in half precision.
    const PART: u64 = 4;
    /// Of so many matrices at least.
    const MIN_PARAMETERS: usize = 4;
    let mut sizes: Vec<u64> = sizes.collect();
    let mut parameters: Vec<u64> = trained
        .flat_map(|(&size, of)| std::iter::repeat_n(size, of.gradients))
        .filter(|&size| size > LARGE / 4)
        .collect();
    sizes.sort_unstable_by_key(|&size| Reverse(size));
    parameters.sort_unstable_by_key(|&size| Reverse(size));
    let fits = |times: usize| {
        let of_parameter = sizes.chunks_exact(times).zip(&parameters);
        of_parameter.len() == parameters.len()
            && of_parameter.into_iter().all(|(blocks, parameter)| {
                blocks.iter().all(|&size| (parameter / PART..=parameter / PART + MOST_PADDED).contains(&size))
            })
    };
    parameters.len() >= MIN_PARAMETERS && (1..=MAX_STATES).any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_in_bytes_is_a_quarter_of_each_parameter_with_its_scales() {
        let of = |gradients| OfSize { gradients, built: gradients, ..OfSize::default() };
        let (large, small, vector) = ((8 << 20, of(2)), (2 << 20, of(3)), (8192, of(6)));
        let trained = || [&large, &small, &vector].into_iter().map(|(size, of)| (size, of));
        let fits = |sizes: &[u64]| is_of_fewer_bits(sizes.iter().copied(), trained());
        let moments = [[2 << 20; 4].as_slice(), &[512 << 10; 6], &[2048; 12], &[32 << 10; 4], &[8192; 6]].concat();
        assert!(fits(&moments));
        assert!(
            fits(&moments.iter().map(|&size| size + u64::from(size > 8192 << 3) * 256).collect::<Vec<_>>()),
            "padded"
        );
        assert!(!fits(&moments[1..]), "one is missing");
        assert!(!fits(&[[2 << 20; 4].as_slice(), &[256 << 10; 6]].concat()), "of other parts");
        assert!(!fits(&[]));
    }
}
