//! What optimizers tell of the parameters: their order, and which of them have sparse gradients.

use rustc_hash::FxHashMap;

use super::{Known, LARGE};

impl<T> Known<'_, T> {
    /// Orders of the modules, by the optimizer's steps: of as many blocks as tell, each of a size that is there.
    pub(super) fn module_orders(&self, there: &FxHashMap<u64, usize>) -> Vec<Vec<u64>> {
        const MIN: usize = 4;
        const MAX: usize = 8;
        let made = |size: &u64| self.of_size.get(size).map_or(0, |of| of.gradients);
        let mut orders: Vec<Vec<u64>> = Vec::new();
        for (_, sizes) in self.stepped.values() {
            let order: Vec<u64> = sizes.iter().copied().filter(|size| there.contains_key(size)).collect();
            let order = each_once(order, made);
            if order.len() >= MIN && orders.len() < MAX && !orders.contains(&order) {
                orders.push(order);
            }
        }
        orders
    }

    /// Tables with sparse gradients, of those of sizes that no gradient has.
    pub(super) fn tables(&self, there: &FxHashMap<u64, usize>, is_unpaired: impl Fn(u64) -> bool) -> Tables {
        let unpaired = there.iter().filter(|&(&size, _)| is_unpaired(size)).map(|(&size, &count)| (size, count));
        Tables::new(&unpaired.collect::<Vec<_>>(), &self.memory.sparse)
    }
}

/// Parameters with sparse gradients.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    counts: FxHashMap<u64, usize>,
    /// Blocks that the optimizer keeps for each.
    pub(super) states: usize,
}

impl Tables {
    /// Those among blocks of sizes that no gradient has, where an optimizer of sparse gradients keeps one of these numbers of blocks
    /// for each parameter, least first: of every large size there is a multiple of a table with its state. A single tensor, such as data,
    /// may be there beside them if it is smaller.
    fn new(unpaired: &[(u64, usize)], kept: &[usize]) -> Self {
        let is_whole = |count: usize, states: usize| count.is_multiple_of(1 + states);
        let fits = |states: usize| {
            let large = || unpaired.iter().copied().filter(|(size, _)| *size > LARGE);
            let smallest = large().filter(|&(_, count)| is_whole(count, states)).map(|(size, _)| size).min();
            smallest.is_some_and(|table| {
                large().all(|(size, count)| is_whole(count, states) || (count == 1 && size < table))
            })
        };
        let Some(states) = kept.iter().rev().copied().find(|&states| fits(states)) else { return Self::default() };
        let of_tables = unpaired.iter().filter(|&&(_, count)| is_whole(count, states));
        Self { counts: of_tables.map(|&(size, count)| (size, count / (1 + states))).collect(), states }
    }

    /// How many there are of a size.
    pub(super) fn count(&self, size_bytes: u64) -> usize {
        self.counts.get(&size_bytes).copied().unwrap_or(0)
    }
}

/// The order of parameters that a line goes through which makes several blocks for each: one by one, or all of them several times.
pub(super) fn each_once(order: Vec<u64>, gradients: impl Fn(&u64) -> usize) -> Vec<u64> {
    let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
    for &size in &order {
        *counts.entry(size).or_default() += 1;
    }
    let times = counts.iter().map(|(size, &count)| count.checked_div(gradients(size)).unwrap_or(1)).min().unwrap_or(1);
    if times < 2 {
        return order;
    }
    if order.chunks(times).all(|blocks| blocks.iter().all(|&size| size == blocks[0])) {
        return order.into_iter().step_by(times).collect();
    }
    let once = &order[..order.len() / times];
    if order.chunks(once.len()).all(|again| again == once) { once.to_vec() } else { order }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_makes_several_blocks_for_each_parameter_tells_their_order() {
        let of = |order: &[u64]| each_once(order.to_vec(), |_| 1);
        assert_eq!(of(&[3, 3, 9, 9, 4, 4]), [3, 9, 4]);
        assert_eq!(of(&[3, 9, 4, 3, 9, 4]), [3, 9, 4]);
        assert_eq!(of(&[3, 9, 4]), [3, 9, 4]);
        assert_eq!(each_once(vec![3, 3, 9], |_| 2), [3, 3, 9]);
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn tables_with_sparse_gradients_come_with_their_state() {
        let large = 2 * LARGE;
        let tables = Tables::new(&[(large, 6), (large + 8, 3), (512, 3), (1024, 1)], &[1, 2]);
        assert_eq!([large, large + 8, 512, 1024].map(|size| tables.count(size)), [2, 1, 1, 0]);
        assert_eq!(tables.states, 2);
        assert_eq!(Tables::new(&[(large, 6), (large + 8, 4)], &[1, 2]).states, 1);
        assert_eq!(Tables::new(&[(large, 6), (large + 8, 3)], &[1]), Tables::default(), "a frozen layer");
        assert_eq!(Tables::new(&[(large, 6), (large + 8, 1)], &[1]), Tables::default(), "a larger tensor");
        assert_eq!(Tables::new(&[(large, 1), (large + 8, 3)], &[2]).count(large + 8), 1, "data beside a table");
        assert_eq!(Tables::new(&[(large, 6)], &[]), Tables::default(), "no sparse gradients");
        assert_eq!(Tables::new(&[(512, 3)], &[2]), Tables::default());
    }
}
