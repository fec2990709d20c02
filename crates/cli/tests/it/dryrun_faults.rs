//! `highwater dryrun` under attack and under faults: what it leaves behind, what gets out of its sandbox, who can put something in. As
//! in `dryrun`, a PyTorch is needed.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::dryrun::python;

/// A directory to run in, with a script and a place for temporary files.
struct Place(TempDir);

impl Place {
    fn new(script: &str) -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        for name in ["work", "tmp"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        fs::write(place.path("work/script.py"), script).unwrap();
        fs::write(place.path("outside"), "before").unwrap();
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// `highwater dryrun`, or what runs it.
    fn dry_run(&self, mut command: Command, options: &[&str]) -> Command {
        command
            .current_dir(self.path("work"))
            .env("TMPDIR", self.path("tmp"))
            .args(["dryrun", "--python", &python(), "--format", "json"])
            .args(options)
            .arg("script.py");
        command
    }

    fn left(&self) -> Vec<std::path::PathBuf> {
        fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("highwater"))
}

fn answered(mut command: Command) -> (Option<i32>, Value, String) {
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), err)
}

const ALLOCATE: &str = "import os, sys, time, torch\nx = torch.ones(1000, 1000, device='cuda')\n";

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_stubs_are_kept_in_a_home_of_ones_own_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new(ALLOCATE);
    let at_home = || {
        let mut command = place.dry_run(program(), &[]);
        command.env("HOME", place.path("home")).env_remove("XDG_CACHE_HOME");
        command
    };
    let (status, _, err) = answered(at_home());
    assert_eq!(status, Some(0), "{err}");
    let cache: Vec<_> = fs::read_dir(place.path("home/.cache/highwater")).unwrap().collect();
    assert_eq!(cache.len(), 1);
    assert!(place.left().is_empty(), "{:?}", place.left());

    // What lies there is not believed, and where others can write nothing is loaded from.
    let cache = cache[0].as_ref().unwrap().path();
    let stub = cache.join("libnccl.so.2");
    fs::write(&stub, "no library").unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let (status, _, err) = answered(at_home());
    assert_eq!((status, fs::read_to_string(&stub).unwrap().as_str()), (Some(0), "no library"), "{err}");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    let (status, _, err) = answered(at_home());
    assert_eq!(status, Some(0), "{err}");
    assert_ne!(fs::read(&stub).unwrap(), b"no library");

    let without = Place::new(ALLOCATE);
    let mut command = without.dry_run(program(), &[]);
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    let (status, _, err) = answered(command);
    assert_eq!(status, Some(0), "{err}");
    assert!(without.left().is_empty(), "{:?}", without.left());
}

/// Opens the file `outside` by a call to the kernel that no library can stand before, as a program that is linked statically does.
const OWN_CALL: &str = "
import ctypes, mmap
open('inside', 'w').write('x')
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes([0xb8, 2, 0, 0, 0, 0x0f, 5, 0xc3]))
call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
result = call(b'../outside', os.O_WRONLY | os.O_TRUNC, 0)
open('../outside-too', 'w').write('this goes to the sandbox, so its directory is looked at')
print('RESULT', result, file=sys.stderr)
";

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_system_calls_of_ones_own_are_held_by_the_kernel() {
    let place = Place::new(&(ALLOCATE.to_owned() + OWN_CALL));
    let (status, answer, err) = answered(place.dry_run(program(), &["--sandbox"]));
    assert_eq!(status, Some(0), "{err}");
    let sandbox = &answer["sandbox"];
    assert_eq!(sandbox["files"], 2, "{sandbox}");
    let outside = place.path("outside").canonicalize().unwrap();
    let is_changed = sandbox["outside"]["changed"]
        .as_array()
        .unwrap()
        .iter()
        .any(|path| outside == Path::new(path.as_str().unwrap()));
    match sandbox["kernel"]["state"].as_str() {
        Some("enforced") if sandbox["kernel"]["truncation"] == true => {
            assert!(err.contains("RESULT -13"), "{err}");
            assert_eq!((fs::read_to_string(outside).unwrap().as_str(), is_changed), ("before", false));
        }
        _ => assert!(is_changed, "a kernel that holds nothing back: {sandbox}"),
    }
}

/// Has the kernel say that it has no Landlock, and becomes the program that is named.
const WITHOUT_LANDLOCK: &str = "
import ctypes, os, struct, sys
def step(code, yes, no, value): return struct.pack('HBBI', code, yes, no, value)
program = step(0x20, 0, 0, 0) + step(0x35, 0, 2, 444) + step(0x25, 1, 0, 446) + step(0x06, 0, 0, 0x50000 | 38) + step(0x06, 0, 0, 0x7fff0000)
steps = ctypes.create_string_buffer(program)
filter = struct.pack('HxxxxxxP', len(program) // 8, ctypes.addressof(steps))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_without_landlock_the_answer_says_so_and_what_has_changed() {
    let place = Place::new(&(ALLOCATE.to_owned() + OWN_CALL));
    let mut wrapped = Command::new("python3");
    wrapped.args(["-c", WITHOUT_LANDLOCK]).arg(program().get_program());
    let (status, answer, err) = answered(place.dry_run(wrapped, &["--sandbox"]));
    assert_eq!(status, Some(0), "{err}");
    let sandbox = &answer["sandbox"];
    assert_eq!(sandbox["kernel"]["state"], "not_enforced", "{sandbox}");
    assert!(sandbox["kernel"]["reason"].as_str().unwrap().contains("Landlock"), "{sandbox}");
    assert_eq!(sandbox["outside"]["changed"], serde_json::json!([place.path("outside").canonicalize().unwrap()]));
}

/// Says its number when it is at work; a child that leaves its group does, too.
const GO_ON: &str = "
import subprocess
subprocess.Popen(['sleep', '1000'], start_new_session=True)
print('READY', os.getpid(), flush=True)
time.sleep(1000)
";

fn is_running(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Becomes the program that is named; whoever runs the tests may have them ignore hang-ups, as `nohup` does.
const HEARS_HANG_UPS: &str =
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])";

/// Starts a run, and waits until the script is at work; with its number.
fn at_work(place: &Place) -> (Child, String) {
    let mut hearing = Command::new("python3");
    hearing.args(["-c", HEARS_HANG_UPS]).arg(program().get_program());
    let mut child = place.dry_run(hearing, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let process = lines.find_map(|line| line.strip_prefix("READY ").map(str::to_owned)).expect("it gets there");
    // What it says later has to go somewhere.
    std::thread::spawn(move || lines.count());
    (child, process)
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_run_that_is_ended_leaves_nothing_behind() {
    for signal in ["-TERM", "-HUP"] {
        let place = Place::new(&(ALLOCATE.to_owned() + GO_ON));
        let (child, process) = at_work(&place);
        let sleeper = children(&process);
        assert_eq!(sleeper.len(), 1);
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{signal}");
        // A script that is too slow to say what it has done is ended without.
        if let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) {
            assert_eq!(answer["ended"], "interrupted", "{signal}");
        }
        assert!(!is_running(&process) && !is_running(&sleeper[0]), "{signal}");
        assert!(place.left().is_empty(), "{signal}: {:?}", place.left());
    }
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_a_run_that_is_killed_takes_the_script_along_and_is_swept_up() {
    let place = Place::new(&(ALLOCATE.to_owned() + GO_ON));
    let (mut child, process) = at_work(&place);
    let sleeper = children(&process);
    send("-KILL", &child);
    child.wait().unwrap();
    while is_running(&process) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(place.left().len(), 1);
    fs::write(place.path("work/script.py"), "").unwrap();
    let (status, _, err) = answered(place.dry_run(program(), &[]));
    assert!(status == Some(2) && err.contains("has allocated nothing"), "{err}");
    assert!(place.left().is_empty(), "{:?}", place.left());
    Command::new("kill").args(["-KILL", &sleeper[0]]).status().unwrap();
}

fn children(process: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
#[expect(clippy::print_stderr, reason = "says why nothing was tested")]
fn torch_a_full_temporary_directory_is_named_as_the_cause() {
    let fill = "
try:
    with open('full', 'wb', buffering=0) as file:
        while file.write(bytes(1 << 16)): pass
except OSError as error:
    if sys.argv[1:]: raise
";
    let place = Place::new(&(ALLOCATE.to_owned() + fill));
    // A small disk for this test only, where a user may have such.
    let small = "mount -t tmpfs -o size=4m none \"$TMPDIR\" || exit 77; exec \"$0\" \"$@\"";
    let on_small_disk = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", small]).arg(program().get_program());
        place.dry_run(unshare, &["--sandbox"])
    };
    let (status, _, err) = answered(on_small_disk());
    if matches!(status, Some(1 | 77)) {
        eprintln!("not tested, for no disk can be mounted here: {err}");
        return;
    }
    assert_eq!(status, Some(2), "{err}");
    assert!(err.contains("No space left on device") && err.contains("set `TMPDIR` to another directory"), "{err}");
    assert!(!err.contains("may choose the CPU"), "{err}");
    let mut command = on_small_disk();
    command.arg("fails");
    let (status, answer, err) = answered(command);
    assert_eq!(status, Some(2), "{err}");
    let said = format!("{}{err}", answer["error"]);
    assert!(said.contains("No space left on device"), "{said}");
}
