//! The orders in which modules have their parameters, and how blocks follow them.

use highwater_allocator::sizes::SMALL_MAX_BYTES;
use rustc_hash::FxHashMap;

use super::before::Held;
use super::runs::Longest;

/// The orders in which modules have their parameters, of large blocks and of small ones.
#[derive(Default)]
pub(super) struct Orders {
    of_pool: [Vec<Vec<u64>>; 2],
    /// Where a size is in them: (order, position).
    found: FxHashMap<u64, Vec<(usize, usize)>>,
    /// The runs of equal sizes in them.
    pub(super) longest: Longest,
}

impl Orders {
    pub(super) fn new(gradients: &[Vec<u64>]) -> Self {
        /// Programs have few passes that differ.
        const MAX_ORDERS: usize = 8;
        let mut orders = Self { longest: Longest::new(gradients), ..Self::default() };
        for gradients in gradients.iter().take(MAX_ORDERS) {
            for (is_small, of_pool) in orders.of_pool.iter_mut().enumerate() {
                let of = gradients.iter().rev().copied().filter(|&size| (size <= SMALL_MAX_BYTES) == (is_small == 1));
                let order = of_pool.len();
                let sizes: Vec<u64> = of.collect();
                for (position, &size) in sizes.iter().enumerate() {
                    orders.found.entry(size).or_default().push((order, position));
                }
                of_pool.push(sizes);
            }
        }
        orders
    }

    /// How many blocks, from the first, are in order, and how many nearly so, if they may have been all of the segment when it was
    /// filled: what comes next in the order did not fit behind them.
    pub(super) fn matching(&self, blocks: &[Held], end: u64, is_wanted: impl Fn(&Held) -> bool) -> (usize, usize) {
        /// A size may recur in every layer.
        const MAX_STARTS: usize = 256;
        let Some(first) = blocks.first() else { return (0, 0) };
        let Some(starts) = self.found.get(&first.size_bytes) else { return (0, 0) };
        let is_small = first.size_bytes <= SMALL_MAX_BYTES;
        let of_pool = &self.of_pool[usize::from(is_small)];
        let step = starts.len().div_ceil(MAX_STARTS).max(1);
        let (mut exactly, mut nearly) = (0, 0);
        for &(order, start) in starts.iter().step_by(step) {
            let order = &of_pool[order];
            let fills = |matched: usize, next: usize, ahead: usize| {
                let behind = blocks[..matched].last().map_or(end, |last| last.address + last.block_bytes);
                let follow = order.get(next..(next + ahead).min(order.len())).unwrap_or(&[]);
                is_small || follow.is_empty() || follow.iter().any(|&size| size > end.saturating_sub(behind))
            };
            let (matched, next) = in_order(order, start, blocks, |block| is_small || !is_wanted(block));
            if fills(matched, next, 1) {
                exactly = exactly.max(matched);
            }
            if !is_small {
                // Of the next two, either may be the next.
                let (matched, next) = nearly_in_order(order, start, blocks, &is_wanted);
                if fills(matched, next, 2) {
                    nearly = nearly.max(matched);
                }
            }
        }
        (exactly, nearly)
    }
}

/// How many blocks, from the first, an order has from `start` on, and the position behind them. Buffers may come between: they have
/// the sizes of the weights that they go with.
fn in_order(order: &[u64], start: usize, blocks: &[Held], may_be_buffer: impl Fn(&Held) -> bool) -> (usize, usize) {
    let (mut position, mut matched, mut passed) = (start, 0, 0);
    for (at, block) in blocks.iter().enumerate() {
        if order.get(position) == Some(&block.size_bytes) {
            position += 1;
            matched = at + 1;
        } else {
            passed += 1;
            if !may_be_buffer(block) || passed > 4 + 2 * (position - start) {
                break;
            }
        }
    }
    (matched, position)
}

/// As [`in_order`], but in any order among neighbours: so many blocks are among as many of the order, and one more.
fn nearly_in_order(order: &[u64], start: usize, blocks: &[Held], is_wanted: impl Fn(&Held) -> bool) -> (usize, usize) {
    let window_from = |start: usize| {
        let mut spare: FxHashMap<u64, usize> = FxHashMap::default();
        let mut next = start;
        let mut take = |spare: &mut FxHashMap<u64, usize>| {
            if let Some(&size) = order.get(next) {
                *spare.entry(size).or_default() += 1;
                next += 1;
            }
        };
        take(&mut spare);
        let (mut matched, mut count) = (0, 0);
        for (at, block) in blocks.iter().enumerate().filter(|(_, block)| is_wanted(block)) {
            take(&mut spare);
            let Some(left) = spare.get_mut(&block.size_bytes).filter(|left| **left > 0) else { break };
            *left -= 1;
            count += 1;
            matched = at + 1;
        }
        (matched, start + count)
    };
    let earlier = start.checked_sub(1).map(window_from);
    earlier.into_iter().chain([window_from(start)]).max_by_key(|&(matched, _)| matched).unwrap_or((0, start))
}
