//! What the server answers, over a socket, to a client that means well and to others.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use highwater_analysis::analyse;
use highwater_answers::diff::{Asked, Comparison};
use highwater_documents::columns::{Columns, Options as ColumnOptions, columns};
use highwater_testkit::{gzip, recording, recording_path};
use highwater_viewer::{Options, PageOptions, Viewer, write_page};
use highwater_whatif::Watch;
use serde_json::Value;

/// A server on its own thread; both end with the test.
struct Served {
    port: u16,
    token: String,
}

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Served {
    fn new(files: &[PathBuf]) -> Self {
        let viewer = Viewer::open(files, &Options::default()).expect("a free port");
        let address = viewer.address();
        let (_, rest) = address.split_once("127.0.0.1:").expect("on the loopback");
        let (port, token) = rest.split_once('/').expect("a path");
        let served = Self { port: port.parse().expect("a port"), token: token.trim_end_matches('/').to_owned() };
        thread::spawn(move || viewer.serve(|_| ()));
        served
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream
    }

    /// Sends bytes as they are.
    fn send(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // It may have answered and closed before all is written.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let split = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer");
        let head = String::from_utf8(answer[..split].to_vec()).expect("text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head, body: answer[split + 4..].to_vec() }
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let head =
            format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        self.send(&[head.as_bytes(), body].concat())
    }

    fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}\r\n", self.port)
    }

    /// Asks for something under the token.
    fn get(&self, path: &str) -> Answer {
        self.request("GET", &format!("/{}/{path}", self.token), &self.host(), b"")
    }

    fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.request("POST", &format!("/{}/{path}", self.token), &self.host(), body)
    }
}

fn columns_of(name: &str) -> (Columns, Value) {
    let snapshot = recording(name);
    let analysis = analyse(&snapshot);
    let report = serde_json::to_value(highwater_documents::report(&analysis)).expect("JSON");
    (columns(&analysis, &format!("{name}.pickle.gz"), &ColumnOptions::default()), report)
}

#[test]
fn the_page_comes_with_what_it_may_do() {
    let served = Served::new(&[recording_path("linear_forward")]);
    for (path, kind) in [
        ("", "text/html; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("worker.js", "text/javascript; charset=utf-8"),
        ("app.css", "text/css; charset=utf-8"),
        ("api/files", "application/json"),
        ("api/nothing", "application/json"),
    ] {
        let answer = served.get(path);
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert!(String::from_utf8(served.get("").body).expect("text").starts_with("<!doctype html>"));
    let slash = served.request("GET", &format!("/{}", served.token), &served.host(), b"");
    assert_eq!((slash.status, slash.header("location")), (308, Some(&*format!("/{}/", served.token))));
}

#[test]
fn the_calculator_has_its_own_policy_and_no_other_page_may_frame_it() {
    let answer = Served::new(&[]).get("calculator.html");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = answer.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.ends_with("; frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("'self'") && !policy.contains("connect-src"), "it asks nobody: {policy}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn sections_are_those_of_the_analysis() {
    let name = "gpt2_late_recording";
    let served = Served::new(&[recording_path(name)]);
    let (want, report) = columns_of(name);
    let manifest = served.get("api/files/0/manifest");
    assert_eq!(manifest.status, 200);
    assert_eq!(manifest.json(), serde_json::to_value(&want.manifest).expect("JSON"));
    for (name, section) in &want.sections {
        let answer = served.get(&format!("api/files/0/sections/{name}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/octet-stream")), "{name}");
        assert_eq!(answer.body, section.bytes, "{name}");
    }
    assert_eq!(served.get("api/files/0/sections/report").json(), report);
    let frames = served.get("api/files/0/sections/frames").json();
    assert_eq!(frames["name"].as_array().map(Vec::len), Some(want.manifest.frames));
    let files = served.get("api/files").json();
    let file = &files["files"][0];
    assert_eq!((&file["id"], &file["state"], &file["changed_on_disk"]), (&0.into(), &"ready".into(), &false.into()));
    assert_eq!(file["bytes"], std::fs::metadata(recording_path(name)).expect("it is there").len());
}

#[test]
fn stretches_of_sections_come_one_after_the_other() {
    let served = Served::new(&[recording_path("linear_forward")]);
    let [start, offset] = ["start", "offset"].map(|name| served.get(&format!("api/files/0/sections/0/{name}")).body);
    let ask = |query: &str| served.get(&format!("api/files/0/stretches?{query}"));

    let both = ask("of=0/start:1-4&of=0/offset:0-2");
    assert_eq!((both.status, &both.body[..]), (200, &[&start[1..4], &offset[..2]].concat()[..]));
    let whole = ask(&format!("of=0/start:0-{}", start.len()));
    assert_eq!(whole.body, start);
    assert_eq!(ask("").body, b"");

    for beyond in
        [format!("of=0/start:0-{}", start.len() + 1), format!("of=0/start:{0}-{1}", usize::MAX - 1, usize::MAX)]
    {
        assert_eq!(ask(&beyond).status, 400, "{beyond}");
    }
    assert_eq!(ask("of=0/nothing:0-1").status, 404);
    for malformed in
        ["of=0/start:3-1", "of=0/start:-5", "of=0/start:5-", "of=0/start", "of=0-1", "of=:a-b", "of", "rows=0-1"]
    {
        assert_eq!(ask(malformed).status, 400, "{malformed}");
    }
    // No answer is larger than a few sections.
    assert_eq!(ask("of=0/start:0-65537").status, 400);
    assert_eq!(ask(&["of=0/start:0-1"; 257].join("&")).status, 400);
}

#[test]
fn more_files_than_stay_open_have_outlines_and_are_read_again() {
    let folder = tempfile::tempdir().expect("a directory");
    let paths: Vec<_> = (0..12).map(|rank| folder.path().join(format!("rank{rank}.pickle.gz"))).collect();
    for path in &paths {
        std::fs::copy(recording_path("linear_forward"), path).expect("it is copied");
    }
    let served = Served::new(&paths);
    let ids: Vec<String> = (0..12).map(|id| id.to_string()).collect();
    let peaks = served.get(&format!("api/outlines?of=peaks&files={}", ids.join(","))).json();
    for id in &ids {
        assert_eq!(peaks[id], served.get(&format!("api/files/{id}/curves?parts=0")).json());
        assert!(peaks[id]["devices"][0]["peak"]["bytes"].as_u64() > Some(0));
    }
    let heats = served.get("api/outlines?of=heat&files=11").json();
    assert_eq!(heats["11"]["devices"][0]["bytes"]["reserved"].as_array().map(Vec::len), Some(240));

    // All of them in turn, so that the first is closed, and then the first again.
    let manifest = |id: &str| served.get(&format!("api/files/{id}/manifest"));
    let first = manifest("0").body;
    for id in &ids {
        assert_eq!(manifest(id).status, 200, "{id}");
    }
    assert_eq!(manifest("0").body, first);

    // One that is no longer what its outline says is refused.
    let refused = (0..12).find_map(|id| {
        std::fs::write(&paths[id], "changed").expect("it is written");
        Some(manifest(&id.to_string())).filter(|answer| answer.status != 200)
    });
    assert!(
        refused.expect("not all are open").json()["error"]
            .as_str()
            .is_some_and(|error| error.contains("has changed on disk"))
    );

    for (query, status) in [("of=peaks&files=12", 404), ("of=all&files=0", 400), ("files=0", 400), ("of=peaks", 200)] {
        assert_eq!(served.get(&format!("api/outlines?{query}")).status, status, "{query}");
    }
    assert_eq!(served.get(&format!("api/outlines?of=peaks&files={}", ["0"; 129].join(","))).status, 400);
}

/// As of `highwater view <(zcat run.pickle.gz)`: it is there once.
#[cfg(unix)]
#[test]
fn a_named_pipe_is_read_once_and_stays_open() {
    let folder = tempfile::tempdir().expect("a directory");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::copy(recording_path("linear_forward"), pipe)
    });
    let paths: Vec<_> = std::iter::once(pipe).chain((0..10).map(|_| recording_path("linear_forward"))).collect();
    let served = Served::new(&paths);
    for id in (0..paths.len()).chain([0]) {
        assert_eq!(served.get(&format!("api/files/{id}/manifest")).status, 200, "{id}");
    }
    writer.join().expect("it ends").expect("it is written");
}

/// Within a deadline that the test does not know: the connection ends, whatever was sent of the head.
#[test]
fn a_head_that_does_not_end_ends_its_connection() {
    let served = Served::new(&[]);
    for begun in ["", "GET / HTTP/1.1\r\nHost: "] {
        let mut stream = served.connect();
        stream.write_all(begun.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        // It is closed, with a word or without: the 60 seconds of the client's own patience are not needed.
        let ended = stream.read_to_end(&mut answer);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    }
}

#[test]
fn paths_without_the_token_are_not_found() {
    let served = Served::new(&[recording_path("linear_forward")]);
    let almost = format!("{}0", &served.token[..served.token.len() - 1]);
    for path in ["/", "/favicon.ico", "/api/files", "//api/files", "/0/api/files", &format!("/{almost}/"), "/%2e%2e/"] {
        if path.contains(&served.token) {
            continue;
        }
        let answer = served.request("GET", path, &served.host(), b"");
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.head.contains(&served.token));
        assert_eq!(answer.json()["error"], "there is nothing here", "{path}");
    }
    assert_eq!(served.request("POST", "/x/api/files?name=a", &served.host(), b"x").status, 404);
}

#[test]
fn other_hosts_and_other_pages_are_refused() {
    let served = Served::new(&[recording_path("linear_forward")]);
    let path = format!("/{}/api/files", served.token);
    let port = served.port;
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        String::new(),
    ] {
        assert_eq!(served.request("GET", &path, &format!("Host: {host}\r\n"), b"").status, 403, "{host}");
    }
    assert_eq!(served.request("GET", &path, "", b"").status, 403, "no host");
    let two = format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n");
    assert_ne!(served.request("GET", &path, &two, b"").status, 200, "two hosts");
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"] {
        let headers = format!("{}Origin: {origin}\r\n", served.host());
        let answer = served.request("GET", &path, &headers, b"");
        assert_eq!(answer.status, 403, "{origin}");
        assert!(answer.json()["error"].as_str().is_some_and(|error| error.contains("its own page")));
    }
    let own = format!("{}Origin: http://127.0.0.1:{port}\r\n", served.host());
    assert_eq!(served.request("GET", &path, &own, b"").status, 200);
    let named = format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n");
    assert_eq!(served.request("GET", &path, &named, b"").status, 200);
}

#[test]
fn malformed_requests_get_a_status_and_a_reason() {
    let served = Served::new(&[recording_path("linear_forward")]);
    for (path, status, error) in [
        ("../../etc/passwd", 404, "there is nothing here"),
        ("..%2f..%2fetc%2fpasswd", 404, "there is nothing here"),
        ("api/files/../files", 404, "there is nothing here"),
        ("api/files/%2e%2e/manifest", 404, "there is no file .."),
        ("api/files/7/manifest", 404, "there is no file 7"),
        ("api/files/-1/manifest", 404, "there is no file -1"),
        ("api/files/99999999999999999999999/manifest", 404, "there is no file 99999999999999999999999"),
        ("api/files/0/sections/0/nothing", 404, "there is no section `0/nothing`"),
        ("api/files/0/sections/../manifest", 404, "there is no section `../manifest`"),
        ("api/files/0/simulate?device=x", 400, "`device=x` is not a device"),
        ("api/files/0/simulate?device=9", 400, "there is no device 9"),
        ("api/files/0/simulate?capacity=24", 400, "`24` is not a size"),
        ("api/files/0/simulate?capacity=-1", 400, "`-1` is not a size"),
        ("api/files/0/simulate?card=rtx9090", 400, "`rtx9090` is neither a size nor a known GPU"),
        ("api/files/0/simulate?speed=1", 400, "`speed` is not a parameter here"),
        ("api/files/0/simulate?conf=nonsense:1", 400, "the settings `nonsense:1` cannot be simulated"),
        ("api/files/0/simulate?conf=%ff%fe", 400, "the settings `\u{fffd}\u{fffd}` cannot be simulated"),
    ] {
        let answer = served.get(path);
        assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)), "{path}");
        assert!(status == 404 || path.contains("device=9") || answer.json()["hint"].is_string(), "{path}");
    }
    let many = format!("api/files/0/simulate?{}", "conf=&".repeat(33));
    assert_eq!(served.get(&many).status, 400);
    assert_eq!(served.post("api/files", b"x").json()["error"], "a dropped file needs a name");
    assert_eq!(served.post("api/files?nom=x", b"x").status, 400);
    assert_eq!(served.post("api/files/0/manifest", b"x").status, 405);
    assert_eq!(served.request("DELETE", &format!("/{}/api/files", served.token), &served.host(), b"").status, 405);
    // What is no HTTP at all.
    assert_eq!(served.send(b"\x16\x03\x01 hello\r\n\r\n").status, 400);
    assert_eq!(served.get("api/files").status, 200, "it still stands");
}

#[test]
fn what_if_is_answered_as_by_the_command() {
    let served = Served::new(&[recording_path("oom_gpt2_8gib")]);
    let conf = "api/files/0/simulate?device=0&conf=expandable_segments%3ATrue&conf=&capacity=8G";
    let answer = served.get(conf);
    let document = answer.json();
    assert_eq!((answer.status, &document["format"]), (200, &"highwater-simulate".into()));
    let runs = document["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    assert_eq!((&runs[0]["conf"], &runs[1]["conf"]), (&"expandable_segments:True".into(), &"".into()));
    let timelines = document["timelines"].as_array().expect("timelines");
    assert_eq!(timelines.len(), 2);
    for (run, timeline) in runs.iter().zip(timelines) {
        assert_eq!(run["oom_entry"], timeline["oom_entry"]);
        assert_eq!(timeline["entries"].as_array().map(Vec::len), timeline["reserved_bytes"].as_array().map(Vec::len));
    }
    assert_eq!(served.get(conf).json(), document);
}

#[test]
fn a_gpu_of_a_what_if_gives_pytorch_its_memory_without_the_context() {
    let served = Served::new(&[recording_path("linear_forward")]);
    let document = served.get("api/files/0/simulate?device=0&card=RTX+4090").json();
    let run = &document["runs"][0];
    let bytes = |name: &str| run[name].as_u64().unwrap();
    assert_eq!((&run["card"], (bytes("card_total_bytes") * 100) >> 30), (&"RTX 4090".into(), 2363));
    assert_eq!(bytes("card_total_bytes") - bytes("capacity_bytes"), 742 << 20);
}

#[test]
fn a_dropped_file_is_read() {
    let served = Served::new(&[]);
    assert_eq!(served.get("api/files").json()["files"].as_array().map(Vec::len), Some(0));
    let bytes = std::fs::read(recording_path("linear_forward")).expect("readable");
    let answer = served.post("api/files?name=dir%2Flinear_forward.pickle.gz", &bytes);
    assert_eq!((answer.status, answer.json()["id"].as_u64()), (201, Some(0)));
    let (want, _) = columns_of("linear_forward");
    assert_eq!(served.get("api/files/0/manifest").json(), serde_json::to_value(&want.manifest).expect("JSON"));
    // Not a snapshot: the page says what the terminal would.
    let answer = served.post("api/files?name=notes.txt", &b"to do: nothing\n".repeat(100_000));
    assert_eq!((answer.status, answer.json()["id"].as_u64()), (201, Some(1)));
    let failed = served.get("api/files/1/manifest");
    assert_eq!(failed.status, 422);
    assert_eq!(failed.json()["error"], "`notes.txt` is not a memory snapshot");
    assert_eq!(served.get("api/files").json()["files"][1]["problem"], failed.json());
    assert_eq!(served.get("api/files/1/sections/frames").status, 422);
    assert_eq!(served.get("api/files/1/simulate").status, 422);
}

#[test]
fn an_upload_that_breaks_off_harms_nobody() {
    let served = Served::new(&[recording_path("linear_forward")]);
    let bytes = std::fs::read(recording_path("linear_forward")).expect("readable");
    let head = format!(
        "POST /{}/api/files?name=cut.pickle.gz HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n",
        served.token,
        served.host(),
        bytes.len()
    );
    let mut stream = served.connect();
    stream.write_all(head.as_bytes()).expect("it reads");
    stream.write_all(&bytes[..bytes.len() / 2]).expect("it reads");
    stream.shutdown(Shutdown::Both).expect("it is open");
    drop(stream);
    let file = || served.get("api/files").json()["files"][1].clone();
    for _ in 0..1000 {
        if file()["state"].is_string() && file()["state"] != "reading" {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_ne!(file()["state"], "reading");
    assert_eq!(served.get("api/files/0/manifest").status, 200);
    let too_large = format!(
        "POST /{}/api/files?name=big HTTP/1.1\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n",
        served.token,
        served.host(),
        u64::MAX / 2
    );
    let answer = served.send(too_large.as_bytes());
    assert_eq!(answer.status, 413);
    assert!(answer.json()["hint"].as_str().is_some_and(|hint| hint.contains("highwater view FILE")));
}

#[test]
fn two_hundred_requests_at_once_and_some_that_go_away() {
    let served = Served::new(&[recording_path("qwen_train_b16")]);
    let (want, _) = columns_of("qwen_train_b16");
    let sections: Vec<_> = want.sections.iter().collect();
    thread::scope(|scope| {
        for i in 0..200 {
            let (served, sections) = (&served, &sections);
            scope.spawn(move || {
                let (name, section) = sections[i % sections.len()];
                if i % 5 == 4 {
                    // Asks and leaves.
                    let path = format!("/{}/api/files/0/sections/{name}", served.token);
                    let request = format!("GET {path} HTTP/1.1\r\n{}\r\n", served.host());
                    let mut stream = served.connect();
                    stream.write_all(request.as_bytes()).expect("it reads");
                    return;
                }
                let answer = served.get(&format!("api/files/0/sections/{name}"));
                assert_eq!((answer.status, answer.body == section.bytes), (200, true), "{name}");
            });
        }
    });
    assert_eq!(served.get("api/files").json()["files"][0]["state"], "ready");
}

#[test]
fn a_file_that_changes_is_shown_as_it_was_read() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("run.pickle.gz");
    std::fs::copy(recording_path("linear_forward"), &path).expect("copied");
    let served = Served::new(std::slice::from_ref(&path));
    let before = served.get("api/files/0/manifest").json();
    let changed = || served.get("api/files").json()["files"][0]["changed_on_disk"].clone();
    assert_eq!(changed(), false);
    std::fs::write(&path, b"something else").expect("written");
    assert_eq!(changed(), true);
    assert_eq!(served.get("api/files/0/manifest").json(), before);
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(changed(), true);
    assert_eq!(served.get("api/files/0/sections/report").status, 200);
}

#[test]
fn a_file_that_is_not_there_is_a_problem_of_its_own() {
    let served = Served::new(&["no/such/file.pickle".into(), recording_path("linear_forward")]);
    let missing = served.get("api/files/0/manifest");
    assert_eq!(missing.status, 422);
    assert!(missing.json()["causes"][0].is_string());
    assert_eq!(served.get("api/files/1/manifest").status, 200);
}

#[test]
fn a_rank_that_becomes_too_large_ends_nothing_for_the_others() {
    let bomb = gzip(&[b"\x80\x04", &b"N0".repeat(40 << 20)[..], b"]."].concat());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bomb.pickle.gz");
    std::fs::write(&path, &bomb).expect("a file");
    let served = Served::new(&[path, recording_path("linear_forward")]);
    let dropped = served.post("api/files?name=dropped.pickle", &bomb);
    assert_eq!(dropped.status / 100, 2, "{}", String::from_utf8_lossy(&dropped.body));
    for (file, status) in [(0, 422), (1, 200), (2, 422)] {
        let answer = served.get(&format!("api/files/{file}/sections/report"));
        assert_eq!(answer.status, status, "{file}: {}", String::from_utf8_lossy(&answer.body));
        if status == 422 {
            assert!(String::from_utf8_lossy(&answer.body).contains("--allow-any-size"));
        }
    }
}

/// The body of an answer that was sent while it was made.
fn whole(answer: &Answer) -> String {
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let mut rest = &answer.body[..];
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a length");
        let length = std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let length = length.expect("a length");
        if length == 0 {
            return String::from_utf8(body).expect("text");
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
}

#[test]
fn the_single_page_is_that_of_export_and_opens_on_the_place() {
    let served = Served::new(&[recording_path("linear_forward")]);
    let answer = served.get("api/files/0/page?place=view%3Dstate%26at%3D7");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"linear_forward.html\""));

    let snapshot = recording("linear_forward");
    let options = PageOptions { place: "view=state&at=7".to_owned(), ..PageOptions::default() };
    let mut page = Vec::new();
    write_page(&mut page, &analyse(&snapshot), "linear_forward.pickle.gz", &options, &Watch::default())
        .expect("memory takes it");
    assert!(whole(&answer).as_bytes() == page, "it differs from `highwater export --to html`");
}

#[test]
fn the_single_page_is_behind_the_token_and_its_place_is_short() {
    let served = Served::new(&[recording_path("linear_forward")]);
    assert_eq!(served.request("GET", "/api/files/0/page", &served.host(), b"").status, 404);
    assert_eq!(served.get("api/files/1/page").status, 404);
    assert_eq!(served.get("api/files/0/page?name=a").status, 400);
    let long = "x".repeat(4097);
    assert_eq!(served.get(&format!("api/files/0/page?place={long}")).status, 400);
}

#[test]
fn curves_have_the_peaks_of_the_manifest() {
    let served = Served::new(&[recording_path("oom_gpt2_8gib")]);
    let manifest = served.get("api/files/0/manifest").json();
    let curves = served.get("api/files/0/curves?parts=100").json();
    let (device, curve) = (&manifest["devices"][0], &curves["devices"][0]);
    assert_eq!((&curve["peak"], &curve["reserved_peak"]), (&device["peak"], &device["reserved_peak"]));
    assert_eq!(curve["bytes"].as_array().map(Vec::len), Some(100));
    // Only the peaks.
    let heads = served.get("api/files/0/curves?parts=0").json();
    assert_eq!((&heads["devices"][0]["peak"], &heads["devices"][0]["bytes"]), (&device["peak"], &Value::Array(vec![])));
    for query in ["parts=8193", "parts=-1", "parts=all", "device=0"] {
        assert_eq!(served.get(&format!("api/files/0/curves?{query}")).status, 400, "{query}");
    }
}

#[test]
fn two_files_are_compared_as_highwater_diff_compares_them() {
    let served = Served::new(&[recording_path("qwen_train_b2"), recording_path("qwen_train_b16")]);
    let diff = served.get("api/files/0/diff?with=1&device=0,0");
    assert_eq!(diff.status, 200);
    let snapshots = [recording("qwen_train_b2"), recording("qwen_train_b16")];
    let analyses = snapshots.each_ref().map(analyse);
    let names = vec!["qwen_train_b2.pickle.gz".to_owned(), "qwen_train_b16.pickle.gz".to_owned()];
    let analyses = analyses.each_ref();
    let comparison = Comparison::new(names, &analyses, Asked::default()).expect("both have device 0");
    assert_eq!(diff.json(), serde_json::to_value(comparison.view()).expect("JSON"));
    let stacks = served.get("api/files/0/diff/stacks?with=1&device=0,0").json();
    let bytes = |side: usize| diff.json()["devices"][0]["sides"][side]["allocated_bytes"].as_u64().expect("bytes");
    assert_eq!(stacks["bytes"], serde_json::json!([bytes(0), bytes(1)]));
}

#[test]
fn files_of_different_devices_are_compared() {
    let shared = [recording_path("fsdp2_qwen05b_rank2"), recording_path("linear_forward")];
    let served = Served::new(&shared);
    assert_eq!(served.get("api/files/0/diff?with=1&device=2,0").status, 200);
    assert_eq!(served.get("api/files/1/diff/stacks?with=0&device=0,2").status, 200);
    assert_eq!(served.get("api/files/0/diff?with=1&device=0,0").status, 422);
    for query in ["", "with=7", "with=1&device=2", "with=1&device=a,b", "with=1&at=end"] {
        let status = served.get(&format!("api/files/0/diff?{query}")).status;
        assert!(status == 400 || status == 404, "{query}: {status}");
    }
}

#[test]
fn how_far_a_simulation_is_can_be_asked_and_is_nothing_when_nobody_waits() {
    let served = Served::new(&[recording_path("linear_forward")]);
    let progress = served.get("api/files/0/simulate/progress?device=0");
    assert_eq!((progress.status, progress.json()), (200, Value::Null));
    assert_eq!(served.get("api/files/0/simulate/progress?conf=a&stop=1").status, 400);
}
