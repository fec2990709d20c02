//! `highwater view`, and the page that `highwater export` makes of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::run::{failure, recordings, run};

/// A running server.
struct Viewing {
    child: Child,
    lines: Vec<String>,
    errors: BufReader<std::process::ChildStderr>,
}

impl Viewing {
    fn new(arguments: &[&str]) -> Self {
        let mut program = Command::new(assert_cmd::cargo::cargo_bin!("highwater"));
        Self::of(program.args(["view", "--no-open"]).args(arguments).env_remove("SSH_CONNECTION"))
    }

    fn of(program: &mut Command) -> Self {
        let mut child =
            program.current_dir(recordings()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let lines = lines.take(2).map(|line| line.expect("UTF-8")).collect();
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, lines, errors }
    }

    fn address(&self) -> (&str, &str) {
        let (_, address) = self.lines[0].split_once(" at http://").expect("an address");
        address.split_once('/').expect("a path")
    }

    /// The body of an answer.
    fn get(&self, path: &str) -> String {
        let (host, token) = self.address();
        let mut stream = TcpStream::connect(host).expect("it listens");
        write!(stream, "GET /{token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("UTF-8");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        body.to_owned()
    }

    /// Ends it as Ctrl-C does; its status, and what it said on standard error.
    #[cfg(unix)]
    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
        assert!(killed.success());
        let status = self.child.wait().expect("it ends");
        let mut said = String::new();
        self.errors.read_to_string(&mut said).expect("UTF-8");
        (status.code(), said)
    }
}

#[cfg(unix)]
#[test]
fn over_ssh_it_says_how_to_reach_it() {
    let mut program = Command::new(assert_cmd::cargo::cargo_bin!("highwater"));
    for desktop in ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"] {
        program.env_remove(desktop);
    }
    program.args(["view", "linear_forward.pickle.gz"]);
    for (connection, server_port) in [("10.0.0.1 50000 10.0.0.2 22", ""), ("10.0.0.1 50000 10.0.0.2 2222", "-p 2222 ")]
    {
        let viewing = Viewing::of(program.env("SSH_CONNECTION", connection));
        let port = viewing.address().0.split_once(':').expect("a port").1;
        let forward = format!("`ssh {server_port}-L {port}:127.0.0.1:{port} 10.0.0.2`");
        assert!(viewing.lines[1].contains(&forward), "{:?}", viewing.lines);
        // Ctrl-C ends it once it serves.
        assert!(!viewing.get("api/files/0/manifest").is_empty());
        assert_eq!(viewing.interrupt(), (Some(0), String::new()));
    }
}

#[cfg(unix)]
#[test]
fn it_prints_the_address_serves_and_ends_with_ctrl_c() {
    let viewing = Viewing::new(&["linear_forward.pickle.gz"]);
    let (host, token) = viewing.address();
    assert!(
        viewing.lines[0].starts_with("Viewing linear_forward.pickle.gz at http://127.0.0.1:"),
        "{:?}",
        viewing.lines
    );
    assert_eq!(viewing.lines[1], "Press Ctrl-C to stop");
    assert!(host.starts_with("127.0.0.1:") && token.len() == 41, "{host} {token}");
    assert!(viewing.get("api/files/0/manifest").contains("\"format\":\"highwater-view\""));
    assert_eq!(viewing.interrupt(), (Some(0), String::new()));
}

#[cfg(unix)]
#[test]
fn a_directory_stands_for_the_snapshots_in_it() {
    let folder = tempfile::tempdir().expect("a directory");
    for rank in [10, 2, 1] {
        let to = folder.path().join(format!("rank{rank}.pickle.gz"));
        std::fs::copy(recordings().join("linear_forward.pickle.gz"), to).expect("copied");
    }
    std::fs::write(folder.path().join("rank1.json"), "{}").expect("written");
    std::fs::write(folder.path().join("notes.txt"), "x").expect("written");
    let viewing = Viewing::new(&[folder.path().to_str().expect("UTF-8")]);
    assert!(viewing.lines[0].starts_with("Viewing 3 snapshots at "), "{:?}", viewing.lines);
    let files = viewing.get("api/files");
    let places = ["rank1.pickle.gz", "rank2.pickle.gz", "rank10.pickle.gz"].map(|name| files.find(name).expect(name));
    assert!(places.is_sorted() && !files.contains("notes"), "{files}");
    viewing.interrupt();
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_no_text_is_a_snapshot_like_others() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().expect("a directory");
    let name = std::ffi::OsStr::from_bytes(b"rank\xff.pickle.gz");
    std::fs::copy(recordings().join("linear_forward.pickle.gz"), folder.path().join(name)).expect("copied");
    let viewing = Viewing::new(&[folder.path().to_str().expect("UTF-8")]);
    assert!(viewing.lines[0].starts_with("Viewing rank\u{fffd}.pickle.gz at "), "{:?}", viewing.lines);
    assert!(viewing.get("api/files/0/manifest").contains("\"format\":\"highwater-view\""));
    viewing.interrupt();
}

/// A browser that writes down what it was started with, and what it was to open.
#[cfg(target_os = "linux")]
#[test]
fn the_browser_is_started_without_the_token() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a directory");
    let [browser, started, opened] = ["xdg-open", "started", "opened"].map(|name| folder.path().join(name));
    // It is waited for by the last file's name, which is there when the file is whole.
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {started}\nstat -c %a \"$1\" >> {started}\ncat \"$1\" > {opened}.part\nmv {opened}.part {opened}\n",
        started = started.display(),
        opened = opened.display()
    );
    std::fs::write(&browser, script).expect("written");
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    let mut program = Command::new(assert_cmd::cargo::cargo_bin!("highwater"));
    let viewing = Viewing::of(
        program
            .args(["view", "linear_forward.pickle.gz"])
            .env("PATH", path)
            .env("TMPDIR", folder.path())
            .env_remove("SSH_CONNECTION"),
    );
    while !opened.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (host, token) = viewing.address();
    let started = std::fs::read_to_string(started).expect("text");
    let (doorway, mode) = started.trim_end().split_once('\n').expect("two lines");
    assert!(!started.contains(token.trim_end_matches('/')), "{started}");
    assert_eq!(mode, "600");
    let opened = std::fs::read_to_string(opened).expect("text");
    assert!(opened.contains(&format!("content=\"0; url=http://{host}/{token}\"")), "{opened}");
    assert!(std::path::Path::new(doorway).exists(), "the browser may be slow");
    let doorway = doorway.to_owned();
    // Once it answers, it also hears that it is to end.
    viewing.get("api/files");
    assert_eq!(viewing.interrupt(), (Some(0), String::new()));
    assert!(!std::path::Path::new(&doorway).exists());
}

/// More connections than the server may have, all of them idle.
#[cfg(target_os = "linux")]
#[test]
fn idle_connections_do_not_lock_the_page_out() {
    let program = assert_cmd::cargo::cargo_bin!("highwater");
    let line = format!("ulimit -n 128; exec {} view --no-open linear_forward.pickle.gz", program.display());
    let viewing = Viewing::of(Command::new("sh").args(["-c", &line]));
    let (host, _) = viewing.address();
    let idle: Vec<_> = (0..160).map(|_| TcpStream::connect(host).expect("it listens")).collect();
    assert!(viewing.get("api/files/0/manifest").contains("\"format\":\"highwater-view\""));
    drop(idle);
    assert_eq!(viewing.interrupt(), (Some(0), String::new()));
}

#[cfg(unix)]
#[test]
fn a_bad_file_among_good_ones_is_said_and_the_others_are_shown() {
    let folder = tempfile::tempdir().expect("a directory");
    let bad = folder.path().join("bad.pickle");
    std::fs::write(&bad, "not a pickle at all").expect("written");
    let viewing = Viewing::new(&["linear_forward.pickle.gz", bad.to_str().expect("UTF-8")]);
    assert!(viewing.get("api/files/1/manifest").contains("`bad.pickle` is not a memory snapshot"));
    assert!(viewing.get("api/files/0/manifest").contains("highwater-view"));
    let (status, said) = viewing.interrupt();
    assert_eq!(status, Some(0));
    assert!(said.starts_with("error: `bad.pickle` is not a memory snapshot\n  caused by: "), "{said}");
}

/// The first device of a manifest.
fn device(manifest: &str) -> serde_json::Value {
    let manifest: serde_json::Value = serde_json::from_str(manifest).expect("JSON");
    manifest["devices"][0].clone()
}

fn names<'d>(device: &'d serde_json::Value, of: &str) -> Vec<&'d str> {
    let all = device["scopes"].as_array().expect("scopes");
    all.iter().map(|scope| scope["name"].as_str().expect("text")).filter(|name| name.starts_with(of)).collect()
}

#[cfg(unix)]
#[test]
fn a_profile_of_nsight_systems_has_its_calls_as_entries() {
    let viewing = Viewing::new(&["../nsight/2025.sqlite"]);
    let manifest = viewing.get("api/files/0/manifest");
    let alone = device(&manifest);
    assert!(alone["entries"].as_u64() > Some(20), "{alone}");
    assert_eq!(alone["outside"]["peak"]["bytes"], 562 << 20, "{alone}");
    assert_eq!(names(&alone, "step"), ["step 0", "step 1"], "the third allocates nothing");
    assert!(
        alone["headline"].as_str().expect("text").starts_with("Allocations from the driver peaked at 562.00 MiB"),
        "{alone}"
    );
    assert!(manifest.contains("\"driver: device\""), "{manifest}");
    assert_eq!(viewing.interrupt().0, Some(0));
}

#[cfg(unix)]
#[test]
fn a_profile_beside_its_snapshot_is_on_the_snapshots_entries() {
    let viewing = Viewing::new(&["../nsight/2025.sqlite", "--with", "../nsight/2025.pickle.gz"]);
    let both = device(&viewing.get("api/files/0/manifest"));
    assert_eq!(both["entries"], 231);
    assert_eq!(both["reserved_peak"]["bytes"], 234 << 20);
    assert_eq!(both["outside"]["peak"]["bytes"], (562 - 234) << 20, "the rest of the card: {both}");
    assert_eq!(names(&both, "step"), ["step 0", "step 1"]);
    assert_eq!(names(&both, "Optimizer.step").len(), 3, "PyTorch's own: {both}");
    assert_eq!(viewing.interrupt().0, Some(0));
}

#[test]
fn what_cannot_be_viewed_is_said_as_elsewhere() {
    insta::assert_snapshot!(failure("view no_such_file.pickle --no-open"), @"
    error: `no_such_file.pickle` cannot be read
      caused by: No such file or directory (os error 2)
    hint: check the path; `_dump_snapshot` writes to the program's working directory
    ");
    insta::assert_snapshot!(failure("view linear_forward.pickle.gz --with linear_forward.pickle.gz --no-open"), @"
    error: `--with` needs exactly one file, a profile of Nsight Systems
    hint: give the profile, and after `--with` the snapshot: `highwater view profile.sqlite --with run.pickle`
    ");
    insta::assert_snapshot!(failure("view README.md --no-open"), @r#"
    error: `README.md` is not a memory snapshot
      caused by: byte 0: expected a pickle header (0x80), found 0x23 0x20 (text)
    hint: this looks like text, not a snapshot; write one with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
    insta::assert_snapshot!(failure("view linear_forward.pickle.gz --device 3 --no-open"), @"
    error: `linear_forward.pickle.gz` has no data for device 3
    hint: it has device 0
    ");
    let empty = tempfile::tempdir().expect("a directory");
    let said = failure(&format!("view {} --no-open", empty.path().display()));
    insta::assert_snapshot!(said.replace(&*empty.path().to_string_lossy(), "empty"), @"
    error: `empty` contains no snapshot
    hint: highwater looks for files with these names: *.pickle, *.pkl, *.json, *.html, and these with .gz or .zst
    ");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let said = failure(&format!("view linear_forward.pickle.gz --no-open --port {port}"));
    insta::assert_snapshot!(said.replace(&port.to_string(), "PORT").replace(" (os error 98)", ""), @"
    error: cannot listen on port PORT of 127.0.0.1
      caused by: Address already in use
    hint: choose another `--port`, or leave it out to use a free one
    ");
}

#[test]
fn the_page_is_written_or_it_is_said_why_not() {
    let folder = tempfile::tempdir().expect("a directory");
    let page = folder.path().join("page.html");
    let line = format!("export multi_stream.pickle.gz --to html --min-size 1KiB -o {}", page.display());
    let made = run(&line);
    if !highwater_viewer::ui_is_built() {
        insta::assert_snapshot!(made.stderr, @"
        error: this build of highwater has no viewer
          caused by: it was built before the page in `ui/`
        hint: `make ui build` builds both
        ");
        assert_eq!(made.code, 2);
        return;
    }
    assert_eq!((made.code, made.stdout.as_str()), (0, ""), "{}", made.stderr);
    assert!(made.stderr.starts_with("wrote "), "{}", made.stderr);
    let text = std::fs::read_to_string(&page).expect("UTF-8");
    assert!(text.starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"));
    // Never overwritten unasked.
    assert_eq!(run(&line).code, 2);
    assert_eq!(run(&format!("{line} --force")).code, 0);
}

#[test]
fn options_of_the_page_go_with_it_only() {
    insta::assert_snapshot!(failure("export linear_forward.pickle.gz --to csv --min-size 1KiB"), @"
    error: `--min-size` only goes with `--to html`
    hint: the other formats have every allocation, but no answers of the simulator
    ");
    insta::assert_snapshot!(failure("export linear_forward.pickle.gz --to folded --no-what-if"), @"
    error: `--no-what-if` only goes with `--to html`
    hint: the other formats have every allocation, but no answers of the simulator
    ");
}
