//! Files that are damaged, of other programs, or made to hurt.

use std::io::{Seek as _, SeekFrom, Write as _};

use highwater_nsight::{is_profile, read};
use rusqlite::Connection;

use crate::schemas::file;

const TABLE: &str = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, globalPid INT, deviceId INT, address INT, bytes INT, memKind INT,
    memoryOperationType INT, correlationId INT);";

fn refused(sql: &str) -> String {
    let file = file(sql);
    let problem = read(file.path()).unwrap_err();
    format!("{} {:?} {:?}", problem.what(), problem.causes(), problem.what_to_do())
}

#[test]
fn files_of_others_are_named() {
    assert!(refused("CREATE TABLE bookmarks (id INT);").contains("another program than Nsight Systems"));
    assert!(refused("CREATE TABLE StringIds (id INT, value TEXT);").contains("--cuda-memory-usage=true"));
    assert!(refused(TABLE).contains("is empty"), "older releases make all tables");
    let without = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, bytes INT);";
    assert!(refused(without).contains("has no column `memKind`"));
}

#[test]
fn a_view_is_no_table() {
    let sql = "CREATE TABLE StringIds (id INT, value TEXT);
        CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start FROM n)
        SELECT start, 1 AS bytes, 2 AS memKind, 0 AS memoryOperationType, 1 AS address FROM n;";
    assert!(refused(sql).contains("there is no table"), "it would never end");
}

#[test]
fn triggers_and_huge_texts_do_nothing() {
    let sql = format!(
        "{TABLE} CREATE TRIGGER hurt AFTER INSERT ON CUDA_GPU_MEMORY_USAGE_EVENTS BEGIN SELECT 1; END;
         CREATE TABLE StringIds (id INT, value TEXT); INSERT INTO StringIds VALUES (1, hex(zeroblob(4000000))), (2, x'ff00fe');
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId INT, globalTid INT, callchainId INT);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 16777217, 1);
         CREATE TABLE CUDA_CALLCHAINS (id INT, stackDepth INT, module INT, symbol INT); INSERT INTO CUDA_CALLCHAINS VALUES (1, 0, 1, 2);
         INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 16777216, 0, 1, 5, 2, 0, 1);"
    );
    let snapshot = read(file(&sql).path()).unwrap();
    assert!(snapshot.extras[0].1.len() < 20_000, "the text is cut");
}

#[test]
fn backtraces_beyond_the_room_are_counted_and_said() {
    let calls = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11000)";
    let frames = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 11000 * 96 - 1)";
    let sql = format!(
        "{TABLE} CREATE TABLE StringIds (id INT, value TEXT); INSERT INTO StringIds VALUES (1, '/l/libnccl.so.2'), (2, 'ncclAlloc');
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId INT, globalTid INT, callchainId INT);
         CREATE TABLE CUDA_CALLCHAINS (id INT, stackDepth INT, module INT, symbol INT, unresolved INT);
         {calls} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT i, 16777216, 0, i * 2097152, 5, 2, 0, i FROM n;
         {calls} INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT i, 16777217, i FROM n;
         {frames} INSERT INTO CUDA_CALLCHAINS SELECT 1 + i / 96, i % 96, 1, CASE i % 96 WHEN 0 THEN 2 ELSE 10 + i END, 0 FROM n;"
    );
    let snapshot = read(file(&sql).path()).unwrap();
    let said: Vec<&str> = snapshot.warnings.iter().map(|warning| warning.message.as_str()).collect();
    let left_out = 11_000 - 1_000_000 / 96;
    assert_eq!(said, [format!("{left_out} backtraces are left out: together they have more than 1000000 frames")]);
}

#[test]
fn odd_numbers_end_nothing() {
    let most = i64::MAX;
    let least = i64::MIN;
    let sql = format!(
        "{TABLE} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES ({most}, {most}, {most}, {most}, {most}, 2, 0, {most}),
         ({least}, {least}, {least}, {least}, {least}, 2, 0, {least}), (1, 1, 0, {most}, {most}, 2, 0, 1), (2, 1, 0, {most}, 0, 2, 1, 1),
         (NULL, NULL, NULL, NULL, NULL, 2, 0, NULL), ('text', 1.5, x'00', 'a', 'b', 2, 0, 'c');"
    );
    let snapshot = read(file(&sql).path()).unwrap();
    assert!(!snapshot.extras[0].1.is_empty());
}

#[test]
fn a_damaged_file_is_refused() {
    let whole = file(&format!("{TABLE} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 1, 0, 1, 5, 2, 0, 1);"));
    assert!(is_profile(whole.path()));
    let bytes = std::fs::read(whole.path()).unwrap();
    for cut in [0, 15, 16, 100, 1000, 4096, bytes.len() - 1] {
        let mut part = tempfile::NamedTempFile::new().unwrap();
        part.write_all(&bytes[..cut]).unwrap();
        let problem = read(part.path()).unwrap_err();
        assert_eq!(problem.what().ends_with(" is cut"), cut >= 100, "{cut} bytes: {problem}");
    }
    let mut file = std::fs::OpenOptions::new().write(true).open(whole.path()).unwrap();
    file.seek(SeekFrom::Start(100)).unwrap();
    file.write_all(&[0xff; 600]).unwrap();
    let problem = read(whole.path()).unwrap_err();
    assert!(problem.what().ends_with("cannot be read as an SQLite database"), "{problem}");
    assert!(problem.what_to_do().unwrap().contains("copy the file again"), "{problem:?}");
}

#[test]
fn damage_far_into_a_file_is_named_as_the_files() {
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";
    let whole = file(&format!(
        "{TABLE} {many} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT i, 1, 0, i * 4096, 5, 2, 0, i FROM n;"
    ));
    let bytes = whole.path().metadata().unwrap().len();
    let mut file = std::fs::OpenOptions::new().write(true).open(whole.path()).unwrap();
    file.seek(SeekFrom::Start(bytes / 2)).unwrap();
    file.write_all(&[0xff; 8_000]).unwrap();
    let problem = read(whole.path()).unwrap_err();
    assert!(problem.what().ends_with("cannot be read as an SQLite database"), "{problem}");
    assert!(problem.what_to_do().unwrap().contains("copy the file again"), "{problem:?}");
}

#[test]
fn a_file_that_another_program_writes_is_refused_or_read() {
    let locked = file(&format!("{TABLE} INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 1, 0, 1, 5, 2, 0, 1);"));
    let writer = Connection::open(locked.path()).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let problem = read(locked.path()).unwrap_err();
    assert_eq!(problem.causes(), ["database is locked: another program is writing it"]);
    assert_eq!(problem.what_to_do(), Some("wait until that program has finished"));
}
