//! Digests to the document: rows, groups, outliers, imbalance, the first failure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use highwater_analysis::category::Category;
use highwater_documents::CategoriesView;
use highwater_documents::ranks::{
    BecauseView, CategoryImbalanceView, FirstFailureView, GroupView, ImbalanceView, RankView, RanksView,
    StageImbalanceView, UnreadView,
};
use highwater_units::{counted, duration_us};

use crate::causes::{Job, at_the_end, causes, more_outside, outside_bytes};
use crate::clocks::clocks;
use crate::digest::{DeviceDigest, Digest};
use crate::manifest;
use crate::numbering::{self, Row, time_of};
use crate::parts::{Parts, parts};
use crate::programs;
use crate::verdict::verdict;

/// Peaks within this part of each other are about the same, in percent.
const ABOUT_PERCENT: u64 = 5;
/// Reserved memory varies more by itself.
const ABOUT_RESERVED_PERCENT: u64 = 15;
/// So many times the median deviation is far from the middle, in tenths: 4 times 1.4826, that of a normal distribution.
const FAR_TENTHS: u64 = 59;
/// A recording that is farther from the others in time than this, and than its own length, is of another run.
const OTHER_RUN_US: i64 = 3_600_000_000;

/// Compares the ranks of a job; `unread` are files that could not be read, which the document lists.
///
/// The order of the digests does not matter.
pub fn compare(mut digests: Vec<Digest>, unread: Vec<UnreadView>) -> RanksView {
    digests.sort_by_cached_key(|digest| crate::files::natural(&digest.file));
    let others = of_other_runs(&digests);
    let mut all_unread = unread;
    let mut at = 0;
    digests.retain(|_| {
        at += 1;
        others.get(&(at - 1)).is_none_or(|reason: &UnreadView| {
            all_unread.push(reason.clone());
            false
        })
    });
    let numbered = numbering::number(&digests);
    let rows = &numbered.rows;
    all_unread.extend(numbered.unread.iter().cloned());
    all_unread.extend(cut(&digests));
    let world_size = world_size(&digests);
    let without_a_file = missing(rows, &all_unread, world_size);
    all_unread.extend(without_a_file);
    all_unread.sort_by_cached_key(|unread| crate::files::natural(&unread.file));
    let parts = parts(rows);
    let judged = judge(rows, &parts);
    let mut view = RanksView::new(String::new(), Vec::new());
    view.notes.clone_from(&numbered.notes);
    view.notes.extend(notes(rows));
    (view.ranks, view.groups) = views(rows, &parts, &judged);
    view.parallel.clone_from(&parts.ways);
    view.world_size = world_size;
    view.imbalance = imbalance(&view.ranks, &parts);
    view.first_failure = first_failure(rows);
    view.unread = all_unread;
    view.verdict = verdict(&view);
    view
}

/// Recordings that were made at another time than most, that a launcher says are of another run, or that run another program: by their
/// place.
fn of_other_runs(digests: &[Digest]) -> BTreeMap<usize, UnreadView> {
    let mut others = BTreeMap::new();
    let run = |digest: &Digest| digest.manifest.as_ref().and_then(|manifest| manifest.run.clone());
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for run in digests.iter().filter_map(run) {
        *runs.entry(run).or_default() += 1;
    }
    let most = runs.iter().max_by_key(|&(_, &count)| count).map(|(run, _)| run.clone());
    let mut times: Vec<(usize, [i64; 2])> =
        digests.iter().enumerate().filter_map(|(at, digest)| Some((at, time_of(digest)?))).collect();
    times.sort_by_key(|&(_, time)| time);
    let middle = times.get(times.len().saturating_sub(1) / 2).map(|&(_, time)| time);
    let times: BTreeMap<usize, [i64; 2]> = times.into_iter().collect();
    for (at, digest) in digests.iter().enumerate() {
        let other = match (run(digest), &most) {
            (Some(run), Some(most)) => {
                (run != *most).then(|| format!("it belongs to another run: `{run}`, not `{most}`"))
            }
            _ => times.get(&at).zip(middle).and_then(|(time, middle)| of_another_time(*time, middle)),
        };
        if let Some(reason) = other {
            others.insert(at, UnreadView { file: digest.file.clone(), reason });
        }
    }
    // If most are, they are of no run, and the times say nothing.
    if others.len() * 2 >= digests.len() {
        others.clear();
    }
    for at in programs::alone(digests) {
        let reason = "it belongs to another run: it shares neither lines nor parameters with the other files";
        others.entry(at).or_insert_with(|| UnreadView { file: digests[at].file.clone(), reason: reason.to_owned() });
    }
    others
}

fn of_another_time(time: [i64; 2], middle: [i64; 2]) -> Option<String> {
    let length = |time: [i64; 2]| time[1].saturating_sub(time[0]);
    let slack = OTHER_RUN_US.max(length(time)).max(length(middle));
    let (before, after) = (middle[0].saturating_sub(time[1]), time[0].saturating_sub(middle[1]));
    let (by, word) = if before > after { (before, "before") } else { (after, "after") };
    (by > slack).then(|| format!("it belongs to another run: it was recorded {} {word} the others", duration_us(by)))
}

/// Files that end early: they are compared as far as they go.
fn cut(digests: &[Digest]) -> Vec<UnreadView> {
    let cut = |digest: &Digest| {
        let reason = digest.cut.as_ref()?;
        let reason = format!("it is incomplete, and compared as far as it goes: {reason}");
        Some(UnreadView { file: digest.file.clone(), reason })
    };
    digests.iter().filter_map(cut).collect()
}

fn world_size(digests: &[Digest]) -> Option<u32> {
    digests.iter().filter_map(|digest| digest.manifest.as_ref()?.world_size).max()
}

/// Ranks that have no file: of those that the job is known to have, or of a row of numbers with a gap. A rank whose file is listed as
/// unread has one.
fn missing(rows: &[Row<'_>], unread: &[UnreadView], world_size: Option<u32>) -> Option<UnreadView> {
    let unread = unread.iter().filter(|unread| !manifest::is_one(Path::new(&unread.file)));
    let present: BTreeSet<u32> = rows
        .iter()
        .filter_map(|row| row.rank)
        .chain(unread.filter_map(|unread| numbering::in_name(&unread.file)))
        .collect();
    let is_one_file = rows.iter().all(|row| row.digest.file == rows[0].digest.file);
    let (&last, false) = (present.last()?, is_one_file && world_size.is_none()) else { return None };
    let count = world_size.unwrap_or(0).max(last.saturating_add(1));
    // Numbers that are no ranks name a world that nobody has.
    if world_size.is_none() && count as usize > present.len().saturating_mul(2).max(4) {
        return None;
    }
    let absent: Vec<u32> = (0..count).filter(|rank| !present.contains(rank)).take(1 << 16).collect();
    if absent.is_empty() {
        return None;
    }
    let (noun, has) = if absent.len() == 1 { ("rank", "it has") } else { ("ranks", "they have") };
    Some(UnreadView { file: format!("{noun} {}", spans(&absent)), reason: format!("{has} no file") })
}

/// `0–3, 5, 7, 8`.
pub fn spans(numbers: &[u32]) -> String {
    let mut spans: Vec<[u32; 2]> = Vec::new();
    for &number in numbers {
        match spans.last_mut().filter(|span| span[1].checked_add(1) == Some(number)) {
            Some(span) => span[1] = number,
            None => spans.push([number, number]),
        }
    }
    let text = |[from, to]: [u32; 2]| match to - from {
        0 => from.to_string(),
        1 => format!("{from}, {to}"),
        _ => format!("{from}–{to}"),
    };
    spans.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// What a row is beside the others of its part.
#[derive(Clone, Debug, Default)]
struct Judged {
    is_outlier: bool,
    because: Vec<BecauseView>,
}

/// Finds the outliers and what makes them.
fn judge(rows: &[Row<'_>], parts: &Parts) -> Vec<Judged> {
    let mut judged = vec![Judged::default(); rows.len()];
    let job = job(rows, parts);
    for part in 0..parts.roles.len() {
        let of: Vec<usize> = (0..rows.len()).filter(|&row| parts.of[row] == part).collect();
        let is_cut = |row: usize| rows[row].digest.cut.is_some();
        // What a file that ends early lacks says nothing.
        let whole: Vec<usize> = of.iter().copied().filter(|&row| !is_cut(row)).collect();
        let usual = if whole.is_empty() { &of } else { &whole };
        let Some(middle) = middle(rows, usual) else { continue };
        let of_usual = |bytes: fn(&DeviceDigest) -> u64| usual.iter().map(|&row| bytes(rows[row].device)).collect();
        let is_far = deviation(of_usual(|device| device.peak_bytes), ABOUT_PERCENT);
        let reserved = deviation(of_usual(|device| device.peak_reserved_bytes), ABOUT_RESERVED_PERCENT);
        let ends = deviation(of_usual(|device| device.end_allocated_bytes), ABOUT_PERCENT);
        for &row in of.iter().filter(|&&row| row != middle) {
            let (own, other) = (rows[row].device, rows[middle].device);
            if is_cut(row) && own.peak_bytes < other.peak_bytes {
                continue;
            }
            let differs = is_far(own.peak_bytes, other.peak_bytes);
            let leaks = leaks_alone(rows, &of, row);
            let is_reserving = of.len() > 2 && reserved(own.peak_reserved_bytes, other.peak_reserved_bytes);
            let keeps = of.len() > 2 && ends_alike(own, other) && {
                let is_much = own.end_allocated_bytes.abs_diff(other.end_allocated_bytes) > other.peak_bytes / 20;
                is_much && ends(own.end_allocated_bytes, other.end_allocated_bytes)
            };
            let is_beside = !rows[row].beside.is_empty();
            let shares_its_card = more_outside(&rows[row], &rows[middle]).is_some();
            let fails_alone = own.failed > 0 && other.failed == 0;
            if !differs && !leaks && !is_reserving && !keeps && !is_beside && !shares_its_card && !fails_alone {
                continue;
            }
            let mut because = causes(&rows[row], &rows[middle], &job);
            because.retain(|because| match because.kind {
                "leak" => leaks,
                "reserved" | "settings" => is_reserving && !differs,
                "other-device" | "other-context" => true,
                _ => differs && (because.delta_bytes > 0 || !is_cut(row)),
            });
            if keeps && !differs {
                because.push(at_the_end(&rows[row], &rows[middle], &job));
            }
            // Of two ranks neither is in the middle: one is only odd for a reason.
            let is_told =
                because.iter().any(|because| !matches!(because.kind, "unknown" | "reserved" | "other-device"));
            judged[row] = Judged {
                is_outlier: (of.len() > 2 && (differs || is_reserving || keeps)) || leaks || is_told,
                because,
            };
        }
    }
    judged
}

/// Whether two recordings end at the same point of the program, as far as that shows.
fn ends_alike(a: &DeviceDigest, b: &DeviceDigest) -> bool {
    a.failed == 0 && b.failed == 0 && a.iterations.complete == b.iterations.complete
}

fn job(rows: &[Row<'_>], parts: &Parts) -> Job {
    let is_sharded = parts.ways.iter().any(|way| matches!(*way, "sharded" | "tensor" | "pipeline"));
    let of_model = |bytes: fn(&DeviceDigest) -> u64| {
        let mut sorted: Vec<u64> = rows.iter().map(|row| bytes(row.device)).collect();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0);
        // The rank that holds it all is one of them.
        let all = sorted.iter().map(|&bytes| bytes.min(median.saturating_mul(2))).fold(0, u64::saturating_add);
        if is_sharded { all } else { median }
    };
    Job {
        model_bytes: [of_model(|device| device.parameters.bytes), of_model(|device| device.optimizer_state.bytes / 2)],
        is_sharded,
        has_experts: parts.ways.contains(&"expert"),
    }
}

/// The row with the median peak; of two the lower, and one that recorded the whole run rather than another with the same peak.
fn middle(rows: &[Row<'_>], of: &[usize]) -> Option<usize> {
    let mut sorted = of.to_vec();
    sorted.sort_by_key(|&row| (rows[row].device.peak_bytes, row));
    let median = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    let bytes = rows[median].device.peak_bytes;
    let is_near = |&&row: &&usize| rows[row].device.peak_bytes.abs_diff(bytes) <= bytes / 100;
    let unlike = |row: usize| {
        let device = rows[row].device;
        (
            device.recorded.is_some(),
            device.failed > 0,
            !device.growing.is_empty(),
            !rows[row].beside.is_empty(),
            outside_bytes(&rows[row]),
            device.peak_bytes.abs_diff(bytes),
            row,
        )
    };
    of.iter().filter(is_near).copied().min_by_key(|&row| unlike(row))
}

/// Whether a value is far from the middle of these values.
fn deviation(values: Vec<u64>, about_percent: u64) -> impl Fn(u64, u64) -> bool {
    let mut sorted = values;
    sorted.sort_unstable();
    let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    let mut deviations: Vec<u64> = sorted.iter().map(|value| value.abs_diff(median)).collect();
    deviations.sort_unstable();
    let deviation = deviations.get(deviations.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    move |value, middle| {
        let by = value.abs_diff(middle);
        by.saturating_mul(100) > middle.saturating_mul(about_percent)
            && by.saturating_mul(10) > deviation.saturating_mul(FAR_TENTHS)
    }
}

/// Whether a rank leaves memory behind at a line where few others of its part do.
fn leaks_alone(rows: &[Row<'_>], of: &[usize], row: usize) -> bool {
    rows[row].device.growing.iter().any(|growing| {
        let elsewhere = of.iter().filter(|&&other| {
            other != row && rows[other].device.growing.iter().any(|there| there.site == growing.site)
        });
        elsewhere.count() * 4 < of.len()
    })
}

/// The rows and the groups of the document.
fn views(rows: &[Row<'_>], parts: &Parts, judged: &[Judged]) -> (Vec<RankView>, Vec<GroupView>) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let peak = |row: usize| rows[row].device.peak_bytes;
    // Outliers belong together that differ for the same reasons.
    let reasons = |row: usize| -> Vec<(&str, &Option<String>)> {
        let Judged { is_outlier, because } = &judged[row];
        because.iter().filter(|_| *is_outlier).map(|because| (because.kind, &because.r#where)).collect()
    };
    order.sort_by_cached_key(|&row| (parts.of[row], judged[row].is_outlier, reasons(row), Reverse(peak(row)), row));
    let mut members: Vec<Vec<usize>> = Vec::new();
    for row in order {
        let joins = |group: &Vec<usize>| {
            let first = group[0];
            let is_near = peak(row).saturating_mul(100) >= peak(first).saturating_mul(100 - ABOUT_PERCENT);
            let are_alike = judged[row].is_outlier == judged[first].is_outlier && reasons(row) == reasons(first);
            are_alike && parts.of[row] == parts.of[first] && is_near
        };
        match members.last_mut().filter(|group| joins(group)) {
            Some(group) => group.push(row),
            None => members.push(vec![row]),
        }
    }
    members.sort_by_key(|group| (Reverse(group.iter().map(|&row| peak(row)).max()), group[0]));
    let mut group_of = vec![0; rows.len()];
    let groups = members.into_iter().enumerate().map(|(id, mut group)| {
        for &row in &group {
            group_of[row] = id;
        }
        let mut peaks: Vec<u64> = group.iter().map(|&row| peak(row)).collect();
        peaks.sort_unstable();
        group.sort_unstable();
        let mut ranks: Vec<u32> = group.iter().filter_map(|&row| rows[row].rank).collect();
        ranks.sort_unstable();
        GroupView {
            id,
            ranks,
            role: parts.roles[parts.of[group[0]]].clone(),
            median_peak_allocated_bytes: peaks[(peaks.len() - 1) / 2],
            is_outlier: judged[group[0]].is_outlier,
            rows: group,
        }
    });
    let groups: Vec<GroupView> = groups.collect();
    let ranks = rows.iter().enumerate().map(|(at, row)| RankView {
        rank: row.rank,
        host: row.host.clone(),
        file: row.digest.file.clone(),
        device: row.device.device,
        role: parts.roles[parts.of[at]].clone(),
        group: group_of[at],
        peak_allocated_bytes: row.device.peak_bytes,
        peak_reserved_bytes: row.device.peak_reserved_bytes,
        end_allocated_bytes: row.device.end_allocated_bytes,
        categories: CategoriesView::new(row.device.categories),
        free_at_peak_bytes: row.device.peak.reserved_bytes.saturating_sub(row.device.peak.active_bytes),
        oom: row.device.failed,
        retries: row.device.retries,
        iterations: row.device.iterations.complete,
        entries: row.device.entries,
        peak_in: peak_in(row.device),
        recorded: row.device.recorded.clone(),
        is_outlier: judged[at].is_outlier,
        because: judged[at].because.clone(),
    });
    (ranks.collect(), groups)
}

fn peak_in(device: &DeviceDigest) -> Option<&'static str> {
    match &device.peak {
        peak if peak.is_set_up => Some("set-up"),
        peak if peak.is_after => Some("afterwards"),
        peak => peak.iteration.map(|_| "iteration"),
    }
}

/// The largest over the mean.
fn largest_over_mean(values: &[u64]) -> Option<f64> {
    let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
    let largest = *values.iter().max()?;
    #[expect(clippy::cast_precision_loss, reason = "a ratio of bytes, for showing")]
    let ratio = largest as f64 * values.len() as f64 / sum as f64;
    (sum > 0).then(|| (ratio * 10_000.0).round() / 10_000.0)
}

fn imbalance(ranks: &[RankView], parts: &Parts) -> ImbalanceView {
    let of = |bytes: fn(&RankView) -> u64| largest_over_mean(&ranks.iter().map(bytes).collect::<Vec<u64>>());
    let by_category = Category::ALL.iter().enumerate().filter_map(|(at, category)| {
        let values: Vec<u64> = ranks.iter().map(|rank| rank.categories.named()[at].1).collect();
        let largest_row = (0..values.len()).max_by_key(|&row| (values[row], Reverse(row)))?;
        Some(CategoryImbalanceView {
            name: category.name(),
            largest_over_mean: largest_over_mean(&values)?,
            largest_row,
            largest_bytes: values[largest_row],
        })
    });
    let by_stage = parts.roles.iter().enumerate().filter_map(|(part, role)| {
        let own: Vec<u64> = ranks
            .iter()
            .zip(&parts.of)
            .filter(|&(_, &of)| of == part)
            .map(|(rank, _)| rank.peak_allocated_bytes)
            .collect();
        let sum: u128 = own.iter().map(|&bytes| u128::from(bytes)).sum();
        Some(StageImbalanceView {
            role: role.clone()?,
            allocated: largest_over_mean(&own)?,
            mean_peak_allocated_bytes: u64::try_from(sum / (own.len() as u128)).unwrap_or(u64::MAX),
        })
    });
    ImbalanceView {
        allocated: of(|rank| rank.peak_allocated_bytes),
        reserved: of(|rank| rank.peak_reserved_bytes),
        by_category: by_category.collect(),
        by_stage: by_stage.collect(),
    }
}

/// The first failure of all ranks, by clocks that were set.
fn first_failure(rows: &[Row<'_>]) -> Option<FirstFailureView> {
    let clocks = clocks(rows);
    let failed: Vec<usize> = (0..rows.len()).filter(|&row| !rows[row].device.failures.is_empty()).collect();
    let when = |row: usize| {
        let failure = &rows[row].device.failures[0];
        let time = failure.time_us.zip(clocks.ahead_us[row]).map(|(time, ahead)| time.saturating_sub(ahead));
        (time.is_none(), time, failure.iteration, row)
    };
    let first = failed.iter().copied().min_by_key(|&row| when(row))?;
    let failure = &rows[first].device.failures[0];
    let has_time = failed.iter().all(|&row| when(row).1.is_some());
    Some(FirstFailureView {
        rank: rows[first].rank,
        row: first,
        entry: failure.entry,
        time_us: failure.time_us,
        iteration: failure.iteration,
        requested_bytes: failure.requested_bytes,
        others: failed.len() - 1,
        ordered_by: if has_time { clocks.by } else { "unknown" },
    })
}

/// Remarks on the limits of the comparison.
fn notes(rows: &[Row<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    let versions: BTreeSet<&str> = rows.iter().map(|row| row.digest.torch.as_str()).collect();
    if versions.len() > 1 {
        let versions: Vec<&str> = versions.into_iter().collect();
        notes.push(format!("the files are of different versions of PyTorch: {}", versions.join("; ")));
    }
    let partial: Vec<&Row<'_>> = rows.iter().filter(|row| row.device.recorded.is_some()).collect();
    if !partial.is_empty() && partial.len() < rows.len() {
        let number = counted(partial.len(), "recording does", "recordings do");
        notes.push(format!("{number} not hold the whole run, and others do: an earlier peak would not be seen"));
    }
    let bare = rows.iter().filter(|row| !row.digest.has_stacks).count();
    if bare == rows.len() && bare > 0 {
        notes.push(
            "no stacks were recorded: causes are inferred from sizes and their order, and no line is named".to_owned(),
        );
    } else if bare > 0 {
        notes.push(format!(
            "{} no stacks: their lines cannot be compared",
            counted(bare, "recording has", "recordings have")
        ));
    }
    if rows.iter().any(|row| row.rank.is_none()) {
        let hint = "name the files `rank0.pickle`, `rank1.pickle`, …, or record with `highwater run`";
        notes.push(format!("some ranks are unknown, so their files name them: {hint}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_one_span() {
        assert_eq!(spans(&[0, 1, 2, 3, 5, 7, 8]), "0–3, 5, 7, 8");
        assert_eq!(spans(&[]), "");
    }

    #[test]
    fn the_middle_and_its_spread_tell_what_is_far() {
        let values = vec![100, 100, 101, 99, 140];
        let far = deviation(values, 5);
        assert!(far(140, 100));
        assert!(!far(101, 100));
        let wide = deviation(vec![60, 80, 100, 120, 140], 5);
        assert!(!wide(140, 100), "others differ as much");
        assert!(deviation(vec![10, 12], 5)(12, 10));
    }

    #[test]
    fn imbalance_is_the_largest_over_the_mean() {
        assert_eq!(largest_over_mean(&[1, 1, 4]), Some(2.0));
        assert_eq!(largest_over_mean(&[0, 0]), None);
        assert_eq!(largest_over_mean(&[u64::MAX, u64::MAX]), Some(1.0));
    }
}
