//! What `torch.profiler` writes: its files of the same run against each other, made-up ones against plain sums, bad ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use highwater_snapshot::{Action, EntryId, EntryTable, ErrorKind, ProfileForm, Snapshot};
use highwater_testkit::{gunzip, testdata};
use proptest::prelude::*;
use serde_json::{Value, json};

/// In the order of torch's numbers.
const CATEGORIES: [&str; 8] =
    ["parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown"];

fn path(name: &str) -> PathBuf {
    testdata(format!("profiler/{name}"))
}

fn open(name: &str) -> Snapshot {
    Snapshot::open(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text(name: &str) -> String {
    String::from_utf8(gunzip(&path(name))).unwrap()
}

fn read(text: &str) -> Result<Snapshot, highwater_snapshot::Error> {
    Snapshot::read(text.as_bytes())
}

fn warnings(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.warnings.iter().map(|warning| warning.id).collect()
}

fn trace(snapshot: &Snapshot) -> &EntryTable {
    snapshot.trace(0).expect("device 0")
}

/// Bytes of each category after the last entry of each time.
fn totals_by_time(snapshot: &Snapshot) -> BTreeMap<i64, [i64; 8]> {
    let mut sums = [0; 8];
    let mut by_time = BTreeMap::new();
    for id in trace(snapshot).ids() {
        let entry = trace(snapshot).get(id);
        let name = snapshot.text(entry.category);
        let category = CATEGORIES.iter().position(|&known| known == name).expect("a category");
        match entry.action {
            Action::ALLOC => sums[category] += entry.size_bytes.cast_signed(),
            Action::FREE_REQUESTED => sums[category] -= entry.size_bytes.cast_signed(),
            Action::FREE_COMPLETED => {}
            other => panic!("{other:?}"),
        }
        by_time.insert(entry.time_us.expect("a time"), sums);
    }
    by_time
}

/// The same, as torch wrote them.
fn totals_of_torch(text: &str) -> BTreeMap<i64, [i64; 8]> {
    let (times, sizes): (Vec<i64>, Vec<[i64; 9]>) = serde_json::from_str(text).unwrap();
    let rows = times.into_iter().zip(sizes).map(|(time, sizes)| (time, std::array::from_fn(|i| sizes[i + 1])));
    rows.collect()
}

#[test]
fn category_totals_are_those_of_torchs_own_file_at_every_time() {
    for run in ["adam", "warm"] {
        let want = totals_of_torch(&text(&format!("{run}.timeline.json.gz")));
        assert!(want.len() > 80, "{run}: {} times", want.len());
        for form in ["timeline.json.gz", "timeline.raw.json.gz"] {
            let snapshot = open(&format!("{run}.{form}"));
            let got = totals_by_time(&snapshot);
            for (time, want) in &want {
                // Where the sums stay, there need not be an entry.
                let (_, got) = got.range(..=time).next_back().expect("an entry");
                assert_eq!(got, want, "{run}.{form} at {time}");
            }
            assert!(got.keys().all(|time| want.contains_key(time)), "{run}.{form}");
            assert_eq!(warnings(&snapshot), ["profiler"], "{run}.{form}");
        }
    }
}

#[test]
fn both_forms_say_what_was_there_before() {
    let events = open("warm.timeline.raw.json.gz").profile.unwrap();
    assert_eq!((events.form, &events.preexisting[..], events.knows_start), (ProfileForm::Events, &[19][..], false));
    let totals = open("warm.timeline.json.gz").profile.unwrap();
    // One block for each category that had something: parameters, optimizer state, unknown.
    assert_eq!((totals.form, &totals.preexisting[..], totals.knows_start), (ProfileForm::Totals, &[3][..], false));
}

#[test]
fn a_chrome_traces_sums_are_total_allocated_after_every_event() {
    for run in ["adam", "warm", "inference"] {
        let name = format!("{run}.trace.json.gz");
        let document: Value = serde_json::from_str(&text(&name)).unwrap();
        let memory = document["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "[memory]");
        let mut events: Vec<(f64, i64)> = memory
            .map(|event| (event["ts"].as_f64().unwrap(), event["args"]["Total Allocated"].as_i64().unwrap()))
            .collect();
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let snapshot = open(&name);
        let entries = trace(&snapshot);
        let mut sum = 0;
        let mut sums = Vec::new();
        for id in entries.ids() {
            let entry = entries.get(id);
            match entry.action {
                Action::ALLOC => sum += entry.size_bytes.cast_signed(),
                Action::FREE_REQUESTED => sum -= entry.size_bytes.cast_signed(),
                _ => continue,
            }
            sums.push(sum);
        }
        let want: Vec<i64> = events.iter().map(|&(_, total)| total).collect();
        assert!(want.len() > 10, "{name}");
        assert_eq!(sums, want, "{name}");
        assert_eq!(warnings(&snapshot), ["profiler-cpu", "profiler"], "{name}");
        // Microseconds since the epoch: what the trace counts from is added.
        let base = document["baseTimeNanoseconds"].as_f64().unwrap() / 1000.0;
        let first = entries.time_us(EntryId::new(0)).unwrap();
        #[expect(clippy::cast_precision_loss, reason = "a time in this century")]
        let off = first as f64 - base - events[0].0;
        assert!(off.abs() < 2.0, "{name}: {off}");
    }
}

#[test]
fn entries_have_the_python_functions_and_operators_around_them() {
    let snapshot = open("adam.trace.json.gz");
    let entries = trace(&snapshot);
    assert!(entries.stacks().iter().all(|stack| stack.is_recorded()));
    let stack = |id| -> Vec<String> {
        let frames = snapshot.stack(entries.get(id).stack);
        frames
            .map(|frame| format!("{}:{} {}", snapshot.text(frame.filename), frame.line, snapshot.text(frame.name)))
            .collect()
    };
    let first = stack(EntryId::new(0));
    assert_eq!(first[0], ":0 aten::randn");
    assert!(first.contains(&"profiler_files.py:28 train".to_owned()), "{first:?}");
    let scopes: Vec<&str> = snapshot.annotations.iter().map(|annotation| snapshot.text(annotation.name)).collect();
    assert_eq!(scopes.iter().filter(|&&name| name == "Optimizer.step#Adam.step").count(), 6);
    assert_eq!(scopes.iter().filter(|&&name| name == "loss").count(), 6);

    let operators = open("inference.trace.json.gz");
    let names: Vec<&str> = operators
        .frames
        .iter()
        .map(|(_, frame)| operators.text(frame.name))
        .filter(|name| name.contains("addmm"))
        .collect();
    assert_eq!(names, ["aten::addmm"]);
}

/// Device type, device, address, bytes, total allocated.
type Memory = (i64, i64, u64, i64, Option<i64>);

/// A Chrome trace of memory events.
fn chrome(events: &[Memory]) -> String {
    let events: Vec<Value> = events
        .iter()
        .enumerate()
        .map(|(time, &(kind, device, address, bytes, total))| {
            let mut args = json!({"Device Type": kind, "Device Id": device, "Addr": address, "Bytes": bytes, "Total Reserved": 4096});
            if let Some(total) = total {
                args["Total Allocated"] = total.into();
            }
            json!({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": args})
        })
        .collect();
    json!({"schemaVersion": 1, "traceEvents": events}).to_string()
}

#[test]
fn cuda_devices_keep_their_numbers_and_the_cpu_is_left_out() {
    let text = chrome(&[
        (1, 1, 0x7f00, 512, Some(1536)),
        (0, -1, 0x10, 100, Some(100)),
        (1, 0, 0x8f00, 1024, Some(1024)),
        (1, 1, 0x6f00, -1024, Some(512)),
        (1, 1, 0x7f00, -512, Some(0)),
    ]);
    let snapshot = read(&text).unwrap();
    assert_eq!(snapshot.devices(), [0, 1]);
    assert_eq!(warnings(&snapshot), ["profiler-other-devices", "profiler"]);
    let profile = snapshot.profile.as_ref().unwrap();
    // What was there before is freed in the trace: nothing stands for it.
    assert_eq!((&profile.preexisting[..], profile.knows_start), (&[0, 0][..], true));
    let note = snapshot.warnings.iter().last().unwrap().message.clone();
    assert!(note.contains("up to 4096 bytes were reserved"), "{note}");
    let actions: Vec<Action> = snapshot.trace(1).unwrap().actions().to_vec();
    let free = [Action::FREE_REQUESTED, Action::FREE_COMPLETED];
    assert_eq!(actions, [&[Action::ALLOC][..], &free, &free].concat());
}

#[test]
fn what_lasts_from_before_a_profile_is_its_first_entry() {
    let snapshot = read(&chrome(&[(1, 0, 0x1000, 512, Some(10_752)), (1, 0, 0x9000, -240, Some(10_512))])).unwrap();
    let first = trace(&snapshot).get(EntryId::new(0));
    // 10,240 bytes before the first event, of which 240 are freed; the address is one that no event names.
    assert_eq!((first.action, first.size_bytes, first.address), (Action::ALLOC, 10_000, 0x2000));
    assert_eq!(snapshot.profile.unwrap().preexisting, [1]);
}

#[test]
fn a_trace_that_contradicts_itself_says_so_and_still_fits_together() {
    let cases: [(&str, &[Memory]); 3] = [
        ("profiler-total", &[(1, 0, 1, 10, Some(10)), (1, 0, 2, 10, Some(30)), (1, 0, 3, 10, Some(40))]),
        ("missing-free", &[(1, 0, 1, 10, None), (1, 0, 1, 20, None)]),
        ("profiler-size", &[(1, 0, 1, 10, None), (1, 0, 1, -20, None)]),
    ];
    for (id, events) in cases {
        let snapshot = read(&chrome(events)).unwrap();
        let found: Vec<_> = snapshot.warnings.iter().filter(|warning| warning.id == id).collect();
        assert_eq!(found.iter().map(|warning| warning.count).sum::<u64>(), 1, "{id}: {:?}", warnings(&snapshot));
        fits_together(trace(&snapshot));
    }
}

/// Each alloc is of an address that nothing holds, each free of what is held or of memory allocated before the recording, in full.
fn fits_together(entries: &EntryTable) {
    let mut live = BTreeMap::new();
    let mut ids = entries.ids();
    while let Some(id) = ids.next() {
        let entry = entries.get(id);
        match entry.action {
            Action::ALLOC => assert_eq!(live.insert(entry.address, entry.size_bytes), None, "{id:?}"),
            Action::FREE_REQUESTED => {
                let held = live.remove(&entry.address);
                assert!(held.is_none_or(|held| held == entry.size_bytes), "{id:?}");
                let completed = entries.get(ids.next().expect("its completion"));
                let want = (Action::FREE_COMPLETED, entry.address, entry.size_bytes);
                assert_eq!((completed.action, completed.address, completed.size_bytes), want);
            }
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any events give entries that fit together, whose sums are those of the events as long as these stay above 0.
    #[test]
    fn any_raw_timeline_keeps_its_totals(
        steps in prop::collection::vec((0_usize..8, 1_i64..9, any::<bool>(), 0_usize..8), 1..80),
    ) {
        let mut sums = [0_i64; 8];
        let mut events = vec![json!([-1, 1, 7, 3])];
        sums[3] += 7;
        for (i, (category, bytes, is_free, next)) in steps.into_iter().enumerate() {
            let time = 1_000 * i64::try_from(i).unwrap() + 1_000;
            if !is_free {
                sums[category] += bytes;
                events.push(json!([time, 2, bytes, category]));
            } else if sums[category] >= bytes && next % 2 == 0 {
                sums[category] -= bytes;
                events.push(json!([time, 4, -bytes, category]));
            } else if sums[category] >= bytes {
                sums[category] -= bytes;
                sums[next] += bytes;
                events.push(json!([time, 3, -bytes, category]));
                events.push(json!([time, 3, bytes, next]));
            }
        }
        let snapshot = read(&Value::Array(events).to_string()).unwrap();
        fits_together(trace(&snapshot));
        prop_assert_eq!(warnings(&snapshot), ["profiler"]);
        let got = totals_by_time(&snapshot);
        prop_assert_eq!(*got.values().next_back().unwrap(), sums);
    }

    /// Whatever a trace says of a few addresses, its entries fit together, and where it is consistent nothing is warned of.
    #[test]
    fn any_chrome_trace_fits_together(steps in prop::collection::vec((0_u64..6, -40_i64..40), 1..80)) {
        let mut live: BTreeMap<u64, i64> = BTreeMap::new();
        let mut is_consistent = true;
        for &(address, bytes) in &steps {
            if bytes > 0 {
                is_consistent &= live.insert(address, bytes).is_none();
            } else if bytes < 0 {
                is_consistent &= live.remove(&address).is_none_or(|held| held == -bytes);
            }
        }
        let events: Vec<_> = steps.iter().map(|&(address, bytes)| (1, 0, address, bytes, None)).collect();
        let snapshot = match read(&chrome(&events)) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                prop_assert!(steps.iter().all(|step| step.1 == 0), "{error}");
                return Ok(());
            }
        };
        let entries = trace(&snapshot);
        fits_together(entries);
        prop_assert_eq!(warnings(&snapshot) == ["profiler"], is_consistent);
        let changes = entries.actions().iter().zip(entries.sizes_bytes()).map(|(&action, &size)| match action {
            Action::ALLOC => size.cast_signed(),
            Action::FREE_REQUESTED => -size.cast_signed(),
            _ => 0,
        });
        if is_consistent {
            prop_assert_eq!(changes.sum::<i64>(), steps.iter().map(|step| step.1).sum::<i64>());
        }
    }
}

#[test]
fn what_is_no_profile_is_refused_with_a_reason() {
    let mut said = String::new();
    for text in [
        "[[]]",
        "[[], []]",
        "[[1, 2, 3, 4], [1, 2, 3]]",
        "[[1, 9, 3, 4]]",
        "[[1, 2, \"x\", 4]]",
        "[[1, 2], [[0, 1]]]",
        "[[1], [[0,0,0,0,0,0,0,0,1], [0,0,0,0,0,0,0,0,1]]]",
        "[[1, 2, 3, 4], [[0,0,0,0,0,0,0,0,1]], [5]]",
        "{\"schemaVersion\": 1, \"traceEvents\": []}",
        "{\"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1, \"args\": {}}]}",
        "{\"traceEvents\": 7}",
        "{\"traceEvents\": [7]}",
        "<html>\n<head><meta charset=\"utf-8\" /><title>GPU Memory Timeline HTML</title></head>\n<body><img src='data:image/png;base64,AA=='>",
    ] {
        let error = read(text).expect_err(text);
        writeln!(said, "{error}").unwrap();
        assert!(error.hint().is_some(), "{text}");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn numbers_at_their_limits_do_no_harm() {
    let (most, least) = (i64::MAX, i64::MIN);
    for text in [
        format!("[[{most}, 2, {most}, 1], [{least}, 2, {most}, 1], [0, 2, {most}, 1]]"),
        format!("[[0, 2, {least}, 0], [0, 3, {least}, 0], [0, 3, {most}, 0], [0, 4, 5, {most}], [0, 4, 5, {least}]]"),
        format!("[[{most}, {least}], [[0,0,0,0,0,0,0,0,{most}], [0,{least},0,0,0,0,0,0,{most}]]]"),
        chrome(&[(1, 0, u64::MAX, most, Some(most)), (1, 0, 0, least, Some(0)), (1, 0, 7, most, Some(-1))]),
        chrome(&[(1, most, 1, 1, None), (1, 127, 1, 1, None), (least, 5, 1, 1, None)]),
        format!(
            "{{\"traceEvents\": [{{\"name\": \"[memory]\", \"ts\": {most}, \"args\": {{\"Addr\": -1, \"Bytes\": 1}}}}], \"baseTimeNanoseconds\": {most}}}"
        ),
        "{\"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1e300, \"args\": {\"Addr\": 1e300, \"Bytes\": 1.5}}]}"
            .to_owned(),
    ] {
        match read(&text) {
            Ok(snapshot) => snapshot.traces.iter().for_each(fits_together),
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    ErrorKind::Limit { .. } | ErrorKind::ProfileWithoutMemory | ErrorKind::OtherData(_)
                ),
                "{text}: {error}"
            ),
        }
    }
}

#[test]
fn a_file_that_is_cut_gives_what_came_before() {
    for name in ["warm.timeline.raw.json.gz", "warm.timeline.json.gz", "inference.trace.json.gz"] {
        let whole = text(name);
        let all = trace(&open(name)).len();
        let mut most = 0;
        for end in (0..whole.len()).step_by(97) {
            // An end at which nothing could be read is an error, and no more.
            if let Ok(snapshot) = read(&whole[..end]) {
                fits_together(trace(&snapshot));
                assert!(snapshot.cut.is_some(), "{name} at {end}");
                most = most.max(trace(&snapshot).len());
            }
        }
        assert!(most > all * 9 / 10 && most <= all, "{name}: {most} of {all}");
    }
}

#[test]
fn ranges_in_ranges_cost_no_more_than_they_are_long() {
    let mut events = String::new();
    for i in 0..4000 {
        write!(events, r#"{{"cat":"cpu_op","name":"o{i}","ts":{i},"dur":{},"pid":1,"tid":1}},"#, 1_000_000).unwrap();
        write!(
            events,
            r#"{{"name":"[memory]","ts":{i},"pid":1,"tid":1,"args":{{"Addr":{i},"Bytes":8,"Device Type":1}}}},"#
        )
        .unwrap();
    }
    let snapshot = read(&format!("{{\"traceEvents\": [{}]}}", events.trim_end_matches(','))).unwrap();
    assert_eq!(trace(&snapshot).len(), 4000);
    let frames: usize = snapshot.stacks.iter().map(|(_, frames)| frames.len()).sum();
    assert!(frames <= 4096 + 64 * 4000, "{frames}");
}
