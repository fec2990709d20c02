//! A set of data that was on the device before the recording: features, labels and masks, edges, or what a replay buffer holds.
//!
//! Its tensors have one row for each example, and the number of examples is chosen by nobody who builds a model: all their sizes
//! are multiples of it, and no parameter's is.

use std::collections::BTreeMap;

use super::pairing::gcd;

/// Smaller blocks may be anything: a counter, a table of positions.
const MIN_BYTES: u64 = 4096;

/// Sizes that share the number of rows: two may do so by chance, or be a frozen layer's.
const MIN_SIZES: usize = 3;

/// The least odd factor of the number of rows: widths of models have small ones.
const MIN_FACTOR: u64 = 101;

/// The least share of the bytes that have these rows, in percent: a frozen model has other sizes, too.
const MIN_PERCENT: u64 = 95;

/// The least ratio of the largest block to the smallest, which has one number for each row: of tables, each has rows of its own.
const MIN_RATIO: u64 = 16;

/// Sets of data have few tensors.
const MAX_SIZES: usize = 64;

/// What the sizes of a set of data are multiples of, if the blocks of these sizes are one.
pub(super) fn row_bytes(blocks: &[u64], parameters: &[u64]) -> Option<u64> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for &size in blocks.iter().filter(|&&size| size >= MIN_BYTES) {
        *counts.entry(size).or_default() += 1;
    }
    if let Some(rows) = narrow_rows(&counts, parameters) {
        return Some(rows);
    }
    // Parameters come with as much state each.
    if counts.values().fold(0, |common, &count| gcd(count, common)) != 1 {
        return None;
    }
    let bytes = |rows: u64| {
        let of_rows = counts.iter().filter(|(size, _)| size.is_multiple_of(rows));
        of_rows.fold(0, |sum: u64, (&size, &count)| sum.saturating_add(size.saturating_mul(count)))
    };
    let &largest = counts.keys().next_back()?;
    // A matrix of a layer may have its width on both sides.
    let is_squared = |factor: &u64| counts.keys().any(|size| size.is_multiple_of(factor.saturating_mul(*factor)));
    let factors = counts.keys().rev().take(MAX_SIZES).map(|&size| odd(size));
    let widths: Vec<u64> = factors.filter(|&factor| factor >= MIN_FACTOR).filter(is_squared).collect();
    let is_shared = |&rows: &u64| {
        let factor = odd(rows);
        factor >= MIN_FACTOR
            && widths.iter().all(|&width| gcd(factor, width) < MIN_FACTOR)
            && rows <= largest / MIN_RATIO
            && counts.keys().filter(|size| size.is_multiple_of(rows)).count() >= MIN_SIZES
            && bytes(rows) >= bytes(1) / 100 * MIN_PERCENT
            && !parameters.iter().any(|size| size.is_multiple_of(factor))
    };
    counts.keys().copied().rev().take(MAX_SIZES).filter(is_shared).min()
}

/// The odd factor of a size, which is not 0.
fn odd(size: u64) -> u64 {
    size >> size.trailing_zeros()
}

/// Whether a number that is not 0 has an odd factor as a number of examples has.
pub(super) fn has_special_factor(number: u64) -> bool {
    number > 0 && odd(number) >= MIN_FACTOR
}

/// Whether people choose such a number of rows for tables and vocabularies, too: it is round in decimals, so tensors that have nothing to do
/// with each other share it.
pub(super) fn is_round(row_bytes: u64) -> bool {
    let mut factor = odd(row_bytes.max(1));
    while factor.is_multiple_of(5) {
        factor /= 5;
    }
    factor < MIN_FACTOR
}

/// The same of a few tensors with narrow rows, such as points, rays and labels: nothing but the number of examples makes a size that is
/// a large odd number times a few bytes.
fn narrow_rows(counts: &BTreeMap<u64, u64>, parameters: &[u64]) -> Option<u64> {
    /// Bytes of the power of two in all sizes, at most.
    const NARROW: u64 = 16;
    /// The least odd factor of all sizes.
    const MIN_ODD: u64 = 10_007;
    let common = counts.keys().fold(0, |common, &size| gcd(size, common));
    if common == 0 {
        return None;
    }
    let factor = odd(common);
    let is_narrow = common / factor <= NARROW && factor >= MIN_ODD && counts.values().sum::<u64>() > 1;
    (is_narrow && !parameters.iter().any(|size| size.is_multiple_of(factor))).then_some(common)
}

/// The number of rows of the largest block, if a layer reads it: the layer's output has as many rows, and the rows of its weight are as long
/// as the block's. The number divides no parameter. `made` are the sizes that modules make several times.
pub(super) fn rows_of_layers(blocks: &[u64], parameters: &[u64], made: &[u64]) -> Option<u64> {
    /// Bytes of a number, and the fewest.
    const NUMBERS: [u64; 2] = [4, 2];
    const FEWEST: u64 = 2;
    /// Least length of a row.
    const MIN_WIDTH: u64 = 16;
    let rows_of = |block: u64, weight: u64, output: u64, number: u64| {
        let [block, weight, output] = [block, weight, output].map(|size| size / number);
        let width = weight
            .checked_mul(output)?
            .checked_div(block)
            .filter(|squared| squared * block == weight * output)?
            .isqrt();
        let has_width = width >= MIN_WIDTH
            && width.checked_mul(width)?.checked_mul(block)? == weight * output
            && weight.is_multiple_of(width)
            && output.is_multiple_of(width)
            && parameters.contains(&(width * number));
        has_width.then(|| output / width)
    };
    let is_number_of_rows = |&rows: &u64| {
        let made = made.iter().filter(|size| size.is_multiple_of(rows.saturating_mul(FEWEST)));
        odd(rows) >= MIN_FACTOR && made.count() >= MIN_SIZES && !parameters.iter().any(|size| size.is_multiple_of(rows))
    };
    let &largest = blocks.iter().max()?;
    let outputs = made.iter().take(MAX_SIZES);
    let tried = outputs.flat_map(|&output| parameters.iter().map(move |&weight| (output, weight)));
    tried
        .flat_map(|(output, weight)| NUMBERS.map(|number| rows_of(largest, weight, output, number)))
        .flatten()
        .find(is_number_of_rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: [u64; 3] = [512_000, 262_144, 40_960];

    fn rows(blocks: &[u64]) -> Option<u64> {
        row_bytes(blocks, &PARAMETERS)
    }

    #[test]
    fn tensors_of_one_number_of_rows_are_data() {
        assert_eq!(rows(&[40_000_000, 1_920_000, 160_000, 80_000, 20_000]), Some(20_000));
        assert_eq!(rows(&[40_000_000, 1_920_000, 160_000, 80_000, 20_000, 512]), Some(20_000));
        assert_eq!(rows(&[40_000_000, 40_000_000, 160_000, 20_000, 20_000, 20_000]), Some(20_000));
        assert_eq!(rows(&[]), None);
    }

    #[test]
    fn tables_share_round_numbers() {
        let (words, classes, memory) = (40_000 * 1024, 4000 * 2048, [16_000 * 768, 16_000 * 8]);
        let rows = row_bytes(&[words, classes, memory[0], memory[1]], &[262_144]).unwrap();
        assert!(is_round(rows), "{rows}");
        assert!(!is_round(2708 * 4) && !is_round(30_013 * 8) && !is_round(202_000));
    }

    #[test]
    fn rays_and_labels_have_narrow_rows() {
        assert_eq!(rows(&[4_800_084, 4_800_084, 4_800_084]), Some(4_800_084));
        assert_eq!(rows(&[30_013 * 602 * 4, 30_013 * 8]), Some(30_013 * 8));
        assert_eq!(rows(&[4_800_084]), None, "one");
        assert_eq!(rows(&[50_257 * 3072, 50_257 * 4096]), None, "tables of a vocabulary");
        assert_eq!(row_bytes(&[30_013 * 602 * 4, 30_013 * 8], &[30_013 * 64]), None, "a table of the nodes is trained");
    }

    #[test]
    fn a_width_on_both_sides_of_a_matrix_is_none() {
        assert_eq!(rows(&[600 * 2200 * 4, 2200 * 2200 * 4, 2200 * 4, 2200 * 4, 22_000 * 4]), None);
    }

    /// A graph of 10,000 nodes with 512 features each, of which a layer makes 384.
    #[test]
    fn the_input_of_a_layer_has_as_many_rows_as_its_output() {
        let (nodes, features, width) = (10_000, 512, 384);
        let parameters = [features * width * 4, width * 4, 160];
        let made = [nodes * width * 4, nodes * width, nodes * 40 * 4];
        let rows = |blocks: &[u64], made: &[u64]| rows_of_layers(blocks, &parameters, made);
        assert_eq!(rows(&[nodes * features * 4, 20_000], &made), Some(nodes));
        assert_eq!(rows(&[nodes * 500 * 4, 20_000], &made), None, "other rows");
        assert_eq!(rows(&[nodes * features * 4], &made[..1]), None, "one size may be anything");
        assert_eq!(rows(&[4096 * features * 4], &made.map(|size| size / nodes * 4096)), None, "a width");
        assert_eq!(rows(&[], &made), None);
    }

    #[test]
    fn a_frozen_model_is_none() {
        assert_eq!(rows(&[40_000_000, 1_920_000]), None, "two sizes");
        assert_eq!(rows(&[16_777_216, 8_388_608, 4_194_304]), None, "powers of two");
        assert_eq!(rows(&[40_000_000, 1_920_000, 160_000, 16_777_216]), None, "other sizes");
        assert_eq!(rows(&[102_400_000, 51_200_000, 23_040_000, 10_240_000]), None, "tables");
        assert_eq!(rows(&[40_000_000, 40_000_000, 160_000, 160_000, 20_000, 20_000]), None, "with state");
        let with_embedding = [205_852_672, 154_389_504, 201_028, 9_437_184 * 24];
        assert_eq!(rows(&with_embedding), None, "a vocabulary is shared by the layers at both ends alone");
    }

    #[test]
    fn a_number_that_parameters_share_is_a_width() {
        assert_eq!(row_bytes(&[40_000_000, 1_920_000, 160_000], &[5_000, 64]), None);
    }
}
