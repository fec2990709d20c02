//! `highwater top` under load: ten looks a second at a hundred processes, a hundred clients of Prometheus, and some of both who
//! mean no good.
//!
//! For two seconds, or for as many as `HIGHWATER_LOAD_SECS` says. An hour writes a log of two gigabytes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use serde_json::Value;

use crate::top::{Machine, finished};

/// The first process; the others have the numbers that follow.
const FIRST_PID: u64 = 4_000_000_001;

const PROCESSES: u64 = 100;

/// Of these, the last ones do not answer as they should.
const ANSWERING: u64 = 97;

const CLIENTS: usize = 100;

const LOOKS_PER_SEC: u64 = 10;

/// What the memory may grow by from the first half to the second: buffers that grow once are no leak.
const GROWTH_BYTES: u64 = 8 << 20;

fn seconds() -> u64 {
    std::env::var("HIGHWATER_LOAD_SECS").map_or(2, |text| text.parse().expect("`HIGHWATER_LOAD_SECS` is whole seconds"))
}

/// A listener in the folder of the recorder's sockets.
fn listener(machine: &Machine, pid: u64) -> UnixListener {
    UnixListener::bind(machine.path("run").join(format!("{pid}.sock"))).unwrap()
}

/// One that takes nobody in, with its queue full, as that of a process that is stopped.
fn stopped(machine: &Machine, pid: u64) -> [OwnedFd; 2] {
    let address = SocketAddrUnix::new(machine.path("run").join(format!("{pid}.sock"))).unwrap();
    let [listening, waiting] =
        [(), ()].map(|()| rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap());
    rustix::net::bind(&listening, &address).unwrap();
    rustix::net::listen(&listening, 0).unwrap();
    rustix::net::connect(&waiting, &address).unwrap();
    [listening, waiting]
}

/// One that answers a byte at a time, and never to the end.
fn dribbling(machine: &Machine, pid: u64) {
    let listener = listener(machine, pid);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
}

/// One that says something as soon as it is asked.
fn answering(machine: &Machine, pid: u64, answer: String) {
    let listener = listener(machine, pid);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut question = String::new();
            // The program that asks may have ended.
            if BufReader::new(&stream).read_line(&mut question).is_ok() {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
}

fn make_run_folder(machine: &Machine) {
    fs::DirBuilder::new().mode(0o700).create(machine.path("run")).unwrap();
}

/// A program that ends with its test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes of memory that a process has.
fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

fn scrape(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer
}

#[test]
fn nothing_is_lost_and_nothing_grows() {
    let machine = Machine::new("");
    make_run_folder(&machine);
    for (number, pid) in (0..ANSWERING).zip(FIRST_PID..) {
        let devices = format!(
            "{{\"device\":0,\"allocated_bytes\":{number},\"reserved_bytes\":{number},\"peak_allocated_bytes\":{number}}}"
        );
        answering(&machine, pid, format!("{{\"devices\":[{devices}]}}\n"));
    }
    // It dies while it answers.
    answering(&machine, FIRST_PID + ANSWERING, "{\"devices\":[".to_owned());
    dribbling(&machine, FIRST_PID + ANSWERING + 1);
    let _stopped = stopped(&machine, FIRST_PID + ANSWERING + 2);
    let processes = (0..PROCESSES).map(|number| format!("process gpu=0 pid={} bytes=1000\n", FIRST_PID + number));
    machine.becomes(&format!("gpu used=100000\n{}", processes.collect::<String>()));

    let looks = seconds() * LOOKS_PER_SEC;
    let words = ["top", "--format", "json", "--interval", "0.1", "--prometheus", ":0", "--record", "load.hwlog"];
    let mut program = machine.command(&words);
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = Ending(program.spawn().unwrap());
    let mut errors = BufReader::new(program.0.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let port: u16 = line.rsplit_once("127.0.0.1:").unwrap().1.trim_end().trim_end_matches("/metrics").parse().unwrap();

    let is_over = Arc::new(AtomicBool::new(false));
    let scrapes = Arc::new(AtomicUsize::new(0));
    let mut seen = BufReader::new(program.0.stdout.take().unwrap()).lines();
    // The first look is there, so a scrape has something to say.
    check(&seen.next().unwrap().unwrap());
    scrape_until_there(port);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (is_over, scrapes) = (Arc::clone(&is_over), Arc::clone(&scrapes));
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = scrape(port);
                    let rows =
                        answer.lines().filter(|line| line.starts_with("highwater_process_memory_bytes{")).count();
                    assert_eq!(rows as u64, PROCESSES);
                    scrapes.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_secs(1));
                }
            })
        })
        .collect();
    let slow = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || ask_slowly(port, &is_over)
    });

    let mut most = [0; 2];
    for number in 1..looks {
        check(&seen.next().expect("as many looks as asked for").unwrap());
        let later = usize::from(number > looks / 2);
        most[later] = resident_bytes(program.0.id()).unwrap().max(most[later]);
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    slow.join().unwrap();
    program.0.kill().unwrap();
    // The last line may be cut.
    let rest = seen.map_while(Result::ok).filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert!(scrapes.load(Ordering::Relaxed) >= CLIENTS, "each client was answered");
    assert!(most[1] <= most[0] + GROWTH_BYTES, "from {} to {} bytes of memory", most[0], most[1]);

    let mut replay = machine.command(&["top", "--replay", "load.hwlog", "--format", "json"]);
    let mut replay = replay.stdout(Stdio::piped()).spawn().unwrap();
    let replayed = BufReader::new(replay.stdout.take().unwrap()).lines().count();
    assert!(replay.wait().unwrap().success());
    // A look is in the log before it is shown.
    let shown = looks + rest as u64;
    assert!((shown..=shown + 1).contains(&(replayed as u64)), "{replayed} of {shown}");
}

fn scrape_until_there(port: u16) {
    while !scrape(port).contains("highwater_process_memory_bytes{") {}
}

/// Connections that say nothing, and one that says it a byte at a time.
fn ask_slowly(port: u16, is_over: &AtomicBool) {
    let mut idle: Vec<TcpStream> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        idle.clear();
        let Ok(mut slow) = TcpStream::connect(("127.0.0.1", port)) else { return };
        idle.extend((0..CLIENTS).filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok()));
        for byte in "GET /metrics HTTP/1.1\r\nX: ".bytes().chain(std::iter::repeat(b'x')) {
            thread::sleep(Duration::from_millis(100));
            if is_over.load(Ordering::Relaxed) || slow.write_all(&[byte]).is_err() {
                break;
            }
        }
    }
}

/// Every process is there, with what it answered, or with why there is no answer.
fn check(line: &str) {
    let look: Value = serde_json::from_str(line).unwrap();
    let processes = look["gpus"][0]["processes"].as_array().unwrap();
    assert_eq!(processes.len() as u64, PROCESSES);
    for process in processes {
        let number = process["pid"].as_u64().unwrap() - FIRST_PID;
        // One that answers may be late on a busy machine, and says so then; it never says something else.
        match process["torch"]["allocated_bytes"].as_u64() {
            Some(bytes) => assert_eq!(bytes, number),
            None => assert!(process["torch_note"].is_string(), "{process}"),
        }
        assert!(number < ANSWERING || process["torch"].is_null(), "{process}");
    }
}

#[test]
fn a_process_that_is_stopped_or_answers_slowly_is_not_waited_for() {
    for is_stopped in [true, false] {
        let machine = Machine::new(&format!("gpu used=5\nprocess gpu=0 pid={FIRST_PID} bytes=5\n"));
        make_run_folder(&machine);
        let _stopped = is_stopped.then(|| stopped(&machine, FIRST_PID));
        if !is_stopped {
            dribbling(&machine, FIRST_PID);
        }
        let run = finished(&mut machine.command(&["top", "--once"]));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(run.stdout.contains(&format!("process {FIRST_PID} does not answer: ")), "{}", run.stdout);
    }
}

#[test]
fn a_disk_that_is_full_ends_the_recording_and_keeps_what_was_written() {
    let machine = Machine::new("gpu used=5\nprocess gpu=0 pid=4000000001 bytes=5\n");
    let program = assert_cmd::cargo::cargo_bin!("highwater");
    // A limit on the size of files stands for the disk: 20 blocks of 512 bytes.
    let line = format!(
        "trap '' XFSZ; ulimit -f 20; exec {} top --record full.hwlog --interval 0.01",
        Path::new(program).display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(machine.path("")).envs(machine.variables()).stdin(Stdio::null());
    let full = finished(&mut shell);
    assert_eq!(full.code, 2, "{}", full.stderr);
    assert!(full.stderr.contains("error: cannot write `full.hwlog`\n  caused by: File too large"), "{}", full.stderr);
    let replayed = finished(&mut machine.command(&["top", "--replay", "full.hwlog", "--format", "json"]));
    assert_eq!(replayed.code, 0, "{}", replayed.stderr);
    assert!(replayed.stdout.lines().count() > 5, "{}", replayed.stdout);
}
