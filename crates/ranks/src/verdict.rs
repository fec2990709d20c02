//! The answer in a few sentences.

use highwater_documents::ranks::{GroupView, RankView, RanksView};
use highwater_units::{count, size};

use crate::compare::spans;

/// Groups of outliers that are told one by one.
const TOLD: usize = 3;

/// The answer: the first failure, the ranks that differ and why, or that none does.
pub(crate) fn verdict(view: &RanksView) -> String {
    let mut sentences: Vec<String> = Vec::new();
    sentences.extend(failure(view));
    match &view.ranks[..] {
        [] => sentences.push("No rank could be read.".to_owned()),
        [one] => sentences.push(format!(
            "There is only one rank, so there is nothing to compare: it peaks at {}.",
            size(one.peak_allocated_bytes)
        )),
        _ => sentences.extend(differences(view)),
    }
    sentences.join(" ")
}

/// What a rank is called, at the beginning of a sentence.
pub(crate) fn name(rank: &RankView, is_one_process: bool) -> String {
    match rank.rank {
        _ if is_one_process => format!("Device {}", rank.device),
        Some(number) => format!("Rank {number}"),
        None => format!("`{}`", rank.file.rsplit(['/', '\\']).next().unwrap_or(&rank.file)),
    }
}

/// Whether the ranks are the devices of one process.
pub(crate) fn is_one_process(ranks: &[RankView]) -> bool {
    ranks.len() > 1 && ranks.iter().all(|rank| rank.file == ranks[0].file)
}

fn failure(view: &RanksView) -> Option<String> {
    let first = view.first_failure.as_ref()?;
    let name = name(&view.ranks[first.row], is_one_process(&view.ranks));
    let when = first
        .iteration
        .map_or_else(String::new, |before| format!(", in iteration {}", count(before.saturating_add(1))));
    let others = match (first.others, first.ordered_by) {
        (0, _) => String::new(),
        (others, "unknown") => format!("; {} more failed, and their clocks cannot be compared", count(others)),
        (1, _) => "; one more failed later".to_owned(),
        (others, _) => format!("; {} more failed later", count(others)),
    };
    let word = if first.others == 0 { "ran out of memory" } else { "ran out of memory first" };
    Some(format!("{name} {word}{when}, on a request of {}{others}.", size(first.requested_bytes)))
}

fn differences(view: &RanksView) -> Vec<String> {
    let is_one_process = is_one_process(&view.ranks);
    let outliers: Vec<&GroupView> = view.groups.iter().filter(|group| group.is_outlier).collect();
    let mut sentences: Vec<String> = Vec::new();
    for group in outliers.iter().take(TOLD) {
        sentences.push(outlier(view, &view.ranks[group.rows[0]], is_one_process));
        sentences.extend(alike(view, group, is_one_process));
    }
    let rest = outliers.get(TOLD..).unwrap_or_default();
    let more: usize = rest.iter().map(|group| group.rows.len()).sum();
    if more > 0 {
        let numbers: Vec<u32> = rest.iter().flat_map(|group| &group.ranks).copied().collect();
        let [noun, differ] = if more == 1 { ["rank", "differs"] } else { ["ranks", "differ"] };
        sentences.push(format!("{} more {noun} {differ}: {}.", count(more), spans(&sorted(numbers))));
    }
    let stages = view.imbalance.by_stage.len();
    if stages > 1 {
        sentences.push(by_stage(view, stages, outliers.is_empty()));
    } else if outliers.is_empty() {
        sentences.push(even(view, is_one_process));
    }
    sentences.extend(strays(view));
    sentences
}

/// The other ranks of a group of outliers.
fn alike(view: &RanksView, group: &GroupView, is_one_process: bool) -> Option<String> {
    let others: Vec<&RankView> = group.rows.iter().skip(1).map(|&row| &view.ranks[row]).collect();
    let numbers: Option<Vec<u32>> = others.iter().map(|rank| rank.rank).collect();
    match (&others[..], numbers) {
        ([], _) => None,
        ([other], _) => Some(format!("{} differs in the same way.", name(other, is_one_process))),
        (_, Some(numbers)) if !is_one_process => {
            Some(format!("Ranks {} differ in the same way.", spans(&sorted(numbers))))
        }
        _ => Some(format!("{} others differ in the same way.", count(others.len()))),
    }
}

/// Ranks that also use a device of others.
fn strays(view: &RanksView) -> Option<String> {
    let is_stray = |rank: &&RankView| rank.because.iter().any(|because| because.kind == "other-device");
    let numbers: Vec<u32> = view.ranks.iter().filter(is_stray).filter_map(|rank| rank.rank).collect();
    let noun = match &numbers[..] {
        [] => return None,
        [_] => "Rank",
        _ => "Ranks",
    };
    let uses = if numbers.len() == 1 { "also uses" } else { "also use" };
    Some(format!("{noun} {} {uses} a device that belongs to another rank.", spans(&numbers)))
}

fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers
}

fn outlier(view: &RanksView, rank: &RankView, is_one_process: bool) -> String {
    let name = name(rank, is_one_process);
    let middle = middle(view, rank);
    let (own, other) = (rank.peak_allocated_bytes, middle);
    let of = if view.ranks.len() == 2 { "the other" } else { "the median rank" };
    let by = own.abs_diff(other);
    let peaks = if by.saturating_mul(100) < other {
        format!("{name} peaks at {}, like {of}", size(own))
    } else {
        let word = if own > other { "more" } else { "less" };
        format!("{name} peaks at {}, {} {word} than {of}", size(own), size(by))
    };
    match rank.because.first() {
        Some(because) if because.kind != "unknown" => format!("{peaks}: {}.", because.sentence),
        _ => format!("{peaks}; the cause is unknown."),
    }
}

/// The median peak of the ranks that are no outliers and of the same part.
fn middle(view: &RanksView, rank: &RankView) -> u64 {
    let same = |other: &&RankView| other.role == rank.role && !other.is_outlier;
    let mut peaks: Vec<u64> = view.ranks.iter().filter(same).map(|rank| rank.peak_allocated_bytes).collect();
    peaks.sort_unstable();
    peaks.get(peaks.len().saturating_sub(1) / 2).copied().unwrap_or(rank.peak_allocated_bytes)
}

fn by_stage(view: &RanksView, stages: usize, no_outlier: bool) -> String {
    let mut means: Vec<&_> = view.imbalance.by_stage.iter().collect();
    means.sort_by_key(|stage| std::cmp::Reverse(stage.mean_peak_allocated_bytes));
    let (most, least) = (means[0], means[means.len() - 1]);
    let none = if no_outlier { "; within a part no rank differs" } else { "" };
    format!(
        "The job has {} parts: {} peaks at {} and {} at {}{none}.",
        count(stages),
        most.role,
        size(most.mean_peak_allocated_bytes),
        least.role,
        size(least.mean_peak_allocated_bytes)
    )
}

/// That no rank is odd.
fn even(view: &RanksView, is_one_process: bool) -> String {
    let peaks = || view.ranks.iter().map(|rank| rank.peak_allocated_bytes);
    let (least, most) = (peaks().min().unwrap_or(0), peaks().max().unwrap_or(0));
    let noun = if is_one_process { "devices" } else { "ranks" };
    let number =
        if view.ranks.len() == 2 { format!("Both {noun}") } else { format!("All {} {noun}", count(view.ranks.len())) };
    if view.groups.len() == 1 {
        let span = if size(least) == size(most) {
            format!("peaks are at {}", size(most))
        } else {
            format!("peaks range from {} to {}", size(least), size(most))
        };
        return format!("{number} hold about the same amount: {span}.");
    }
    let because = view.ranks.iter().flat_map(|rank| &rank.because).next();
    let because = because.map_or_else(String::new, |because| format!(": {}", because.sentence));
    format!(
        "No rank is an outlier, but peaks range from {} to {}{because}.",
        of_group(view, view.groups.last(), least),
        of_group(view, view.groups.first(), most)
    )
}

fn of_group(view: &RanksView, group: Option<&GroupView>, bytes: u64) -> String {
    match group.map(|group| &group.rows[..]) {
        Some([row]) => {
            let name = name(&view.ranks[*row], is_one_process(&view.ranks));
            format!("{} ({})", size(bytes), name.to_lowercase())
        }
        _ => size(bytes),
    }
}
