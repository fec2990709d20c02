//! What an optimizer keeps for a parameter is made at once, so it lies in a run of equal neighbours: two for Adam, three with
//! `amsgrad`.

use highwater_allocator::sizes::SMALL_MAX_BYTES;
use rustc_hash::FxHashMap;

use super::before::Held;

/// The longest run of each size that parameters of these sizes may make, by the orders in which their gradients are made: of more
/// than one where a size follows itself, those of the other pool left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Longest {
    within: FxHashMap<u64, usize>,
    /// With the begins and the ends of other orders behind and before: models that lie one after the other.
    joined: FxHashMap<u64, usize>,
}

impl Longest {
    pub(super) fn new(orders: &[Vec<u64>]) -> Self {
        let mut longest = Self::default();
        // The two longest runs of each size at the ends of orders.
        let mut ends: FxHashMap<u64, [usize; 2]> = FxHashMap::default();
        for order in orders {
            for is_small in [true, false] {
                let of_pool: Vec<u64> =
                    order.iter().copied().filter(|&size| (size <= SMALL_MAX_BYTES) == is_small).collect();
                let runs: Vec<&[u64]> = of_pool.chunk_by(|a, b| a == b).collect();
                let (first, last) = (runs.first(), runs[runs.len().min(1)..].last());
                for run in first.into_iter().chain(last) {
                    let of = ends.entry(run[0]).or_default();
                    *of = [of[1].max(of[0].min(run.len())), of[0].max(run.len())];
                }
                for run in runs.iter().filter(|run| run.len() > 1) {
                    let most = longest.within.entry(run[0]).or_default();
                    *most = run.len().max(*most);
                }
            }
        }
        longest.joined.extend(ends.into_iter().map(|(size, longest)| (size, longest.iter().sum())));
        longest
    }

    fn of(&self, size_bytes: u64) -> usize {
        self.within.get(&size_bytes).copied().unwrap_or(1)
    }

    /// The same where models may lie one after the other.
    pub(super) fn joined(&self, size_bytes: u64) -> usize {
        self.joined.get(&size_bytes).copied().unwrap_or(1).max(self.of(size_bytes))
    }

    /// How many equal blocks most runs have, of two and three: of sizes of which parameters lie apart. `None` without such runs. Where
    /// a hole is too small for all, a run is parted, so large blocks make short ones.
    pub(super) fn usual(&self, held: &[Held], is_of: impl Fn(u64) -> bool) -> Option<usize> {
        let of = |len: usize| {
            let of_one = runs(held).filter(|run| run.len() == len && is_of(run[0].size_bytes));
            of_one.filter(|run| self.of(run[0].size_bytes) == 1).count()
        };
        let (two, three) = (of(2), of(3));
        (two + three > 0).then_some(if three > two { 3 } else { 2 })
    }

    /// Whether most of the blocks, by their bytes, lie in runs longer than parameters make.
    pub(super) fn are_exceeded(&self, blocks: &[Held]) -> bool {
        let in_runs = runs(blocks).filter(|run| run.len() > self.of(run[0].size_bytes));
        let in_runs = in_runs.map(bytes_of).fold(0, u64::saturating_add);
        in_runs > bytes_of(blocks) / 2
    }
}

/// Equal blocks without gaps between them.
fn runs(held: &[Held]) -> impl Iterator<Item = &[Held]> {
    held.chunk_by(|a, b| a.size_bytes == b.size_bytes && a.address + a.block_bytes == b.address)
}

fn bytes_of(blocks: &[Held]) -> u64 {
    blocks.iter().map(|block| block.size_bytes).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_three_are_told_from_runs_of_two() {
        let block = |(address, size_bytes)| Held { row: 0, address, size_bytes, block_bytes: size_bytes };
        let held: Vec<Held> =
            [(0, 64), (64, 64), (128, 64), (192, 32), (224, 32), (256, 32), (512, 16), (528, 16)].map(block).to_vec();
        let usual = |order: &[u64]| Longest::new(&[order.to_vec()]).usual(&held, |_| true);
        assert_eq!(usual(&[64, 32, 16]), Some(3));
        assert_eq!(usual(&[64, 64, 32, 32, 16]), Some(2), "these parameters are neighbours themselves");
        assert_eq!(Longest::default().usual(&held, |size| size == 16), Some(2));
        assert_eq!(Longest::default().usual(&[], |_| true), None);
        assert!(Longest::new(&[vec![64, 64, 32]]).are_exceeded(&held));
        assert!(!Longest::new(&[vec![64, 64, 64, 32]]).are_exceeded(&held[..5]));
    }
}
