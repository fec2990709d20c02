//! The parts of a job: ranks that do the same are of one part. Stages of a pipeline are several parts, and ranks of one part are
//! compared with each other only.

use std::collections::{BTreeMap, BTreeSet};

use crate::digest::{DeviceDigest, Site, Work};
use crate::numbering::Row;
use crate::programs::WAYS;

/// From this share of an iteration's bytes on, in percent, requests that another rank never makes are other work.
const OTHER_WORK_PERCENT: u128 = 5;
/// Without stacks: so many percent of the bytes are of sizes that both request, or the ranks do other work.
const ALIKE_PERCENT: u128 = 85;
/// Without stacks: the numbers of requests differ by so many percent, at least.
const OTHER_COUNT_PERCENT: u64 = 1;

/// What each rank is a part of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// By row: its part.
    pub(crate) of: Vec<usize>,
    /// By part: it in words; `None` where all ranks have the same part.
    pub(crate) roles: Vec<Option<String>>,
    /// The ways in which the job is divided.
    pub(crate) ways: Vec<&'static str>,
}

/// Finds the parts.
pub(crate) fn parts(rows: &[Row<'_>]) -> Parts {
    let told: Vec<Option<String>> =
        rows.iter().map(|row| row.digest.manifest.as_ref().and_then(|manifest| manifest.role.clone())).collect();
    let mut ways: Vec<&'static str> = WAYS
        .into_iter()
        .filter(|way| rows.iter().any(|row| row.digest.programs.iter().any(|found| found == way)))
        .collect();
    let distinct: BTreeSet<&Option<String>> = told.iter().collect();
    if told.iter().all(Option::is_some) && distinct.len() > 1 {
        return named(&told, ways);
    }
    let is_pipeline = ways.contains(&"pipeline");
    // Another model on one rank is no stage: numbers of parameters tell stages apart where something else shows that there are some.
    let by_work = classes(rows, |a, b| do_the_same(&a.device.work, &b.device.work, is_pipeline));
    let has_stages = is_pipeline || by_work.iter().any(|&class| class > 0);
    let classes = if has_stages {
        classes(rows, |a, b| {
            hold_the_same(a.device, b.device) && do_the_same(&a.device.work, &b.device.work, is_pipeline)
        })
    } else {
        by_work
    };
    let count = classes.iter().max().map_or(0, |most| most + 1);
    if count > 1 && (is_pipeline || is_regular(&classes, count)) {
        if !is_pipeline {
            ways.push("pipeline");
            ways.sort_by_key(|way| WAYS.iter().position(|known| known == way));
        }
        let roles = (0..count).map(|stage| Some(format!("pipeline stage {} of {count}", stage + 1))).collect();
        return Parts { of: classes, roles, ways };
    }
    Parts { of: vec![0; rows.len()], roles: vec![None], ways }
}

/// The parts that manifests name.
fn named(told: &[Option<String>], ways: Vec<&'static str>) -> Parts {
    let mut numbers: BTreeMap<&Option<String>, usize> = BTreeMap::new();
    let mut roles = Vec::new();
    let of = told.iter().map(|role| {
        *numbers.entry(role).or_insert_with(|| {
            roles.push(role.clone());
            roles.len() - 1
        })
    });
    let of = of.collect();
    Parts { of, roles, ways }
}

/// By row: the first row that it is alike, as a number.
fn classes(rows: &[Row<'_>], are_alike: impl Fn(&Row<'_>, &Row<'_>) -> bool) -> Vec<usize> {
    let mut first: Vec<&Row<'_>> = Vec::new();
    let mut classes = Vec::with_capacity(rows.len());
    for row in rows {
        let number = first.iter().position(|other| are_alike(row, other)).unwrap_or(first.len());
        if number == first.len() {
            first.push(row);
        }
        classes.push(number);
    }
    classes
}

/// Whether the classes are dealt out as stages are, where nothing else says that there is a pipeline: to as many ranks each; or one
/// to the first rank, one to the last, and others between.
fn is_regular(classes: &[usize], count: usize) -> bool {
    let sizes: Vec<usize> = (0..count).map(|class| classes.iter().filter(|&&of| of == class).count()).collect();
    let are_equal = sizes.iter().all(|&size| size == sizes[0]);
    let (Some(first), Some(last)) = (classes.first(), classes.last()) else { return false };
    let are_in_order = classes.is_sorted();
    let ends = sizes[*first] == sizes[*last] && first != last && count > 2;
    // Of many ranks that each do something else, nothing is known.
    let is_each = count == classes.len() && count > 2;
    are_in_order && (are_equal || ends) && !is_each
}

/// Whether two ranks hold the same part of a model: as many parameters, whose sizes differ with uneven shards; or the very same state of
/// the optimizer, where one has a workspace among its parameters, say.
pub(crate) fn hold_the_same(a: &DeviceDigest, b: &DeviceDigest) -> bool {
    let has_the_same_state = a.optimizer_state.count > 0
        && (a.optimizer_state.count, a.optimizer_state.bytes) == (b.optimizer_state.count, b.optimizer_state.bytes);
    a.parameters.count == b.parameters.count || has_the_same_state
}

/// Whether two iterations are of one program, however large each request is.
///
/// Where nothing else shows a pipeline, a rank that does more than another is no stage: stages each do what the other does not, or one
/// has a loss and the other has none.
pub(crate) fn do_the_same(a: &Work, b: &Work, is_pipeline: bool) -> bool {
    /// From this share of an iteration's bytes on, in tenths of a percent, the other also does something of its own.
    const OWN_WORK_PERMILLE: u128 = 5;
    if a.requests == 0 || b.requests == 0 {
        return true;
    }
    let has_a_loss_alone = (a.scalars == 0) != (b.scalars == 0);
    let (lines_of_a, lines_of_b) = (lines(a), lines(b));
    if lines_of_a.is_empty() || lines_of_b.is_empty() {
        let differ = a.requests.abs_diff(b.requests).saturating_mul(100)
            > a.requests.max(b.requests).saturating_mul(OTHER_COUNT_PERCENT);
        return !differ || alike_percent(a, b) >= ALIKE_PERCENT || !(is_pipeline || has_a_loss_alone);
    }
    let only = |own: &BTreeMap<&Site, u64>, other: &BTreeMap<&Site, u64>, bytes: u64| {
        let only = own.iter().filter(|(site, _)| !other.contains_key(*site)).map(|(_, bytes)| u128::from(*bytes));
        only.sum::<u128>() * 1000 / u128::from(bytes.max(1))
    };
    let (more, less) = (only(&lines_of_a, &lines_of_b, a.bytes), only(&lines_of_b, &lines_of_a, b.bytes));
    let is_other = more.max(less) >= OTHER_WORK_PERCENT * 10;
    !is_other || !(is_pipeline || has_a_loss_alone || more.min(less) >= OWN_WORK_PERMILLE)
}

/// Bytes by line of Python; empty where there are none.
pub(crate) fn lines(work: &Work) -> BTreeMap<&Site, u64> {
    let mut lines = BTreeMap::new();
    for (site, _, sizes) in work.rows.iter().filter(|(site, ..)| site.label.is_none()) {
        let sum: &mut u64 = lines.entry(site).or_default();
        *sum = sum.saturating_add(sizes.bytes);
    }
    lines
}

/// Of the bytes of the larger, how many percent are of requests that both make.
fn alike_percent(a: &Work, b: &Work) -> u128 {
    let counts: BTreeMap<u64, u64> = b.sizes.iter().copied().collect();
    let bytes = |size: u64, count: u64| u128::from(size) * u128::from(count);
    let shared: u128 =
        a.sizes.iter().map(|&(size, count)| bytes(size, count.min(counts.get(&size).copied().unwrap_or(0)))).sum();
    let all = |work: &Work| -> u128 { work.sizes.iter().map(|&(size, count)| bytes(size, count)).sum() };
    // The bytes of both together, counted once.
    let either = (all(a) + all(b)).saturating_sub(shared).max(1);
    shared * 100 / either
}
