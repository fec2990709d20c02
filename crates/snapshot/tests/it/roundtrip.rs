//! What is written reads back the same, however it is wrapped and however it arrives.

use std::io::{self, Read};

use base64::Engine as _;
use highwater_snapshot::{
    Action, Annotation, Block, BlockState, Entry, EntryTable, Frame, HostMemory, PoolId, Segment, SegmentType, Setting,
    Snapshot, StackId, Stage, StreamId, StringId,
};
use highwater_testkit::{files, gunzip, gzip, recordings, testdata};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{as_json, assert_same, normal_form, pickled};

fn read(bytes: &[u8]) -> Snapshot {
    Snapshot::read(bytes).unwrap()
}

#[test]
fn written_recordings_read_back_the_same() {
    for path in recordings() {
        let snapshot = Snapshot::open(&path).unwrap();
        let expected = normal_form(&snapshot);
        assert_same(&normal_form(&read(&pickled(&snapshot))), &expected, &path.display().to_string());
        if path.metadata().unwrap().len() < 30_000 {
            assert_same(&normal_form(&read(&as_json(&snapshot))), &expected, &path.display().to_string());
        }
    }
}

#[test]
fn written_layouts_read_back_as_dicts_and_then_no_longer_change() {
    for path in files(&testdata("layouts"), ".pickle") {
        let name = path.display().to_string();
        let snapshot = Snapshot::open(&path).unwrap();
        let expected = normal_form(&snapshot).replacen("layout list", "layout dict", 1);
        let written = pickled(&snapshot);
        assert_same(&normal_form(&read(&written)), &expected, &name);
        assert_same(&normal_form(&read(&as_json(&snapshot))), &expected, &name);
        assert!(pickled(&read(&written)) == written, "{name}: the second copy differs from the first");
    }
}

#[test]
fn a_shared_stack_is_written_once() {
    let path = testdata("recordings/qwen_train_b16.pickle.gz");
    let written = pickled(&Snapshot::open(&path).unwrap()).len();
    assert!(written <= gunzip(&path).len(), "{written} bytes");
}

#[test]
fn wrapping_changes_nothing() {
    for name in ["linear_forward", "multi_stream", "oom_gpt2_8gib"] {
        let plain = gunzip(&testdata("recordings").join(format!("{name}.pickle.gz")));
        let expected = normal_form(&read(&plain));
        let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
        let (front, back) = plain.split_at(plain.len() / 2);
        let padded: Vec<u8> = plain.iter().copied().chain([0; 2]).collect();
        let base64 = base64::engine::general_purpose::STANDARD.encode(&padded[..plain.len() / 3 * 3 + 3]);
        let page = format!("<html>\n<script>[{{\"name\": \"x\", \"base64\": \"{base64}\"}}]</script></html>");
        let json = as_json(&read(&plain));
        for (wrapped, how) in [
            (gzip(&plain), "gzip"),
            ([gzip(front), gzip(back)].concat(), "two gzip members"),
            (zstd.clone(), "zstd"),
            (gzip(&zstd), "gzip around zstd"),
            ([zstd::encode_all(front, 1).unwrap(), zstd::encode_all(back, 1).unwrap()].concat(), "two zstd frames"),
            (page.clone().into_bytes(), "a page"),
            (gzip(page.as_bytes()), "a page in gzip"),
            (json.clone(), "JSON"),
            ([b"\xef\xbb\xbf \n", json.as_slice()].concat(), "JSON after a byte order mark"),
            ([plain.as_slice(), &[0; 100]].concat(), "NUL behind it"),
        ] {
            let snapshot = read(&wrapped);
            assert_same(&normal_form(&snapshot), &expected, &format!("{name} as {how}"));
            assert!(snapshot.warnings.is_empty(), "{name} as {how}: {:?}", snapshot.warnings);
        }
    }
}

/// Gives its bytes in pieces of 1 to `longest` bytes, in turn, with interruptions.
struct Dribble<'a> {
    bytes: &'a [u8],
    longest: usize,
    turn: usize,
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        if self.turn.is_multiple_of(7) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let piece = (1 + self.turn % self.longest).min(self.bytes.len()).min(buffer.len());
        buffer[..piece].copy_from_slice(&self.bytes[..piece]);
        self.bytes = &self.bytes[piece..];
        Ok(piece)
    }
}

#[test]
fn bytes_that_arrive_in_small_pieces_read_the_same() {
    let plain = gunzip(&testdata("recordings/oom_gpt2_8gib.pickle.gz"));
    let page = std::fs::read(testdata("layouts/viewer_page.html")).unwrap();
    let json = std::fs::read(testdata("layouts/viewer.json")).unwrap();
    for bytes in [&plain, &gzip(&plain), &page, &json] {
        let expected = normal_form(&read(bytes));
        for longest in [1, 2, 3, 5, 17, 1000] {
            let snapshot = Snapshot::read(Dribble { bytes, longest, turn: 0 }).unwrap();
            assert_same(&normal_form(&snapshot), &expected, &format!("pieces of up to {longest} bytes"));
        }
    }
}

// ---- random snapshots

#[derive(Clone, Debug)]
struct Parts {
    streams: Vec<u64>,
    pools: Vec<(u64, u64)>,
    stacks: Vec<Vec<(String, String, u64)>>,
    segments: Vec<(i32, u64, u8, bool, Vec<AnyBlock>, Picks)>,
    traces: Vec<Vec<AnyEntry>>,
    settings: Vec<(String, Setting)>,
    annotations: Vec<(String, String, i32, Option<i64>)>,
    host: Option<Vec<AnyEntry>>,
    extras: Vec<(String, String)>,
}

/// Numbers from which a row of a table is picked, by remainder.
type Picks = [usize; 3];
type AnyBlock = (u64, u64, u8, Picks);

#[derive(Clone, Debug)]
struct AnyEntry {
    action: u8,
    address: u64,
    size: u64,
    time_us: Option<i64>,
    picks: Picks,
    texts: [Option<String>; 3],
    stack_recorded: bool,
    free: Option<u64>,
    forward: Option<Vec<String>>,
    extras: Vec<(String, String)>,
}

/// Text of every kind: as PyTorch writes it, empty, long, with quotes, controls and characters of every width.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("N/A".to_owned()),
        "[a-z_]{0,9}",
        "\\PC{0,12}",
        "[\"\\\\\n\r\t\u{0}\u{7f}é模🔥]{0,6}",
        "[a-z/]{250,270}",
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300u64, 60_000..70_000u64, any::<u32>().prop_map(u64::from), any::<u64>()]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1..5000u64, 1..=1u64 << 40]
}

fn key() -> impl Strategy<Value = String> {
    "x_[a-z]{0,6}"
}

fn any_entry() -> impl Strategy<Value = AnyEntry> {
    let action = 0..u8::try_from(Action::NAMES.len()).unwrap();
    let texts = [proptest::option::of(text()), proptest::option::of(text()), proptest::option::weighted(0.1, text())];
    let time = proptest::option::of(prop_oneof![1_790_000_000_000_000..1_800_000_000_000_000i64, -5..5i64]);
    let rare = (
        proptest::option::of(number().prop_map(|n| n >> 14)),
        proptest::option::weighted(0.1, vec(text(), 0..3)),
        vec((key(), text()), 0..2),
    );
    (action, number(), size(), time, any::<Picks>(), texts, any::<bool>(), rare).prop_map(
        |(action, address, size, time_us, picks, texts, stack_recorded, (free, forward, extras))| AnyEntry {
            action,
            address,
            size,
            time_us,
            picks,
            texts,
            stack_recorded,
            free,
            forward,
            extras,
        },
    )
}

fn setting() -> impl Strategy<Value = Setting> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Setting::Bool),
        any::<i64>().prop_map(Setting::Int),
        (-1e18..1e18f64).prop_map(Setting::Float),
        text().prop_map(Setting::Text),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| vec((key(), inner), 0..4).prop_map(Setting::Table))
}

fn parts() -> impl Strategy<Value = Parts> {
    let stacks = vec(vec((text(), text(), number()), 0..5), 1..6);
    let block = (size(), size(), 0..3u8, any::<Picks>());
    let segment = (-1..4i32, 0..1u64 << 60, 0..3u8, any::<bool>(), vec(block, 0..5), any::<Picks>());
    let traces = vec(prop_oneof![1 => vec(any_entry(), 0..4), 1 => vec(any_entry(), 0..40)], 0..4);
    let annotation =
        (prop_oneof![Just("START".to_owned()), Just("END".to_owned()), text()], text(), -1..9i32, any::<Option<i64>>());
    let annotations = vec(annotation, 0..5);
    (
        (vec(number(), 0..4), vec((number(), number()), 0..4), stacks, vec(segment, 0..5), traces),
        (vec((key(), setting()), 0..5), annotations, proptest::option::of(vec(any_entry(), 1..9))),
        vec((key(), text()), 0..3),
    )
        .prop_map(|((streams, pools, stacks, segments, traces), (settings, annotations, host), extras)| Parts {
            streams,
            pools,
            stacks,
            segments,
            traces,
            settings,
            annotations,
            host,
            extras,
        })
}

fn build(parts: &Parts) -> Snapshot {
    let mut s = Snapshot::empty();
    s.streams.extend(&parts.streams);
    s.pools.extend(&parts.pools);
    let stacks: Vec<StackId> = parts.stacks.iter().map(|frames| intern_stack(&mut s, frames)).collect();
    for (device, address, kind, is_expandable, blocks, picks) in &parts.segments {
        add_segment(&mut s, &stacks, (*device, *address, *kind, *is_expandable), blocks, *picks);
    }
    for entries in &parts.traces {
        let trace = table(&mut s, &stacks, entries);
        s.traces.push(trace);
    }
    s.settings.entries.clone_from(&parts.settings);
    for (stage, name, device, time_us) in &parts.annotations {
        let stage = match stage.as_str() {
            "START" => Stage::Start,
            "END" => Stage::End,
            other => Stage::Other(s.strings.intern(other)),
        };
        // The least number stands for no time.
        let time_us = time_us.filter(|&time| time != i64::MIN);
        let name = s.strings.intern(name);
        s.annotations.push(Annotation { stage, name, device: *device, time_us });
    }
    if let Some(entries) = &parts.host {
        let trace = table(&mut s, &stacks, entries);
        s.host = Some(HostMemory { segments: Vec::new(), trace });
    }
    s.extras.clone_from(&parts.extras);
    s
}

fn intern_stack(s: &mut Snapshot, frames: &[(String, String, u64)]) -> StackId {
    let mut ids = Vec::new();
    for (name, filename, line) in frames {
        let (name, filename) = (s.strings.intern(name), s.strings.intern(filename));
        ids.push(s.frames.intern(Frame { name, filename, line: *line }));
    }
    s.stacks.intern(&ids)
}

fn pick<T: Copy>(rows: &[T], pick: usize) -> T {
    rows[pick % rows.len()]
}

fn add_segment(
    s: &mut Snapshot,
    stacks: &[StackId],
    (device, address, kind, is_expandable): (i32, u64, u8, bool),
    blocks: &[AnyBlock],
    picks: Picks,
) {
    let first = u32::try_from(s.blocks.len()).unwrap();
    let mut next = address;
    for &(size_bytes, requested_bytes, state, picks) in blocks {
        let states = [BlockState::ActiveAllocated, BlockState::ActiveAwaitingFree, BlockState::Inactive];
        let state = states[usize::from(state)];
        let stack = pick(stacks, picks[0]);
        s.blocks.push(Block { address: next, size_bytes, requested_bytes, state, stack });
        next += size_bytes;
    }
    let last = u32::try_from(s.blocks.len()).unwrap();
    s.segments.push(Segment {
        device,
        address,
        total_bytes: next - address,
        stream: StreamId::from_index(picks[0] % s.streams.len()),
        segment_type: [SegmentType::Small, SegmentType::Large, SegmentType::Unknown][usize::from(kind)],
        pool: PoolId::from_index(picks[1] % s.pools.len()),
        is_expandable,
        stack: pick(stacks, picks[2]),
        blocks: first..last,
    });
}

fn table(s: &mut Snapshot, stacks: &[StackId], entries: &[AnyEntry]) -> EntryTable {
    let mut table = EntryTable::default();
    for (row, entry) in (0u32..).zip(entries) {
        let action = Action::from_name(Action::NAMES[usize::from(entry.action)]).unwrap();
        let is_oom = action == Action::OOM;
        let mut text = |text: &Option<String>| text.as_ref().map_or(StringId::MISSING, |t| s.strings.intern(t));
        let [compile_context, user_metadata, category] = entry.texts.each_ref().map(&mut text);
        let pools = s.pools.len();
        table.push(Entry {
            action,
            address: if is_oom { 0 } else { entry.address },
            size_bytes: entry.size,
            stream: StreamId::from_index(entry.picks[0] % s.streams.len()),
            time_us: entry.time_us,
            stack: if entry.stack_recorded { pick(stacks, entry.picks[1]) } else { StackId::MISSING },
            // One more than there are: none.
            pool: match entry.picks[2] % (pools + 1) {
                row if row < pools => PoolId::from_index(row),
                _ => PoolId::MISSING,
            },
            compile_context,
            user_metadata,
            category,
        });
        if let Some(free) = entry.free.filter(|_| is_oom) {
            table.device_free_bytes.push((row, free));
        }
        if let Some(lines) = &entry.forward {
            let frames: Vec<_> = lines.iter().map(|line| (line.clone(), String::new(), 0)).collect();
            table.forward_stack.push((row, intern_stack(s, &frames)));
        }
        for (key, value) in &entry.extras {
            let extra = (s.strings.intern(key), s.strings.intern(value));
            table.extras.push((row, extra));
        }
    }
    table
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_snapshot_written_reads_back_the_same(parts in parts()) {
        let snapshot = build(&parts);
        let expected = normal_form(&snapshot);
        let pickle = pickled(&snapshot);
        assert_same(&normal_form(&read(&pickle)), &expected, "pickle");
        assert_same(&normal_form(&read(&as_json(&snapshot))), &expected, "JSON");
        prop_assert!(pickled(&read(&pickle)) == pickle, "the second copy differs from the first");
        let dribbled = Snapshot::read(Dribble { bytes: &pickle, longest: 3, turn: 0 }).unwrap();
        assert_same(&normal_form(&dribbled), &expected, "pickle in pieces");
    }
}
