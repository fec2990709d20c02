//! How many times as large one recording's batch is as another's, by what both make at the same lines.

use std::collections::BTreeMap;
use std::ops::Range;

use highwater_analysis::Analysis;
use highwater_analysis::callsite::Site;
use highwater_analysis::category::Category;
use highwater_analysis::device::DeviceAnalysis;

use crate::diff::{SiteName, name_of};

/// Terms of a ratio beyond this are a coincidence of sizes.
const MAX_TERM: u64 = 4096;

/// So many times as large: two whole numbers without a common factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio {
    /// So many of it …
    pub times: u64,
    /// … are so many of the first.
    pub per: u64,
}

impl Ratio {
    /// The first compared with itself.
    pub const ONE: Self = Self { times: 1, per: 1 };

    /// `large` to `small`, reduced; `None` unless both are positive.
    pub fn new(large: u64, small: u64) -> Option<Self> {
        let divisor = greatest_common_divisor(large, small);
        (large > 0 && small > 0).then(|| Self { times: large / divisor, per: small / divisor })
    }

    /// As a number.
    #[expect(clippy::cast_precision_loss, reason = "terms are small, or rows that a person counted")]
    pub fn value(self) -> f64 {
        self.times as f64 / self.per.max(1) as f64
    }

    fn is_small(self) -> bool {
        self.times <= MAX_TERM && self.per <= MAX_TERM
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { greatest_common_divisor(b, a % b) }
}

/// Bytes of each call site: of inputs, and of activations.
pub(super) struct Sizes<'a> {
    inputs: BTreeMap<SiteName<'a>, u64>,
    activations: BTreeMap<SiteName<'a>, u64>,
}

impl<'a> Sizes<'a> {
    /// What is there at some time of some entries, as asked for: rounding would hide the ratio.
    pub(super) fn new(analysis: &Analysis<'a>, device: &DeviceAnalysis<'a>, entries: &Range<usize>) -> Self {
        let mut sizes = Self { inputs: BTreeMap::new(), activations: BTreeMap::new() };
        for (row, lifetime) in device.lifetimes.rows.iter().enumerate() {
            let begins = lifetime.alloc().map_or(0, highwater_snapshot::EntryId::index);
            let ends = lifetime.free_requested().or(lifetime.free_completed());
            if begins >= entries.end || ends.is_some_and(|end| end.index() <= entries.start) {
                continue;
            }
            let sums = match device.decided(row).category {
                Category::Input => &mut sizes.inputs,
                Category::Activation => &mut sizes.activations,
                _ => continue,
            };
            let site = device.site(lifetime, &analysis.sites);
            if matches!(site, Site::Frame(_)) {
                let sum = sums.entry(name_of(analysis.snapshot, site)).or_default();
                *sum = sum.saturating_add(lifetime.requested_bytes);
            }
        }
        sizes
    }
}

/// How many times the batch of the first `second` has; `None` if it is not clear. By the inputs if they tell, else by the
/// activations.
pub(super) fn ratio(first: &Sizes<'_>, second: &Sizes<'_>) -> Option<Ratio> {
    agreed(&first.inputs, &second.inputs).or_else(|| agreed(&first.activations, &second.activations))
}

/// The same, by the inputs alone: in a longer sequence one line's activations may grow by its length and by its square.
pub(super) fn ratio_of_inputs(first: &Sizes<'_>, second: &Sizes<'_>) -> Option<Ratio> {
    agreed(&first.inputs, &second.inputs)
}

/// Whether a part of the activations is as many times as large as the square of the batch's ratio: then sequences are longer, not the
/// batch larger, and of attention made in full a line through two points says too little.
pub(super) fn has_squares(first: &Sizes<'_>, second: &Sizes<'_>, ratio: Ratio) -> bool {
    /// Less, in parts of the activations, hardly bends the line.
    const LEAST_PART: u128 = 50;
    let ratio_squared =
        Ratio { times: ratio.times.saturating_mul(ratio.times), per: ratio.per.saturating_mul(ratio.per) };
    let (mut squares, mut all) = (0_u128, 0_u128);
    for (site, &bytes) in &first.activations {
        let Some(&other) = second.activations.get(site) else { continue };
        let larger = u128::from(bytes.max(other));
        all += larger;
        if Ratio::new(other, bytes) == Some(ratio_squared) {
            squares += larger;
        }
    }
    ratio != Ratio::ONE && squares * LEAST_PART > all
}

/// The ratio that two thirds of the bytes agree on, of the sites that differ; 1 if no site does.
pub fn agreed<K: Ord>(first: &BTreeMap<K, u64>, second: &BTreeMap<K, u64>) -> Option<Ratio> {
    let mut votes: BTreeMap<Ratio, u128> = BTreeMap::new();
    for (site, &bytes) in first {
        if let Some(&other) = second.get(site)
            && let Some(ratio) = Ratio::new(other, bytes)
        {
            *votes.entry(ratio).or_default() += u128::from(bytes.max(other));
        }
    }
    let same = votes.remove(&Ratio::ONE).unwrap_or(0);
    let all: u128 = votes.values().sum();
    let Some((&ratio, &bytes)) = votes.iter().max_by_key(|&(_, &bytes)| bytes) else {
        return (same > 0).then_some(Ratio::ONE);
    };
    (ratio.is_small() && bytes.saturating_mul(3) >= all.saturating_mul(2)).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes<'a>(of: &[(&'a str, u64)]) -> BTreeMap<SiteName<'a>, u64> {
        of.iter().map(|&(name, bytes)| (SiteName { label: None, name, file: "a.py", line: 1 }, bytes)).collect()
    }

    fn told(first: &[(&str, u64)], second: &[(&str, u64)]) -> Option<(u64, u64)> {
        agreed(&sizes(first), &sizes(second)).map(|ratio| (ratio.times, ratio.per))
    }

    #[test]
    fn most_bytes_decide_among_what_differs() {
        // Positions are the same for every batch.
        assert_eq!(
            told(&[("ids", 4096), ("positions", 1 << 20)], &[("ids", 32768), ("positions", 1 << 20)]),
            Some((8, 1))
        );
        assert_eq!(told(&[("ids", 4800), ("mask", 600)], &[("ids", 3200), ("mask", 400)]), Some((2, 3)));
        assert_eq!(told(&[("x", 900), ("y", 10)], &[("x", 1800), ("y", 50)]), Some((2, 1)));
    }

    #[test]
    fn squares_tell_longer_sequences() {
        let of = |activations| Sizes { inputs: BTreeMap::new(), activations: sizes(activations) };
        let (short, long) = (of(&[("hidden", 100), ("scores", 40)]), of(&[("hidden", 200), ("scores", 160)]));
        assert!(has_squares(&short, &long, Ratio { times: 2, per: 1 }));
        assert!(has_squares(&long, &short, Ratio { times: 1, per: 2 }));
        let larger = of(&[("hidden", 200), ("scores", 80)]);
        assert!(!has_squares(&short, &larger, Ratio { times: 2, per: 1 }));
        let hardly = of(&[("hidden", 20_000), ("scores", 160)]);
        assert!(!has_squares(&of(&[("hidden", 10_000), ("scores", 40)]), &hardly, Ratio { times: 2, per: 1 }));
        assert!(!has_squares(&short, &short, Ratio::ONE));
    }

    #[test]
    fn a_line_whose_activations_grow_by_squares_contradicts_nobody() {
        let of = |activations| Sizes { inputs: BTreeMap::new(), activations: sizes(activations) };
        let (short, long) = (of(&[("forward", 100 + 80)]), of(&[("forward", 200 + 320)]));
        assert_eq!(ratio(&short, &long), Some(Ratio { times: 26, per: 9 }));
        assert_eq!(ratio_of_inputs(&short, &long), None);
    }

    #[test]
    fn equal_batches_are_told() {
        assert_eq!(told(&[("ids", 4096)], &[("ids", 4096)]), Some((1, 1)));
    }

    #[test]
    fn what_is_not_clear_is_not_told() {
        assert_eq!(told(&[("x", 100), ("y", 100)], &[("x", 200), ("y", 300)]), None, "as many for 2 as for 3");
        assert_eq!(told(&[("ids", 10_007)], &[("ids", 20_021)]), None, "no small ratio");
        assert_eq!(told(&[("ids", 4096)], &[("tokens", 4096)]), None, "no site in common");
        assert_eq!(told(&[("ids", 0)], &[("ids", 8)]), None, "nothing to compare with");
        assert_eq!(told(&[("ids", u64::MAX)], &[("ids", u64::MAX - 1)]), None);
    }
}
