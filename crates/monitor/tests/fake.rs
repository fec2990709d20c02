//! The sampler against an NVML that is made up.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use highwater_fake_nvml::{FILE, FUNCTIONS, SCRIPT};
use highwater_monitor::{Absence, Detail, GpuSample, ProcessKind, Sample, Sampler};
use highwater_problem::Explained as _;

/// Cargo leaves the library beside the tests.
fn library() -> OsString {
    let own = std::env::current_exe().unwrap();
    let directory = own.parent().unwrap();
    let places = [directory.join(FILE), directory.join("..").join(FILE)];
    let found = places.iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{} is not built", places[0].display())).clone().into_os_string()
}

/// A machine that a test can change.
struct Machine {
    script: PathBuf,
    _directory: tempfile::TempDir,
}

fn open() -> Sampler {
    Sampler::open(Some(&library())).unwrap()
}

/// Runs `test` in a process of its own where the script is in the environment: the library reads it there, and to set a variable
/// in a running process is unsafe.
fn with_machine(name: &str, script: &str, test: impl FnOnce(&Machine)) {
    if let Some(path) = std::env::var_os(SCRIPT) {
        let path = PathBuf::from(path);
        return test(&Machine { script: path.clone(), _directory: tempfile::tempdir().unwrap() });
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine");
    fs::write(&path, script).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(SCRIPT, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

impl Machine {
    fn becomes(&self, script: &str) {
        fs::write(&self.script, script).unwrap();
    }
}

fn sample(sampler: &mut Sampler, detail: Detail) -> Sample {
    sampler.sample(7, detail).unwrap()
}

fn notes(gpu: &GpuSample) -> String {
    gpu.notes.join("\n")
}

const TWO: &str = "gpu name=NVIDIA_H200 used=3221225472 util=37 memutil=12 temp=41 power=123456\n\
                   process gpu=0 pid=4000000001 bytes=1073741824\nprocess gpu=0 pid=4000000002 bytes=2147483648\n\
                   process gpu=0 pid=4000000002 bytes=2147483648 kind=graphics\ngpu name=NVIDIA_A100 total=42949672960 ecc=0\n";

#[test]
fn several_gpus_are_told() {
    with_machine("several_gpus_are_told", TWO, |_| {
        let mut sampler = open();
        let sample = sample(&mut sampler, Detail::All);
        assert_eq!(sample.time_us, 7);
        assert_eq!(sample.driver.version.as_deref(), Some("580.159.04"));
        assert_eq!(sample.driver.cuda.as_deref(), Some("13.0"));
        let [first, second] = &sample.gpus[..] else { panic!("two") };
        let memory = first.memory.unwrap();
        assert_eq!((memory.total_bytes, memory.used_bytes), (150_754_820_096, 3 << 30));
        assert_eq!(memory.total_bytes, memory.used_bytes + memory.free_bytes + memory.reserved_bytes);
        assert_eq!((first.temperature_c, first.power.unwrap().draw_mw), (Some(41), 123_456));
        assert_eq!(first.utilization.unwrap().gpu_percent, 37);
        assert_eq!((first.ecc.unwrap().corrected, second.ecc.unwrap().corrected), (Some(0), None));
        assert_eq!(first.compute_capability.as_deref(), Some("9.0"));
        let told: Vec<_> = first.processes.iter().map(|each| (each.pid, each.kind, each.bytes)).collect();
        // What computes and draws holds its memory once.
        assert_eq!(
            told,
            [(4_000_000_002, ProcessKind::Both, Some(2 << 30)), (4_000_000_001, ProcessKind::Compute, Some(1 << 30)),]
        );
        assert_eq!(first.unseen_bytes, Some(0));
        assert!(notes(first).contains("outside this container"), "{}", notes(first));
        assert_eq!(notes(second), "");
    });
}

#[test]
fn hidden_processes_are_a_sentence() {
    with_machine("hidden_processes_are_a_sentence", "gpu used=1073741824\ngpu used=1073741824\n", |_| {
        let sample = sample(&mut open(), Detail::All);
        assert_eq!(sample.gpus[0].unseen_bytes, Some(1 << 30));
        insta::assert_snapshot!(notes(&sample.gpus[0]), @"some of the used memory belongs to a process that is not shown: in another container, or just ending");
    });
}

#[test]
fn parts_of_a_gpu_are_listed_below_it() {
    let script = "gpu used=100\nmig gpu=0 name=NVIDIA_H200_MIG_1g.18gb total=18000 used=60\nmig gpu=0 total=18000 used=40\n\
                  process gpu=0 mig=0 pid=4000000001 bytes=60\ngpu\n";
    with_machine("parts_of_a_gpu_are_listed_below_it", script, |_| {
        let mut sampler = open();
        for detail in [Detail::All, Detail::Quick] {
            let sample = sample(&mut sampler, detail);
            assert_eq!(sample.gpus.iter().map(GpuSample::label).collect::<Vec<_>>(), ["0", "0.0", "0.1", "1"]);
            assert_eq!(sample.gpus[1].name, "NVIDIA H200 MIG 1g.18gb");
            assert_eq!(sample.gpus[1].processes[0].bytes, Some(60));
            assert!(notes(&sample.gpus[0]).contains("MIG mode"));
        }
    });
}

#[test]
fn memory_that_is_not_the_gpus_own_is_the_machines() {
    with_machine("memory_that_is_not_the_gpus_own_is_the_machines", "gpu total=0 name=NVIDIA_GB10\n", |_| {
        let sample = sample(&mut open(), Detail::All);
        let gpu = &sample.gpus[0];
        let memory = gpu.memory.expect("`/proc/meminfo` is there");
        assert_eq!(memory.used_bytes + memory.free_bytes, memory.total_bytes);
        assert!(gpu.shares_memory && memory.total_bytes > 0);
        assert_eq!(gpu.unseen_bytes, None, "other programs use the machine's memory too");
        assert!(
            notes(&sample.gpus[0]).starts_with("memory: this GPU has none of its own"),
            "{}",
            notes(&sample.gpus[0])
        );
    });
}

#[test]
fn a_gpu_that_falls_off_the_bus_stays_in_the_list() {
    with_machine("a_gpu_that_falls_off_the_bus_stays_in_the_list", TWO, |machine| {
        let mut sampler = open();
        assert_eq!(sample(&mut sampler, Detail::All).gpus.len(), 2);
        for detail in [Detail::Quick, Detail::All, Detail::Quick] {
            machine.becomes(&format!("{TWO}lost 0\n"));
            let lost = sample(&mut sampler, detail);
            assert!(lost.gpus[0].is_lost && !lost.gpus[1].is_lost);
            assert_eq!((lost.gpus[0].name.as_str(), lost.gpus[0].memory), ("NVIDIA H200", None));
            assert_eq!((lost.gpus[0].temperature_c, lost.gpus[0].processes.len()), (None, 0));
            assert!(notes(&lost.gpus[0]).contains("fallen off the bus"), "{}", notes(&lost.gpus[0]));
            assert_eq!(lost.gpus[1].memory.unwrap().total_bytes, 40 << 30);
        }
        machine.becomes(TWO);
        let back = sample(&mut sampler, Detail::Quick);
        assert!(!back.gpus[0].is_lost && back.gpus[0].temperature_c == Some(41), "{:?}", back.gpus[0]);
    });
}

#[test]
fn a_gpu_that_is_lost_amid_a_look_is_lost() {
    with_machine("a_gpu_that_is_lost_amid_a_look_is_lost", TWO, |machine| {
        for call in 1..40 {
            machine.becomes(&format!("{TWO}lost 0 after={call}\n"));
            let mut sampler = open();
            let first = sample(&mut sampler, Detail::All);
            let second = sample(&mut sampler, Detail::Quick);
            assert_eq!((first.gpus.len(), second.gpus.len()), (2, 2));
            assert!(second.gpus[0].is_lost, "lost after {call} calls");
        }
    });
}

/// `NVML_ERROR_…`: invalid argument, not supported, no permission, insufficient size, function not found, GPU is lost, reset
/// required, operating system, version mismatch, unknown, and one that is none.
const STATUSES: [u32; 11] = [2, 3, 4, 7, 13, 15, 16, 17, 18, 999, 12345];

#[test]
fn an_error_at_any_function_is_a_value() {
    with_machine("an_error_at_any_function_is_a_value", TWO, |machine| {
        for function in FUNCTIONS {
            for status in STATUSES {
                machine.becomes(&format!("{TWO}mig gpu=1 total=5\nerror {function} {status}\n"));
                let Ok(mut sampler) = Sampler::open(Some(&library())) else {
                    assert_eq!(*function, "nvmlInit_v2");
                    continue;
                };
                for detail in [Detail::All, Detail::Quick] {
                    match sampler.sample(0, detail) {
                        Ok(sample) => assert!(sample.gpus.len() >= 2, "{function} {status}"),
                        Err(_) => assert_eq!(*function, "nvmlDeviceGetCount_v2", "{status}"),
                    }
                }
            }
        }
    });
}

#[test]
fn an_error_at_any_call_is_a_value() {
    with_machine("an_error_at_any_call_is_a_value", TWO, |machine| {
        // A look makes 50 calls, so the last of these fail nowhere.
        for (call, status) in (1..70).flat_map(|call| [(call, 15), (call, 999)]) {
            machine.becomes(&format!("{TWO}fail-call {call} {status}\n"));
            let Ok(mut sampler) = Sampler::open(Some(&library())) else {
                assert_eq!(call, 1, "only `nvmlInit_v2` keeps it from opening");
                continue;
            };
            let looks = [Detail::All, Detail::Quick].map(|detail| sampler.sample(0, detail));
            assert!(looks.iter().filter(|look| look.is_err()).count() <= 1, "call {call}");
            for sample in looks.into_iter().flatten() {
                assert_eq!(sample.gpus.len(), 2, "call {call}");
            }
        }
    });
}

#[test]
fn what_says_why_no_gpu_is_there() {
    with_machine("what_says_why_no_gpu_is_there", "gpu\n", |machine| {
        let opened = |script: &str| {
            machine.becomes(script);
            Sampler::open(Some(&library())).map(drop).unwrap_err().to_string()
        };
        insta::assert_snapshot!(opened("error nvmlInit_v2 9"), @"the NVIDIA driver does not answer: NVIDIA driver is not loaded");
        insta::assert_snapshot!(opened("error nvmlInit_v2 18"), @"the NVIDIA driver was updated while it was loaded: its library and kernel module have different versions");
        insta::assert_snapshot!(opened("error nvmlInit_v2 4"), @"this user may not query the NVIDIA driver");
        machine.becomes("");
        assert_eq!(open().sample(0, Detail::All), Err(Absence::NoGpu));
        let missing = Sampler::open(Some("/nowhere/libnvidia-ml.so.1".as_ref())).map(drop).unwrap_err();
        insta::assert_snapshot!(missing, @"no NVIDIA driver is installed here: `/nowhere/libnvidia-ml.so.1` cannot be loaded");
        assert!(missing.reason().is_some() && missing.hint().unwrap().contains("HIGHWATER_NVML"));
        // A library that is another one.
        let other = Sampler::open(Some("libc.so.6".as_ref())).map(drop).unwrap_err();
        assert!(matches!(other, Absence::NoDriver { .. }), "{other:?}");
    });
}

#[test]
fn an_old_driver_is_a_sentence() {
    with_machine("an_old_driver_is_a_sentence", "driver 470.1\ngpu\nerror nvmlDeviceGetMemoryInfo_v2 13\n", |_| {
        let sample = sample(&mut open(), Detail::All);
        insta::assert_snapshot!(notes(&sample.gpus[0]), @"memory: this driver is too old to report it; 510 is the first that reports everything");
    });
}
