//! Making room for blocks that found none: others move out of the way, and find a new place themselves.

use std::collections::BinaryHeap;

use super::moments::Span;
use super::neighbours::Neighbours;

/// Stands for "has no place".
pub(super) const UNPLACED: u64 = u64::MAX;

/// What it costs at first to move a block out of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Its bytes.
    Bytes,
    /// Its bytes times how long it lives.
    Area,
}

/// The heaviest block weighs this much at first.
const HEAVIEST: u128 = 1 << 31;

/// No block comes to weigh more.
const WEIGHT_MAX: u64 = 1 << 42;

/// A block that displaced others gains this part of their weight.
const GAIN: u64 = 16;

/// A placed neighbour of the block at hand.
#[derive(Clone, Copy, Debug)]
struct Obstacle {
    low: u64,
    high: u64,
    row: u32,
    weight: u64,
}

/// Repairs placements below a ceiling.
#[derive(Debug)]
pub(super) struct Repair<'a> {
    spans: &'a [Span],
    neighbours: Neighbours<'a>,
    obstacles: Vec<Obstacle>,
    /// Lowest addresses of the obstacles, ascending, each with the weight of those up to it.
    lows: Vec<(u64, u64)>,
    /// As `lows`, of the addresses one past their highest.
    highs: Vec<(u64, u64)>,
}

impl<'a> Repair<'a> {
    /// For blocks by first moment.
    pub(super) fn new(spans: &'a [Span]) -> Self {
        let neighbours = Neighbours::new(spans);
        Self { spans, neighbours, obstacles: Vec::new(), lows: Vec::new(), highs: Vec::new() }
    }

    /// Places all that is unplaced below `ceiling`; false if `looks` ran out before. One is taken for each neighbour
    /// looked at.
    ///
    /// The heaviest block goes first, to where it displaces the least weight. It then gains weight by what it displaced,
    /// so that the same few blocks do not displace each other for ever.
    pub(super) fn run(&mut self, addresses: &mut [u64], ceiling: u64, weight: Weight, looks: &mut u64) -> bool {
        let mut weights = weights(self.spans, weight);
        let mut waiting: BinaryHeap<(u64, u32)> = (0_u32..)
            .zip(addresses.iter().zip(&weights))
            .filter(|&(_, (&address, _))| address == UNPLACED)
            .map(|(row, (_, &weight))| (weight, row))
            .collect();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        while let Some((_, row)) = waiting.pop() {
            let span = self.spans[row as usize];
            let Some(highest) = ceiling.checked_sub(span.bytes) else {
                return false;
            };
            let visited = self.look_around(row, addresses, &weights);
            let Some(rest) = looks.checked_sub(visited) else {
                *looks = 0;
                return false;
            };
            *looks = rest;

            let place = self.cheapest(span.bytes, highest, &mut random);
            addresses[row as usize] = place.address;
            if place.displaced == 0 {
                continue;
            }
            for obstacle in &self.obstacles {
                if obstacle.low < place.address + span.bytes && place.address < obstacle.high {
                    addresses[obstacle.row as usize] = UNPLACED;
                    waiting.push((obstacle.weight, obstacle.row));
                }
            }
            let weight = &mut weights[row as usize];
            *weight = (*weight + place.weight / GAIN + 1).min(WEIGHT_MAX);
        }
        true
    }

    /// Fills `obstacles`, `lows` and `highs`; how many neighbours were looked at.
    fn look_around(&mut self, row: u32, addresses: &[u64], weights: &[u64]) -> u64 {
        let Self { spans, neighbours, obstacles, lows, highs } = self;
        obstacles.clear();
        let visited = neighbours.visit(row, |other| {
            let low = addresses[other as usize];
            if low != UNPLACED {
                let high = low + spans[other as usize].bytes;
                obstacles.push(Obstacle { low, high, row: other, weight: weights[other as usize] });
            }
        });
        sum_up(lows, obstacles.iter().map(|obstacle| (obstacle.low, obstacle.weight)));
        sum_up(highs, obstacles.iter().map(|obstacle| (obstacle.high, obstacle.weight)));
        visited
    }

    /// The place up to `highest` with the least weight in the way: of those with nothing in the way the lowest, else
    /// any of equals.
    ///
    /// Only places that touch an obstacle or an end of the address space need to be tried.
    fn cheapest(&self, bytes: u64, highest: u64, random: &mut u64) -> Place {
        let mut best = Place { address: 0, displaced: usize::MAX, weight: u64::MAX };
        let mut equals = 1;
        let mut consider = |place: Place| {
            if (place.displaced == 0, best.weight) == (best.displaced == 0, place.weight) && place.displaced > 0 {
                equals += 1;
                if next_random(random).is_multiple_of(equals) {
                    best = place;
                }
            } else if (place.displaced > 0, place.weight) < (best.displaced > 0, best.weight) {
                best = place;
                equals = 1;
            }
        };
        let mut scale = Scale::new(self, bytes);
        for address in std::iter::once(0).chain(self.highs.iter().map(|&(high, _)| high)) {
            if address > highest {
                break;
            }
            let place = scale.weigh(address);
            consider(place);
            if place.displaced == 0 {
                break;
            }
        }
        let mut scale = Scale::new(self, bytes);
        for address in self.lows.iter().filter_map(|&(low, _)| low.checked_sub(bytes)).chain([highest]) {
            consider(scale.weigh(address.min(highest)));
        }
        best
    }
}

/// Where a block could go, and what is in the way there.
#[derive(Clone, Copy, Debug)]
struct Place {
    address: u64,
    /// The number of blocks.
    displaced: usize,
    /// Their weight.
    weight: u64,
}

/// Weighs what is in the way at ascending addresses.
struct Scale<'a> {
    bytes: u64,
    lows: &'a [(u64, u64)],
    highs: &'a [(u64, u64)],
    /// How many obstacles begin below the end of the place.
    begun: usize,
    /// How many obstacles end at or below its address.
    ended: usize,
}

impl<'a> Scale<'a> {
    fn new(repair: &'a Repair<'_>, bytes: u64) -> Self {
        Self { bytes, lows: &repair.lows, highs: &repair.highs, begun: 0, ended: 0 }
    }

    fn weigh(&mut self, address: u64) -> Place {
        while self.lows.get(self.begun).is_some_and(|&(low, _)| low < address + self.bytes) {
            self.begun += 1;
        }
        while self.highs.get(self.ended).is_some_and(|&(high, _)| high <= address) {
            self.ended += 1;
        }
        let weight = |sums: &[(u64, u64)], count: usize| count.checked_sub(1).map_or(0, |last| sums[last].1);
        Place {
            address,
            displaced: self.begun - self.ended,
            weight: weight(self.lows, self.begun).saturating_sub(weight(self.highs, self.ended)),
        }
    }
}

/// Sorts addresses and sums their weights up.
fn sum_up(sums: &mut Vec<(u64, u64)>, rows: impl Iterator<Item = (u64, u64)>) {
    sums.clear();
    sums.extend(rows);
    sums.sort_unstable();
    let mut sum = 0_u64;
    for (_, weight) in sums {
        sum = sum.saturating_add(*weight);
        *weight = sum;
    }
}

/// What each block weighs at first: at least 1.
fn weights(spans: &[Span], weight: Weight) -> Vec<u64> {
    let raw = |span: &Span| match weight {
        Weight::Bytes => u128::from(span.bytes),
        Weight::Area => u128::from(span.bytes) * u128::from(span.moments()),
    };
    // Below 2^93: bytes stay below 2^62, moments below 2^31.
    let heaviest = spans.iter().map(raw).max().unwrap_or(1);
    spans.iter().map(|span| u64::try_from(raw(span) * HEAVIEST / heaviest).unwrap_or(WEIGHT_MAX).max(1)).collect()
}

/// Marsaglia's xorshift: the same numbers every time.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
