//! The analysis of what `torch.profiler` writes: against torch's own sums, and against what the viewer is told.

use highwater_analysis::analyse;
use highwater_analysis::category::Category;
use highwater_analysis::timeline::Total;
use highwater_documents::columns::{Options, columns};
use highwater_snapshot::{EntryId, Snapshot};
use highwater_testkit::{json_gz, testdata};
use highwater_whatif::check_replayable;

/// The categories of torch's file, in its order, as ours: `autograd_detail` is one of the temporaries.
const OF_TORCH: [Category; 8] = [
    Category::Parameter,
    Category::OptimizerState,
    Category::Input,
    Category::Temporary,
    Category::Activation,
    Category::Gradient,
    Category::Temporary,
    Category::Unknown,
];

#[test]
fn bytes_by_category_are_those_of_torchs_file_at_every_time() {
    for run in ["adam", "warm"] {
        let timeline = json_gz(&testdata(format!("profiler/{run}.timeline.json.gz")));
        let (times, sizes): (Vec<i64>, Vec<[u64; 9]>) = serde_json::from_value(timeline).unwrap();
        for form in ["timeline.json.gz", "timeline.raw.json.gz"] {
            let snapshot = Snapshot::open(testdata(format!("profiler/{run}.{form}"))).unwrap();
            let analysis = analyse(&snapshot);
            let device = &analysis.devices[0];
            assert_eq!(device.by, Total::Allocated);
            let entry_times: Vec<i64> = device.entries.ids().map(|id| device.entries.time_us(id).unwrap()).collect();
            for (row, (time, sizes)) in times.iter().zip(&sizes).enumerate() {
                if times.get(row + 1) == Some(time) {
                    // What was there before has the time of the first event.
                    continue;
                }
                let mut want = [0; Category::ALL.len()];
                for (category, bytes) in OF_TORCH.iter().zip(&sizes[1..]) {
                    want[*category as usize] += bytes;
                }
                let last = entry_times.partition_point(|entry| entry <= time) - 1;
                let got = device.counted_by_category(Some(EntryId::from_index(last)), &snapshot);
                assert_eq!(got, want, "{run}.{form} at {time}");
            }
            // The totals form has the sums at each time only, the events may be higher in between.
            let most: u64 = sizes.iter().map(|sizes| sizes.iter().sum()).max().unwrap();
            let peak = device.peak().bytes;
            assert!(if form == "timeline.json.gz" { peak == most } else { peak >= most }, "{peak} of {most}");
        }
    }
}

#[test]
fn nothing_is_said_of_segments_and_nothing_is_warned_of() {
    for name in ["adam.trace", "warm.trace", "inference.trace", "adam.timeline", "warm.timeline.raw"] {
        let snapshot = Snapshot::open(testdata(format!("profiler/{name}.json.gz"))).unwrap();
        let analysis = analyse(&snapshot);
        assert!(analysis.warnings.is_empty(), "{name}: {:?}", analysis.warnings);
        let device = &analysis.devices[0];
        assert_eq!(device.timeline.reserved_peak().bytes, 0, "{name}");
        assert_eq!(device.end.allocated_bytes, device.timeline.end().allocated_bytes, "{name}");
        assert!(device.blocks().reason().is_none(), "{name}");
        assert!(!device.recorded.from_start && !device.recorded.truncated, "{name}: {:?}", device.recorded);
        assert!(device.recorded.reason.is_some(), "{name}");
        assert!(check_replayable(&snapshot, name).is_err(), "{name}");
        let drawn = columns(&analysis, name, &Options::default());
        let manifest = &drawn.manifest.devices[0];
        assert_eq!(manifest.reserved_peak.bytes, 0, "{name}");
    }
}
