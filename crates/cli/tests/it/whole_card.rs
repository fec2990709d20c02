//! Recordings of the driver on an H100, with what NVML said and what the programs allocated themselves.

use std::collections::BTreeMap;

use highwater_testkit::{gunzip, json, testdata};
use serde_json::Value;

use crate::run::{failure, json as document, stdout};

/// Programs with NVML's figure at every mark.
const PROGRAMS: [&str; 14] = [
    "plain",
    "streams",
    "cudnn",
    "graphs",
    "cupy",
    "jax",
    "extension",
    "compiled_extension",
    "pinned",
    "pool",
    "nccl",
    "nccl_rank0",
    "nccl_messages0",
    "expandable",
];
const MIB: i64 = 1 << 20;

fn path(name: &str) -> String {
    format!("../whole_card/{name}.pickle.gz")
}

fn card(name: &str) -> Value {
    document(&format!("report {} --format json", path(name)))["driver"]["cards"][0].clone()
}

fn owner<'c>(card: &'c Value, role: &str, library: &str) -> Option<&'c Value> {
    let owners = card["peak"]["owners"].as_array().unwrap();
    owners.iter().find(|owner| owner["role"] == role && owner["library"].as_str().unwrap_or("") == library)
}

#[test]
fn the_sum_is_nvmls_figure_at_every_mark() {
    for name in PROGRAMS {
        let card = card(name);
        let compared = card["compared"].as_array().unwrap();
        assert!(compared.len() >= 3, "{name}");
        for moment in compared {
            let left = moment["left_bytes"].as_i64().unwrap();
            assert!(left.abs() <= 32 * MIB, "{name}, {}: {left} bytes left", moment["mark"]);
        }
        let parts: i64 = card["peak"]["owners"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|owner| owner["counts"] == true)
            .map(|owner| owner["bytes"].as_i64().unwrap())
            .sum();
        assert_eq!(parts, card["peak"]["bytes"].as_i64().unwrap(), "{name}");
        let unexplained = owner(&card, "unexplained", "").map_or(0, |owner| owner["bytes"].as_i64().unwrap());
        assert!(unexplained.abs() <= 2 * MIB, "{name}: {unexplained}");
    }
}

#[test]
fn planted_allocations_have_their_library_and_line() {
    let planted = json(&testdata("whole_card/planted.json"));
    for (name, planted) in planted.as_object().unwrap() {
        let card = card(name);
        let mut expected: BTreeMap<(String, u64), (u64, u64)> = BTreeMap::new();
        for row in planted.as_array().unwrap() {
            let key = (row[0].as_str().unwrap().to_owned(), row[2].as_u64().unwrap());
            let sum = expected.entry(key).or_default();
            sum.0 += row[1].as_u64().unwrap();
            sum.1 += 1;
        }
        assert!(!expected.is_empty(), "{name}");
        for ((library, line), (bytes, allocations)) in expected {
            let sites = owner(&card, "library", &library).unwrap()["sites"].as_array().unwrap();
            let site =
                sites.iter().find(|site| site["line"]["line"] == line).unwrap_or_else(|| panic!("{name}:{line}"));
            assert_eq!(
                (site["bytes"].as_u64(), site["allocations"].as_u64()),
                (Some(bytes), Some(allocations)),
                "{name}:{line}"
            );
        }
    }
}

#[test]
fn the_largest_sites_have_their_native_stack() {
    let card = card("nccl");
    let native = owner(&card, "library", "NCCL").unwrap()["sites"][0]["native"].as_array().unwrap();
    let is_in = |frame: &Value, library: &str| frame["library"].as_str().unwrap().contains(library);
    assert!(native.iter().all(|frame| !is_in(frame, "_highwater.") && !is_in(frame, "libcupti")), "{native:?}");
    let called = native.iter().position(|frame| frame["function"] == "ncclCommInitRankConfig").unwrap();
    assert!(is_in(&native[called], "libnccl.so"), "{native:?}");
    assert!(native[called..].iter().any(|frame| is_in(frame, "libtorch_cuda.so")), "{native:?}");
}

#[test]
fn pytorchs_part_is_what_the_snapshot_has_reserved() {
    for name in PROGRAMS {
        let report = document(&format!("report {} --format json", path(name)));
        let reserved = report["devices"][0]["end"]["reserved_bytes"].as_u64().unwrap();
        let at_end = report["driver"]["cards"][0]["end_bytes"].as_u64().unwrap();
        assert!(reserved < at_end, "{name}");
        if let Some(peak) = owner(&report["driver"]["cards"][0], "pytorch", "") {
            let most = report["devices"][0]["peak"]["reserved_bytes"].as_u64().unwrap();
            assert!(peak["bytes"].as_u64().unwrap() <= most.max(reserved), "{name}");
        }
    }
}

#[test]
fn findings_name_what_is_beside_pytorch() {
    for (name, expected) in [
        ("nccl", "NCCL holds 776.00 MiB in the communicators of 2 places"),
        ("nccl_rank0", "NCCL holds 1.32 GiB in the communicators of 2 places"),
        ("cupy", "CuPy holds 396.00 MiB beside PyTorch"),
        ("jax", "JAX holds 2.25 GiB beside PyTorch"),
        ("pool", "ctypes holds 512.00 MiB beside PyTorch"),
        ("plain", "cuBLAS holds 130.00 MiB in 2 handles"),
    ] {
        let text = stdout(&format!("report {}", path(name)));
        assert!(text.contains(expected), "{name}: {text}");
    }
    // Memory that PyTorch's own libraries need is no second allocator.
    let plain = stdout(&format!("report {}", path("plain")));
    assert!(!plain.contains("beside PyTorch"), "{plain}");
}

#[test]
fn messages_before_collectives_take_local_memory_for_both() {
    let card = card("nccl_messages0");
    let local = &owner(&card, "kernels", "").unwrap()["sites"][0];
    assert_eq!((local["bytes"].as_i64(), &local["function"]), (Some(248 * MIB), &"pncclGroupEnd".into()));
    // Two groups with a ring each, and what the first sends with: docs/driver.md has these numbers.
    let nccl = owner(&card, "library", "NCCL").unwrap();
    assert_eq!(nccl["bytes"], (2 * (196 + 288) + 64) * MIB);
    for moment in card["compared"].as_array().unwrap() {
        assert!(moment["left_bytes"].as_i64().unwrap().abs() <= 2 * MIB, "{moment}");
    }
}

#[test]
fn the_whole_card_reads_like_this() {
    let text = stdout(&format!("report {}", path("pool")));
    let from = text.find("Device 0: whole GPU").unwrap();
    let section = text[from..].split("\nAllocator settings").next().unwrap();
    insta::assert_snapshot!(section, @r"
    Device 0: whole GPU at its peak
           bytes  share  whose
      538.81 MiB   47 %  CUDA context
      512.00 MiB   45 %  ctypes
                           512.00 MiB in 8 at /home/user/whole_card.py:149 pool
       92.00 MiB  8.0 %  kernels and local memory
        2.00 MiB  0.2 %  PyTorch's segments
        1.12 GiB         in all of 79.18 GiB
      NVML's figure for the process was compared at 6 moments: the sum has at most 8.81 MiB more, where
      NVML says 880.00 MiB. No part of the sum comes from that figure.
      34 calls of the driver recorded.
    ");
}

#[test]
fn a_recording_that_another_profiler_ended_says_so() {
    let text = stdout(&format!("report {}", path("profiled")));
    assert!(text.contains("The driver is not recorded to the end: PyTorch's profiler took CUPTI."), "{text}");
}

#[test]
fn a_damaged_recording_of_the_driver_leaves_the_rest() {
    let whole = gunzip(&testdata("whole_card/pool.pickle.gz"));
    let mark = b"\"format\":\"highwater-driver\"";
    let at = whole.windows(mark.len()).position(|window| window == mark).unwrap();
    for (from, to) in [
        (&b"highwater-driver"[..], &b"highwater-drover"[..]),
        (b"\"version\":1", b"\"version\":9"),
        (b"\"kinds\"", b"\"kings\""),
    ] {
        let mut broken = whole.clone();
        let there = at + broken[at..].windows(from.len()).position(|window| window == from).unwrap();
        broken[there..there + from.len()].copy_from_slice(to);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), broken).unwrap();
        let text = stdout(&format!("report {}", file.path().display()));
        assert!(text.contains("the recording of the driver cannot be read"), "{text}");
        assert!(text.contains("Device 0\n"), "{text}");
    }
}

#[test]
fn directories_are_stripped_from_the_drivers_stacks_too() {
    let text = stdout(&format!("report {} --redact --format json", path("nccl")));
    assert!(text.contains("whole_card.py"), "{text}");
    assert!(!text.contains("/home/user") && !text.contains("/opt/torch"), "{text}");
    let card = document(&format!("report {} --redact --format json", path("cupy")))["driver"]["cards"][0].clone();
    assert!(owner(&card, "library", "CuPy").is_some(), "its name is told without its directory");
}

#[test]
fn a_database_of_another_program_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"SQLite format 3\0and nothing more").unwrap();
    let said = failure(&format!("report {}", file.path().display()));
    assert!(said.contains("cannot be read as an SQLite database"), "{said}");
}

#[test]
fn files_of_nsight_systems_read_like_this() {
    insta::assert_snapshot!(stdout("report ../nsight/2024.sqlite"), @r"
    2024.sqlite: 0 trace entries of 0 devices, 32.00 KiB of SQLite, a profile of Nsight Systems

    Allocations from the driver peaked at 320.00 MiB on device 0. Largest owner: cuBLAS, 320.00 MiB.

    Device 0: whole GPU at its peak
           bytes  share  whose
      320.00 MiB  100 %  cuBLAS
                           320.00 MiB in 2 by cublasCreate_v2
      320.00 MiB         in all of 80.00 GiB
      5 calls of the driver recorded.
    ");
    for (release, library) in [("2021", "unknown library"), ("2022", "cuBLAS"), ("2024", "cuBLAS")] {
        let report = document(&format!("report ../nsight/{release}.sqlite --format json"));
        let card = &report["driver"]["cards"][0];
        assert_eq!(card["peak"]["bytes"], 320 * MIB, "{release}");
        assert_eq!(card["end_bytes"], 64 * MIB, "{release}");
        assert!(owner(card, "library", library).is_some(), "{release}");
        assert_eq!(report["source"]["profile"], "nsight_systems");
    }
}

#[test]
fn a_sum_far_above_nvmls_figure_may_have_others_memory() {
    for (mib, is_far) in [(100, true), (1090, false)] {
        let recording = format!(
            r#"{{"format":"highwater-driver","version":1,"kinds":["context"],"marks":[{{"name":"end","time_ns":5}}],
            "nvml":[{{"time_ns":5,"device":0,"bytes":{}}}],"events":{{"kind":[0],"time_ns":[1],"address":[0],"bytes":[{}],"device":[0,1],
            "thread":[1,1],"stack":[-1,1],"python":[-1,1],"extra":[0,1]}}}}"#,
            mib * MIB,
            1100 * MIB
        );
        let mut snapshot = highwater_snapshot::Snapshot::empty();
        snapshot.extras = vec![(highwater_snapshot::Snapshot::DRIVER.to_owned(), recording)];
        let mut file = tempfile::NamedTempFile::new().unwrap();
        snapshot.write_pickle(&mut file).unwrap();
        let text = stdout(&format!("report {}", file.path().display()));
        assert!(text.contains("was compared at 1 moment"), "{text}");
        assert_eq!(text.contains("other processes started"), is_far, "{text}");
    }
}

#[test]
fn a_long_name_of_a_template_is_shortened_in_text_alone() {
    let name = format!("at::native::gemm<{}>", "float, ".repeat(100));
    let recording = format!(
        r#"{{"format":"highwater-driver","version":1,"kinds":["device"],"libraries":["/l/libcublas.so.13"],"names":["cuBLAS"],
        "stacks":[[[0,"{name}"]]],"events":{{"kind":[0],"time_ns":[1],"address":[4096],"bytes":[2097152],"device":[0,1],"thread":[1,1],
        "stack":[0,1],"python":[-1,1],"extra":[0,1]}}}}"#
    );
    let mut snapshot = highwater_snapshot::Snapshot::empty();
    snapshot.extras = vec![(highwater_snapshot::Snapshot::DRIVER.to_owned(), recording)];
    let mut file = tempfile::NamedTempFile::new().unwrap();
    snapshot.write_pickle(&mut file).unwrap();
    let text = stdout(&format!("report {}", file.path().display()));
    assert!(text.contains("by at::native::gemm<") && text.contains('…'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() < 160), "{text}");
    let report = document(&format!("report {} --format json", file.path().display()));
    assert_eq!(owner(&report["driver"]["cards"][0], "library", "cuBLAS").unwrap()["sites"][0]["function"], name);
}

#[test]
fn exports_carry_the_card() {
    let trace: Value = serde_json::from_str(&stdout(&format!("export {} --to chrome-trace", path("nccl")))).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let last = |name: &str| {
        events.iter().rev().find(|event| event["name"] == name).map(|event| event["args"]["bytes"].clone())
    };
    assert_eq!(last("card: NCCL"), Some((776 * MIB).into()));
    assert_eq!(last("card: PyTorch's segments"), last("reserved_bytes"));
    let times: Vec<i64> = events.iter().filter_map(|event| event["ts"].as_i64()).collect();
    assert!(times.iter().all(|&time| time >= 0), "one clock, from the context on");

    let profile: Value = serde_json::from_str(&stdout("export ../nsight/2022.sqlite --to chrome-trace")).unwrap();
    let events = profile["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "card: cuBLAS"), "{profile}");
}

#[test]
fn a_profile_beside_another_run_is_refused() {
    let said = failure(&format!("report ../nsight/2022.sqlite --with {}", path("nccl")));
    assert!(said.contains("are of different runs"), "{said}");
}

/// A report of Nsight Systems is read by its own program: here by one that is made up.
#[cfg(unix)]
#[test]
fn a_report_of_nsight_systems_is_exported_by_nsys() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("profile.nsys-rep");
    std::fs::write(&report, "a report").unwrap();
    let run = |script: Option<&str>| {
        let nsys = folder.path().join("bin/nsys");
        let _ = std::fs::remove_dir_all(folder.path().join("bin"));
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        if let Some(script) = script {
            std::fs::write(&nsys, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&nsys, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", folder.path().join("bin").display());
        let mut command = crate::run::command();
        let output = command.args(["report".as_ref(), report.as_os_str()]).env("PATH", path).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let exported = highwater_testkit::testdata("nsight/2024.sqlite");
    let copies = format!(
        "[ \"$1 $2 $3 $4 $5 $6\" = 'export --type sqlite --force-overwrite true --output' ] && [ -f \"$8\" ] && cp '{}' \"$7\"",
        exported.display()
    );
    let [out, err] = run(Some(&copies));
    assert!(out.contains("320.00 MiB in 2 by cublasCreate_v2"), "{out}{err}");
    let [_, err] = run(Some("echo 'the report is of a newer release' >&2; exit 3"));
    assert!(err.contains("`nsys export` failed") && err.contains("the report is of a newer release"), "{err}");
    let [_, err] = run(Some("exit 0"));
    assert!(err.contains("`nsys export` failed") && err.contains("it says nothing"), "{err}");
    let [_, err] = run(None);
    assert!(err.contains("`nsys` cannot be run") && err.contains("nsys export --type sqlite"), "{err}");
    let raw = folder.path().join("profile.qdstrm");
    std::fs::write(&raw, "a capture").unwrap();
    let output = crate::run::command().args(["report".as_ref(), raw.as_os_str()]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("QdstrmImporter"), "{output:?}");
}

/// Made by hand: nobody tries this on a card that others use.
#[test]
fn managed_memory_larger_than_the_card_is_said() {
    let mut snapshot = highwater_snapshot::Snapshot::empty();
    let recording = |gib: u64| {
        format!(
            r#"{{"format":"highwater-driver","version":1,"capacities":[[0,{}]],"kinds":["context","managed"],"events":{{"kind":[1,0],"time_ns":[1,1],
            "address":[4096,0],"bytes":[{},536870912],"device":[0,2],"thread":[1,2],"stack":[-1,2],"python":[-1,2],"extra":[0,2]}}}}"#,
            80_u64 << 30,
            gib << 30
        )
    };
    for (gib, is_said) in [(100, true), (79, false)] {
        snapshot.extras = vec![(highwater_snapshot::Snapshot::DRIVER.to_owned(), recording(gib))];
        let mut file = tempfile::NamedTempFile::new().unwrap();
        snapshot.write_pickle(&mut file).unwrap();
        let text = stdout(&format!("report {}", file.path().display()));
        assert!(text.contains("512.00 MiB         in all of 80.00 GiB"), "{text}");
        assert!(text.contains("managed memory of unknown library, not part of the sum"), "{text}");
        assert_eq!(text.contains("does not fit into the card's 80.00 GiB"), is_said, "{text}");
    }
}
