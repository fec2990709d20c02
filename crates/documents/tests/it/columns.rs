//! What the viewer draws is what the analysis says: at every entry, of real recordings and of random ones.

use std::collections::{BTreeMap, BTreeSet};

use highwater_analysis::blocks::Knowledge;
use highwater_analysis::{Analysis, DeviceAnalysis, analyse};
use highwater_documents::columns::{Columns, DeviceManifest, Encoding, Options, Section, WhatIf, columns};
use highwater_documents::live;
use highwater_snapshot::{Action, EntryId, Snapshot};
use highwater_testkit::made::{SLOT, State, requests, simulate, snapshot};
use highwater_testkit::{entry, files, recording, recordings, testdata};
use proptest::prelude::*;

/// The columns of a device, unpacked as the page unpacks them.
struct Page<'a> {
    manifest: &'a DeviceManifest,
    columns: &'a Columns,
}

impl Page<'_> {
    fn section(&self, name: &str) -> &Section {
        let name = format!("{}/{name}", self.manifest.device);
        self.columns.sections.get(&name).unwrap_or_else(|| panic!("no section `{name}`"))
    }

    fn numbers(&self, name: &str) -> Vec<u64> {
        self.section(name).numbers()
    }

    /// How many entries the page shows: one if there is only the state at the dump.
    fn entries(&self) -> usize {
        self.manifest.entries.max(1)
    }

    /// Sums of what is there after each entry.
    fn totals(&self, starts: &[u64], ends: &[u64], sizes: &[u64]) -> Vec<u64> {
        let mut changes = vec![0_i128; self.entries() + 1];
        for ((&start, &end), &size) in starts.iter().zip(ends).zip(sizes) {
            assert!(start <= end && end <= self.entries() as u64, "{start} to {end}");
            let bytes = i128::from(size) * i128::from(self.manifest.unit_bytes);
            changes[usize::try_from(start).unwrap()] += bytes;
            changes[usize::try_from(end).unwrap()] -= bytes;
        }
        let sums = changes.iter().scan(0, |sum, change| {
            *sum += change;
            Some(*sum)
        });
        sums.take(self.entries()).map(|sum| u64::try_from(sum).expect("no more than 2^64")).collect()
    }

    fn active(&self) -> Vec<u64> {
        self.totals(&self.numbers("start"), &self.numbers("end"), &self.numbers("size"))
    }

    fn reserved(&self) -> Vec<u64> {
        self.totals(&self.numbers("piece_start"), &self.numbers("piece_end"), &self.numbers("piece_size"))
    }

    fn addresses(&self) -> Vec<u64> {
        let segments = self.numbers("segment_address");
        let places = self.numbers("segment").into_iter().zip(self.numbers("offset"));
        places
            .map(|(segment, offset)| segments[usize::try_from(segment).unwrap()] + offset * self.manifest.unit_bytes)
            .collect()
    }
}

/// Everything that must hold for any file; `is_consistent` if its entries about segments agree with its dump.
fn check(analysis: &Analysis<'_>, is_consistent: bool, name: &str) {
    let columns = columns(analysis, name, &Options::default());
    let json = serde_json::to_value(&columns.manifest).expect("JSON");
    assert_eq!(json["format"], "highwater-view");
    assert_eq!(columns.manifest.devices.len(), analysis.devices.len());
    for (manifest, device) in columns.manifest.devices.iter().zip(&analysis.devices) {
        let page = Page { manifest, columns: &columns };
        check_totals(device, &page, is_consistent, name);
        check_live(analysis, device, &page, name);
        check_entries(device, &page, name);
        check_tables(analysis, &page, name);
        for (section, info) in &manifest.sections {
            assert_eq!(*info, page.section(section).info(), "{name}: {section}");
            check_encodings(page.section(section), page.section("start"));
        }
    }
    check_stacks(analysis, &columns, name);
}

fn check_totals(device: &DeviceAnalysis<'_>, page: &Page<'_>, is_consistent: bool, name: &str) {
    let manifest = page.manifest;
    let is_requested = device.blocks().knowledge() == Knowledge::Estimate;
    assert_eq!(manifest.measure, if is_requested { "requested_bytes" } else { "active_bytes" }, "{name}");
    let count = device.entries.len();
    let (active, reserved) = (page.active(), page.reserved());
    for (entry, totals) in device.timeline.iter(0..count) {
        let want = if is_requested { totals.requested_bytes } else { totals.active_bytes };
        assert_eq!(active[entry.index()], want, "{name}: after entry {}", entry.get());
        if is_consistent {
            assert_eq!(reserved[entry.index()], totals.reserved_bytes, "{name}: reserved after entry {}", entry.get());
        }
    }
    if count == 0 {
        assert_eq!(reserved, [device.end.reserved_bytes], "{name}");
        assert_eq!(active, [if is_requested { device.end.requested_bytes } else { device.end.active_bytes }], "{name}");
    }
    assert_eq!(manifest.peak.bytes, active.iter().copied().max().unwrap(), "{name}");
    assert_eq!(active[manifest.peak.entry as usize], manifest.peak.bytes, "{name}");
    assert_eq!(manifest.end_bytes, active[active.len() - 1], "{name}");
    if is_consistent {
        assert_eq!(manifest.reserved_peak.bytes, reserved.iter().copied().max().unwrap(), "{name}");
        assert_eq!(reserved[manifest.reserved_peak.entry as usize], manifest.reserved_peak.bytes, "{name}");
    }
    let want: Vec<u64> = device.lifetimes.rows.iter().map(|lifetime| lifetime.address).collect();
    assert_eq!(page.addresses(), want, "{name}");
    assert_eq!(manifest.before, device.lifetimes.before_recording, "{name}");
}

/// Moments to look at closely.
fn moments(count: usize, peak: u32) -> BTreeSet<usize> {
    let few = (0..24).map(|i| i * count / 24);
    few.chain([peak as usize, count.saturating_sub(1)]).filter(|&moment| moment < count).collect()
}

/// What is live after an entry is what `highwater live` says.
fn check_live(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>, page: &Page<'_>, name: &str) {
    let (starts, ends) = (page.numbers("start"), page.numbers("end"));
    let (addresses, requested) = (page.addresses(), page.numbers("requested"));
    let (streams, sizes) = (page.numbers("stream"), page.numbers("size"));
    let pending: BTreeMap<u64, u64> =
        page.numbers("pending_row").into_iter().zip(page.numbers("pending_entry")).collect();
    assert!(starts.is_sorted() && starts.len() == page.manifest.rows, "{name}");
    for moment in moments(device.entries.len(), page.manifest.peak.entry) {
        let id = EntryId::from_index(moment);
        let moment = moment as u64;
        let live_rows: Vec<usize> =
            (0..starts.len()).filter(|&row| starts[row] <= moment && moment < ends[row]).collect();
        for &row in &live_rows {
            let awaits = pending.get(&(row as u64)).is_some_and(|&entry| entry <= moment);
            let want = device.lifetimes.rows[row].awaits_free_after(id);
            // A free that completes at once is no row of `pending`.
            assert!(awaits == want || want && ends[row] == moment + 1, "{name}: row {row} after entry {moment}");
        }
        let mut rows: Vec<_> = live_rows
            .iter()
            .map(|&row| {
                let stream = &page.manifest.streams[usize::try_from(streams[row]).unwrap()];
                (addresses[row], requested[row], sizes[row] * page.manifest.unit_bytes, stream.clone())
            })
            .collect();
        rows.sort_unstable();
        let said = live(analysis, &[(device.device, Some(id))]);
        let mut blocks: Vec<_> = said
            .blocks
            .iter()
            .map(|block| {
                let is_requested = page.manifest.measure == "requested_bytes";
                let bytes = if is_requested { block.requested_bytes } else { block.size_bytes };
                (block.address, block.requested_bytes, bytes, block.stream.to_string())
            })
            .collect();
        blocks.sort_unstable();
        assert_eq!(rows, blocks, "{name}: after entry {moment}");
    }
}

/// Every entry can be told from the columns.
fn check_entries(device: &DeviceAnalysis<'_>, page: &Page<'_>, name: &str) {
    let others: BTreeMap<u64, (u64, u64, u64)> = page
        .numbers("other_entry")
        .into_iter()
        .zip(
            page.numbers("other_action").into_iter().zip(page.numbers("other_address")).zip(page.numbers("other_size")),
        )
        .map(|(entry, ((action, address), size))| (entry, (action, address, size)))
        .collect();
    let (starts, ends) = (page.numbers("start"), page.numbers("end"));
    let (addresses, requested) = (page.addresses(), page.numbers("requested"));
    let begin: BTreeMap<u64, usize> = (page.manifest.before..starts.len()).map(|row| (starts[row], row)).collect();
    let end: BTreeMap<u64, usize> = (0..ends.len()).map(|row| (ends[row], row)).collect();
    let pending: BTreeMap<u64, u64> =
        page.numbers("pending_entry").into_iter().zip(page.numbers("pending_row")).collect();
    for id in device.entries.ids() {
        let e = u64::from(id.get());
        let want = device.entries.get(id);
        let code = u64::from(want.action.code());
        let found = others.get(&e).copied().or_else(|| {
            let row = |row: usize, action: Action| (u64::from(action.code()), addresses[row], requested[row]);
            let alloc = begin.get(&e).map(|&at| row(at, Action::ALLOC));
            let completed = || end.get(&e).map(|&at| row(at, Action::FREE_COMPLETED));
            let requested = || pending.get(&e).map(|&at| row(usize::try_from(at).unwrap(), Action::FREE_REQUESTED));
            let at_once = || end.get(&(e + 1)).map(|&at| row(at, Action::FREE_REQUESTED));
            alloc.or_else(completed).or_else(requested).or_else(at_once)
        });
        let (action, address, size) = found.unwrap_or_else(|| panic!("{name}: entry {e} is nowhere"));
        assert_eq!((action, address), (code, want.address), "{name}: entry {e}");
        if want.action != Action::FREE_REQUESTED {
            assert_eq!(size, want.size_bytes, "{name}: entry {e}");
        }
    }
}

/// Rows that name rows name some that are there.
fn check_tables(analysis: &Analysis<'_>, page: &Page<'_>, name: &str) {
    let below = |section: &str, count: usize| {
        let highest = page.numbers(section).into_iter().max();
        assert!(highest.is_none_or(|highest| highest < count as u64), "{name}: {section}");
    };
    let stacks = analysis.snapshot.stacks.len() + 2;
    let segments = page.section("segment_address").length;
    for section in ["stack", "segment_stack", "other_stack"] {
        below(section, stacks);
    }
    for section in ["segment", "piece_segment"] {
        below(section, segments);
    }
    for section in ["stream", "segment_stream"] {
        below(section, page.manifest.streams.len());
    }
    for section in ["pool", "segment_pool"] {
        below(section, page.manifest.pools.len());
    }
    if let Some(categories) = &page.manifest.categories {
        below("category", categories.len());
    }
    let sizes = page.numbers("segment_size");
    let pieces =
        page.numbers("piece_segment").into_iter().zip(page.numbers("piece_offset")).zip(page.numbers("piece_size"));
    for ((segment, offset), size) in pieces {
        assert!(offset + size <= sizes[usize::try_from(segment).unwrap()], "{name}");
    }
    assert!(page.numbers("segment_address").is_sorted(), "{name}");
    assert!(page.numbers("piece_start").is_sorted(), "{name}");
}

/// Every stack can be read off the tree of calls.
fn check_stacks(analysis: &Analysis<'_>, columns: &Columns, name: &str) {
    let numbers = |name: &str| columns.sections[name].numbers();
    let [parents, frames, nodes, sites] = ["node_parent", "node_frame", "stack_node", "stack_site"].map(numbers);
    assert_eq!(nodes.len(), columns.manifest.stacks, "{name}");
    for (id, stack) in analysis.snapshot.stacks.iter() {
        let mut read = Vec::new();
        let mut node = usize::try_from(nodes[id.index()]).unwrap();
        while let Some(&parent) = parents.get(node) {
            read.push(frames[node]);
            if parent == node as u64 {
                break;
            }
            assert!(parent < node as u64, "{name}: parents come first");
            node = usize::try_from(parent).unwrap();
        }
        assert_eq!(read, stack.iter().map(|frame| u64::from(frame.get())).collect::<Vec<_>>(), "{name}");
        let nodes = analysis.sites.site(id).label(analysis.snapshot).is_some();
        assert_eq!(
            sites[id.index()] >= columns.manifest.frames as u64,
            nodes,
            "{name}: a line, or behind them a label"
        );
    }
}

/// What is encoded can be decoded.
fn check_encodings(section: &Section, start: &Section) {
    let numbers = section.numbers();
    if section.constant.is_some() || section.bytes.is_empty() {
        return;
    }
    let unsigned = |bytes: &[u8]| {
        let mut values = Vec::new();
        let (mut value, mut shift) = (0_u64, 0);
        for &byte in bytes {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                values.push(value);
                (value, shift) = (0, 0);
            }
        }
        values
    };
    assert_eq!(unsigned(&section.encoded(Encoding::Varint, None)), numbers);
    let mut last = 0_i64;
    let summed = unsigned(&section.encoded(Encoding::Delta, None)).into_iter().map(|value| {
        last = last.wrapping_add((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        last.cast_unsigned()
    });
    assert_eq!(summed.collect::<Vec<_>>(), numbers);
    if section.length == start.length && numbers.iter().zip(start.numbers()).all(|(&end, start)| start <= end) {
        let lengths = unsigned(&section.encoded(Encoding::Length, Some(start)));
        assert_eq!(lengths.iter().zip(start.numbers()).map(|(l, s)| l + s).collect::<Vec<_>>(), numbers);
    }
}

#[test]
fn recordings_are_drawn_as_they_are_told() {
    let recordings = recordings();
    assert!(recordings.len() >= 14, "only {}", recordings.len());
    for path in recordings {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let snapshot = Snapshot::open(&path).expect("the recording reads");
        check(&analyse(&snapshot), true, &name);
    }
}

#[test]
fn every_layout_is_drawn_as_it_is_told() {
    for path in files(&testdata("layouts"), "") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(snapshot) = Snapshot::open(&path) else { continue };
        let analysis = analyse(&snapshot);
        let is_consistent = analysis.warnings.is_empty() && snapshot.cut.is_none();
        check(&analysis, is_consistent, &name);
    }
}

#[test]
fn small_allocations_that_are_left_out_are_counted_in_the_manifest() {
    let snapshot = recording("qwen_train_b16");
    let analysis = analyse(&snapshot);
    let all = columns(&analysis, "all", &Options::default());
    let some = columns(&analysis, "some", &Options { least_bytes: Some(1 << 20) });
    let (all, some_page) = (&all.manifest.devices[0], Page { manifest: &some.manifest.devices[0], columns: &some });
    let left_out = some.manifest.left_out.expect("some are");
    assert_eq!(left_out.below_bytes, 1 << 20);
    assert_eq!(all.rows - some_page.manifest.rows, left_out.allocations);
    assert!(left_out.allocations > 1000, "{left_out:?}");
    assert!(some_page.numbers("size").iter().all(|&size| size * some_page.manifest.unit_bytes >= 1 << 20));
    let lacking = analysis.devices[0]
        .timeline
        .iter(0..all.entries)
        .zip(some_page.active())
        .map(|((_, totals), shown)| totals.active_bytes - shown);
    assert_eq!(lacking.max(), Some(left_out.bytes));
    assert_eq!(some.manifest.what_if, WhatIf::Live);
}

#[test]
fn an_expandable_segment_is_one_row() {
    let snapshot = recording("resnet50_expandable");
    let columns = columns(&analyse(&snapshot), "", &Options::default());
    let page = Page { manifest: &columns.manifest.devices[0], columns: &columns };
    let flags = page.numbers("segment_flags");
    let (large, small) = (flags.iter().filter(|&&f| f == 1).count(), flags.iter().filter(|&&f| f == 3).count());
    assert_eq!((large, small, flags.len()), (1, 1, 2));
    assert!(page.section("piece_segment").length > 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_are_drawn_as_they_are_told(requests in requests(), share in 0.0..1.0_f64) {
        let (entries, states) = simulate(&requests);
        prop_assume!(!entries.is_empty());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
        let skip = (share * entries.len() as f64) as usize;
        let snapshot = snapshot(&entries, skip, states.last().unwrap());
        check(&analyse(&snapshot), true, "a random program");
    }

    /// Any entries over any segments.
    #[test]
    fn contradictions_are_drawn_as_they_are_told(rows in prop::collection::vec((0..9_u8, 0..6_u64, 0..3_u64), 0..200)) {
        let mut entries = highwater_snapshot::EntryTable::default();
        for &(action, address, size) in &rows {
            let action = Action::from_name(Action::NAMES[usize::from(action)]).unwrap();
            entries.push(entry(action, address * SLOT, size * 512));
        }
        let state = State {
            segments: BTreeMap::from([(0, 3)]),
            blocks: BTreeMap::from([(0, (700, false)), (SLOT, (512, true))]),
        };
        let snapshot = snapshot(&entries, 0, &state);
        check(&analyse(&snapshot), false, "contradictions");
    }
}
