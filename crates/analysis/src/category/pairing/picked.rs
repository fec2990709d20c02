//! A set of data on the device from which the program picks rows, by index or by slice: each of its tensors is as many times larger
//! than the rows that are picked from it.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use super::{Known, LARGE, gcd};
use crate::category::origin::Origin;
use crate::category::rows::has_special_factor;

/// Smaller blocks may be anything.
const MIN_BYTES: u64 = 4096;

/// Least bytes that are picked: fewer divide every size.
const MIN_PICKED: u64 = 64;

/// Tensors of a set: one may be larger by chance, and two where the number of times is one that widths have, too.
const MIN_TENSORS: usize = 2;
const MIN_TENSORS_PLAIN: usize = 3;

/// Picks are parts of a set, in lowest terms of no more examples.
const MAX_PICKED: u64 = 1 << 16;

/// A set has few tensors, and a program picks few sizes. More are not compared.
const MAX_SIZES: usize = 256;
const MAX_PICKS: usize = 4096;

/// The sizes that a program picks.
#[derive(Clone, Debug, Default)]
struct Picks {
    sizes: BTreeSet<u64>,
    /// Whether the operators tell: otherwise they are of all that the program and modules make.
    by_operator: bool,
}

/// What belongs to a set of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sets {
    /// Sizes of tensors that are as many times larger as others.
    pub(super) sizes: FxHashSet<u64>,
    /// Sizes of which operators pick parts, with less to show it: edges beside features, tensors of one size, or two of a plain number
    /// of rows.
    pub(super) perhaps: FxHashSet<u64>,
}

impl<T: Fn(usize) -> Origin> Known<'_, T> {
    /// Which of the sizes of some blocks are of a set of data.
    pub(super) fn sets(&self, blocks: impl IntoIterator<Item = u64>) -> Sets {
        let mut blocks = blocks.into_iter().filter(|&size| size >= MIN_BYTES).peekable();
        // Most recordings have no such block: their rows need not be gone through.
        if blocks.peek().is_none() { Sets::default() } else { self.picks().sets(blocks) }
    }

    /// What the program and modules pick.
    fn picks(&self) -> Picks {
        let is_made = |row: usize| matches!((self.told)(row), Origin::Program | Origin::Module);
        let rows = self.lifetimes.rows.iter().enumerate().skip(self.lifetimes.before_recording);
        let rows = rows.filter(|(row, lifetime)| lifetime.requested_bytes >= MIN_PICKED && is_made(*row));
        let by_operator = self.stacks.are_native();
        let picked = rows.filter(|(_, lifetime)| !by_operator || self.stacks.picks_rows(lifetime.stack));
        // Millions of rows have few sizes.
        let sizes: FxHashSet<u64> = picked.map(|(_, lifetime)| lifetime.requested_bytes).collect();
        Picks { sizes: sizes.into_iter().collect(), by_operator }
    }
}

impl Picks {
    /// Which of the sizes of some blocks are of a set of data. Nothing but the data should be among them: no trained parameter.
    fn sets(&self, blocks: impl IntoIterator<Item = u64>) -> Sets {
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        for size in blocks.into_iter().filter(|&size| size >= MIN_BYTES) {
            *sizes.entry(size).or_default() += 1;
        }
        if sizes.len() > MAX_SIZES || self.sizes.len() > MAX_PICKS {
            return Sets::default();
        }
        // By how many times larger they are, as a fraction in lowest terms.
        let mut times: BTreeMap<(u64, u64), BTreeSet<u64>> = BTreeMap::new();
        for &size in sizes.keys() {
            for &picked in self.sizes.range(..size) {
                let common = gcd(size, picked);
                if picked / common <= MAX_PICKED {
                    times.entry((size / common, picked / common)).or_default().insert(size);
                }
            }
        }
        // The number of rows that they share, and nobody chooses for a width.
        let share_rows = |tensors: &BTreeSet<u64>| {
            self.by_operator && has_special_factor(tensors.iter().fold(0, |common, &size| gcd(size, common)))
        };
        let is_set = |times: u64, tensors: &BTreeSet<u64>| {
            let is_special = has_special_factor(times) || share_rows(tensors);
            tensors.len() >= if is_special { MIN_TENSORS } else { MIN_TENSORS_PLAIN }
        };
        let found = |holds: &dyn Fn(u64, &BTreeSet<u64>) -> bool| -> FxHashSet<u64> {
            let found = times.iter().filter(|((times, _), tensors)| holds(*times, tensors));
            found.flat_map(|(_, tensors)| tensors.iter().copied()).collect()
        };
        let sets = found(&is_set);
        let mut perhaps = FxHashSet::default();
        if self.by_operator {
            // Small blocks alone are as many times larger than something by chance.
            let has_large = |tensors: &BTreeSet<u64>| tensors.last().is_some_and(|&size| size > LARGE);
            let are_several =
                |tensors: &BTreeSet<u64>| tensors.iter().map(|size| sizes[size]).sum::<usize>() >= MIN_TENSORS;
            perhaps = found(&|times, tensors| {
                let is_told = tensors.len() >= MIN_TENSORS || (has_special_factor(times) && are_several(tensors));
                is_told && has_large(tensors)
            });
            if !(sets.is_empty() && perhaps.is_empty()) {
                perhaps.extend(found(&|times, tensors| has_special_factor(times) && has_large(tensors)));
            }
            perhaps.retain(|size| !sets.contains(size));
        }
        Sets { sizes: sets, perhaps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(sizes: &[u64], by_operator: bool) -> Picks {
        Picks { sizes: sizes.iter().copied().collect(), by_operator }
    }

    fn sorted(sizes: &FxHashSet<u64>) -> Vec<u64> {
        let mut sizes: Vec<u64> = sizes.iter().copied().collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn tensors_of_a_set_are_as_many_times_larger_than_what_is_picked() {
        let latents = [6000 * 16_384, 6000 * 8];
        let batch = [32 * 16_384, 32 * 8];
        assert_eq!(sorted(&picks(&batch, false).sets(latents).sizes), [6000 * 8, 6000 * 16_384]);
        assert_eq!(picks(&batch, false).sets([latents[0]]), Sets::default(), "one");
        assert_eq!(picks(&[32 * 16_384, 24 * 8], false).sets(latents), Sets::default(), "of batches that differ");
        assert_eq!(picks(&[], true).sets(latents), Sets::default());
    }

    #[test]
    fn a_plain_number_of_times_takes_three_tensors() {
        let buffer = [2048 * 65_536, 2048 * 8, 2048 * 4];
        let batch = [512 * 65_536, 512 * 8, 512 * 4];
        assert_eq!(picks(&batch, true).sets(buffer).sizes.len(), 3);
        let two = |by_operator: bool| picks(&batch, by_operator).sets(buffer[..2].iter().copied());
        assert_eq!(two(false), Sets::default());
        assert!(two(true).sizes.is_empty());
        assert_eq!(sorted(&two(true).perhaps), [2048 * 8, 2048 * 65_536]);
    }

    #[test]
    fn pictures_and_labels_share_the_number_of_rows() {
        let (set, batch) = ([5000 * 12_288, 5000 * 8], [200 * 12_288, 200 * 8]);
        assert_eq!(sorted(&picks(&batch, true).sets(set).sizes), [5000 * 8, 5000 * 12_288]);
        assert_eq!(picks(&batch, false).sets(set), Sets::default(), "25 times as large");
    }

    #[test]
    fn rays_of_one_size_and_their_order_may_be_data() {
        let rows = 31 * 200 * 200;
        let found = picks(&[1500 * 12], true).sets([rows * 12, rows * 12, rows * 12, rows * 8]);
        assert!(found.sizes.is_empty());
        assert_eq!(sorted(&found.perhaps), [rows * 8, rows * 12]);
    }

    #[test]
    fn small_blocks_alone_are_no_data() {
        let layer = [800 * 844, 600 * 80];
        assert_eq!(picks(&[844, 60], true).sets(layer), Sets::default());
        let features = 80_000 * 844;
        let found = picks(&[768 * 844, 768 * 4], true).sets([features, 80_000 * 4]);
        assert_eq!(sorted(&found.sizes), [80_000 * 4, features]);
    }

    #[test]
    fn edges_beside_features_are_told_by_operators_alone() {
        let graph = [60_000 * 512, 60_000 * 8, 1_202_496 * 8];
        let batch = [1024 * 512, 1024 * 8, 10_240 * 8];
        assert_eq!(sorted(&picks(&batch, true).sets(graph).perhaps), [1_202_496 * 8]);
        assert_eq!(sorted(&picks(&batch, false).sets(graph).perhaps), [0; 0]);
    }
}
