//! Questions and files that mean harm, or are wrong.

use std::fs;
use std::path::Path;

use highwater_problem::Problem;
use highwater_sqlite::{Affinity, Database, Limits, Value};

/// The heap's limit is one for the process: every test has the same.
const LIMITS: Limits = Limits { steps: 2_000_000, memory_bytes: 256 << 20 };

fn database() -> Database {
    let database = Database::in_memory(LIMITS).unwrap();
    database.create("blocks", &[("name", Affinity::Text), ("bytes", Affinity::Integer)]).unwrap();
    let mut rows = database.load("blocks", &["name", "bytes"]).unwrap();
    for (name, bytes) in [("a", 1), ("'; DROP TABLE blocks; --", 2)] {
        rows.row([Value::Text(name.as_bytes()), Value::Integer(bytes)]).unwrap();
    }
    rows.finish().unwrap();
    database
}

fn answer(database: &Database, sql: &str) -> Result<Vec<String>, Problem> {
    let mut rows = Vec::new();
    database.ask(
        sql,
        |_| Ok(()),
        |row| {
            rows.push(row.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" "));
            Ok::<(), Problem>(())
        },
    )?;
    Ok(rows)
}

fn refusal(sql: &str) -> String {
    let problem = answer(&database(), sql).unwrap_err();
    [problem.what().to_owned()].iter().chain(problem.causes()).cloned().collect::<Vec<_>>().join(": ")
}

#[test]
fn names_with_quotes_are_data() {
    let database = database();
    assert_eq!(answer(&database, "select sum(bytes) from blocks").unwrap(), ["Integer(3)"]);
    assert_eq!(answer(&database, "select count(*) from blocks where name like '%DROP%'").unwrap(), ["Integer(1)"]);
    let odd = Database::in_memory(LIMITS).unwrap();
    odd.create("a\"b", &[("c\"; --", Affinity::Real)]).unwrap();
    assert_eq!(answer(&odd, "select count(*) from \"a\"\"b\"").unwrap(), ["Integer(0)"]);
}

#[test]
fn a_question_does_nothing_but_read() {
    for sql in [
        "delete from blocks",
        "drop table blocks",
        "insert into blocks values ('x', 1)",
        "create table more (a)",
        "create temp table more (a)",
        "create view more as select 1",
        "attach 'other.db' as other",
        "vacuum into 'copy.db'",
        "pragma writable_schema = on",
        "select * from pragma_database_list",
        "select load_extension('evil.so')",
        "select fts3_tokenizer('simple')",
        "begin",
        "analyze",
    ] {
        let why = refusal(sql);
        assert!(
            ["does more than read", "not authorized", "prohibited"].iter().any(|words| why.contains(words)),
            "{sql}: {why}"
        );
    }
    assert!(!Path::new("copy.db").exists() && !Path::new("other.db").exists());
}

#[test]
fn one_question_at_a_time() {
    assert_eq!(refusal("select 1; select 2"), "the query cannot be answered: there is more than one statement in it");
    assert_eq!(answer(&database(), "select 1; -- and no more\n").unwrap(), ["Integer(1)"]);
}

#[test]
fn an_error_says_where_it_is() {
    assert_eq!(refusal("select\n  nmae\nfrom blocks"), "line 2, column 3 of the query: no such column: nmae");
    assert_eq!(refusal("select 'ä', from blocks"), r#"line 1, column 13 of the query: near "from": syntax error"#);
    assert_eq!(refusal("select 1 from block"), "line 1, column 15 of the query: no such table: block");
    assert_eq!(refusal("select 1\nfrom blocks where \n"), "line 2, column 18 of the query: incomplete input");
}

#[test]
fn a_question_without_an_end_is_ended() {
    let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n";
    assert_eq!(refusal(endless), "the query cannot be answered: it did not end within 2 million steps of SQLite");
}

#[test]
fn a_question_has_so_much_memory_and_no_more() {
    let large = "with recursive n(x) as (select 1 union all select x + 1 from n limit 100)
        select count(distinct randomblob(10000000 + x)) from n";
    assert_eq!(refusal(large), "the query cannot be answered: it needs more than 256 MiB of memory");
    assert!(refusal("select length(hex(zeroblob(200000000)))").contains("too big"));
}

#[test]
fn the_columns_that_a_question_reads_are_known_before_it_is_asked() {
    let database = database();
    let reads = database.reads("select sum(bytes) from blocks").unwrap();
    assert!(reads.contains(&("blocks".to_owned(), "bytes".to_owned())));
    assert!(!reads.iter().any(|(_, column)| column == "name"));
    assert!(database.reads("drop table blocks").is_err());
    // After a look, tables can still be filled.
    database.create("more", &[("a", Affinity::Integer)]).unwrap();
}

#[test]
fn a_loader_that_is_dropped_leaves_no_row() {
    let database = database();
    let mut rows = database.load("blocks", &["bytes"]).unwrap();
    rows.row([Value::Integer(7)]).unwrap();
    drop(rows);
    assert_eq!(answer(&database, "select count(*) from blocks").unwrap(), ["Integer(2)"]);
}

#[test]
fn a_file_is_read_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nsys?mode=rwc.sqlite");
    let made = rusqlite::Connection::open(folder.path().join("made.sqlite")).unwrap();
    made.execute_batch(
        "create table kernels (name text, start integer); insert into kernels values ('gemm', 5);
         create view evil as select load_extension('evil.so');
         create trigger more after insert on kernels begin delete from kernels; end;",
    )
    .unwrap();
    drop(made);
    fs::rename(folder.path().join("made.sqlite"), &path).unwrap();
    let before = fs::read(&path).unwrap();
    let database = Database::open_untrusted(&path, "`it`", LIMITS).unwrap();
    assert_eq!(answer(&database, "select start from kernels").unwrap(), ["Integer(5)"]);
    assert!(answer(&database, "select * from evil").is_err());
    assert!(answer(&database, "delete from kernels").is_err());
    assert!(database.create("more", &[("a", Affinity::Integer)]).is_err());
    drop(database);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_not_a_database_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sqlite");
    let why = |path: &Path| {
        let problem = Database::open_untrusted(path, &format!("`{}`", path.display()), LIMITS).unwrap_err();
        problem.causes().join(": ")
    };
    assert!(why(&path).contains("unable to open"), "{}", why(&path));
    fs::write(&path, "this is no database, whatever its name says".repeat(30)).unwrap();
    assert!(why(&path).contains("not a database"), "{}", why(&path));
    assert!(!why(folder.path()).is_empty());
}
