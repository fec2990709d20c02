//! Whether one rank is fed more than another: so many times as much at every line, and then whether sequences are longer or batches
//! larger.

use std::collections::{BTreeMap, BTreeSet};

use highwater_analysis::category::Category;
use highwater_findings::batch::{Ratio, agreed};

use crate::digest::{Site, Work};

/// How a rank is fed, beside another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fed {
    /// So many times as much as the other.
    pub(crate) ratio: Ratio,
    /// What differs.
    pub(crate) what: What,
}

/// What differs in what two ranks are fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The length of the sequences: this rank's and the other's, where the sizes tell.
    Length(Option<[u64; 2]>),
    /// The number of samples: this rank's and the other's.
    Rows([u64; 2]),
    /// One or the other.
    Either,
}

/// The largest number that a row or a length is taken for.
const MOST: u64 = 1 << 20;
/// Fewer elements are no sequence.
const SHORTEST: u64 = 16;
/// A part of the activations that is as many times as large as the square of the ratio, at least.
const LEAST_SQUARES: u128 = 50;

/// Compares what two ranks are fed; `None` if it is as much, or not so many times as much at most lines.
pub(crate) fn fed(own: &Work, other: &Work) -> Option<Fed> {
    let ratio = ratio(own, other).filter(|&ratio| ratio != Ratio::ONE)?;
    Some(Fed { ratio, what: what(own, other, ratio) })
}

fn ratio(own: &Work, other: &Work) -> Option<Ratio> {
    let of = |work: &Work, category: Category| -> BTreeMap<Site, u64> {
        let rows = work.rows.iter().filter(|(site, of, _)| *of == category as u8 && site.label.is_none());
        rows.map(|(site, _, sizes)| (site.clone(), sizes.bytes)).collect()
    };
    let by_site = |category| {
        let (first, second) = (of(other, category), of(own, category));
        agreed(&first, &second)
    };
    by_site(Category::Input)
        .filter(|ratio| *ratio != Ratio::ONE)
        .or_else(|| by_site(Category::Activation))
        .or_else(|| by_order(own, other))
}

/// Without stacks: request by request, where both make as many.
fn by_order(own: &Work, other: &Work) -> Option<Ratio> {
    if own.sequence.is_empty() || own.sequence.len() != other.sequence.len() {
        return None;
    }
    let in_order = |work: &Work| -> BTreeMap<usize, u64> { work.sequence.iter().copied().enumerate().collect() };
    agreed(&in_order(other), &in_order(own))
}

/// The bytes that so many times as much would be, where that is a whole number.
fn times(bytes: u64, ratio: Ratio) -> Option<u64> {
    let product = u128::from(bytes) * u128::from(ratio.times);
    let per = u128::from(ratio.per.max(1));
    (product % per == 0).then(|| u64::try_from(product / per).ok()).flatten()
}

fn what(own: &Work, other: &Work, ratio: Ratio) -> What {
    let (ours, theirs): (BTreeSet<u64>, BTreeSet<u64>) =
        (own.small.iter().copied().collect(), other.small.iter().copied().collect());
    let grown: Vec<[u64; 2]> = theirs
        .iter()
        .filter_map(|&bytes| Some([times(bytes, ratio).filter(|grown| ours.contains(grown))?, bytes]))
        .collect();
    if let Some(lengths) = lengths(&grown, &ours, &theirs, ratio) {
        return What::Length(Some(lengths));
    }
    if has_squares(own, other, ratio) {
        return What::Length(None);
    }
    rows(&grown, &ours, &theirs).map_or(What::Either, What::Rows)
}

/// The lengths of the sequences, where requests are larger than others by as much on both ranks: labels that are shifted or padded by
/// one are larger by one for each row, so there are as many rows.
fn lengths(grown: &[[u64; 2]], ours: &BTreeSet<u64>, theirs: &BTreeSet<u64>, ratio: Ratio) -> Option<[u64; 2]> {
    /// Bytes of a token's number.
    const TOKEN: u64 = 8;
    let mut found: BTreeMap<[u64; 2], usize> = BTreeMap::new();
    for &[own, other] in grown {
        for (rows, sign) in (1..=4096_u64).flat_map(|rows| [(rows, 1_i64), (rows, -1)]) {
            let by = i64::try_from(rows * TOKEN).unwrap_or(0) * sign;
            if rows * TOKEN * SHORTEST > other {
                break;
            }
            let (Some(ours_shifted), Some(theirs_shifted)) = (own.checked_add_signed(by), other.checked_add_signed(by))
            else {
                continue;
            };
            let is_shift = ours.contains(&ours_shifted)
                && theirs.contains(&theirs_shifted)
                && times(theirs_shifted, ratio) != Some(ours_shifted);
            let [own_length, other_length] = [own / TOKEN / rows, other / TOKEN / rows];
            let is_whole = own % (TOKEN * rows) == 0 && other % (TOKEN * rows) == 0;
            if is_shift && is_whole && own_length <= MOST {
                *found.entry([own_length, other_length]).or_default() += 1;
            }
        }
    }
    // Most agree; of those that as many agree on, the longest: fewest rows.
    found.into_iter().max_by_key(|&(lengths, votes)| (votes, lengths)).map(|(lengths, _)| lengths)
}

/// Whether activations are there that grow with the square of the ratio: attention made in full.
fn has_squares(own: &Work, other: &Work, ratio: Ratio) -> bool {
    let square = Ratio::new(ratio.times.saturating_mul(ratio.times), ratio.per.saturating_mul(ratio.per));
    let others: BTreeMap<(&Site, u8), u64> =
        other.rows.iter().map(|(site, category, sizes)| ((site, *category), sizes.largest_bytes)).collect();
    let (mut squares, mut all) = (0_u128, 0_u128);
    for (site, category, sizes) in &own.rows {
        let Some(&before) = others.get(&(site, *category)) else { continue };
        all += u128::from(sizes.largest_bytes);
        if before > 0 && Ratio::new(sizes.largest_bytes, before) == square {
            squares += u128::from(sizes.largest_bytes);
        }
    }
    squares * LEAST_SQUARES > all
}

/// The numbers of samples, where requests that do not grow are the rows of those that do: positions, their embedding.
fn rows(grown: &[[u64; 2]], ours: &BTreeSet<u64>, theirs: &BTreeSet<u64>) -> Option<[u64; 2]> {
    /// So many pairs agree, at least.
    const VOTES: usize = 2;
    let same: Vec<u64> = ours.intersection(theirs).copied().filter(|&bytes| bytes >= 8 * SHORTEST).collect();
    let mut votes: BTreeMap<[u64; 2], BTreeSet<u64>> = BTreeMap::new();
    for &[own, other] in grown {
        for &row in &same {
            let is_whole = own % row == 0 && other % row == 0;
            let [own, other] = [own / row, other / row];
            // As many samples as elements in one would be as much a length.
            if is_whole && other > 0 && own.max(other) < row / 8 {
                votes.entry([own, other]).or_default().insert(row);
            }
        }
    }
    let most = votes.into_iter().map(|(rows, of)| (of.len(), std::cmp::Reverse(rows))).max()?;
    (most.0 >= VOTES).then_some(most.1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(small: &[u64]) -> Work {
        Work { small: small.to_vec(), ..Work::default() }
    }

    #[test]
    fn labels_that_are_padded_by_one_tell_the_length() {
        // Four rows of 768 and of 512 token ids, and labels with one more in each row.
        let (own, other) = (work(&[6144, 24576, 24608]), work(&[4096, 16384, 16416]));
        assert_eq!(what(&own, &other, Ratio { times: 3, per: 2 }), What::Length(Some([768, 512])));
    }

    #[test]
    fn positions_that_stay_tell_the_rows() {
        // 24 and 2 rows of 255, positions, and their embedding.
        let (own, other) = (work(&[2040, 48960, 783_360, 18_800_640]), work(&[2040, 4080, 783_360, 1_566_720]));
        assert_eq!(what(&own, &other, Ratio { times: 12, per: 1 }), What::Rows([24, 2]));
    }

    #[test]
    fn where_nothing_stays_it_may_be_either() {
        let (own, other) = (work(&[96, 4800]), work(&[64, 3200]));
        assert_eq!(what(&own, &other, Ratio { times: 3, per: 2 }), What::Either);
    }
}
