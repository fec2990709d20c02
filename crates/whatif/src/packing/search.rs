//! The search for a tight placement: quick orders first, then repairs, then orders that learn from their failures.

use super::moments::Span;
use super::occupancy::Occupancy;
use super::order::{Order, promote};
use super::repair::{Repair, UNPLACED, Weight};
use super::sweep;
use crate::progress::{LOOK_STEPS, Watch};

/// A repair may cost as many looks as placing this part of all blocks does,
const REPAIR_PART: u64 = 4;
/// but at least as many as placing these.
const REPAIR_BLOCKS_MIN: u64 = 4_000;

/// A gap of this part of the target is not worth narrowing by halves any more.
const NARROW: u64 = 4_000;

/// What one placement may cost in looks, for the budget: about what it does cost.
pub(super) const LOOKS_A_BLOCK: u64 = 64;

/// Places blocks so that they end as low as it can find; the address of each.
///
/// `contention` is the highest live bytes during each block's life, `target_bytes` the highest of all: no placement
/// ends lower.
pub(super) fn search(
    spans: &[Span],
    contention: &[u64],
    moments: usize,
    target_bytes: u64,
    looks: u64,
    watch: &Watch,
) -> Vec<u64> {
    let mut search = Search {
        spans,
        occupancy: Occupancy::new(moments),
        repair: None,
        target: target_bytes,
        looks,
        watch,
        addresses: vec![UNPLACED; spans.len()],
        best: Vec::new(),
        best_height: u64::MAX,
    };
    // None: the budget ran out.
    let _: Option<()> = search.run(contention);
    search.best
}

struct Search<'a> {
    spans: &'a [Span],
    occupancy: Occupancy,
    /// Made when first needed.
    repair: Option<Repair<'a>>,
    /// Nothing ends lower.
    target: u64,
    /// The budget.
    looks: u64,
    /// Ends it like a budget that ran out.
    watch: &'a Watch,
    /// The placement at hand.
    addresses: Vec<u64>,
    /// The best placement so far; empty if there is none.
    best: Vec<u64>,
    best_height: u64,
}

impl Search<'_> {
    /// `None` if the budget ran out.
    fn run(&mut self, contention: &[u64]) -> Option<()> {
        let mut orders = Vec::new();
        for order in Order::ALL {
            let order = order.of(self.spans, contention);
            let placed = self.place(&order, self.target);
            orders.push(order);
            if self.is_done() {
                return placed.map(drop);
            }
            if orders.len() == 1 {
                self.place_in_time();
            }
            placed?;
            if self.is_done() || self.repair_either() {
                return Some(());
            }
        }
        self.narrow(&orders)?;
        self.learn(orders)
    }

    /// Considers the placement that foresees nothing, and leaves the one at hand as it is.
    fn place_in_time(&mut self) {
        let addresses = std::mem::replace(&mut self.addresses, sweep::best_fit(self.spans));
        self.keep_best(self.height());
        self.addresses = addresses;
    }

    /// Where the placement at hand ends, if it is whole.
    fn height(&self) -> u64 {
        self.spans.iter().zip(&self.addresses).map(|(span, address)| address + span.bytes).max().unwrap_or(0)
    }

    fn is_done(&self) -> bool {
        self.best_height <= self.target
    }

    /// Places blocks in an order, each as low as it can; those that find no place below the ceiling are left out, and
    /// given. `None` if the budget ran out.
    ///
    /// With them on top it is a whole placement, which may be the best.
    fn place(&mut self, order: &[u32], ceiling: u64) -> Option<Vec<u32>> {
        self.occupancy.clear();
        self.addresses.fill(UNPLACED);
        let mut failed = Vec::new();
        let mut height = 0;
        for (at, &row) in order.iter().enumerate() {
            if at.is_multiple_of(LOOK_STEPS) && self.watch.is_stopped() {
                return None;
            }
            match self.place_one(row, ceiling)? {
                Some(end) => height = height.max(end),
                None => failed.push(row),
            }
        }
        if self.watch.is_stopped() {
            return None;
        }
        for &row in &failed {
            height = height.max(self.place_one(row, u64::MAX)??);
        }
        self.keep_best(height);
        for &row in &failed {
            self.addresses[row as usize] = UNPLACED;
        }
        Some(failed)
    }

    /// Where the block ends, `None` if that is above the ceiling; `None` if the budget ran out.
    #[expect(clippy::option_option, reason = "two questions, two answers")]
    fn place_one(&mut self, row: u32, ceiling: u64) -> Option<Option<u64>> {
        let span = self.spans[row as usize];
        let address = self.occupancy.lowest_fit(span);
        let end = address + span.bytes;
        let fits = end <= ceiling;
        if fits {
            self.addresses[row as usize] = address;
            self.occupancy.insert(span, address);
        }
        self.looks = self.looks.checked_sub(std::mem::take(&mut self.occupancy.looks))?;
        Some(fits.then_some(end))
    }

    fn keep_best(&mut self, height: u64) {
        if height < self.best_height {
            self.best_height = height;
            self.best.clone_from(&self.addresses);
        }
    }

    /// Whether the placement at hand can be completed below the ceiling.
    fn repair(&mut self, ceiling: u64, weight: Weight, blocks: u64) -> bool {
        let repair = self.repair.get_or_insert_with(|| Repair::new(self.spans));
        let allowed = self.looks.min(blocks * LOOKS_A_BLOCK);
        let mut looks = allowed;
        let is_whole = repair.run(&mut self.addresses, ceiling, weight, &mut looks);
        self.looks -= allowed - looks;
        if is_whole {
            self.keep_best(self.height());
        }
        is_whole
    }

    fn repair_blocks(&self) -> u64 {
        (self.spans.len() as u64 / REPAIR_PART).max(REPAIR_BLOCKS_MIN)
    }

    /// Whether the placement at hand can be completed below the target.
    fn repair_either(&mut self) -> bool {
        let placed = self.addresses.clone();
        let blocks = self.repair_blocks();
        for weight in [Weight::Area, Weight::Bytes] {
            if self.repair(self.target, weight, blocks) {
                return true;
            }
            self.addresses.clone_from(&placed);
        }
        false
    }

    /// Halves the gap between what is impossible, or seems so, and what was found. `None` if the budget ran out.
    fn narrow(&mut self, orders: &[Vec<u32>]) -> Option<()> {
        let tries = orders.iter().flat_map(|order| [(order, Weight::Area), (order, Weight::Bytes)]);
        let mut tries = tries.cycle();
        let mut low = self.target;
        // What seemed impossible at one ceiling may be found at a higher one: then the best is below `low`.
        while let gap = self.best_height.saturating_sub(low)
            && gap > self.target / NARROW
        {
            let ceiling = low + gap / 2;
            let mut found = false;
            for (order, weight) in tries.by_ref().take(4) {
                let failed = self.place(order, ceiling)?;
                found = failed.is_empty() || self.repair(ceiling, weight, 5 * self.repair_blocks());
                if found {
                    break;
                }
            }
            if !found {
                low = ceiling;
            }
        }
        Some(())
    }

    /// Places again and again what failed before the rest, until that meets the target. `None` if the budget ran out.
    fn learn(&mut self, mut orders: Vec<Vec<u32>>) -> Option<()> {
        let mut all = true;
        loop {
            for order in &mut orders {
                let failed = self.place(order, self.target)?;
                let weight = if all { Weight::Bytes } else { Weight::Area };
                if self.is_done() || self.repair(self.target, weight, self.repair_blocks()) {
                    return Some(());
                }
                promote(order, if all { &failed } else { &failed[..1] });
            }
            all = !all;
        }
    }
}
