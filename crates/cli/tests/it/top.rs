//! `highwater top` and `highwater doctor`, against an NVML that is made up.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use highwater_fake_nvml::{FILE, SCRIPT};
use serde_json::Value;

use crate::run::Run;

/// Two GPUs, one with a process that is not there.
pub(crate) const TWO: &str = "gpu name=NVIDIA_H200 used=3221225472 util=37 temp=41 power=123456\n\
                   process gpu=0 pid=4000000001 bytes=3221225472\n\
                   gpu name=NVIDIA_A100 total=42949672960 used=0 ecc=0\n";

/// Where Cargo leaves the library: beside the tests.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().unwrap().join(FILE);
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// A made-up machine in a folder of its own.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new(script: &str) -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        machine.becomes(script);
        machine
    }

    pub(crate) fn becomes(&self, script: &str) {
        // In one step: the library reads it at any moment.
        fs::write(self.path("machine.new"), script).unwrap();
        fs::rename(self.path("machine.new"), self.path("machine")).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The variables that a program wants to see this machine; nothing else of the environment matters to it.
    pub(crate) fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [("HIGHWATER_NVML", library()), (SCRIPT, self.path("machine")), ("HIGHWATER_RUN_DIR", self.path("run"))]
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("highwater"));
        command.args(words).current_dir(self.folder.path()).envs(self.variables()).stdin(Stdio::null());
        for name in ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_VISIBLE_DEVICES"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Run {
        finished(&mut self.command(words))
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let Run { code, stdout, stderr } = self.run(words);
        assert_eq!((code, stderr.as_str()), (0, ""), "{words:?}");
        document(&stdout)
    }
}

/// A document of highwater's, checked against its schema.
fn document(text: &str) -> Value {
    let document = serde_json::from_str(text).unwrap();
    crate::formats::check(&document);
    document
}

pub(crate) fn finished(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code().expect("it exits by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn without_a_driver_there_is_a_sentence_and_status_2() {
    let machine = Machine::new("");
    for words in [&["top"][..], &["top", "--once"], &["top", "--format", "csv"], &["top", "--record", "a.hwlog"]] {
        let run = finished(machine.command(words).env("HIGHWATER_NVML", "/nowhere/libnvidia-ml.so.1"));
        assert_eq!(run.code, 2, "{words:?}");
        assert!(
            run.stderr.starts_with(
                "error: no NVIDIA driver is installed here: `/nowhere/libnvidia-ml.so.1` cannot be loaded\n  caused by: "
            ),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains("\nhint: on a machine with a GPU, install NVIDIA's driver"), "{}", run.stderr);
    }
    assert!(!machine.path("a.hwlog").exists());
    let none = machine.run(&["top", "--once"]);
    assert_eq!((none.code, none.stdout.as_str()), (2, ""));
    assert!(none.stderr.starts_with("error: the NVIDIA driver finds no GPU\n"), "{}", none.stderr);
}

#[test]
fn a_table_shows_gpus_and_processes() {
    insta::assert_snapshot!(Machine::new(TWO).run(&["top", "--once"]).stdout);
}

#[test]
fn json_has_the_drivers_numbers() {
    let json = Machine::new(TWO).json(&["top", "--once", "--format", "json"]);
    assert_eq!((&json["format"], &json["version"]), (&"highwater-top".into(), &1.into()));
    let gpu = &json["gpus"][0];
    assert_eq!(gpu["memory"]["total_bytes"], 150_754_820_096_u64);
    assert_eq!(gpu["memory"]["used_bytes"], 3_u64 << 30);
    assert_eq!(
        (&gpu["processes"][0]["pid"], &gpu["processes"][0]["used_bytes"]),
        (&4_000_000_001_u64.into(), &(3_u64 << 30).into())
    );
    assert_eq!(json["gpus"][1]["ecc"]["corrected"], Value::Null);
}

#[test]
fn looks_come_as_often_as_asked_for() {
    let machine = Machine::new(TWO);
    let lines = machine.run(&["top", "--format", "json", "--interval", "0.02", "--samples", "3"]).stdout;
    let times: Vec<_> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["time_us"].as_u64().unwrap()).collect();
    assert_eq!(times.len(), 3);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 19_000), "{times:?}");
    let csv = machine.run(&["top", "--format", "csv", "--once"]).stdout;
    let rows: Vec<_> = csv.lines().collect();
    assert_eq!(rows.len(), 3);
    assert!(
        rows[0].starts_with("time_us,gpu,") && rows[1].contains(",4000000001,") && rows[2].ends_with(",,,"),
        "{csv}"
    );
}

#[test]
fn what_was_recorded_is_replayed() {
    let machine = Machine::new(TWO);
    let recorded = machine.run(&["top", "--record", "a.hwlog", "--interval", "0.01", "--samples", "5"]);
    assert_eq!((recorded.code, recorded.stdout.as_str()), (0, ""));
    assert!(recorded.stderr.starts_with("wrote a.hwlog ("), "{}", recorded.stderr);
    // Where no driver is.
    let replay = |words: &[&str]| {
        let words = [&["top", "--replay", "a.hwlog"], words].concat();
        finished(machine.command(&words).env("HIGHWATER_NVML", "/nowhere"))
    };
    assert_eq!(replay(&["--format", "json"]).stdout.lines().count(), 5);
    assert_eq!(replay(&["--format", "json", "--once"]).stdout.lines().count(), 1);
    assert_eq!(replay(&["--once"]).stdout, machine.run(&["top", "--once"]).stdout);
    let again = machine.run(&["top", "--record", "a.hwlog", "--samples", "1"]);
    assert!(again.code == 2 && again.stderr.contains("`a.hwlog` already exists"), "{}", again.stderr);

    let text = fs::read(machine.path("a.hwlog")).unwrap();
    fs::write(machine.path("a.hwlog"), &text[..text.len() - 20]).unwrap();
    let cut = replay(&["--format", "json"]);
    assert_eq!((cut.code, cut.stdout.lines().count()), (0, 4));
    assert_eq!(cut.stderr, "the log ends in the middle of a line: its last sample is left out\n");
    fs::write(machine.path("a.hwlog"), b"\x80\x04}.").unwrap();
    insta::assert_snapshot!(replay(&["--once"]).stderr, @r#"
    error: `a.hwlog` is not a log of `highwater top`, or is damaged
      caused by: line 1: expected `{"format":"highwater-log",…}`
    hint: `highwater top -o FILE` writes such a log; snapshots are for `highwater report`
    "#);
    let empty = text.iter().position(|&byte| byte == b'\n').unwrap();
    fs::write(machine.path("a.hwlog"), &text[..=empty]).unwrap();
    assert!(replay(&["--once"]).stderr.starts_with("error: `a.hwlog` has no samples"));
}

/// What anybody's command line, and a log that came by mail, can hold.
#[test]
fn nothing_that_is_shown_moves_the_cursor() {
    let machine = Machine::new("");
    let escape = "\\u001b]0;x\\u0007";
    let torch = format!(
        "{{\"device\":0,\"allocated_bytes\":1,\"cached_bytes\":1,\"context_bytes\":1,\"libraries_bytes\":1,\"unexplained_bytes\":0,\
         \"peak_allocated_bytes\":1,\"peak_reserved_bytes\":1,\"libraries\":[\"{escape}\"],\"note\":\"{escape}\"}}"
    );
    let process = format!(
        "{{\"pid\":7,\"kind\":\"compute\",\"used_bytes\":1,\"user\":\"{escape}\",\"command\":\"={escape}\",\"torch\":{torch},\
         \"torch_note\":\"{escape}\"}}"
    );
    let gpu = format!(
        "{{\"index\":0,\"name\":\"{escape}\",\"uuid\":\"{escape}\",\"memory\":null,\"bar1\":null,\"utilization\":null,\
         \"temperature_c\":null,\"power\":null,\"ecc\":null,\"unseen_bytes\":1073741824,\
         \"notes\":[\"some of the used memory {escape}\",\"{escape}\"],\"processes\":[{process}]}}"
    );
    let look =
        format!("{{\"time_us\":1,\"driver\":{{\"version\":\"{escape}\",\"cuda\":\"{escape}\"}},\"gpus\":[{gpu}]}}");
    let log = format!("{{\"format\":\"highwater-log\",\"version\":1,\"interval_us\":1000}}\n{look}\n");
    fs::write(machine.path("a.hwlog"), log).unwrap();
    for format in ["text", "csv"] {
        let run = machine.run(&["top", "--replay", "a.hwlog", "--once", "--format", format]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(run.stdout.contains(r"\u{1b}]0;x\u{7}") && !run.stdout.contains(['\u{1b}', '\u{7}']), "{}", run.stdout);
    }
    let doctor = finished(machine.command(&["doctor"]).env("PYTORCH_ALLOC_CONF", "\x1b]0;x\x07:1"));
    assert!(
        doctor.stdout.contains(r"\u{1b}]0;x\u{7}") && !doctor.stdout.contains(['\u{1b}', '\u{7}']),
        "{}",
        doctor.stdout
    );
}

#[test]
fn a_watched_process_is_followed_to_its_end() {
    let mut parent = Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap();
    let script = |child: u32| {
        format!("{TWO}process gpu=1 pid={child} bytes=1048576\nprocess gpu=0 pid={} bytes=5\n", parent.id())
    };
    let machine = Machine::new("gpu");
    let child = loop {
        let listed = fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id())).unwrap_or_default();
        // Between fork and exec it still is the shell.
        let is_sleep =
            |child: &u32| fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"));
        if let Some(child) = listed.trim().parse().ok().filter(is_sleep) {
            break child;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    machine.becomes(&script(child));
    let pid = parent.id().to_string();
    let json = machine.json(&["top", "--once", "--format", "json", "--watch-pid", &pid]);
    let seen: Vec<_> =
        json["gpus"].as_array().unwrap().iter().map(|gpu| gpu["processes"][0]["pid"].as_u64().unwrap()).collect();
    assert_eq!(seen, [u64::from(parent.id()), u64::from(child)]);
    assert_eq!(json["gpus"][1]["processes"][0]["command"], "sleep 30");

    let mut watching = machine
        .command(&["top", "--format", "json", "--interval", "0.02", "--watch-pid", &pid])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(watching.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    Command::new("kill").arg(child.to_string()).status().unwrap();
    parent.wait().unwrap();
    let output = watching.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("process {pid} has ended\n"));
    let gone = machine.run(&["top", "--once", "--watch-pid", "4000000000"]);
    assert!(gone.code == 2 && gone.stderr.starts_with("error: there is no process 4000000000"), "{}", gone.stderr);
}

#[test]
fn prometheus_is_served_on_the_loopback() {
    let machine = Machine::new(TWO);
    let mut serving = machine
        .command(&["top", "--prometheus", ":0", "--interval", "0.02"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(serving.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.rsplit_once("127.0.0.1:").unwrap().1.trim_end().trim_end_matches("/metrics").parse().unwrap();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "{request}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let own = format!("Host: 127.0.0.1:{port}");
    let metrics = loop {
        let answer = ask(&format!("GET /metrics HTTP/1.1\r\n{own}"));
        if answer.contains("highwater_gpu") {
            break answer;
        }
    };
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("highwater_gpu_memory_used_bytes{gpu=\"0\",uuid=\"GPU-00000000-0000-0000-0000-000000000000\",name=\"NVIDIA H200\"} 3221225472\n"), "{metrics}");
    assert!(metrics.contains("pid=\"4000000001\""), "{metrics}");
    assert!(ask("GET /metrics HTTP/1.1\r\nHost: evil.example").starts_with("HTTP/1.1 403 "));
    assert!(ask(&format!("GET /else HTTP/1.1\r\n{own}")).starts_with("HTTP/1.1 404 "));
    assert!(ask(&format!("POST /metrics HTTP/1.1\r\n{own}")).starts_with("HTTP/1.1 405 "));
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[test]
fn a_process_that_does_not_answer_is_told_how_it_would() {
    let machine = Machine::new(TWO);
    let run = machine.run(&["top", "--pid", "4000000001", "--snapshot", "now.pickle"]);
    assert_eq!(run.code, 2);
    insta::assert_snapshot!(run.stderr, @"
    error: process 4000000001 does not answer: it does not run highwater's recorder, or is another user's
    hint: start the program with `highwater run`, with `HIGHWATER_RECORD=FILE` in its environment, or call `highwater.watchable()` in it
    ");
    assert!(!machine.path("now.pickle").exists());
}

/// A process that answers as the recorder does: the other half is tested in Python.
fn answering(machine: &Machine, answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> u32 {
    use std::os::unix::fs::DirBuilderExt as _;
    use std::os::unix::net::UnixListener;
    let folder = machine.path("run");
    fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
    let pid = std::process::id();
    let listener = UnixListener::bind(folder.join(format!("{pid}.sock"))).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut question = String::new();
            BufReader::new(&stream).read_line(&mut question).unwrap();
            let _ = stream.write_all(&answer(&question));
        }
    });
    pid
}

#[test]
fn a_recorded_process_is_split() {
    let machine = Machine::new("");
    let pid = answering(&machine, |question| {
        assert!(question.contains("\"ask\":\"memory\""), "{question}");
        b"{\"devices\":[{\"device\":0,\"uuid\":\"GPU-00000000-0000-0000-0000-000000000000\",\"allocated_bytes\":700,\
          \"reserved_bytes\":1000,\"peak_allocated_bytes\":900,\"context_bytes\":500}]}\n"
            .to_vec()
    });
    machine.becomes(&format!("gpu used=1600\nprocess gpu=0 pid={pid} bytes=1600\n"));
    let json = machine.json(&["top", "--once", "--format", "json"]);
    let torch = &json["gpus"][0]["processes"][0]["torch"];
    let part = |name: &str| torch[format!("{name}_bytes")].as_u64().unwrap();
    assert_eq!(["allocated", "cached", "context", "libraries", "unexplained"].map(part), [700, 300, 500, 100, 0]);
    assert_eq!(part("peak_allocated"), 900);
    let text = machine.run(&["top", "--once"]).stdout;
    assert!(
        text.contains("allocated 700 B + cached 300 B + context 500 B + libraries 100 B + unexplained 0 B"),
        "{text}"
    );
}

#[test]
fn an_answer_that_is_none_is_a_note() {
    for (answer, note) in [
        (&b"what?\n"[..], "sent an invalid answer"),
        (b"{\"devices\":", "its line does not end"),
        (b"{\"error\":\"not now\\u001b[31m\"}\n", "says: not now"),
        (b"", "its line does not end"),
    ] {
        let machine = Machine::new("");
        let pid = answering(&machine, move |_| answer.to_vec());
        machine.becomes(&format!("gpu used=1600\nprocess gpu=0 pid={pid} bytes=1600\n"));
        let text = machine.run(&["top", "--once"]).stdout;
        assert!(text.contains(note) && !text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn a_snapshot_is_written_whole_or_not_at_all() {
    let machine = Machine::new("gpu");
    let pid = answering(&machine, |_| b"{\"bytes\":5}\nhello".to_vec()).to_string();
    let run = machine.run(&["top", "--pid", &pid, "--snapshot", "now.pickle"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, "wrote now.pickle (5 B)\n"));
    assert_eq!(fs::read(machine.path("now.pickle")).unwrap(), b"hello");
    let again = machine.run(&["top", "--pid", &pid, "--snapshot", "now.pickle"]);
    assert!(again.code == 2 && again.stderr.contains("already exists"), "{}", again.stderr);

    let machine = Machine::new("gpu");
    let pid = answering(&machine, |_| b"{\"bytes\":500}\nhello".to_vec()).to_string();
    let run = machine.run(&["top", "--pid", &pid, "--snapshot", "now.pickle"]);
    assert!(run.code == 2 && run.stderr.contains("ends after 5 of 500 bytes"), "{}", run.stderr);
    assert!(!machine.path("now.pickle").exists());
}

#[test]
fn a_directory_that_is_open_to_others_is_not_believed() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::new("gpu");
    let pid = answering(&machine, |_| b"{\"bytes\":5}\nhello".to_vec()).to_string();
    fs::set_permissions(machine.path("run"), fs::Permissions::from_mode(0o755)).unwrap();
    let run = machine.run(&["top", "--pid", &pid, "--snapshot", "now.pickle"]);
    assert!(run.code == 2 && run.stderr.contains("other users can open it"), "{}", run.stderr);
}

#[test]
fn the_doctor_says_what_to_change() {
    let machine = Machine::new(TWO);
    let run = finished(machine.command(&["doctor"]).env("PYTORCH_ALLOC_CONF", "expandable_segment:True"));
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    insta::assert_snapshot!(run.stdout, @"
    driver              driver 580.159.04, CUDA up to 13.0
    GPU 0               NVIDIA H200: 136.83 GiB free of 140.40 GiB, 3.00 GiB used by 1 process
    GPU 1               NVIDIA A100: 39.42 GiB free of 40.00 GiB, 0 B used by 0 processes
    PYTORCH_ALLOC_CONF  expandable_segment:True

    problem: PyTorch refuses `PYTORCH_ALLOC_CONF=expandable_segment:True`: byte 0: `expandable_segment` is not a setting of torch 2.15
        did you mean `expandable_segments`?
    ");
    let well = finished(machine.command(&["doctor"]).env("PYTORCH_ALLOC_CONF", "expandable_segments:True"));
    assert!(well.code == 0 && well.stdout.ends_with("Nothing to change.\n"), "{}", well.stdout);
}

#[test]
fn the_doctor_examines_settings_where_there_is_no_gpu() {
    let machine = Machine::new("");
    let run = machine.run(&["doctor", "--format", "json"]);
    assert_eq!(run.code, 2);
    let json = document(&run.stdout);
    assert_eq!((&json["format"], &json["gpus"]), (&"highwater-doctor".into(), &Value::Null));
    assert_eq!(json["absence"], "the NVIDIA driver finds no GPU");
    // Nothing runs here that settings would help.
    assert_eq!(json["findings"], Value::Array(Vec::new()));
    let refused = "expandable_segment:True";
    let run = finished(machine.command(&["doctor", "--format", "json"]).env("PYTORCH_ALLOC_CONF", refused));
    assert_eq!(document(&run.stdout)["findings"][0]["id"], "refused-settings");
}

#[test]
fn the_doctor_asks_an_interpreter_for_its_torch() {
    let machine = Machine::new(TWO);
    let site = machine.path("site/torch");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("__init__.py"), "raise SystemExit('imported')").unwrap();
    fs::write(site.join("version.py"), "__version__ = '2.11.0+cu140'\ncuda: Optional[str] = '14.0'\n").unwrap();
    let run = finished(
        machine.command(&["doctor", "--python", "python3", "--format", "json"]).env("PYTHONPATH", machine.path("site")),
    );
    let json = document(&run.stdout);
    assert_eq!(
        (run.code, &json["torch"]["torch"], &json["torch"]["cuda"]),
        (1, &"2.11.0+cu140".into(), &"14.0".into())
    );
    assert_eq!(json["findings"][0]["id"], "driver-too-old-for-torch");
    let none = machine.run(&["doctor", "--python", "/nowhere/python"]);
    assert!(none.code == 2 && none.stderr.contains("cannot find the version of PyTorch"), "{}", none.stderr);
}

/// A terminal of tmux, of its own server.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    fn run(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The screen as soon as it is as is waited for. A frame is written from its top to its bottom, and any moment of that may be
    /// seen: a test that looks at several places waits for the last one.
    fn until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let began = std::time::Instant::now();
        loop {
            let screen = self.run(&["capture-pane", "-p", "-t", "s"]);
            if is_there(&screen) {
                return screen;
            }
            assert!(began.elapsed().as_secs() < 30, "waiting for {what}:\n{screen}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys", "-t", "s"], keys].concat());
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

/// `highwater top` in a terminal of this size; `None` where tmux is missing.
fn screen(machine: &Machine, width: u32, height: u32, words: &str) -> Option<Tmux> {
    if Command::new("tmux").arg("-V").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: tmux is not installed");
        return None;
    }
    let tmux = Tmux { socket: machine.path("tmux") };
    let variables = machine.variables().map(|(name, value)| format!("{name}={}", value.display())).join(" ");
    let program = assert_cmd::cargo::cargo_bin!("highwater");
    let line = format!(
        "env {variables} {} top --interval 0.05 {words}; echo status $?; sleep 60",
        Path::new(program).display()
    );
    let (width, height) = (width.to_string(), height.to_string());
    tmux.run(&["-u", "-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", &width, "-y", &height, &line]);
    Some(tmux)
}

/// No line is longer than the terminal, and no more lines than it has.
fn assert_fits(screen: &str, width: usize, height: usize) {
    assert!(screen.lines().count() <= height, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= width), "{screen}");
}

/// The last line of a frame, drawn last, stands in the terminal's last line.
fn ends_with_help(screen: &str, height: usize) -> bool {
    screen.lines().nth(height - 1).is_some_and(|line| line.starts_with("? help"))
}

#[test]
fn the_screen_fits_small_and_large_terminals_and_follows_a_resize() {
    let machine = Machine::new(TWO);
    let Some(tmux) = screen(&machine, 80, 24, "") else { return };
    let small = tmux.until("80 columns", |screen| screen.contains("NVIDIA A100") && ends_with_help(screen, 24));
    assert_fits(&small, 80, 24);
    let lines: Vec<_> = small.lines().collect();
    assert!(lines[0].starts_with("highwater top  driver 580.159.04, CUDA up to 13.0"), "{small}");
    assert!(lines[1].starts_with("  0 █") && lines[1].contains("3.00 GiB of 140.40 GiB 37% 41°C 123/700 W"), "{small}");
    assert!(small.contains("memory▼") && small.contains(">   0 4000000001"), "{small}");

    tmux.run(&["resize-window", "-t", "s", "-x", "200", "-y", "60"]);
    let large = tmux.until("200 columns", |screen| {
        ends_with_help(screen, 60)
            && screen.lines().any(|line| line.contains("NVIDIA H200") && line.contains("NVIDIA A100"))
    });
    assert_fits(&large, 200, 60);

    tmux.run(&["resize-window", "-t", "s", "-x", "80", "-y", "24"]);
    let again = tmux.until("80 columns again", |screen| ends_with_help(screen, 24));
    assert_fits(&again, 80, 24);
    tmux.keys(&["q"]);
    tmux.shows("status 0");
}

/// A terminal says of itself what it likes: 65535 by 65535 cells would take hundreds of gigabytes.
#[test]
fn the_screen_survives_a_terminal_that_claims_to_be_endless() {
    let machine = Machine::new(TWO);
    let program = Path::new(assert_cmd::cargo::cargo_bin!("highwater"));
    let script = "import fcntl, os, pty, select, struct, sys, termios, time\n\
        size = lambda number, cells: fcntl.ioctl(number, termios.TIOCSWINSZ, struct.pack('4H', cells, cells, 0, 0))\n\
        pid, terminal = pty.fork()\n\
        if pid == 0:\n    size(0, 65535)\n    os.execv(sys.argv[1], [sys.argv[1], 'top', '--interval', '0.05'])\n\
        before = b''\n\
        while b'A100' not in before:\n    before += os.read(terminal, 1 << 20)\n\
        os.write(terminal, b'q')\n\
        try:\n    while piece := os.read(terminal, 1 << 20): before += piece\n\
        except OSError: pass\n\
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), before.endswith(b'\\x1b[?25h') or b'\\x1b[?1049l' in before)\n";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(program).envs(machine.variables()).env("TERM", "xterm").stdin(Stdio::null());
    let run = finished(&mut python);
    assert_eq!(run.stdout, "0 True\n", "{}", run.stderr);
}

#[test]
fn the_screen_shows_a_change_and_a_gpu_that_is_lost() {
    let machine = Machine::new(TWO);
    let Some(tmux) = screen(&machine, 200, 60, "") else { return };
    tmux.shows("3.00 GiB of 140.40 GiB");
    machine.becomes(&TWO.replace("used=3221225472", "used=75161927680"));
    // A column for each look.
    let has_graph = |screen: &str| screen.lines().any(|line| line.contains("████") && !line.contains("GiB"));
    tmux.until("a graph", |screen| screen.contains("70.00 GiB of 140.40 GiB") && has_graph(screen));
    machine.becomes(&format!("{TWO}lost 0\n"));
    let lost = tmux.shows("LOST NVIDIA H200: the GPU has fallen off the bus");
    assert_fits(&lost, 200, 60);
    machine.becomes("");
    tmux.shows("error: the NVIDIA driver finds no GPU");
    tmux.shows("status 2");
}

/// A process that does not outlive its test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn keys_sort_filter_open_and_ask() {
    let mut victim =
        Child(Command::new("sleep").arg("300").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let machine = Machine::new(&format!("{TWO}process gpu=1 pid={} bytes=1048576\n", victim.0.id()));
    let Some(tmux) = screen(&machine, 80, 24, "") else { return };
    tmux.shows("sleep 300");
    tmux.keys(&["p"]);
    tmux.shows("pid▼");
    tmux.keys(&["/", "s", "l", "e", "e", "p", "Enter"]);
    tmux.until("the filter", |screen| screen.contains("filter: sleep  ?") && !screen.contains("4000000001"));
    tmux.keys(&["Enter"]);
    tmux.shows("it has no CUDA library loaded");
    tmux.keys(&["d"]);
    tmux.shows("its tree:");
    tmux.keys(&["Escape"]);
    tmux.until("no details", |screen| !screen.contains("its tree:"));
    tmux.keys(&["?"]);
    tmux.shows("ask the process to end (SIGTERM)");
    tmux.keys(&["x", "k"]);
    tmux.shows(&format!("Send SIGTERM to {}?", victim.0.id()));
    tmux.keys(&["n"]);
    tmux.shows("not sent");
    assert!(victim.0.try_wait().unwrap().is_none());
    tmux.keys(&["k", "y"]);
    tmux.shows("sent SIGTERM");
    assert!(!victim.0.wait().unwrap().success());
    tmux.keys(&["C-c"]);
    tmux.shows("status 0");
}

#[test]
fn a_log_is_replayed_on_the_screen() {
    let machine = Machine::new(TWO);
    assert_eq!(machine.run(&["top", "--record", "a.hwlog", "--interval", "0.01", "--samples", "3"]).code, 0);
    let Some(tmux) = screen(&machine, 80, 24, &format!("--replay {}", machine.path("a.hwlog").display())) else {
        return;
    };
    let at_its_end = ["log, speed 1", "3 samples", "the log ends here"];
    tmux.until("the log's end", |screen| at_its_end.iter().all(|part| screen.contains(part)));
    tmux.keys(&["k"]);
    tmux.shows("its processes cannot be ended");
    tmux.keys(&["q"]);
    tmux.shows("status 0");
}
