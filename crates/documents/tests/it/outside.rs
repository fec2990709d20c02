//! Memory outside PyTorch, as the viewer draws it, beside the driver's record followed call by call.

use highwater_analysis::{Analysis, analyse};
use highwater_documents::columns::{Columns, DeviceManifest, Options, columns, heat, with_calls};
use highwater_outside::{Role, Timeline};
use highwater_snapshot::Snapshot;
use highwater_testkit::{json, open, recording, snapshots};

fn numbers(columns: &Columns, device: u32, name: &str) -> Vec<u64> {
    columns.sections[&format!("{device}/{name}")].numbers()
}

/// The sum of the owners after each entry, as the page adds them up.
fn drawn(columns: &Columns, device: &DeviceManifest) -> Vec<u64> {
    let column = |name| numbers(columns, device.device, name);
    let (entries, owners, bytes) = (column("outside_entry"), column("outside_owner"), column("outside_bytes"));
    assert!(entries.is_sorted());
    let outside = device.outside.as_ref().unwrap();
    let mut now = vec![0; outside.owners.len()];
    let mut step = 0;
    let after = |entry: usize| {
        while step < entries.len() && entries[step] <= entry as u64 {
            now[usize::try_from(owners[step]).unwrap()] = bytes[step];
            step += 1;
        }
        now.iter().sum()
    };
    (0..device.entries.max(1)).map(after).collect()
}

/// The same: each entry lasts until the next, and shows the call after which most is outside.
fn followed(analysis: &Analysis<'_>, device: u32) -> Vec<u64> {
    let driver = Timeline::new(analysis.driver.as_ref().unwrap());
    let ordinal = i32::try_from(device).unwrap();
    let after = |calls: usize| -> i64 {
        let moment = driver.after(ordinal, calls);
        let counted =
            moment.owners.iter().filter(|total| total.owner.role.counts() && total.owner.role != Role::Pytorch);
        counted.map(|total| total.bytes).sum()
    };
    let calls = driver.recording().events.len();
    let sums: Vec<i64> = (0..=calls).map(after).collect();
    let entries = analysis.device(device).unwrap().entries;
    let mut times: Vec<u64> = Vec::new();
    for id in entries.ids() {
        let time_ns = u64::try_from(entries.time_us(id).unwrap()).unwrap() * 1000;
        times.push(times.last().map_or(time_ns, |&last| last.max(time_ns)));
    }
    // Calls until a time, by a clock that never goes back.
    let mut latest = 0;
    let clock: Vec<u64> = driver
        .recording()
        .events
        .iter()
        .map(|event| {
            latest = event.time_ns.max(latest);
            latest
        })
        .collect();
    let highest = |entry: usize| {
        let from = if entry == 0 { 0 } else { clock.partition_point(|&at| at < times[entry]) };
        let to = times.get(entry + 1).map_or(calls, |&next| clock.partition_point(|&at| at < next));
        u64::try_from(*sums[from..=to].iter().max().unwrap()).unwrap()
    };
    (0..times.len()).map(highest).collect()
}

#[test]
fn every_entry_shows_what_the_calls_until_the_next_one_reach() {
    let mut seen = 0;
    for path in snapshots("whole_card") {
        let snapshot = Snapshot::open(&path).unwrap();
        let analysis = analyse(&snapshot);
        let columns = columns(&analysis, "", &Options::default());
        for device in &columns.manifest.devices {
            let outside = device.outside.as_ref().unwrap();
            let drawn = drawn(&columns, device);
            assert_eq!(drawn, followed(&analysis, device.device), "{}", path.display());
            assert_eq!(drawn.iter().max(), Some(&outside.peak.bytes));
            assert_eq!(drawn[outside.peak.entry as usize], outside.peak.bytes);
            assert!(outside.owners.iter().all(|owner| owner.title != "PyTorch's segments"));
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen} devices");
}

#[test]
fn planted_allocations_are_blocks_with_their_library_and_line() {
    let planted = json(&highwater_testkit::testdata("whole_card/planted.json"));
    for (name, planted) in planted.as_object().unwrap() {
        let snapshot = open(&format!("whole_card/{name}"));
        let columns = columns(&analyse(&snapshot), "", &Options::default());
        let device = &columns.manifest.devices[0];
        let outside = device.outside.as_ref().unwrap();
        let column = |name| numbers(&columns, device.device, name);
        let (bytes, owners, sites) =
            (column("outside_block_bytes"), column("outside_block_owner"), column("outside_block_site"));
        let (starts, ends) = (column("outside_block_start"), column("outside_block_end"));
        assert!(starts.iter().zip(&ends).all(|(start, end)| start < end && *end <= device.entries as u64));
        assert!(column("outside_block_address").iter().all(|&address| address > 0), "{name}");
        let mut found: Vec<(&str, u64, &str)> = (0..bytes.len())
            .map(|row| {
                let owner = &outside.owners[usize::try_from(owners[row]).unwrap()];
                let site = outside.sites.get(usize::try_from(sites[row]).unwrap()).map_or("", String::as_str);
                (owner.title.as_str(), bytes[row], site)
            })
            .collect();
        for row in planted.as_array().unwrap() {
            let line = format!(":{} ", row[2]);
            let at = found.iter().position(|&(title, bytes, site)| {
                title == row[0] && bytes == row[1].as_u64().unwrap() && site.contains(&line)
            });
            found.swap_remove(at.unwrap_or_else(|| panic!("{name}: {row} is not among {found:?}")));
        }
    }
}

#[test]
fn ranks_are_coloured_by_it() {
    let snapshot = open("whole_card/nccl");
    let heat = heat(&analyse(&snapshot));
    let bytes = &heat.devices[0].bytes;
    let all = &bytes["outside"];
    assert_eq!(all.len(), bytes["reserved"].len());
    let of_owners: Vec<&Vec<u64>> =
        bytes.iter().filter(|(name, _)| name.starts_with("outside: ")).map(|(_, bytes)| bytes).collect();
    for (part, &sum) in all.iter().enumerate() {
        assert_eq!(of_owners.iter().map(|bytes| bytes[part]).sum::<u64>(), sum);
    }
    assert_eq!(bytes["outside: NCCL"].iter().max(), Some(&(776 << 20)));
}

#[test]
fn without_the_drivers_record_nothing_is_there() {
    let snapshot = recording("linear_forward");
    let analysis = analyse(&snapshot);
    let columns = columns(&analysis, "", &Options::default());
    assert!(columns.manifest.devices[0].outside.is_none());
    assert!(columns.sections.keys().all(|name| !name.contains("outside")));
    assert!(heat(&analysis).devices[0].bytes.keys().all(|name| !name.starts_with("outside")));
}

#[test]
fn a_device_that_only_the_driver_knows_has_its_calls_as_entries() {
    let known = open("whole_card/pool");
    assert!(with_calls(&known).is_none(), "PyTorch's history has its device");
    let mut snapshot = Snapshot::empty();
    snapshot.extras = known.extras.clone();
    let with = with_calls(&snapshot).unwrap();
    let analysis = analyse(&with);
    let recording = analysis.driver.as_ref().unwrap();
    let calls = recording.events.iter().filter(|event| event.device == 0).count();
    let columns = columns(&analysis, "", &Options::default());
    let device = &columns.manifest.devices[0];
    assert_eq!(device.entries, calls);
    assert_eq!(drawn(&columns, device), followed(&analysis, 0));
    assert_eq!(device.reserved_peak.bytes, 2 << 20, "PyTorch's segment");
    assert!(columns.manifest.other_actions.contains(&"driver: create".to_owned()));
    // A copy of the snapshot as it is has nothing more.
    assert!(with_calls(&with).is_none());
}
