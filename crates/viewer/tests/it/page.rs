//! The page that needs no server, unpacked as the page unpacks itself: every number is that of the analysis.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use highwater_analysis::{StackClasses, analyse, analyse_with};
use highwater_documents::columns::{Columns, Options, columns};
use highwater_snapshot::Snapshot;
use highwater_testkit::{recording, recordings};
use highwater_viewer::{PageOptions, write_page};
use highwater_whatif::Watch;
use serde_json::Value;

fn page_of(snapshot: &Snapshot, name: &str, options: &PageOptions) -> String {
    let mut page = Vec::new();
    write_page(&mut page, &analyse(snapshot), name, options, &Watch::default()).expect("memory takes it");
    String::from_utf8(page).expect("text")
}

/// What the page carries, by id.
fn packed(page: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("<script type=\"application/x-highwater\" id=\"") {
        let (id, after) = after.split_once("\">").expect("the tag ends");
        let (base64, after) = after.split_once("</script>").expect("it is closed");
        let gzip = STANDARD.decode(base64).expect("base64");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&gzip[..]).read_to_end(&mut bytes).expect("gzip");
        assert!(found.insert(id.to_owned(), bytes).is_none(), "{id} twice");
        rest = after;
    }
    found
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// The numbers of a section, by what the manifest says of it.
fn numbers(info: &Value, payload: &[u8], start: Option<&[u64]>) -> Vec<u64> {
    let length = usize::try_from(info["length"].as_u64().expect("a length")).expect("it fits");
    if let Some(constant) = info["constant"].as_f64() {
        return vec![whole(constant); length];
    }
    let values = match info["encoding"].as_str().expect("an encoding") {
        "raw" => {
            let width = match info["type"].as_str().expect("a type") {
                "u8" => 1,
                "u16" => 2,
                "u32" => 4,
                _ => 8,
            };
            let is_double = info["type"] == "f64";
            let value = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..width].copy_from_slice(bytes);
                if is_double { whole(f64::from_le_bytes(word)) } else { u64::from_le_bytes(word) }
            };
            payload.chunks(width).map(value).collect()
        }
        "varint" => varints(payload),
        "delta" => {
            let mut last = 0_i64;
            let signed =
                varints(payload).into_iter().map(|value| (value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            let summed = signed.map(|difference| {
                last += difference;
                u64::try_from(last).expect("no row is negative")
            });
            summed.collect()
        }
        "length" => varints(payload).iter().zip(start.expect("known")).map(|(length, start)| start + length).collect(),
        other => panic!("unknown encoding {other}"),
    };
    assert_eq!(values.len(), length);
    values
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as what it is compared with")]
fn whole(value: f64) -> u64 {
    value as u64
}

fn varints(bytes: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    let (mut value, mut shift) = (0, 0);
    for &byte in bytes {
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            values.push(value);
            (value, shift) = (0, 0);
        }
    }
    values
}

/// Compares every section of a page with the columns.
fn check(page: &str, want: &Columns, name: &str) {
    let packed = packed(page);
    let manifest = json(&packed["manifest"]);
    assert_eq!(manifest["format"], "highwater-view");
    let mut checked = 0;
    let infos = manifest["devices"].as_array().expect("devices").iter().flat_map(|device| {
        let prefix = format!("{}/", device["device"]);
        device["sections"]
            .as_object()
            .expect("sections")
            .iter()
            .map(move |(name, info)| (format!("{prefix}{name}"), info))
    });
    let own = manifest["sections"].as_object().expect("sections").iter().map(|(name, info)| (name.clone(), info));
    for (section, info) in own.chain(infos) {
        let payload = packed.get(&format!("section:{section}")).map_or(&[][..], |bytes| bytes);
        if info["type"] == "json" {
            json(payload);
            continue;
        }
        let start: Option<Vec<u64>> =
            section.strip_suffix("/end").map(|device| want.sections[&format!("{device}/start")].numbers());
        let got = numbers(info, payload, start.as_deref());
        assert_eq!(got, want.sections[&section].numbers(), "{name}: {section}");
        checked += 1;
    }
    assert_eq!(checked, want.sections.len(), "{name}");
    for id in ["app.js", "worker.js", "section:report", "section:frames"] {
        assert!(packed.contains_key(id), "{name}: {id}");
    }
}

#[test]
fn every_recording_comes_back_out_of_its_page() {
    for path in recordings() {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".pickle.gz") else { continue };
        let snapshot = Snapshot::open(&path).expect("the recording reads");
        let want = columns(&analyse(&snapshot), &file, &Options::default());
        let page = page_of(&snapshot, &file, &PageOptions { what_if: Some(false), ..PageOptions::default() });
        check(&page, &want, name);
        // Beside them stands the program, which is the same for all; a small recording is smaller than any page. An explanation
        // is as long as a failure is complicated, however small the recording.
        let data: usize = packed(&page)
            .keys()
            .filter(|id| **id == "manifest" || id.starts_with("section:"))
            .filter(|id| **id != "section:explain")
            .map(|id| packed_bytes(&page, id))
            .sum();
        let gzipped = std::fs::metadata(&path).expect("it is there").len();
        assert!(data as u64 * 2 < gzipped * 3 || gzipped < 8 << 10, "{name}: {data} bytes for {gzipped}");
    }
}

/// Characters that a script of the page takes.
fn packed_bytes(page: &str, id: &str) -> usize {
    let (_, after) = page.split_once(&format!("id=\"{id}\">")).expect("it is there");
    after.find("</script>").expect("it is closed")
}

#[test]
fn the_usual_what_ifs_are_in_the_page() {
    let snapshot = recording("oom_gpt2_8gib");
    let page = page_of(&snapshot, "a.pickle", &PageOptions::default());
    let packed = packed(&page);
    let manifest = json(&packed["manifest"]);
    assert_eq!((&manifest["what_if"], &manifest["what_if_reason"]), (&"precomputed".into(), &Value::Null));
    assert_eq!(manifest["sections"]["what_if"]["type"], "json");
    let answer = json(&packed["section:what_if"]);
    assert!(answer["verdict"]["text"].is_string());
    assert!(answer["fit"].as_array().is_some_and(|fit| fit.len() > 2));
    assert!(answer["timelines"].as_array().is_some_and(|timelines| timelines.len() > 2));

    let without = page_of(&snapshot, "a.pickle", &PageOptions { what_if: Some(false), ..PageOptions::default() });
    let manifest = json(&self::packed(&without)["manifest"]);
    assert_eq!(manifest["what_if"], "left out");
    assert_eq!(manifest["what_if_reason"], "the page was made with `--no-what-if`");
    assert!(!without.contains("id=\"section:what_if\""));
}

#[test]
fn small_allocations_can_be_left_out() {
    let snapshot = recording("qwen_train_b16");
    let options = PageOptions { least_bytes: Some(1 << 20), what_if: Some(false), ..PageOptions::default() };
    let page = page_of(&snapshot, "a.pickle", &options);
    let want = columns(&analyse(&snapshot), "a.pickle", &Options { least_bytes: Some(1 << 20) });
    check(&page, &want, "qwen_train_b16");
    let left_out = &json(&packed(&page)["manifest"])["left_out"];
    assert_eq!(left_out["below_bytes"], 1 << 20);
    assert!(left_out["allocations"].as_u64() > Some(1000));
    let whole = page_of(&snapshot, "a.pickle", &PageOptions { what_if: Some(false), ..PageOptions::default() });
    assert!(page.len() < whole.len());
}

/// Names that would be markup, were any of them put into the page as they are.
const HOSTILE: &str = r#"{"segments": [{"device": 0, "address": 4096, "total_size": 2097152, "stream": 0,
    "segment_type": "small", "blocks": [
        {"address": 4096, "size": 512, "requested_size": 12, "state": "active_allocated", "frames": []},
        {"address": 4608, "size": 2096640, "requested_size": 0, "state": "inactive", "frames": []}]}],
  "device_traces": [[
    {"action": "segment_alloc", "addr": 4096, "size": 2097152, "stream": 0, "frames": []},
    {"action": "alloc", "addr": 4096, "size": 12, "stream": 0, "frames": [
        {"name": "</script><script>alert(1)</script>", "filename": "<!--<script>", "line": 3},
        {"name": "<img src=x onerror=alert(1)>", "filename": "/home/me/\"'><svg onload=alert(1)>.py", "line": 4}]}]],
  "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "</script>"}}"#;

#[test]
fn nothing_of_the_snapshot_is_markup() {
    let snapshot = Snapshot::read(HOSTILE.as_bytes()).expect("it reads");
    let name = "</title><script>alert(1)</script>.pickle";
    let page = page_of(&snapshot, name, &PageOptions::default());
    for text in ["alert(1)", "onerror=", "<svg", "/home/me"] {
        assert!(!page.contains(text), "{text}");
    }
    let packed = packed(&page);
    assert_eq!(json(&packed["manifest"])["name"], name);
    let frames = json(&packed["section:frames"]);
    assert_eq!(frames["strings"][0], "</script><script>alert(1)</script>");
    let policy = page.split_once("Content-Security-Policy\" content=\"").and_then(|(_, rest)| rest.split_once('"'));
    let (policy, _) = policy.expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("http") && !policy.contains("connect-src"), "{policy}");
    // One script that runs, the rest are data.
    assert_eq!(page.matches("<script>").count(), 1);
    let data = page.matches("<script type=\"application/x-highwater\"").count();
    assert_eq!(page.matches("<script").count(), data + 1);
}

#[test]
fn a_redacted_page_names_no_directory() {
    let mut snapshot = recording("qwen_train_b16");
    let classes = StackClasses::new(&snapshot);
    snapshot.redact();
    let mut page = Vec::new();
    let analysis = analyse_with(&snapshot, classes);
    let options = PageOptions { what_if: Some(false), ..PageOptions::default() };
    write_page(&mut page, &analysis, "a.pickle", &options, &Watch::default()).expect("memory takes it");
    let packed = packed(&String::from_utf8(page).expect("text"));
    for section in ["section:frames", "section:report", "manifest"] {
        assert!(!String::from_utf8_lossy(&packed[section]).contains("site-packages"), "{section}");
    }
    // Whose a frame is was told by its directory, before.
    let owners = json(&packed["section:frames"])["owner"].clone();
    assert!(owners.as_array().is_some_and(|owners| owners.contains(&1.into()) && owners.contains(&0.into())));
}

#[test]
fn the_place_that_a_page_opens_on_is_packed_like_all_else() {
    let snapshot = recording("linear_forward");
    let place = "view=state&at=7&q=</script><b>";
    let options = PageOptions { what_if: Some(false), place: place.to_owned(), ..PageOptions::default() };
    let page = page_of(&snapshot, "a.pickle", &options);
    let tag = "<script type=\"application/x-highwater\" id=\"place\">";
    let (_, after) = page.split_once(tag).expect("it has a place");
    let (base64, _) = after.split_once("</script>").expect("it is closed");
    assert_eq!(STANDARD.decode(base64).expect("base64"), place.as_bytes());
    let without = page_of(&snapshot, "a.pickle", &PageOptions { what_if: Some(false), ..PageOptions::default() });
    assert!(!without.contains(tag));
}
