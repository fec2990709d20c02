//! A recording in a few thousand numbers: enough for a small picture, or for two on one axis.

use highwater_analysis::lifetime::number;
use highwater_analysis::timeline::Total;
use highwater_analysis::{Analysis, DeviceAnalysis};
use serde::Serialize;

use super::PeakAt;
use super::entries::times_of;
use super::lifetimes::measure;
use super::manifest::peak;

/// The devices of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct CurvesView {
    /// The device that the report leads with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens_on: Option<u32>,
    /// One for each device.
    pub devices: Vec<CurveView>,
}

/// A device over its entries, in equal parts of them.
#[derive(Clone, Debug, Serialize)]
pub struct CurveView {
    /// CUDA ordinal.
    pub device: u32,
    /// Number of trace entries.
    pub entries: usize,
    /// What `bytes` counts: `active_bytes`, or `requested_bytes` where the sizes of blocks are estimates.
    pub measure: &'static str,
    /// The largest total of the measure after an entry.
    pub peak: PeakAt,
    /// The largest reserved total after an entry.
    pub reserved_peak: PeakAt,
    /// The highest total of the measure in each part. Part `i` of `n` begins at the first entry that is no less than
    /// `i / n` of all entries.
    pub bytes: Vec<u64>,
    /// The highest reserved total in each.
    pub reserved_bytes: Vec<u64>,
    /// Microseconds from the first entry to where each part begins, and to the last entry; absent without times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<Vec<u64>>,
    /// The entries that failed.
    pub ooms: Vec<u32>,
    /// The first entry of each iteration, and the one after its last: at most 10,000 iterations.
    pub iterations: Vec<[u32; 2]>,
}

/// Requests that failed, and iterations: no picture has room for more.
const MOST: usize = 10_000;

/// The curves of all devices, each in at most so many parts.
pub fn curves(analysis: &Analysis<'_>, parts: usize) -> CurvesView {
    CurvesView {
        opens_on: analysis.leading().map(|device| device.device),
        devices: analysis.devices.iter().map(|device| curve(device, parts)).collect(),
    }
}

fn curve(device: &DeviceAnalysis<'_>, parts: usize) -> CurveView {
    let total = measure(device);
    let envelope = device.timeline.envelope(parts);
    let entries = device.entries.len();
    let begins = (0..envelope.len()).map(|part| (part * entries).div_ceil(envelope.len()));
    CurveView {
        device: device.device,
        entries,
        measure: total.key(),
        peak: peak(device, total),
        reserved_peak: peak(device, Total::Reserved),
        bytes: envelope.iter().map(|totals| total.of(totals)).collect(),
        reserved_bytes: envelope.iter().map(|totals| totals.reserved_bytes).collect(),
        time_us: if parts == 0 { None } else { times_at(device, begins.chain(entries.checked_sub(1))) },
        ooms: device.oom.iter().take(MOST).map(|event| event.entry.get()).collect(),
        iterations: iterations(device),
    }
}

/// Microseconds since the first entry that has a time, at entries that ascend.
fn times_at(device: &DeviceAnalysis<'_>, entries: impl Iterator<Item = usize>) -> Option<Vec<u64>> {
    let (_, times) = times_of(device)?;
    let mut times = times.enumerate();
    let mut latest = (0, 0);
    Some(
        entries
            .map(|entry| {
                if latest.0 < entry || entry == 0 {
                    latest = times.find(|(at, _)| *at >= entry).unwrap_or(latest);
                }
                latest.1
            })
            .collect(),
    )
}

fn iterations(device: &DeviceAnalysis<'_>) -> Vec<[u32; 2]> {
    let rows = device.iterations.rows.iter().take(MOST);
    rows.map(|iteration| [number(iteration.entries.start), number(iteration.entries.end)]).collect()
}

#[cfg(test)]
mod tests {
    use highwater_analysis::analyse;
    use highwater_testkit::recording;

    use super::*;

    #[test]
    fn a_curve_has_the_peaks_of_the_recording_and_its_times() {
        let snapshot = recording("oom_gpt2_8gib");
        let analysis = analyse(&snapshot);
        for parts in [1, 7, 400, 1 << 20] {
            let view = curves(&analysis, parts);
            let [curve] = &view.devices[..] else { panic!("one device") };
            assert_eq!(curve.bytes.len(), parts.min(curve.entries));
            assert_eq!(curve.bytes.iter().max(), Some(&curve.peak.bytes));
            assert_eq!(curve.reserved_bytes.iter().max(), Some(&curve.reserved_peak.bytes));
            assert_eq!(curve.ooms, [590]);
            let times = curve.time_us.as_ref().expect("it has times");
            assert_eq!(times.len(), curve.bytes.len() + 1);
            assert!(times.is_sorted() && times[0] == 0);
        }
        let all = curves(&analysis, usize::MAX);
        let first = curves(&analysis, 2);
        let (all, first) = (&all.devices[0], &first.devices[0]);
        let (all_times, times) = (all.time_us.as_ref().expect("times"), first.time_us.as_ref().expect("times"));
        let half = all.entries.div_ceil(2);
        assert_eq!(times[..], [all_times[0], all_times[half], all_times[all.entries - 1]]);
    }
}
