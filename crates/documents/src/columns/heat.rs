//! A recording as one row of a picture of many: ranks over time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use highwater_analysis::category::Category;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_outside::Timeline;
use highwater_snapshot::EntryId;
use serde::Serialize;

use super::outside::beside;

/// Parts of a row.
const PARTS: usize = 240;

/// The devices of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct HeatView {
    /// One for each device.
    pub devices: Vec<HeatDeviceView>,
}

/// A device in equal parts of the time from its first to its last entry; of its entries, where no times are recorded.
#[derive(Clone, Debug, Serialize)]
pub struct HeatDeviceView {
    /// CUDA ordinal.
    pub device: u32,
    /// When the first and the last entry came, in microseconds; absent where that is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<[i64; 2]>,
    /// The entry of each part after which most is allocated.
    pub entries: Vec<u32>,
    /// By measure, bytes in each part: the highest of `reserved` and `allocated` (requested, where the sizes of blocks are estimates),
    /// and each category when most is allocated; where the driver was recorded, the highest sum `outside` PyTorch, and each owner's part of
    /// that, as `outside: NCCL`.
    pub bytes: BTreeMap<Cow<'static, str>, Vec<u64>>,
}

/// The rows of all devices.
pub fn heat(analysis: &Analysis<'_>) -> HeatView {
    let driver = analysis.driver.as_ref().map(Timeline::new);
    HeatView { devices: analysis.devices.iter().map(|device| row(analysis, device, driver.as_ref())).collect() }
}

fn row(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>, driver: Option<&Timeline<'_>>) -> HeatDeviceView {
    let entries = device.entries;
    let (mut moments, mut reserved, mut allocated) = (Vec::new(), Vec::new(), Vec::new());
    let parts: Vec<Range<usize>> = parts(device)
        .into_iter()
        .map(|part| {
            // Between two entries, the totals are those after the earlier one.
            let before = part.start.saturating_sub(1);
            if part.is_empty() { before..before + 1 } else { part }
        })
        .collect();
    for range in parts.iter().cloned() {
        let (highest, at) = device.timeline.peak_in(range.clone(), device.by);
        reserved.push(highest.reserved_bytes);
        allocated.push(device.by.of(&highest));
        moments.push(at.unwrap_or(EntryId::from_index(range.start)));
    }
    let by_category = device.counted_by_category_at(&moments, analysis.snapshot);
    let mut bytes = BTreeMap::from([("reserved".into(), reserved), ("allocated".into(), allocated)]);
    for category in Category::ALL {
        let of: Vec<u64> = by_category.iter().map(|sums| sums[category as usize]).collect();
        if of.iter().any(|&bytes| bytes > 0) {
            bytes.insert(category.name().into(), of);
        }
    }
    if let Some(beside) = driver.and_then(|driver| beside(driver, device)).filter(|beside| !beside.owners.is_empty()) {
        let highest = beside.highest_in(parts);
        bytes.insert("outside".into(), highest.iter().map(|sums| sums.iter().sum()).collect());
        for (row, owner) in beside.owners.iter().enumerate() {
            let of = highest.iter().map(|sums| sums[row]).collect();
            bytes.insert(format!("outside: {}", owner.title()).into(), of);
        }
    }
    let time = |id: Option<EntryId>| id.and_then(|id| entries.time_us(id));
    let (first, last) = (time(entries.ids().next()), time(entries.ids().next_back()));
    HeatDeviceView {
        device: device.device,
        time_us: first.zip(last).map(|(first, last)| [first, last]),
        entries: moments.into_iter().map(EntryId::get).collect(),
        bytes,
    }
}

/// The entries of each part of the time.
fn parts(device: &DeviceAnalysis<'_>) -> Vec<Range<usize>> {
    let entries = device.entries;
    let len = entries.len();
    if len == 0 {
        return Vec::new();
    }
    let times: Option<Vec<i64>> = entries.ids().map(|id| entries.time_us(id)).collect();
    let times = times.filter(|times| times.is_sorted() && times.first() < times.last());
    let begin = |part: usize| match &times {
        Some(times) => {
            let first = times[0];
            let whole = u128::from(times[len - 1].abs_diff(first)) + 1;
            let since = whole * part as u128 / PARTS as u128;
            times.partition_point(|&time| u128::from(time.abs_diff(first)) < since)
        }
        None => (part * len).div_ceil(PARTS),
    };
    (0..PARTS).map(|part| begin(part)..begin(part + 1)).collect()
}
