//! Damaged files: cut at any byte, or with any byte changed.

use highwater_snapshot::Snapshot;
use highwater_testkit::{files, gzip, testdata};

use crate::common::{assert_same, layout_bytes, normal_form, pickled, recording_bytes};

/// The lines of the normal form without those that count what comes.
fn lines(snapshot: &Snapshot) -> Vec<String> {
    let form = normal_form(snapshot);
    let is_count = |line: &str| line.starts_with("trace ") || line.starts_with("host-trace ");
    form.lines().filter(|line| !is_count(line)).map(str::to_owned).collect()
}

/// Cuts the input at every `step`th byte: each cut is an error, or gives a beginning of the whole and says so.
#[track_caller]
fn cut_everywhere(bytes: &[u8], step: usize, what: &str) {
    let whole = lines(&Snapshot::read(bytes).unwrap());
    let mut longest = 0;
    for end in (0..bytes.len()).step_by(step) {
        let Ok(cut) = Snapshot::read(&bytes[..end]) else { continue };
        let kept = lines(&cut);
        if cut.cut.is_none() {
            // Nothing but the end of the wrapping, or padding, is gone.
            assert_eq!(kept, whole, "{what} cut at byte {end} of {} reads as whole", bytes.len());
            continue;
        }
        assert!(cut.warnings.iter().any(|w| w.id == "cut"), "{what} cut at byte {end}: no warning");
        let same = kept.iter().zip(&whole).take_while(|(a, b)| a == b).count();
        assert_eq!(kept.get(same), None, "{what} cut at byte {end}: line {same} should be {:?}", whole.get(same));
        longest = longest.max(kept.len());
    }
    assert!(longest * 10 >= whole.len() * 8, "{what}: at most {longest} of {} lines were kept", whole.len());
}

#[test]
fn cut_layout_keeps_what_was_read() {
    for name in ["torch_2_14.pickle", "torch_2_12.pickle", "several_devices.pickle", "cpp_writer.pickle"] {
        cut_everywhere(&layout_bytes(name), 1, name);
    }
}

#[test]
fn cut_pickle_of_any_protocol_keeps_what_was_read() {
    for protocol in 0..=5 {
        let name = format!("protocol_{protocol}.pickle");
        cut_everywhere(&layout_bytes(&name), 1, &name);
    }
}

#[test]
fn cut_bare_list_keeps_whole_segments() {
    let bytes = layout_bytes("segment_list.pickle");
    cut_everywhere(&bytes, 1, "segment_list.pickle");
    let cut = Snapshot::read(&bytes[..bytes.len() - 10]).unwrap().cut.unwrap();
    assert!(!cut.segments_complete, "{cut:?}");
}

#[test]
fn cut_recording_keeps_what_was_read() {
    cut_everywhere(&recording_bytes("linear_forward"), 1, "linear_forward");
    cut_everywhere(&recording_bytes("reference_cycles"), 7, "reference_cycles");
    cut_everywhere(&recording_bytes("oom_gpt2_8gib"), 1009, "oom_gpt2_8gib");
    cut_everywhere(&recording_bytes("fsdp2_qwen05b_rank2"), 200_003, "fsdp2_qwen05b_rank2");
}

#[test]
fn cut_json_keeps_what_was_read() {
    cut_everywhere(&layout_bytes("viewer.json"), 1, "viewer.json");
}

#[test]
fn cut_page_keeps_what_was_read() {
    cut_everywhere(&layout_bytes("viewer_page.html"), 1, "viewer_page.html");
}

#[test]
fn cut_gzip_keeps_what_was_read() {
    // Incompressible enough that what is inflated before the cut grows byte by byte.
    cut_everywhere(&gzip(&recording_bytes("linear_forward")), 1, "linear_forward in gzip");
    let zstd = zstd::encode_all(recording_bytes("multi_stream").as_slice(), 3).unwrap();
    for end in 0..zstd.len().min(3000) {
        drop(Snapshot::read(&zstd[..end]));
    }
}

#[test]
fn a_cut_says_what_is_complete() {
    let bytes = recording_bytes("linear_forward");
    let mut seen = Vec::new();
    for end in 0..bytes.len() {
        if let Ok(snapshot) = Snapshot::read(&bytes[..end]) {
            let cut = snapshot.cut.unwrap();
            seen.push((cut.segments_complete, cut.traces_complete));
        }
    }
    seen.dedup();
    assert_eq!(seen, [(false, false), (true, false), (true, true)]);
}

/// A small generator of pseudo-random numbers: the same sequence every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % limit
    }
}

/// Reads it, and if there is anything in it, writes it and reads that: nothing may panic or change.
fn survives(bytes: &[u8], what: &str) {
    let Ok(mut snapshot) = Snapshot::read(bytes) else { return };
    // Settings with the keys of a record are read as that record, when the damage has not kept the reader from it.
    snapshot.settings.entries.clear();
    let written = pickled(&snapshot);
    let again = Snapshot::read(written.as_slice()).unwrap_or_else(|e| panic!("{what}: written, but unreadable: {e}"));
    assert_same(&normal_form(&again), &normal_form(&snapshot).replacen("layout list", "layout dict", 1), what);
    assert!(pickled(&again) == written, "{what}: the second copy differs from the first");
}

#[test]
fn changed_bytes_never_panic() {
    let mut random = Random(0x5EED);
    let folder = testdata("layouts");
    let layouts = [".pickle", ".json", ".html"].iter().flat_map(|ending| files(&folder, ending));
    let mut inputs: Vec<(String, Vec<u8>)> =
        layouts.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect();
    inputs.push(("linear_forward".to_owned(), recording_bytes("linear_forward")));
    inputs.push(("linear_forward in gzip".to_owned(), gzip(&recording_bytes("linear_forward"))));
    for (name, bytes) in inputs {
        for _ in 0..400 {
            let mut changed = bytes.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(changed.len());
                changed[at] = u8::try_from(random.below(256)).unwrap();
            }
            survives(&changed, &name);
        }
    }
}

#[test]
fn a_piece_moved_elsewhere_never_panics() {
    let mut random = Random(0xFEED);
    for name in ["torch_2_15.pickle", "torch_2_0.pickle", "unknown_words.pickle", "protocol_0.pickle"] {
        let bytes = layout_bytes(name);
        for _ in 0..1500 {
            let mut changed = bytes.clone();
            let start = random.below(bytes.len());
            let piece = &bytes[start..(start + random.below(60)).min(bytes.len())];
            let at = random.below(bytes.len());
            changed.splice(at..at, piece.iter().copied());
            survives(&changed, name);
        }
    }
}
