//! Inputs and surroundings that mean harm: small files that become large, little memory, full disks, interruptions.

use std::fs;
use std::path::Path;

use highwater_testkit::gzip;

use crate::run::{command, run, run_with};

/// A pickle of an empty list of segments behind 80 MiB that leave nothing behind, packed a thousand times.
fn bomb() -> Vec<u8> {
    const MIB: u32 = 1 << 20;
    let dropped = [b"B", &MIB.to_le_bytes()[..], vec![0; MIB as usize].as_slice(), b"0"].concat();
    gzip(&[b"\x80\x04", &dropped.repeat(80)[..], b"]."].concat())
}

#[test]
fn a_small_file_that_becomes_large_is_refused_and_an_option_lifts_that() {
    let bomb = bomb();
    for line in ["report -", "explain - --capacity 1GiB", "diff - -", "simulate -", "check - --max-peak-reserved 1GiB"]
    {
        let run = run_with(line, bomb.clone());
        assert_eq!(run.code, 2, "{line}: {}", run.stderr);
        assert!(run.stderr.starts_with("error: standard input is too large when unpacked\n"), "{}", run.stderr);
        assert!(run.stderr.contains("lift the limit with `--allow-any-size`"), "{}", run.stderr);
    }
    let allowed = run_with("report - --allow-any-size", bomb);
    assert_eq!((allowed.code, allowed.stdout.contains("Nothing was recorded")), (0, true), "{}", allowed.stderr);
    // Text is held to the same: a log, a request program.
    let text = gzip(&b"epoch 1 \n".repeat(10 << 20));
    for line in ["explain -", "simulate --requests -"] {
        let run = run_with(line, text.clone());
        assert_eq!(run.code, 2, "{line}: {}", run.stderr);
        assert!(run.stderr.contains("lift the limit with `--allow-any-size`"), "{line}: {}", run.stderr);
    }
}

/// 70 bytes: 400 MB of `None` on the stack of a pickle, in two layers of zstd.
const SEVENTY_BYTES: &[u8] = b"\x28\xb5\x2f\xfd\x04\x88\xc9\x01\x00\x28\xb5\x2f\xfd\x64\xc6\x2e\x5d\x01\x00\x24\x02\x28\xb5\x2f\
\xfd\x04\x88\x6c\x00\x00\x28\x80\x04\x5d\x28\x4e\x01\x00\xf8\xff\x39\xd0\x02\x00\x10\x4e\x23\x20\x0c\x4e\x87\x5e\xde\xf7\x01\
\x00\x86\xbe\x79\x37\x06\xab\x5b\x16\x85\x7c\xac\xdf\xd0";

#[test]
#[cfg(target_os = "linux")]
fn without_memory_it_says_so_and_does_not_abort() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    file("seventy", SEVENTY_BYTES);
    // Entries without content: 8 bytes each, some 60 in memory.
    let entries = [b"\x80\x04](\x8c\x06action\x94", &b"}(h\x00NNNu".repeat(6 << 20)[..], b"e."].concat();
    file("entries", &entries);
    let limited = |name: &str| {
        let program = assert_cmd::cargo::cargo_bin!("highwater").to_owned();
        let script = format!("ulimit -v 300000; exec '{}' report {name}", program.display());
        let output =
            std::process::Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (name, why) in [("seventy", "is damaged"), ("entries", "needs more memory than there is")] {
        let (code, said) = limited(name);
        assert_eq!(code, Some(2), "{name}: {said}");
        assert!(said.starts_with(&format!("error: `{name}` {why}\n")), "{name}: {said}");
    }
}

/// Runs an export in a folder, as `sh` is told by `before`.
#[cfg(unix)]
fn export(folder: &Path, before: &str, options: &str) -> (Option<i32>, String) {
    let recording = crate::run::recordings().join("linear_forward.pickle.gz");
    let program = assert_cmd::cargo::cargo_bin!("highwater").to_owned();
    let script = format!("{before} '{}' export '{}' --to json {options}", program.display(), recording.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_leaves_the_old_file_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.json");
    fs::write(&path, "precious").unwrap();
    // No file may have more than 512 bytes: to the program it is as if the disk were full.
    let (code, said) = export(folder.path(), "trap '' XFSZ; ulimit -f 1;", "-o good.json --force");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("error: cannot write `good.json`\n  caused by: "), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    let (code, said) = export(folder.path(), "trap '' XFSZ; ulimit -f 1;", "-o new.json");
    assert_eq!(code, Some(2), "{said}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["good.json"]);
}

#[test]
#[cfg(target_os = "linux")]
fn pipes_devices_and_links_are_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = export(folder.path(), "", "-o whole.json");
    assert_eq!(code, Some(0), "{said}");
    let whole = fs::read(folder.path().join("whole.json")).unwrap();
    assert!(!whole.is_empty());

    let (code, _) =
        export(folder.path(), "mkfifo pipe; cat pipe > piped.json &", "-o pipe --force; code=$?; wait; exit $code");
    assert_eq!((code, fs::read(folder.path().join("piped.json")).unwrap() == whole), (Some(0), true));

    let (code, _) = export(folder.path(), "", "-o /dev/stdout --force | cat > through.json");
    assert_eq!((code, fs::read(folder.path().join("through.json")).unwrap() == whole), (Some(0), true));
    let (code, _) = export(folder.path(), "", "-o /dev/stdout --force > redirected.json");
    assert_eq!((code, fs::read(folder.path().join("redirected.json")).unwrap() == whole), (Some(0), true));

    std::os::unix::fs::symlink("there.json", folder.path().join("link.json")).unwrap();
    let (code, said) = export(folder.path(), "", "-o link.json --force");
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::symlink_metadata(folder.path().join("link.json")).unwrap().is_symlink());
    assert_eq!(fs::read(folder.path().join("there.json")).unwrap(), whole);
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_export_leaves_nothing_under_the_final_name() {
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    for signal in ["INT", "TERM", "KILL"] {
        let target = folder.path().join("half.json");
        fs::write(&target, "precious").unwrap();
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("highwater"))
            .args(["export", "fsdp2_qwen05b_rank2.pickle.gz", "--to", "json", "-o"])
            .arg(&target)
            .arg("--force")
            .current_dir(crate::run::recordings())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It is ended while it has a file open in the folder, with a name or without.
        let fds = format!("/proc/{}/fd", child.id());
        let is_writing = || {
            let links = fs::read_dir(&fds).into_iter().flatten().flatten();
            links.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|link| link.starts_with(folder.path()))
        };
        while child.try_wait().unwrap().is_none() && !is_writing() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Command::new("kill")
            .args([format!("-{signal}"), child.id().to_string()])
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let ended = child.wait().unwrap();
        let found = fs::read_to_string(&target).unwrap();
        // Whether it was quicker or not: the file is the old one or the new one, whole.
        let is_whole = found == "precious" || (ended.success() && found.ends_with("}\n"));
        assert!(is_whole, "{signal}: {} bytes, {ended}", found.len());
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["half.json"], "{signal}");
    }
}

#[test]
fn a_snapshot_without_devices_says_that_nothing_was_recorded() {
    let empty = "{\"segments\": [], \"device_traces\": []}";
    let said = "Nothing was recorded: the snapshot has neither segments nor trace entries.\n";
    for line in ["stats -", "live -"] {
        let run = run_with(line, empty);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, said, ""), "{line}");
    }
    let odd = "{\"segments\": [{\"address\": 0, \"total_size\": 8, \"device\": null, \"blocks\": []}], \"device_traces\": []}";
    let run = run_with("report -", odd);
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("a segment is on device `null`"), "{}", run.stdout);
}

/// 17,000 gradients of a pebibyte each: more than 64 bits hold.
#[test]
fn sizes_that_add_up_to_more_than_a_number_holds_are_no_error() {
    let frames = "[{\"name\": \"torch::autograd::Engine::evaluate_function\", \"filename\": \"\", \"line\": 0}, \
                  {\"name\": \"backward\", \"filename\": \"/lib/torch/_tensor.py\", \"line\": 1}]";
    let entry = |number: u64| {
        format!("{{\"action\": \"alloc\", \"addr\": {number}, \"size\": {}, \"frames\": {frames}}}", 1_u64 << 50)
    };
    let entries: Vec<String> = (0..17_000).map(entry).collect();
    let snapshot = format!("{{\"segments\": [], \"device_traces\": [[{}]]}}", entries.join(","));
    let run = run_with("report -", snapshot);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("the sizes in this file add up to more than 2^60 bytes"), "{}", run.stdout);
}

#[test]
fn every_command_that_reads_snapshots_lifts_the_limit_on_request() {
    for name in [
        "report", "live", "stats", "trace", "segments", "simulate", "estimate", "diff", "check", "explain", "view",
        "export", "sql",
    ] {
        let help = command().args([name, "--help"]).output().unwrap().stdout;
        assert!(String::from_utf8(help).unwrap().contains("--allow-any-size"), "{name}");
    }
    assert_eq!(run("report linear_forward.pickle.gz --allow-any-size").code, 0);
}
