//! What stays of one recording: a value of bounded size that can be sent, stored and compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use highwater_analysis::Analysis;
use highwater_analysis::callsite;
use highwater_analysis::category::Category;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::iteration::Iteration;
use highwater_analysis::lifetime::Lifetime;
use highwater_analysis::place::place_in;
use highwater_analysis::timeline::{Total, Totals};
use highwater_analysis::torch_version::torch_version;
use highwater_findings::diff::name_of;
use highwater_snapshot::{EntryId, StackId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::manifest::{self, Manifest};
use crate::programs;

/// Call sites that are kept, of the largest.
const MOST_SITES: usize = 160;
/// The same at the dump.
const MOST_END_SITES: usize = 64;
/// Rows of an iteration's work that are kept, of the largest.
const MOST_WORK: usize = 400;
/// Sizes of parameters that are kept, of those with most bytes.
const MOST_SIZES: usize = 200;
/// Distinct sizes that tell rows from lengths: of the smallest requests.
const MOST_SMALL: usize = 512;
/// Larger requests are no rows of token ids, positions or labels.
const SMALL_BYTES: u64 = 64 << 20;
/// Bytes of the widest number.
const NUMBER_BYTES: u64 = 8;
/// Requests of an iteration that are kept where there are no stacks.
const MOST_REQUESTS: usize = 8192;
/// Iterations that are kept one by one, of the first.
const MOST_ITERATIONS: usize = 512;
/// Call sites that grow, and failures, that are kept.
const MOST_GROWING: usize = 32;

/// One recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// The file's name, as the caller calls it.
    pub file: String,
    /// What the recorder wrote beside the snapshot, or in it.
    pub manifest: Option<Manifest>,
    /// The version of PyTorch that wrote it, as far as the file shows.
    pub torch: String,
    /// The allocator's settings, as text.
    pub settings: BTreeMap<String, String>,
    /// Why the file ends early, if it does.
    pub cut: Option<String>,
    /// Whether stacks were recorded.
    pub has_stacks: bool,
    /// Libraries and modules among the frames that divide work among ranks: see `programs`.
    pub programs: Vec<String>,
    /// Every device with entries or segments, ascending.
    pub devices: Vec<DeviceDigest>,
}

/// A device of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceDigest {
    /// CUDA ordinal.
    pub device: u32,
    /// Trace entries.
    pub entries: u64,
    /// The first and the last time of an entry.
    pub time_us: Option<[i64; 2]>,
    /// Why it does not hold the whole run, if it does not.
    pub recorded: Option<String>,
    /// Whether peaks count requested bytes, because the sizes of blocks are estimates.
    pub is_requested: bool,
    /// The highest bytes of the total that peaks are told by.
    pub peak_bytes: u64,
    /// The highest reserved bytes.
    pub peak_reserved_bytes: u64,
    /// Allocated at the dump.
    pub end_allocated_bytes: u64,
    /// Reserved at the dump.
    pub end_reserved_bytes: u64,
    /// The moment of the peak.
    pub peak: Moment,
    /// By category at the peak, in the order of reports.
    pub categories: [u64; Category::ALL.len()],
    /// By category at the dump.
    pub end_categories: [u64; Category::ALL.len()],
    /// Requests for which the cache was released first.
    pub retries: usize,
    /// Requests that failed, the first of them.
    pub failures: Vec<Failure>,
    /// How many failed.
    pub failed: usize,
    /// The passes of the training loop.
    pub iterations: Iterations,
    /// Call sites that leave memory behind in each iteration.
    pub growing: Vec<Growing>,
    /// Call sites at the peak, those with most bytes.
    pub sites: Vec<SiteBytes>,
    /// Call sites at the dump, those with most bytes.
    pub end_sites: Vec<SiteBytes>,
    /// The blocks at the peak, by their sizes.
    pub blocks: Held,
    /// The parameters, by their sizes, as they were at the end.
    pub parameters: Held,
    /// The optimizer's state, likewise.
    pub optimizer_state: Held,
    /// What the iteration with the highest peak requests.
    pub work: Work,
}

/// A moment of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The entry; `None` before the first one.
    pub entry: Option<u32>,
    /// Its time.
    pub time_us: Option<i64>,
    /// The iteration that it lies in.
    pub iteration: Option<u32>,
    /// The phase of that iteration.
    pub phase: Option<String>,
    /// It comes before the first iteration.
    pub is_set_up: bool,
    /// It comes after the last one.
    pub is_after: bool,
    /// Reserved then.
    pub reserved_bytes: u64,
    /// Active then.
    pub active_bytes: u64,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The entry.
    pub entry: u32,
    /// Its time.
    pub time_us: Option<i64>,
    /// Complete iterations before it.
    pub iteration: Option<u32>,
    /// The bytes that were requested.
    pub requested_bytes: u64,
    /// What the driver had free.
    pub free_bytes: Option<u64>,
    /// Reserved then.
    pub reserved_bytes: u64,
    /// Where.
    pub place: String,
}

/// The passes of the training loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Iterations {
    /// How they were found.
    pub by: String,
    /// Complete ones.
    pub complete: usize,
    /// The peak of each, of the first of them.
    pub peak_bytes: Vec<u64>,
    /// When each ended, of the first of them; `None` where no time is recorded.
    pub end_us: Vec<Option<i64>>,
}

/// A call site, by what is the same on every rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Site {
    /// The words for a site without a line of its own.
    pub label: Option<String>,
    /// The function.
    pub name: String,
    /// The file, below its package or without its directories.
    pub file: String,
    /// The line.
    pub line: u64,
}

/// The bytes of a call site at the peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteBytes {
    /// Which one.
    pub site: Site,
    /// The cause in words.
    pub place: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its blocks.
    pub count: u64,
    /// The category of most of its bytes, in the order of reports.
    pub category: u8,
    /// Of the bytes, those allocated before the first iteration.
    pub set_up_bytes: u64,
}

/// A call site that leaves memory behind in each iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Growing {
    /// Which one.
    pub site: Site,
    /// The cause in words.
    pub place: String,
    /// Requested bytes left behind in all counted iterations.
    pub bytes: u64,
    /// In each, in the mean.
    pub bytes_per_iteration: u64,
    /// Iterations that left something.
    pub iterations: usize,
    /// It is the loss that stays.
    pub is_loss: bool,
}

/// Blocks that stay, by their sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Requested bytes of all.
    pub bytes: u64,
    /// Blocks.
    pub count: u64,
    /// Requested bytes of one and how many there are, of the sizes with most bytes.
    pub sizes: Vec<(u64, u64)>,
}

/// What an iteration requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Which iteration; `None` if it is the whole recording.
    pub iteration: Option<u32>,
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests of a number, such as a loss.
    pub scalars: u64,
    /// By call site and category, those with most bytes.
    pub rows: Vec<(Site, u8, Sizes)>,
    /// The requests one by one, where no stacks were recorded and there are not too many.
    pub sequence: Vec<u64>,
    /// As many as there are categories: the requested bytes of each.
    pub categories: [u64; Category::ALL.len()],
    /// The sizes of its requests and how many there are of each, of the sizes with most bytes.
    pub sizes: Vec<(u64, u64)>,
    /// The distinct sizes of small requests, ascending: of inputs, activations and intermediates.
    pub small: Vec<u64>,
}

/// Requests of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes of all.
    pub bytes: u64,
    /// Their number.
    pub count: u64,
    /// Bytes of the largest.
    pub largest_bytes: u64,
    /// Bytes of the smallest.
    pub smallest_bytes: u64,
}

/// Makes the digest of an analysed snapshot; `file` is how the caller calls it.
pub fn digest(file: &str, analysis: &Analysis<'_>) -> Digest {
    let snapshot = analysis.snapshot;
    Digest {
        file: file.to_owned(),
        manifest: manifest::in_snapshot(snapshot),
        torch: torch_version(snapshot).to_string(),
        settings: settings(snapshot),
        cut: snapshot.cut.as_ref().map(|cut| cut.reason.clone()),
        has_stacks: !snapshot.frames.is_empty(),
        programs: programs::found(snapshot),
        devices: analysis.devices.iter().map(|device| device_digest(analysis, device)).collect(),
    }
}

fn settings(snapshot: &highwater_snapshot::Snapshot) -> BTreeMap<String, String> {
    use highwater_snapshot::Setting;
    let text = |setting: &Setting| match setting {
        Setting::Bool(value) => Some(value.to_string()),
        Setting::Int(value) => Some(value.to_string()),
        Setting::Float(value) => Some(value.to_string()),
        Setting::Text(value) => Some(value.clone()),
        Setting::Table(_) => None,
    };
    let entries = snapshot.settings.entries.iter();
    entries.filter_map(|(key, setting)| Some((key.clone(), text(setting)?))).take(MOST_GROWING).collect()
}

fn device_digest(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> DeviceDigest {
    let snapshot = analysis.snapshot;
    let entries = device.entries;
    let (peak, rows) = (device.peak(), &device.iterations.rows);
    let first = rows.first().map(|iteration| iteration.entries.start);
    let last = rows.last().map(|iteration| iteration.entries.end);
    let times = || entries.ids().filter_map(|id| entries.time_us(id));
    let end = entries.ids().next_back();
    DeviceDigest {
        device: device.device,
        entries: entries.len() as u64,
        time_us: entries.has_times().then(|| Some([times().min()?, times().max()?])).flatten(),
        recorded: device.recorded.reason.clone(),
        is_requested: device.by == Total::Requested,
        peak_bytes: peak.bytes,
        peak_reserved_bytes: device.timeline.reserved_peak().bytes,
        end_allocated_bytes: device.end.allocated_bytes,
        end_reserved_bytes: device.end.reserved_bytes,
        peak: moment(device, peak.entry, first, last),
        categories: device.counted_by_category(peak.entry, snapshot),
        end_categories: device.counted_by_category(end, snapshot),
        retries: highwater_findings::retries(device),
        failures: device.oom.iter().take(MOST_GROWING).map(|failure| failed(analysis, device, failure)).collect(),
        failed: device.oom.len(),
        iterations: Iterations {
            by: device.iterations.by().into_owned(),
            complete: rows.iter().filter(|iteration| iteration.is_complete).count(),
            peak_bytes: rows.iter().take(MOST_ITERATIONS).map(|iteration| device.by.of(&iteration.peak)).collect(),
            end_us: rows.iter().take(MOST_ITERATIONS).map(|iteration| ended(device, iteration)).collect(),
        },
        growing: growing(analysis, device),
        sites: sites(analysis, device, peak.entry, first, MOST_SITES),
        end_sites: sites(analysis, device, end, first, MOST_END_SITES),
        blocks: at_peak(analysis, device),
        parameters: held(device, Category::Parameter, end),
        optimizer_state: held(device, Category::OptimizerState, end),
        work: work(analysis, device),
    }
}

fn moment(device: &DeviceAnalysis<'_>, entry: Option<EntryId>, first: Option<usize>, last: Option<usize>) -> Moment {
    let totals: Totals = device.totals(entry);
    let iteration = entry.and_then(|entry| device.iterations.containing(entry));
    let phase = entry.zip(iteration).and_then(|(entry, number)| {
        let runs = &device.iterations.rows[number].phases;
        runs.iter().find(|run| run.entries.contains(&entry.index())).map(|run| run.phase.name().to_owned())
    });
    Moment {
        entry: entry.map(EntryId::get),
        time_us: entry.and_then(|entry| device.entries.time_us(entry)),
        iteration: iteration.map(number),
        phase,
        is_set_up: first.is_some_and(|first| entry.is_none_or(|entry| entry.index() < first)),
        is_after: last.is_some_and(|last| entry.is_some_and(|entry| entry.index() >= last)),
        reserved_bytes: totals.reserved_bytes,
        active_bytes: totals.active_bytes,
    }
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn ended(device: &DeviceAnalysis<'_>, iteration: &Iteration) -> Option<i64> {
    let last = iteration.entries.end.checked_sub(1)?;
    device.entries.time_us(EntryId::from_index(last))
}

fn failed(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    failure: &highwater_analysis::oom::OutOfMemory,
) -> Failure {
    let rows = &device.iterations.rows;
    let before = rows.iter().filter(|row| row.is_complete && row.entries.end <= failure.entry.index()).count();
    Failure {
        entry: failure.entry.get(),
        time_us: device.entries.time_us(failure.entry),
        iteration: (!rows.is_empty()).then(|| number(before)),
        requested_bytes: failure.requested_bytes,
        free_bytes: failure.device_free_bytes,
        reserved_bytes: failure.totals.reserved_bytes,
        place: highwater_analysis::place::stack(analysis.snapshot, &analysis.sites, failure.stack),
    }
}

fn site(analysis: &Analysis<'_>, site: callsite::Site) -> Site {
    let name = name_of(analysis.snapshot, site);
    Site {
        label: name.label.map(str::to_owned),
        name: name.name.to_owned(),
        file: name.file.to_owned(),
        line: name.line,
    }
}

fn place(analysis: &Analysis<'_>, site: callsite::Site, stack: StackId) -> String {
    place_in(analysis.snapshot, &analysis.sites, site, stack)
}

fn growing(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Vec<Growing> {
    let growing = device.growth.iter().take(MOST_GROWING).map(|growth| Growing {
        site: site(analysis, growth.site),
        place: place(analysis, growth.site, growth.stack),
        bytes: growth.bytes,
        bytes_per_iteration: growth.bytes_per_iteration(),
        iterations: growth.iterations,
        is_loss: growth.is_loss,
    });
    growing.collect()
}

/// The call sites at a moment, so many of the largest; `first` is where the first iteration begins.
fn sites(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    at: Option<EntryId>,
    first: Option<usize>,
    most: usize,
) -> Vec<SiteBytes> {
    #[derive(Default)]
    struct Sum {
        bytes: u64,
        count: u64,
        set_up_bytes: u64,
        by_category: [u64; Category::ALL.len()],
        stack: Option<(u64, StackId)>,
    }
    let mut sums: FxHashMap<callsite::Site, Sum> = FxHashMap::default();
    for (row, bytes) in device.counted_rows(at, analysis.snapshot) {
        let lifetime = &device.lifetimes.rows[row];
        let sum = sums.entry(device.site(lifetime, &analysis.sites)).or_default();
        sum.bytes = sum.bytes.saturating_add(bytes);
        sum.count += 1;
        if first.is_some_and(|first| lifetime.alloc().is_none_or(|alloc| alloc.index() < first)) {
            sum.set_up_bytes = sum.set_up_bytes.saturating_add(bytes);
        }
        let category = &mut sum.by_category[device.decided(row).category as usize];
        *category = category.saturating_add(bytes);
        if sum.stack.is_none_or(|(most, _)| bytes > most) {
            sum.stack = Some((bytes, lifetime.stack));
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|(site, sum)| (Reverse(sum.bytes), *site));
    let largest = |by_category: &[u64]| (0..by_category.len()).max_by_key(|&at| (by_category[at], Reverse(at)));
    let kept = sums.into_iter().take(most).map(|(at, sum)| SiteBytes {
        site: site(analysis, at),
        place: place(analysis, at, sum.stack.map_or(StackId::MISSING, |(_, stack)| stack)),
        bytes: sum.bytes,
        count: sum.count,
        category: largest(&sum.by_category).map_or(0, category_number),
        set_up_bytes: sum.set_up_bytes,
    });
    kept.collect()
}

fn category_number(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(0)
}

/// What counts at the peak.
fn at_peak(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Held {
    of_sizes(device.counted_rows(device.peak().entry, analysis.snapshot).map(|(_, bytes)| bytes).collect())
}

/// The blocks of a category that are there at the dump.
fn held(device: &DeviceAnalysis<'_>, category: Category, end: Option<EntryId>) -> Held {
    let of = device.live_rows(end).filter(|&(row, _)| device.decided(row).category == category);
    of_sizes(of.map(|(_, lifetime)| lifetime.requested_bytes).collect())
}

fn of_sizes(sizes: Vec<u64>) -> Held {
    let count = sizes.len() as u64;
    let bytes = sizes.iter().copied().fold(0, u64::saturating_add);
    Held { bytes, count, sizes: by_size(sizes.into_iter()) }
}

/// Sizes and how often each is there, those with most bytes.
fn by_size(sizes: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut counts: FxHashMap<u64, u64> = FxHashMap::default();
    for size in sizes {
        *counts.entry(size).or_default() += 1;
    }
    largest_first(counts)
}

fn largest_first(counts: FxHashMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut counts: Vec<(u64, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|&(size, count)| (Reverse(size.saturating_mul(count)), size));
    counts.truncate(MOST_SIZES);
    counts
}

/// The iteration with the highest peak: the one that decides how much memory the rank needs. The first is only it where
/// there is no other, for it also makes what stays.
fn heaviest(device: &DeviceAnalysis<'_>) -> Option<(usize, Range<usize>)> {
    let rows = &device.iterations.rows;
    let whole = |number: &usize| rows[*number].is_complete;
    let by_peak = |number: &usize| (device.by.of(&rows[*number].peak), Reverse(*number));
    let later = (1..rows.len()).filter(whole).max_by_key(by_peak);
    later.or_else(|| (0..rows.len()).find(whole)).map(|number| (number, rows[number].entries.clone()))
}

fn work(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>) -> Work {
    let heaviest = heaviest(device);
    let range = heaviest.as_ref().map_or(0..device.entries.len(), |(_, range)| range.clone());
    let mut work = Work { iteration: heaviest.map(|(at, _)| number(at)), ..Work::default() };
    let allocated = |lifetime: &Lifetime| lifetime.alloc().is_some_and(|alloc| range.contains(&alloc.index()));
    let mut sums: FxHashMap<(callsite::Site, u8), Sizes> = FxHashMap::default();
    let mut sizes: FxHashMap<u64, u64> = FxHashMap::default();
    let mut sequence: Vec<(u32, u64)> = Vec::new();
    let mut small: BTreeSet<u64> = BTreeSet::new();
    let is_bare = analysis.snapshot.frames.is_empty();
    for (row, lifetime) in device.lifetimes.rows.iter().enumerate().filter(|(_, lifetime)| allocated(lifetime)) {
        let bytes = lifetime.requested_bytes;
        let category = device.decided(row).category;
        let sum = sums
            .entry((device.site(lifetime, &analysis.sites), category_number(category as usize)))
            .or_insert(Sizes { smallest_bytes: bytes, ..Sizes::default() });
        sum.bytes = sum.bytes.saturating_add(bytes);
        sum.count += 1;
        sum.largest_bytes = sum.largest_bytes.max(bytes);
        sum.smallest_bytes = sum.smallest_bytes.min(bytes);
        work.requests += 1;
        work.bytes = work.bytes.saturating_add(bytes);
        work.scalars += u64::from(bytes <= NUMBER_BYTES);
        let of_category = &mut work.categories[category as usize];
        *of_category = of_category.saturating_add(bytes);
        *sizes.entry(bytes).or_default() += 1;
        let is_of_data = matches!(category, Category::Input | Category::Activation | Category::Temporary);
        if is_of_data && bytes <= SMALL_BYTES && bytes.is_multiple_of(8) {
            small.insert(bytes);
        }
        if is_bare && sequence.len() <= MOST_REQUESTS {
            sequence.push((lifetime.alloc().map_or(0, EntryId::get), bytes));
        }
    }
    if sequence.len() <= MOST_REQUESTS {
        sequence.sort_unstable();
        work.sequence = sequence.into_iter().map(|(_, bytes)| bytes).collect();
    }
    work.small = small.into_iter().take(MOST_SMALL).collect();
    work.sizes = largest_first(sizes);
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|&((site, category), sum)| (Reverse(sum.bytes), site, category));
    sums.truncate(MOST_WORK);
    work.rows = sums.into_iter().map(|((at, category), sum)| (site(analysis, at), category, sum)).collect();
    work
}
