//! Differences between recordings: growth, shrinkage, other settings.

use std::collections::BTreeMap;

use highwater_analysis::Analysis;
use highwater_analysis::callsite::Site;
use highwater_analysis::category::Category;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::timeline::Totals;
use highwater_snapshot::{EntryId, Setting, Snapshot, StackId};

/// The moment at which recordings are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Each at its own peak.
    Peak,
    /// Each at its dump.
    End,
    /// Each at the peak of this iteration.
    Iteration(usize),
}

/// One device of several recordings, side by side.
#[derive(Clone, Debug)]
pub struct DeviceDiff<'a> {
    /// CUDA ordinals, one for each recording.
    pub devices: Vec<u32>,
    /// One for each recording.
    pub sides: Vec<Side>,
    /// Call sites, those that changed most from the first to the last recording first.
    pub sites: Vec<SiteDiff<'a>>,
    /// The categories that any recording has, in the order of reports.
    pub categories: Vec<CategoryDiff>,
    /// The last recording is of the process of the first, dumped so many entries later.
    pub later_by: Option<usize>,
}

/// A device of one recording.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// The entry after which it is compared; `None` before the first one.
    pub entry: Option<EntryId>,
    /// The totals there.
    pub totals: Totals,
    /// The maximum of each total over the recording.
    pub peak: Totals,
    /// The totals at the last entry.
    pub end: Totals,
    /// Number of complete iterations.
    pub iterations: usize,
    /// Whether reserved bytes are known; a profiler's file does not have them.
    pub knows_reserved: bool,
}

/// The key of a call site in every recording: names survive another directory, and a moved line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteName<'a> {
    /// The words for a site without a line of its own; of a node, the rest is the line of its forward operator, if known.
    pub label: Option<&'a str>,
    /// The function.
    pub name: &'a str,
    /// The file: below `site-packages` if it is there, else without its directories.
    pub file: &'a str,
    /// The line, in the last recording that has the site.
    pub line: u64,
}

/// A call site in several recordings.
#[derive(Clone, Debug)]
pub struct SiteDiff<'a> {
    /// Which one.
    pub site: SiteName<'a>,
    /// Bytes in each recording, of the total that its report goes by.
    pub bytes: Vec<u64>,
    /// Allocations in each.
    pub count: Vec<u64>,
    /// The recording and the stack with its frames: of the last that has it.
    pub stack: (usize, StackId),
    /// The site there.
    pub there: Site,
}

impl SiteDiff<'_> {
    /// From the first recording to the last.
    pub fn change_bytes(&self) -> i128 {
        change_bytes(&self.bytes)
    }
}

/// The bytes of a category in several recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryDiff {
    /// Which one.
    pub category: Category,
    /// Bytes in each recording, of the total that its report goes by.
    pub bytes: Vec<u64>,
}

impl CategoryDiff {
    /// From the first recording to the last.
    pub fn change_bytes(&self) -> i128 {
        change_bytes(&self.bytes)
    }
}

/// From the first recording to the last.
fn change_bytes(bytes: &[u64]) -> i128 {
    let at = |bytes: Option<&u64>| bytes.map_or(0, |&bytes| i128::from(bytes));
    at(bytes.last()) - at(bytes.first())
}

/// A setting that is not the same everywhere.
#[derive(Clone, Debug)]
pub struct SettingDiff<'a> {
    /// Its key; tables with dots.
    pub key: String,
    /// Its value in each recording, where it is set.
    pub values: Vec<Option<&'a Setting>>,
}

/// Which devices are compared with each other, given those of each recording: those of one number that all have; where
/// there is none, as with two ranks of a job, the devices of recordings that have one each.
pub fn matching_devices(devices: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let Some((first, others)) = devices.split_first() else { return Vec::new() };
    let in_all = first.iter().filter(|device| others.iter().all(|other| other.contains(device)));
    let same: Vec<Vec<u32>> = in_all.map(|&device| vec![device; devices.len()]).collect();
    match devices.iter().map(|of| <[u32; 1]>::try_from(&of[..])).collect::<Result<Vec<_>, _>>() {
        Ok(single) if same.is_empty() => vec![single.concat()],
        _ => same,
    }
}

/// Compares a device of each recording, by their numbers; the moment is that of the dump where they are of one process,
/// else the peak, if none is asked for. `None` if one of the recordings has no such device.
pub fn compare_devices<'a>(
    analyses: &'a [&'a Analysis<'a>],
    devices: &[u32],
    at: Option<Moment>,
) -> Option<(Moment, DeviceDiff<'a>)> {
    let sides = analyses.iter().zip(devices).map(|(analysis, &device)| analysis.device(device));
    let sides: Vec<&DeviceAnalysis<'a>> = sides.collect::<Option<_>>()?;
    let later_by = later_by(sides.first()?, sides.last()?);
    let at = at.unwrap_or(if later_by.is_some() { Moment::End } else { Moment::Peak });
    Some((at, compare(analyses, &sides, at, later_by)))
}

fn compare<'a>(
    analyses: &'a [&'a Analysis<'a>],
    devices: &[&'a DeviceAnalysis<'a>],
    at: Moment,
    later_by: Option<usize>,
) -> DeviceDiff<'a> {
    let mut by_name: BTreeMap<SiteName<'a>, SiteDiff<'a>> = BTreeMap::new();
    let mut sides = Vec::with_capacity(devices.len());
    let mut by_category = Category::ALL.map(|category| CategoryDiff { category, bytes: Vec::new() }).to_vec();
    for (i, (analysis, device)) in analyses.iter().zip(devices).enumerate() {
        let side = side(device, at);
        for total in device.counted_by_site(side.entry, analysis.snapshot, &analysis.sites) {
            let name = name_of(analysis.snapshot, total.site);
            let zeros = || vec![0; devices.len()];
            let diff = by_name.entry(name).or_insert_with(|| SiteDiff {
                site: name,
                bytes: zeros(),
                count: zeros(),
                stack: (i, total.stack),
                there: total.site,
            });
            diff.bytes[i] = diff.bytes[i].saturating_add(total.bytes);
            diff.count[i] += total.count;
            diff.stack = (i, total.stack);
            diff.there = total.site;
        }
        let sums = device.counted_by_category(side.entry, analysis.snapshot);
        by_category.iter_mut().zip(sums).for_each(|(diff, bytes)| diff.bytes.push(bytes));
        sides.push(side);
    }
    let mut changed = with_moved_lines(by_name.into_values().collect());
    changed.sort_by_key(|site| (std::cmp::Reverse(site.change_bytes().unsigned_abs()), site.site));
    by_category.retain(|diff| diff.bytes.iter().any(|&bytes| bytes > 0));
    let devices = devices.iter().map(|device| device.device).collect();
    DeviceDiff { devices, sides, sites: changed, categories: by_category, later_by }
}

fn side(device: &DeviceAnalysis<'_>, at: Moment) -> Side {
    let entry = match at {
        Moment::Peak => device.peak().entry,
        Moment::End => device.entries.ids().next_back(),
        Moment::Iteration(number) => device.iterations.rows.get(number).and_then(|iteration| iteration.peak_entry),
    };
    let timeline = &device.timeline;
    let peak = Totals {
        requested_bytes: timeline.requested_peak().bytes,
        allocated_bytes: timeline.allocated_peak().bytes,
        active_bytes: timeline.active_peak().bytes,
        reserved_bytes: timeline.reserved_peak().bytes,
        ..Totals::default()
    };
    Side {
        entry,
        totals: device.totals(entry),
        peak,
        end: timeline.end(),
        iterations: device.iterations.rows.iter().filter(|iteration| iteration.is_complete).count(),
        knows_reserved: device.profile.is_none(),
    }
}

/// The name of a site, the same in every recording.
pub fn name_of(snapshot: &Snapshot, site: Site) -> SiteName<'_> {
    match site {
        Site::Frame(frame) => {
            let frame = snapshot.frames.get(frame);
            let file = below_packages(snapshot.text(frame.filename));
            SiteName { label: None, name: snapshot.text(frame.name), file, line: frame.line }
        }
        other => {
            let of_line = other.line().map(|line| name_of(snapshot, Site::Frame(line))).unwrap_or_default();
            SiteName { label: other.label(snapshot), ..of_line }
        }
    }
}

/// The part of a path that is the same on two machines.
fn below_packages(path: &str) -> &str {
    if let Some(at) = path.rfind("-packages/").or_else(|| path.rfind("-packages\\")) {
        return &path[at + "-packages/".len()..];
    }
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Joins sites of one function where each recording has another line of it: the function was edited.
fn with_moved_lines(sites: Vec<SiteDiff<'_>>) -> Vec<SiteDiff<'_>> {
    let mut joined: Vec<SiteDiff<'_>> = Vec::with_capacity(sites.len());
    // In order of (label, name, file, line): the lines of a function follow each other.
    for site in sites {
        let fits = |last: &SiteDiff<'_>| {
            let same =
                (last.site.label, last.site.name, last.site.file) == (site.site.label, site.site.name, site.site.file);
            same && last.count.iter().zip(&site.count).all(|(&a, &b)| a == 0 || b == 0)
        };
        match joined.last_mut().filter(|last| fits(last)) {
            Some(last) => {
                for i in 0..last.bytes.len() {
                    last.bytes[i] = last.bytes[i].saturating_add(site.bytes[i]);
                    last.count[i] += site.count[i];
                }
                if site.stack.0 > last.stack.0 {
                    last.stack = site.stack;
                    last.there = site.there;
                    last.site = site.site;
                }
            }
            None => joined.push(site),
        }
    }
    joined
}

/// How many entries the later recording of a process goes on after the earlier one's last; `None` if they are of two.
fn later_by(earlier: &DeviceAnalysis<'_>, later: &DeviceAnalysis<'_>) -> Option<usize> {
    let last = earlier.entries.ids().next_back()?;
    let same = |id: EntryId| {
        let (a, b) = (earlier.entries.get(last), later.entries.get(id));
        (a.action, a.address, a.size_bytes, a.time_us) == (b.action, b.address, b.size_bytes, b.time_us)
    };
    earlier.entries.time_us(last)?;
    // A dump is an entry of its own only with some versions: then it is the last one, and stays where it is. The trace of
    // a ring buffer that wrapped meanwhile begins later.
    let at = later.entries.ids().rev().find(|&id| same(id))?;
    let after = later.entries.len() - 1 - at.index();
    (after > 0).then_some(after)
}

/// The settings that are not the same in all recordings, by key.
pub fn settings<'a>(analyses: &'a [&'a Analysis<'a>]) -> Vec<SettingDiff<'a>> {
    let mut all: BTreeMap<String, Vec<Option<&Setting>>> = BTreeMap::new();
    for (i, analysis) in analyses.iter().enumerate() {
        flatten("", &analysis.snapshot.settings.entries, &mut |key, value| {
            all.entry(key).or_insert_with(|| vec![None; analyses.len()])[i] = Some(value);
        });
    }
    all.into_iter()
        .filter(|(_, values)| values.iter().any(|value| *value != values[0]))
        .map(|(key, values)| SettingDiff { key, values })
        .collect()
}

/// Calls back with every setting that is no table; a table is never deeper than the reader allows.
fn flatten<'a>(prefix: &str, entries: &'a [(String, Setting)], each: &mut impl FnMut(String, &'a Setting)) {
    for (key, value) in entries {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Setting::Table(table) => flatten(&key, table, each),
            value => each(key, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &'static str, line: u64, bytes: [u64; 2]) -> SiteDiff<'static> {
        let count = bytes.iter().map(|&bytes| u64::from(bytes > 0)).collect();
        let holder = usize::from(bytes[1] > 0);
        let name = SiteName { label: None, name, file: "a.py", line };
        SiteDiff { site: name, bytes: bytes.to_vec(), count, stack: (holder, StackId::EMPTY), there: Site::NoPython }
    }

    #[test]
    fn devices_of_one_number_are_compared_or_else_the_only_ones() {
        assert_eq!(matching_devices(&[vec![0, 1], vec![1, 2]]), [[1, 1]]);
        assert_eq!(matching_devices(&[vec![0, 1], vec![0, 1]]), [[0, 0], [1, 1]]);
        assert_eq!(matching_devices(&[vec![0], vec![1], vec![5]]), [[0, 1, 5]], "three ranks");
        assert!(matching_devices(&[vec![0, 1], vec![2]]).is_empty(), "which of the two is not told");
        assert!(matching_devices(&[vec![0], vec![]]).is_empty());
    }

    #[test]
    fn a_line_that_moved_is_the_same_site() {
        let joined = with_moved_lines(vec![site("f", 3, [100, 0]), site("f", 5, [0, 120]), site("g", 9, [7, 7])]);
        assert_eq!(joined.len(), 2);
        assert_eq!((joined[0].site.line, &joined[0].bytes[..]), (5, &[100, 120][..]));
    }

    #[test]
    fn two_lines_of_a_function_that_both_recordings_have_stay_two() {
        let joined = with_moved_lines(vec![site("f", 3, [100, 90]), site("f", 5, [0, 120])]);
        assert_eq!(joined.len(), 2);
    }

    #[test]
    fn paths_are_told_below_the_packages() {
        assert_eq!(below_packages("/a/lib/python3.12/site-packages/torch/nn/x.py"), "torch/nn/x.py");
        assert_eq!(below_packages("C:\\v\\site-packages\\torch\\x.py"), "torch\\x.py");
        assert_eq!(below_packages("/home/me/train.py"), "train.py");
    }
}
