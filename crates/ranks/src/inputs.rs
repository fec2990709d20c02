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
        // Of the largest request: more of the same size are more micro-batches.
        rows.map(|(site, _, sizes)| (site.clone(), sizes.largest_bytes)).collect()
    };
    let by_site = |category| agreed_by_most(&of(other, category), &of(own, category));
    match by_site(Category::Input) {
        // What is computed from as much is not fed more.
        Some(ratio) => Some(ratio),
        None => by_site(Category::Activation).or_else(|| by_order(own, other)),
    }
}

/// The ratio that most agree on, where most differ: a few lines that make more are no larger inputs.
fn agreed_by_most<K: Ord>(first: &BTreeMap<K, u64>, second: &BTreeMap<K, u64>) -> Option<Ratio> {
    let ratio = agreed(first, second)?;
    let (mut differing, mut all) = (0_u128, 0_u128);
    for (key, &bytes) in first {
        let Some(&other) = second.get(key) else { continue };
        all += u128::from(bytes.max(other));
        differing += if bytes == other { 0 } else { u128::from(bytes.max(other)) };
    }
    (ratio == Ratio::ONE || differing * 2 >= all).then_some(ratio)
}

/// Without stacks: request by request, where both make as many.
fn by_order(own: &Work, other: &Work) -> Option<Ratio> {
    if own.sequence.is_empty() || own.sequence.len() != other.sequence.len() {
        return None;
    }
    let in_order = |work: &Work| -> BTreeMap<usize, u64> { work.sequence.iter().copied().enumerate().collect() };
    agreed_by_most(&in_order(other), &in_order(own))
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
    let grown = |bytes: u64| times(bytes, ratio).filter(|grown| ours.contains(grown));
    let inputs: BTreeSet<u64> = other
        .rows
        .iter()
        .filter(|(_, category, _)| *category == Category::Input as u8)
        .flat_map(|(.., sizes)| [sizes.largest_bytes, sizes.smallest_bytes])
        .collect();
    let inputs: Vec<[u64; 2]> = inputs.into_iter().filter_map(|bytes| Some([grown(bytes)?, bytes])).collect();
    if let Some(shifted) = inputs.iter().find_map(|&input| shifted(input, &ours, &theirs, &grown)) {
        return shifted;
    }
    if has_squares(own, other, ratio) {
        return What::Length(None);
    }
    labels(&inputs).map_or(What::Either, What::Rows)
}

/// Bytes of a token's number, or of a label.
const TOKEN: u64 = 8;

/// What differs, by token ids and the same without the first, or with one more, in each row: labels that are shifted or padded. They are
/// smaller or larger by one number for each row.
fn shifted(
    [own, other]: [u64; 2],
    ours: &BTreeSet<u64>,
    theirs: &BTreeSet<u64>,
    grown: &impl Fn(u64) -> Option<u64>,
) -> Option<What> {
    let near = theirs.range(other.saturating_sub(other / SHORTEST)..=other.saturating_add(other / SHORTEST));
    near.filter(|&&bytes| bytes != other).find_map(|&bytes| {
        let by = bytes.abs_diff(other);
        let is_rows = by.is_multiple_of(TOKEN) && other.is_multiple_of(by);
        if !is_rows {
            return None;
        }
        if let Some(grown) = grown(bytes) {
            let rows = [grown.abs_diff(own) / TOKEN, by / TOKEN];
            return (own.is_multiple_of(rows[0].max(1) * TOKEN)).then_some(What::Rows(rows));
        }
        let same = if bytes > other { own.checked_add(by) } else { own.checked_sub(by) }?;
        (ours.contains(&same) && own.is_multiple_of(by)).then_some(What::Length(Some([own / by, other / by])))
    })
}

/// The numbers of samples, by labels: one number for each, beside inputs of which each sample has many.
fn labels(inputs: &[[u64; 2]]) -> Option<[u64; 2]> {
    let [own, other] = *inputs.first()?;
    let is_of_each = |&[_, bytes]: &[u64; 2]| bytes.is_multiple_of(other) && bytes / other > other / TOKEN;
    let is_number = own.is_multiple_of(TOKEN) && other.is_multiple_of(TOKEN);
    (inputs.len() > 1 && is_number && inputs[1..].iter().all(is_of_each)).then_some([own / TOKEN, other / TOKEN])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sizes;

    /// An iteration that is fed requests of the first sizes and makes those of all.
    fn work(inputs: &[u64], small: &[u64]) -> Work {
        let row = |(line, &bytes): (u64, &u64)| {
            let sizes = Sizes { bytes, count: 1, largest_bytes: bytes, smallest_bytes: bytes };
            (Site { line, ..Site::default() }, Category::Input as u8, sizes)
        };
        let all: BTreeSet<u64> = inputs.iter().chain(small).copied().collect();
        Work { rows: (0..).zip(inputs).map(row).collect(), small: all.into_iter().collect(), ..Work::default() }
    }

    fn told(own: &Work, other: &Work) -> Option<What> {
        fed(own, other).map(|fed| fed.what)
    }

    #[test]
    fn labels_that_are_padded_by_one_tell_the_length() {
        // Four rows of 768 and of 512 token ids, and labels with one more in each row.
        let (own, other) = (work(&[24576], &[6144, 24608]), work(&[16384], &[4096, 16416]));
        assert_eq!(told(&own, &other), Some(What::Length(Some([768, 512]))));
        assert_eq!(told(&other, &own), Some(What::Length(Some([512, 768]))));
    }

    #[test]
    fn labels_that_are_shifted_tell_the_rows() {
        // 24 and 2 rows of 256, and the same without the last of each row; positions stay.
        let (own, other) = (work(&[49152], &[2040, 48960]), work(&[4096], &[2040, 4080]));
        assert_eq!(told(&own, &other), Some(What::Rows([24, 2])));
        // Powers of two of everything.
        let (own, other) = (work(&[32768], &[2048, 4096, 32640]), work(&[16384], &[2048, 4096, 16320]));
        assert_eq!(told(&own, &other), Some(What::Rows([16, 8])));
    }

    #[test]
    fn labels_of_images_tell_the_rows() {
        let image = 3 * 224 * 224 * 4;
        assert_eq!(told(&work(&[48 * image, 384], &[]), &work(&[32 * image, 256], &[])), Some(What::Rows([48, 32])));
    }

    #[test]
    fn where_nothing_stays_it_may_be_either() {
        assert_eq!(told(&work(&[4800], &[96]), &work(&[3200], &[64])), Some(What::Either));
        assert_eq!(told(&work(&[4800], &[96]), &work(&[4800], &[64])), None, "it is fed as much");
    }
}
