//! Shapes of the tables, made by hand from "SQLite Export Schema Reference", and a file that Nsight Systems wrote.

use highwater_nsight::{read, read_beside, read_stream};
use highwater_outside::{Kind, Recording, Role, Timeline};
use highwater_snapshot::{Action, Snapshot, Unpacking};
use rusqlite::Connection;
use tempfile::NamedTempFile;

const MIB: i64 = 1 << 20;
/// Process 4242 and its thread 4243, packed as the file has them.
const PROCESS: i64 = 4242 << 24;
const THREAD: i64 = PROCESS + 4243;

/// A file with these statements.
pub(crate) fn file(sql: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    Connection::open(file.path()).unwrap().execute_batch(sql).unwrap();
    file
}

fn recording(snapshot: &Snapshot) -> Recording {
    Recording::from_json(snapshot.extra(Snapshot::DRIVER).unwrap()).unwrap()
}

/// Titles and MiB of the owners at the peak of a device.
fn owners(recording: &Recording, device: i32) -> Vec<(String, i64)> {
    let peak = Timeline::new(recording).peak(device);
    peak.owners.iter().map(|total| (total.owner.title(), total.bytes / MIB)).collect()
}

/// 2021: no pools, and no stream.
const OLD: &str = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT NOT NULL, globalPid INT, deviceId INT NOT NULL, contextId INT NOT NULL,
    address INT, bytes INT, memKind INT, memoryOperationType INT, name TEXT, correlationId INT);";

/// 2022: pools and streams, and the calls with their stacks.
const POOLS: &str = "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, address INTEGER, pc INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER, name TEXT,
    correlationId INTEGER, streamId INTEGER, localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER,
    localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
    CREATE TABLE CUDA_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER, module INTEGER, unresolved INTEGER, originalIP INTEGER,
    stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth));";

/// 2024: the session's start, the cards, and columns in another order.
const NEW: &str = "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
    CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER NOT NULL, name TEXT, totalMemory INTEGER, cuDevice INTEGER);
    CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (globalPid INTEGER, start INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER,
    greenContextId INTEGER, bytes INTEGER, address INTEGER, memKind INTEGER, memoryOperationType INTEGER, correlationId INTEGER);";

#[test]
fn tables_without_pools_are_read() {
    let rows = format!(
        "{OLD} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (30, {PROCESS}, 0, 1, 2097152, {}, 2, 1, NULL, 3),
         (10, {PROCESS}, 0, 1, 2097152, {}, 2, 0, NULL, 1), (20, {PROCESS}, 0, 1, 99, {}, 1, 0, NULL, 2);",
        8 * MIB,
        8 * MIB,
        64 * MIB
    );
    let snapshot = read(file(&rows).path()).unwrap();
    let recording = recording(&snapshot);
    assert_eq!(recording.events[0].time_ns, 10, "by time, not by row");
    let expected = [("unknown library".to_owned(), 8)];
    assert_eq!(owners(&recording, 0), expected, "the pinned memory comes later");
    assert_eq!(Timeline::new(&recording).end(0).bytes, 0);
    assert!(snapshot.warnings.iter().any(|warning| warning.id == "no-backtraces"));
}

#[test]
fn pools_count_as_what_they_have_reserved_and_stacks_say_whose() {
    let rows = format!(
        "{POOLS} INSERT INTO StringIds VALUES (1, '/l/libcuda.so.1'), (2, '/l/libnccl.so.2'), (3, 'cuMemAlloc_v2'), (4, 'ncclCommInitRank'),
         (5, 'cudaMalloc_v3020');
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 9, 0, {THREAD}, 1, 5, 0, 77);
         INSERT INTO CUDA_CALLCHAINS VALUES (77, 4, 2, 0, 0, 1), (77, 3, 1, 0, 0, 0), (78, 3, 1, 0, 0, 0);
         INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES
         (10, {PROCESS}, 0, 1, 2097152, 0, {a}, 2, 0, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
         (20, {PROCESS}, 0, 1, 88, 0, {b}, 2, 0, NULL, 2, 7, 5000, 0, {pool}, {b}, NULL, NULL),
         (30, {PROCESS}, 0, 1, 88, 0, {b}, 2, 1, NULL, 3, 7, 5000, 0, {small}, 0, NULL, NULL);",
        a = 4 * MIB,
        b = 10 * MIB,
        pool = 32 * MIB,
        small = 0
    );
    let snapshot = read(file(&rows).path()).unwrap();
    let recording = recording(&snapshot);
    let expected = [("unknown library".to_owned(), 32), ("NCCL".to_owned(), 4)];
    assert_eq!(owners(&recording, 0), expected);
    assert_eq!(recording.function(&recording.events[0]), Some("ncclCommInitRank"));
    assert_eq!(recording.events[0].thread, 4243);
    assert_eq!(Timeline::new(&recording).end(0).bytes, 4 * MIB, "the pool gave it back");
}

#[test]
fn processes_and_devices_are_told_apart() {
    let other = 99_i64 << 24;
    let rows = format!(
        "{NEW} INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1000000000, '', '');
         INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'card', {card}, 4), (1, 1, 'card', {card}, 5);
         INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES ({PROCESS}, 1, 0, 1, 1, {a}, 2097152, 2, 0, 1),
         ({other}, 2, 0, 1, 1, {b}, 2097152, 2, 0, 1), ({other}, 3, 1, 2, 2, {b}, 4194304, 4, 0, 2),
         ({other}, 4, 0, 1, 1, {b}, 2097152, 2, 1, 3), ({other}, 5, 1, 1, 1, 5, 5, 99, 0, 4);",
        card = 80_i64 << 30,
        a = 4 * MIB,
        b = 6 * MIB
    );
    let snapshot = read(file(&rows).path()).unwrap();
    let recording = recording(&snapshot);
    assert_eq!(recording.about.capacities, [(0, 80 << 30), (1, 80 << 30)]);
    assert_eq!(recording.events[0].time_ns, 1_000_000_001);
    let expected = [("unknown library of process 99".to_owned(), 6), ("unknown library of process 4242".to_owned(), 4)];
    assert_eq!(owners(&recording, 0), expected, "one address, in two processes");
    let managed = Timeline::new(&recording).end(1);
    assert_eq!((managed.owners[0].owner.role, managed.bytes), (Role::Managed, 0));
    assert!(snapshot.warnings.iter().any(|warning| warning.id == "unknown-memory-kind"));
}

/// A machine's number, above that of a process.
const MACHINE: i64 = 1 << 48;

#[test]
fn the_machine_is_no_part_of_a_processs_number() {
    let (one, other) = (MACHINE + PROCESS, MACHINE + (99 << 24));
    let rows = format!(
        "{NEW} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES ({one}, 1, 0, 1, 1, 5, 2097152, 2, 0, 1), ({other}, 2, 0, 1, 1, 5, 4194304, 2, 0, 2);"
    );
    let recording = recording(&read(file(&rows).path()).unwrap());
    let mut names: Vec<_> = owners(&recording, 0).into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["unknown library of process 4242", "unknown library of process 99"]);
}

/// 2025 (schema 3.20): the work of the devices, and named ranges.
const WORK: &str = "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
    color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,
    doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER,
    greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER,
    greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, copyCount INTEGER);";

#[test]
fn named_ranges_are_scopes_and_work_is_counted() {
    let range = |start: i64, end: &str, text: &str, number: &str, thread: i64, kind: i64| {
        format!(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, textId, globalTid) VALUES ({start}, {end}, {kind}, {text}, {number}, {thread});"
        )
    };
    let ranges = [
        range(12, "18", "'forward'", "NULL", THREAD, 59),
        range(1, "NULL", "NULL", "9", THREAD, 59),
        range(1, "100", "'of another thread'", "NULL", THREAD + 1, 59),
        range(1, "100", "'a mark'", "NULL", THREAD, 34),
        range(16, "17", "'later'", "NULL", THREAD, 60),
    ];
    let rows = format!(
        "{POOLS} {WORK} {} INSERT INTO StringIds VALUES (9, 'step 3');
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (14, 15, 0, {THREAD}, 1, 5, 0, NULL), (24, 25, 0, {THREAD}, 2, 5, 0, NULL);
         INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, bytes, memKind, memoryOperationType, correlationId)
         VALUES (15, {PROCESS}, 0, 1, 2097152, {a}, 2, 0, 1), (25, {PROCESS}, 0, 1, 33554432, {a}, 2, 0, 2);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId) VALUES (30, 40, 0, 7), (41, 50, 0, 7), (41, 43, 1, 7);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, bytes, copyKind) VALUES (5, 6, 0, 1000, 1), (7, 8, 0, 24, 1), (9, 10, 0, 5, 2);",
        ranges.join(" "),
        a = 4 * MIB,
    );
    let recording = recording(&read(file(&rows).path()).unwrap());
    let scopes: Vec<_> = recording.events.iter().map(|event| recording.scope(event)).collect();
    assert_eq!(scopes, [Some("step 3/forward".to_owned()), Some("step 3".to_owned())]);
    assert_eq!(owners(&recording, 0), [("unknown library".to_owned(), 8)], "a range is no library");
    let work: Vec<_> =
        recording.about.work.iter().map(|work| (work.device, &*work.what, work.count, work.bytes)).collect();
    let expected = [
        (0, "copies from device to host", 1, 5),
        (0, "copies from host to device", 2, 1024),
        (0, "kernels", 2, 0),
        (1, "kernels", 1, 0),
    ];
    assert_eq!(work, expected);
}

/// Moves of managed memory and its page faults, from "SQLite Export Schema Reference": the only rows with addresses.
const FAULTS: &str = "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    globalPid INTEGER, bytes INTEGER, copyKind INTEGER, migrationCause INTEGER, virtualAddress INTEGER);
    CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL, address INTEGER NOT NULL,
    originalFaultPc INTEGER, CpuInstruction INTEGER NOT NULL, module INTEGER, sourceFile INTEGER, sourceLine INTEGER);
    CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, globalPid INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, address INTEGER NOT NULL, numberOfPageFaults INTEGER NOT NULL, faultAccessType INTEGER NOT NULL);";

#[test]
fn the_file_tells_when_managed_memory_was_touched() {
    let other = 99_i64 << 24;
    let (a, page) = (4 * MIB, 64 << 10);
    let rows = format!(
        "{OLD} {FAULTS} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (10, {PROCESS}, 0, 1, {a}, {a}, 4, 0, NULL, 1),
         (40, {PROCESS}, 0, 1, {a}, {a}, 4, 1, NULL, 2), (50, {PROCESS}, 0, 1, {a}, {a}, 4, 0, NULL, 3),
         (50, {other}, 0, 1, {a}, {a}, 4, 0, NULL, 3), (60, {PROCESS}, 0, 1, 67108864, {a}, 4, 0, NULL, 4),
         (60, {PROCESS}, 0, 1, 134217728, {a}, 2, 0, NULL, 5);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (20, 25, 0, {PROCESS}, {page}, 11, 2, {inside}), (30, 33, 0, {PROCESS}, {page}, 11, 2, {a}),
         (70, 75, 0, {PROCESS}, {page}, 12, 2, {inside}), (70, 76, 0, {other}, 5, 13, 1, {a}), (80, 81, 0, {PROCESS}, 9, 1, NULL, {a}),
         (80, 81, 0, {PROCESS}, 9, 11, 2, 134217728), (80, 81, 0, {PROCESS}, 9, 11, 2, {past}), (5, 6, 0, {PROCESS}, 9, 11, 2, {a});
         INSERT INTO CUDA_UM_CPU_PAGE_FAULT_EVENTS VALUES (90, {PROCESS}, {a}, 0, 0, NULL, NULL, NULL);
         INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS VALUES (62, 64, {PROCESS}, 0, {inside}, 7, 1), (63, 66, {PROCESS}, 0, {a}, 3, 1);",
        inside = a + page,
        past = 2 * a,
    );
    let recording = recording(&read(file(&rows).path()).unwrap());
    let managed: Vec<_> = recording.events.iter().filter(|event| event.kind == Kind::Managed).collect();
    let told: Vec<_> = managed
        .iter()
        .map(|event| {
            let of_it =
                |touch: &&highwater_outside::Touch| (touch.address, touch.made_ns) == (event.address, event.time_ns);
            let touches = recording.about.touches.iter().filter(of_it);
            touches.map(|touch| (&*touch.what, touch.count, touch.bytes, touch.last_ns)).collect::<Vec<_>>()
        })
        .collect();
    let page = page.unsigned_abs();
    let first = vec![("moves of managed memory to the device", 2, 2 * page, 33)];
    let again = vec![
        ("moves of managed memory to the host", 1, page, 75),
        ("page faults of the device", 10, 0, 66),
        ("page faults of the host", 1, 0, 90),
    ];
    let others = vec![("moves of managed memory between devices", 1, 5, 76)];
    assert!(told.contains(&first) && told.contains(&again) && told.contains(&others), "{told:?}");
    assert_eq!(recording.about.touches.len(), 5, "neither device memory nor what lies past an allocation");
}

#[test]
fn a_stream_is_a_profile_or_a_snapshot() {
    let path = highwater_testkit::testdata("nsight/2024.sqlite");
    let (bytes, of_file) = (std::fs::read(&path).unwrap(), read(&path).unwrap());
    let read = |bytes: &[u8], name: &str| read_stream(bytes, Unpacking::Bounded, name);
    assert_eq!(read(&bytes, "`dropped.sqlite`").unwrap().extras, of_file.extras);
    assert_eq!(read(&highwater_testkit::gzip(&bytes), "standard input").unwrap().extras, of_file.extras);
    let snapshot = std::fs::read(highwater_testkit::testdata("recordings/linear_forward.pickle.gz")).unwrap();
    assert!(!read(&snapshot, "`run.pickle.gz`").unwrap().traces.is_empty());
    let problem = read(&bytes[..5000], "`dropped.sqlite`").unwrap_err();
    assert_eq!(problem.what(), "`dropped.sqlite` is cut");
    let problem = read(b"no report", "`profile.nsys-rep`").unwrap_err();
    let said = format!("{} {:?}", problem.what(), problem.what_to_do());
    assert!(said.starts_with("`profile.nsys-rep` cannot be read"), "{said}");
    assert!(!said.contains("/tmp"), "{said}");
    let problem = read(b"SQLi", "`short`").unwrap_err();
    assert!(problem.what().starts_with("`short` is not a memory snapshot"), "{}", problem.what());
}

#[test]
fn a_snapshot_of_the_run_gives_its_clock_and_says_what_is_pytorchs() {
    let mut snapshot = highwater_testkit::recording("linear_forward");
    let segments: Vec<_> = snapshot.segments.iter().map(|segment| (segment.address, segment.total_bytes)).collect();
    let row = |start: i64, address: u64, bytes: u64| {
        format!("({start}, {PROCESS}, 0, 1, {address}, {bytes}, 2, 0, NULL, {start})")
    };
    let rows: Vec<_> = std::iter::once(row(5, 2 << 20, 64 << 20))
        .chain(segments.iter().map(|&(address, bytes)| row(10, address, bytes)))
        .collect();
    let rows = format!("{OLD} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES {}", rows.join(", "));
    let profile = file(&format!("{rows};"));
    read_beside(profile.path(), &mut snapshot).unwrap();
    let recording = recording(&snapshot);
    let reserved: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
    let peak = Timeline::new(&recording).peak(0);
    let pytorch = peak.owners.iter().find(|total| total.owner.role == Role::Pytorch).unwrap();
    assert_eq!(pytorch.bytes.unsigned_abs(), reserved);
    let entry_us = snapshot.traces[0].ids().find_map(|id| snapshot.traces[0].time_us(id)).unwrap();
    let segment_ns = recording.events[1].time_ns;
    assert!(
        segment_ns / 1000 >= entry_us.unsigned_abs(),
        "the profiler counts from its start: {segment_ns} {entry_us}"
    );

    let problem = read_beside(
        file(&format!("{OLD} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (5, 1, 0, 1, 7, 7, 2, 0, NULL, 1);"))
            .path(),
        &mut snapshot,
    );
    assert!(problem.unwrap_err().what().contains("different runs"));
}

/// A file that Nsight Systems 2025.3 wrote on an H100 (schema 3.20.3), and the snapshot of the same run.
#[test]
fn a_file_of_nsight_systems_itself_tells_what_the_program_did() {
    let path = highwater_testkit::testdata("nsight/2025.sqlite");
    let recording = recording(&read(&path).unwrap());
    let planted = recording.events.iter().find(|event| event.kind == Kind::Device && event.bytes == 100 * MIB).unwrap();
    assert_eq!(recording.scope(planted).as_deref(), Some("step 1"));
    let of = |kind| recording.events.iter().filter(|event| event.kind == kind).map(|event| event.bytes).sum::<i64>();
    assert_eq!((of(Kind::StreamOrdered), of(Kind::Managed), of(Kind::Host)), (96 * MIB, 8 * MIB, 2 * MIB));
    let pools: Vec<_> =
        recording.events.iter().filter(|event| event.kind == Kind::Pool).map(|event| event.bytes / MIB).collect();
    assert_eq!(pools, [32, 96, 96, 0], "made, grown, freed from, and trimmed when the device was waited for");
    let work: Vec<_> = recording.about.work.iter().map(|work| (&*work.what, work.count, work.bytes)).collect();
    let expected = [
        ("copies from host to device", 7, 39_866_368),
        ("copies within a device", 3, 6_291_456),
        ("fills", 4, 104_857_612),
        ("kernels", 80, 0),
    ];
    assert_eq!(work, expected);
    assert_eq!(recording.about.capacities, [(0, 85_017_493_504)]);
    let expected =
        [("unknown library", 560), ("variables of modules", 2), ("pinned host memory of unknown library", 2)];
    assert_eq!(owners(&recording, 0), expected.map(|(title, mib)| (title.to_owned(), mib)));
}

#[test]
fn a_snapshot_of_the_same_run_has_its_segments_in_the_file() {
    let mut snapshot = highwater_testkit::open("nsight/2025");
    let reserved: u64 = snapshot.segments.iter().map(|segment| segment.total_bytes).sum();
    read_beside(&highwater_testkit::testdata("nsight/2025.sqlite"), &mut snapshot).unwrap();
    let recording = recording(&snapshot);
    let end = Timeline::new(&recording).end(0);
    let pytorch = end.owners.iter().find(|total| total.owner.role == Role::Pytorch).unwrap();
    assert_eq!(pytorch.bytes.unsigned_abs(), reserved);
    // Both wrote down when each segment came: within a millisecond of each other.
    let trace = &snapshot.traces[0];
    let first = trace.ids().find(|&id| trace.actions()[id.index()] == Action::SEGMENT_ALLOC).unwrap();
    let there = recording.events.iter().find(|event| event.kind == Kind::Device).unwrap();
    assert!((there.time_ns / 1000).abs_diff(trace.time_us(first).unwrap().unsigned_abs()) < 1000);
}

#[test]
fn frames_without_a_name_and_operators_are_read_as_releases_write_them() {
    // As Nsight Systems 2022.2 has them: an address for a symbol that is not resolved, and C++ as people write it.
    let sql = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, globalPid INT, deviceId INT, contextId INT, address INT, pc INT,
            bytes INT, memKind INT, memoryOperationType INT, name TEXT, correlationId INT);
        INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (5, 16777216, 0, 1, 4096, 0, 2097152, 2, 0, '', 7);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId INT, globalTid INT, callchainId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (7, 16777217, 1);
        CREATE TABLE StringIds (id INT, value TEXT);
        INSERT INTO StringIds VALUES (1, '/lib64/libcuda.so.525.105.17'), (2, '0x7fd99b6226b6'), (3, '/opt/libcudart.so.11.7.60'),
            (4, 'cudaMalloc'), (5, '/opt/libcublas.so.12'), (6, '0x7fd990700588'), (7, '/opt/torch/lib/libtorch_cpu.so'),
            (8, 'at::_ops::mm::call(at::Tensor const&, at::Tensor const&)');
        CREATE TABLE CUDA_CALLCHAINS (id INT, symbol INT, module INT, unresolved INT, originalIP INT, stackDepth INT);
        INSERT INTO CUDA_CALLCHAINS VALUES (1, 8, 7, NULL, 0, 3), (1, 6, 5, 1, 0, 2), (1, 4, 3, NULL, 0, 1), (1, 2, 1, 1, 0, 0);";
    let recording = recording(&read(file(sql).path()).unwrap());
    let event = &recording.events[0];
    assert_eq!(recording.library(event), Some("/opt/libcublas.so.12"));
    assert_eq!(recording.function(event), None, "an address is not a name");
    assert_eq!(recording.operator(event).as_deref(), Some("aten::mm"));
}

#[test]
fn backtraces_name_the_functions_that_allocated() {
    let truth = highwater_testkit::json(&highwater_testkit::testdata("nsight/calls.json"));
    for file in ["nsight/calls-2025.sqlite", "nsight/calls-2023.sqlite"] {
        let snapshot = read(&highwater_testkit::testdata(file)).unwrap();
        let recording = recording(&snapshot);
        let made = recording.events.iter().filter(|event| event.kind != Kind::Free);
        let found: Vec<_> = made
            .map(|event| {
                let library = recording.library(event).map(highwater_outside::name);
                (library, recording.function(event), event.bytes / MIB, recording.scope(event))
            })
            .collect();
        let planted: Vec<_> = truth["allocations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let scope = row["scope"].as_str().map(str::to_owned);
                (Some("libplanted.so".to_owned()), row["function"].as_str(), row["mib"].as_i64().unwrap(), scope)
            })
            .collect();
        assert_eq!(found, planted, "{file}");
        let freed = recording.events.iter().filter(|event| event.kind == Kind::Free);
        assert!(freed.map(|event| recording.function(event)).all(|name| name == Some("drop")), "{file}");
        for (what, key) in [("device", "moved_to_the_device_mib"), ("host", "moved_to_the_host_mib")] {
            let what = format!("moves of managed memory to the {what}");
            let moved = recording.about.touches.iter().filter(|touch| touch.what == what).map(|touch| touch.bytes);
            assert_eq!(moved.sum::<u64>() >> 20, truth[key].as_u64().unwrap(), "{file}");
        }
        assert!(snapshot.warnings.is_empty(), "{file}");
    }
}

#[test]
fn a_stack_is_kept_once_however_many_calls_and_ranges_have_it() {
    const CALLS: i64 = 50;
    let row = |call: i64| {
        format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({at}, {at} + 5, 0, {THREAD}, {call}, 3, 0, {call} + 1);
             INSERT INTO CUDA_CALLCHAINS VALUES ({call} + 1, 2, 1, 0, 0, 0);
             INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES ({at}, {at} + 5, 59, 'step {call}', {THREAD});
             INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, bytes, memKind, memoryOperationType, correlationId)
             VALUES ({at} + 1, {PROCESS}, 0, 1, {address}, 64, 2, 0, {call});",
            at = call * 10,
            address = (call + 1) * 2 * MIB,
        )
    };
    let rows: String = std::iter::once(format!(
        "{POOLS} {WORK} INSERT INTO StringIds VALUES (1, '/l/libnccl.so.2'), (2, 'ncclAlloc'), (3, 'cudaMalloc_v3020');"
    ))
    .chain((0..CALLS).map(row))
    .collect();
    let recording = recording(&read(file(&rows).path()).unwrap());
    assert_eq!(recording.about.stacks.len(), 1);
    let last = recording.events.last().unwrap();
    assert_eq!((recording.function(last), recording.scope(last).as_deref()), (Some("ncclAlloc"), Some("step 49")));
}

#[test]
fn a_stack_whose_rows_lie_apart_is_unknown() {
    let rows = format!(
        "{POOLS} INSERT INTO StringIds VALUES (1, '/l/libnccl.so.2'), (2, 'ncclAlloc'), (3, 'cudaMalloc_v3020');
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 9, 0, {THREAD}, 1, 3, 0, 7), (5, 9, 0, {THREAD}, 2, 3, 0, 8);
         INSERT INTO CUDA_CALLCHAINS VALUES (7, 2, 1, 0, 0, 0), (8, 2, 1, 0, 0, 0), (7, 2, 1, 0, 0, 1);
         INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, bytes, memKind, memoryOperationType, correlationId)
         VALUES (6, {PROCESS}, 0, 1, 2097152, 64, 2, 0, 1), (7, {PROCESS}, 0, 1, 4194304, 64, 2, 0, 2);"
    );
    let recording = recording(&read(file(&rows).path()).unwrap());
    let functions: Vec<_> = recording.events.iter().map(|event| recording.function(event)).collect();
    assert_eq!(functions, [None, Some("ncclAlloc")]);
}
