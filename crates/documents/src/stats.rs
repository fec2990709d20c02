//! `highwater-stats`: the values of `torch.cuda.memory_stats()`.

use std::collections::BTreeMap;

use crate::WarningView;
use highwater_analysis::stats::{Stat, Stats};
use serde::Serialize;

use crate::{Document, Format, Version};

/// The statistics of each device.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatsView {
    format: Format<Self>,
    version: Version<Self>,
    /// In the order of their numbers.
    pub devices: Vec<DeviceStatsView>,
    /// Warnings.
    pub warnings: Vec<WarningView>,
}

impl Document for StatsView {
    const FORMAT: &'static str = "highwater-stats";
    const VERSION: u32 = 1;
}

/// The statistics of one device.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceStatsView {
    /// CUDA ordinal.
    pub device: u32,
    /// The flat keys of `torch.cuda.memory_stats()`, such as `allocated_bytes.all.peak`; null where the snapshot does not
    /// have the value.
    pub stats: BTreeMap<String, Option<u64>>,
}

impl StatsView {
    /// The statistics of devices.
    pub fn new(devices: impl IntoIterator<Item = (u32, Stats)>, warnings: Vec<WarningView>) -> Self {
        let devices = devices.into_iter().map(|(device, stats)| DeviceStatsView { device, stats: flat(&stats) });
        Self { format: Format::default(), version: Version::default(), devices: devices.collect(), warnings }
    }
}

impl DeviceStatsView {
    /// The number under a key, where the snapshot can tell.
    pub fn get(&self, key: &str) -> Option<u64> {
        self.stats.get(key).copied().flatten()
    }
}

fn flat(stats: &Stats) -> BTreeMap<String, Option<u64>> {
    let mut keys = BTreeMap::new();
    let mut add = |name: String, stat: &Stat| {
        let columns =
            [("current", stat.current), ("peak", stat.peak), ("allocated", stat.allocated), ("freed", stat.freed)];
        keys.extend(columns.map(|(column, value)| (format!("{name}.{column}"), value)));
    };
    for (name, metric) in [
        ("allocated_bytes", &stats.allocated_bytes),
        ("active_bytes", &stats.active_bytes),
        ("requested_bytes", &stats.requested_bytes),
        ("reserved_bytes", &stats.reserved_bytes),
        ("inactive_split_bytes", &stats.inactive_split_bytes),
        ("allocation", &stats.allocation),
        ("active", &stats.active),
        ("segment", &stats.segment),
        ("inactive_split", &stats.inactive_split),
    ] {
        add(format!("{name}.all"), &metric.all);
        add(format!("{name}.large_pool"), &metric.large);
        add(format!("{name}.small_pool"), &metric.small);
    }
    add("oversize_allocations".to_owned(), &stats.oversize_allocations);
    add("oversize_segments".to_owned(), &stats.oversize_segments);
    keys.insert("num_ooms".to_owned(), stats.num_ooms);
    keys.insert("num_alloc_retries".to_owned(), stats.num_alloc_retries);
    keys
}
