//! Files that are no snapshot, or a hostile one: each is refused with a message that says what it is and what to do.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::time::Duration;

use highwater_snapshot::{ErrorKind, Snapshot};
use highwater_testkit::{gzip, recording, refusal, testdata, warnings};

use crate::common::{as_json, layout, layout_bytes, recording_bytes};

fn message(result: Result<String, highwater_snapshot::Error>) -> String {
    let error = result.expect_err("this should be refused");
    let hint = error.hint().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
    format!("FILE {}: {error}{hint}", error.headline())
}

/// What was odd about a file that is read all the same.
fn oddities(bytes: &[u8]) -> String {
    warnings(&Snapshot::read(bytes).unwrap())
}

/// A dict with one segment, whose pairs these are.
fn with_segment(pairs: &str) -> String {
    format!("{{\"segments\": [{{\"address\": 1048576, \"total_size\": 1024, {pairs}}}], \"device_traces\": []}}")
}

fn with_entries(entries: &str) -> String {
    format!("{{\"segments\": [], \"device_traces\": [[{entries}]]}}")
}

// ---- what is no file at all, or another kind of file

#[test]
fn missing_file() {
    let error = Snapshot::open(testdata("no-such-file")).map(|_| String::new());
    insta::assert_snapshot!(message(error), @"
    FILE cannot be read: No such file or directory (os error 2)
    hint: check the path; `_dump_snapshot` writes to the program's working directory
    ");
}

#[test]
fn directory() {
    let error = Snapshot::open(testdata("layouts")).map(|_| String::new());
    insta::assert_snapshot!(message(error), @"
    FILE cannot be read: this is a directory
    hint: give a snapshot file inside it
    ");
}

#[test]
fn empty_file() {
    insta::assert_snapshot!(refusal(b""), @r#"
    FILE is not a memory snapshot: the input is empty
    hint: the dump did not finish, or the disk was full: write it again with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
}

#[test]
fn empty_file_in_gzip() {
    insta::assert_snapshot!(refusal(&gzip(b"")), @r#"
    FILE is not a memory snapshot: the input is empty
    hint: the dump did not finish, or the disk was full: write it again with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
}

#[test]
fn torch_save() {
    insta::assert_snapshot!(refusal(b"PK\x03\x04\0\0\x08\x08\0\0archive/data.pkl"), @r#"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0x50 0x4b (a zip archive)
    hint: this looks like a `torch.save` file; write a snapshot with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
}

#[test]
fn text() {
    insta::assert_snapshot!(refusal(b"epoch 1 loss 0.5\nepoch 2 loss 0.4\n"), @r#"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0x65 0x70 (text)
    hint: this looks like text, not a snapshot; write one with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
}

#[test]
fn text_that_begins_with_a_bracket() {
    insta::assert_snapshot!(refusal(b"(see below) nothing here\n"), @r#"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0x28 0x73 (text)
    hint: this looks like text, not a snapshot; write one with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
}

#[test]
fn bzip2() {
    insta::assert_snapshot!(refusal(b"BZh91AY&SY\x12\x34"), @"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0x42 0x5a (bzip2)
    hint: decompress it first; highwater reads gzip and zstd directly
    ");
}

#[test]
fn xz() {
    insta::assert_snapshot!(refusal(b"\xfd7zXZ\0\0\x04"), @"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0xfd 0x37 (xz)
    hint: decompress it first; highwater reads gzip and zstd directly
    ");
}

#[test]
fn random_bytes() {
    insta::assert_snapshot!(refusal(&[0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3]), @r#"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0xde 0xad (no known format)
    hint: write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot("run.pickle")` at the end
    "#);
}

#[test]
fn spaces() {
    insta::assert_snapshot!(refusal(b"  \n\n  "), @r#"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0x20 0x20 (text)
    hint: this looks like text, not a snapshot; write one with `torch.cuda.memory._dump_snapshot("run.pickle")`
    "#);
}

#[test]
fn page_without_snapshot() {
    insta::assert_snapshot!(refusal(b"<html><body>404 not found</body></html>"), @r#"
    FILE is not a memory snapshot: this HTML page has no embedded snapshot: no `"base64": "…"` in it
    hint: only pages of `torch.cuda._memory_viz trace_plot` and `segment_plot` embed one; otherwise, dump the pickle itself
    "#);
}

#[test]
fn page_with_other_base64() {
    insta::assert_snapshot!(refusal(b"<html>[{\"name\": \"x\", \"base64\": \"aGVsbG8gd29ybGQ=\"}]</html>"), @"
    FILE is damaged: byte 0: `BINGET` refers to memo slot 101, which was never filled
    hint: nothing could be recovered: copy or dump the file again; a dump that is still being written looks the same
    ");
}

#[test]
fn page_with_broken_base64() {
    insta::assert_snapshot!(refusal(b"<html>[{\"name\": \"x\", \"base64\": \"gAR****dlC4=\"}]</html>"), @"
    FILE is damaged: byte 0: the compressed data are damaged: Invalid symbol 42, offset 3.
    hint: nothing could be recovered: copy or dump the file again; a dump that is still being written looks the same
    ");
}

#[test]
fn broken_gzip() {
    insta::assert_snapshot!(refusal(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff]), @"
    FILE is damaged: byte 0: the compressed data are damaged: corrupt deflate stream
    hint: nothing could be recovered: copy or dump the file again; a dump that is still being written looks the same
    ");
}

#[test]
fn gzip_header_alone() {
    insta::assert_snapshot!(refusal(&[0x1f, 0x8b, 8]), @"
    FILE is damaged: byte 0: the file ends in the middle of the compressed data
    hint: nothing could be recovered: copy or dump the file again; a dump that is still being written looks the same
    ");
}

#[test]
fn a_source_that_fails() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "the disk is gone"))
        }
    }
    insta::assert_snapshot!(message(Snapshot::read(Failing).map(|_| String::new())), @"FILE cannot be read: byte 0: the disk is gone");
    let begun = b"\x80\x04}".chain(Failing);
    insta::assert_snapshot!(message(Snapshot::read(begun).map(|_| String::new())), @"FILE cannot be read: byte 3: the disk is gone");
}

#[test]
fn a_source_that_fails_in_the_middle_is_an_error_and_no_cut_file() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the network is gone"))
        }
    }
    let bytes = recording_bytes("linear_forward");
    let begun = bytes[..3000].chain(Failing);
    insta::assert_snapshot!(message(Snapshot::read(begun).map(|_| String::new())), @"FILE cannot be read: byte 3000: the network is gone");
}

// ---- pickles and JSON of something else

#[test]
fn pickles_of_something_else() {
    let mut messages = String::new();
    for (what, bytes) in [
        ("{}", &b"\x80\x04}."[..]),
        ("{'a': 1}", b"\x80\x04}\x8c\x01aK\x01s."),
        ("{'a': 1, 'b': 2}", b"\x80\x04}(\x8c\x01aK\x01\x8c\x01bK\x02u."),
        ("{1: 2, 3: 4}", b"\x80\x04}(K\x01K\x02K\x03K\x04u."),
        ("[1, 2]", b"\x80\x04](K\x01K\x02e."),
        ("(1, 2)", b"\x80\x04K\x01K\x02\x86."),
        ("'text'", b"\x80\x04\x8c\x04text."),
        ("7", b"\x80\x04K\x07."),
        ("None", b"\x80\x04N."),
        ("b'ab'", b"\x80\x04C\x02ab."),
        ("one entry", b"\x80\x04}(\x8c\x06actionN\x8c\x04addrNu."),
        ("a trace", b"\x80\x04](}(\x8c\x06actionN\x8c\x04addrNu}(\x8c\x06actionN\x8c\x04addrNue."),
        ("{'segments': None}", b"\x80\x04}\x8c\x08segmentsNs."),
        ("JSON {\"a\": 1}", b"{\"a\": 1}"),
        ("JSON [1, 2, 3]", b"[1, 2, 3]"),
    ] {
        writeln!(messages, "{what}: {}", Snapshot::read(bytes).unwrap_err()).unwrap();
    }
    insta::assert_snapshot!(messages, @r#"
    {}: the file holds an empty dict, not a snapshot
    {'a': 1}: a dict with the keys `a` and neither `segments` nor `device_traces`
    {'a': 1, 'b': 2}: a dict with the keys `a`, `b` and neither `segments` nor `device_traces`
    {1: 2, 3: 4}: a dict with the keys `?`, `?` and neither `segments` nor `device_traces`
    [1, 2]: the file holds a list of something else, not a snapshot
    (1, 2): the file holds a pair of numbers, not a snapshot
    'text': the file holds a string, not a snapshot
    7: the file holds a number, not a snapshot
    None: the file holds a single value, not a snapshot
    b'ab': the file holds a single value, not a snapshot
    one entry: the file holds trace entries alone, without the dict around them, not a snapshot
    a trace: the file holds trace entries alone, without the dict around them, not a snapshot
    {'segments': None}: a dict with no key and neither `segments` nor `device_traces`
    JSON {"a": 1}: a dict with the keys `a` and neither `segments` nor `device_traces`
    JSON [1, 2, 3]: the file holds a list of something else, not a snapshot
    "#);
    insta::assert_snapshot!(refusal(b"\x80\x04}."), @r#"
    FILE is not a memory snapshot: the file holds an empty dict, not a snapshot
    hint: write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot("run.pickle")` at the end
    "#);
}

#[test]
fn an_empty_list_is_a_snapshot_without_segments() {
    assert!(Snapshot::read(&b"\x80\x04]."[..]).unwrap().devices().is_empty());
}

// ---- pickles that would run code

#[test]
fn code_is_refused_and_named() {
    let mut messages = String::new();
    for (how, bytes) in [
        ("protocol 0", &b"cos\nsystem\n(S'ls'\ntR."[..]),
        ("protocol 2", b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R."),
        ("protocol 4", b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02ls\x94\x85\x94R\x94."),
        ("INST", b"(S'ls'\nios\nsystem\n."),
        ("OBJ", b"\x80\x02(cos\nsystem\nX\x02\0\0\0lso."),
        ("BUILD", b"\x80\x02}}b."),
        ("NEWOBJ", b"\x80\x02))\x81."),
        ("NEWOBJ_EX", b"\x80\x04))}\x92."),
        ("REDUCE", b"\x80\x02))R."),
        ("EXT1", b"\x80\x02\x82\x01."),
        ("PERSID", b"\x80\x02Pid\n."),
        ("BINPERSID", b"\x80\x02K\x01Q."),
        ("NEXT_BUFFER", b"\x80\x05\x97."),
        ("a name without a module", b"\x80\x04\x93."),
        ("a name that is cut", b"\x80\x02cos"),
        ("control characters", b"\x80\x02c\x1b[31mos\nsystem\n."),
    ] {
        let error = Snapshot::read(bytes).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{how}: {error}");
        let text = error.to_string();
        writeln!(messages, "{how}: {}", text.split_once("; a snapshot").unwrap().0).unwrap();
    }
    insta::assert_snapshot!(messages, @"
    protocol 0: byte 0: `GLOBAL` names the Python object `os.system`
    protocol 2: byte 2: `GLOBAL` names the Python object `os.system`
    protocol 4: byte 19: `STACK_GLOBAL` names the Python object `posix.system`
    INST: byte 7: `INST` names the Python object `os.system`
    OBJ: byte 3: `GLOBAL` names the Python object `os.system`
    BUILD: byte 4: `BUILD` would make or call a Python object
    NEWOBJ: byte 4: `NEWOBJ` would make or call a Python object
    NEWOBJ_EX: byte 5: `NEWOBJ_EX` would make or call a Python object
    REDUCE: byte 4: `REDUCE` would make or call a Python object
    EXT1: byte 2: `EXT1` would make or call a Python object
    PERSID: byte 2: `PERSID` would make or call a Python object
    BINPERSID: byte 4: `BINPERSID` would make or call a Python object
    NEXT_BUFFER: byte 2: `NEXT_BUFFER` would make or call a Python object
    a name without a module: byte 2: `STACK_GLOBAL` names the Python object `?.?`
    a name that is cut: byte 2: `GLOBAL` names the Python object ``
    control characters: byte 2: `GLOBAL` names the Python object ` [31mos.system`
    ");
    insta::assert_snapshot!(refusal(b"cos\nsystem\n(S'ls'\ntR."), @"
    FILE is not safe to load: byte 0: `GLOBAL` names the Python object `os.system`; a snapshot holds plain data only, so this file is refused and nothing in it was run
    hint: do not open this file with Python's `pickle` either: it would run that code
    ");
}

#[test]
fn code_behind_good_data_is_refused_all_the_same() {
    let mut bytes = layout_bytes("torch_2_1.pickle");
    let stop = bytes.pop();
    bytes.extend_from_slice(b"0cos\nsystem\n(S'ls'\ntR.");
    assert_eq!(stop, Some(b'.'));
    assert!(matches!(Snapshot::read(bytes.as_slice()).unwrap_err().kind(), ErrorKind::Refused { .. }));
}

// ---- machines out of order

#[test]
fn damaged_pickles() {
    let mut messages = String::new();
    for bytes in [
        &b"\x80"[..],
        b"\x80\x04",
        b"\x80\x04.",
        b"\x80\x04\xff",
        b"\x80\x04h\x00.",
        b"\x80\x04j\xff\xff\xff\xff.",
        b"\x80\x04u.",
        b"\x80\x04(u.",
        b"\x80\x04}(K\x01u.",
        b"\x80\x04K\x01K\x02s.",
        b"\x80\x04Na.",
        b"\x80\x04e.",
        b"\x80\x04t.",
        b"\x80\x04\x86.",
        b"\x80\x04\x94.",
        b"\x80\x04q\x00.",
        b"\x80\x04Iabc\n.",
        b"\x80\x04F1.2.3\n.",
        b"\x80\x04S'open\n.",
        b"\x80\x04gx\n.",
        b"\x80\x04\x8c\x05ab",
        b"\x80\x04X\xff\xff\xff\x7fab",
        b"\x80\x04\x8d\0\0\0\0\0\0\0\x10ab",
        b"\x80\x04\x8e\0\0\0\0\0\0\0\x10ab",
        b"\x80\x04\x8b\xff\xff\xff\x7fab",
    ] {
        writeln!(messages, "{}", Snapshot::read(bytes).unwrap_err()).unwrap();
    }
    insta::assert_snapshot!(messages, @"
    byte 1: the file ends in the middle of the protocol
    byte 2: the file ends in the middle of an opcode
    byte 2: `STOP` finds too few values on the stack
    byte 2: 0xff is no pickle opcode
    byte 2: `BINGET` refers to memo slot 0, which was never filled
    byte 2: `BINGET` refers to memo slot 4294967295, which was never filled
    byte 2: `SETITEMS` has no `MARK` before it
    byte 3: `SETITEMS` has no dict below its items
    byte 6: `SETITEMS` has a key without a value
    byte 6: `SETITEM` has no dict below its items
    byte 3: `APPEND` has no list below its items
    byte 2: `APPENDS` has no `MARK` before it
    byte 2: `TUPLE` has no `MARK` before it
    byte 2: `TUPLE2` finds too few values on the stack
    byte 2: `MEMOIZE` finds too few values on the stack
    byte 2: `BINPUT` finds too few values on the stack
    byte 2: `INT` has the unreadable argument `abc`
    byte 2: `FLOAT` has the unreadable argument `1.2.3`
    byte 2: `STRING` has the unreadable argument `'open`
    byte 2: `GET` has the unreadable argument `x`
    byte 6: the file ends in the middle of a string
    byte 7: a string exceeds the limit of 67108864
    byte 11: a string exceeds the limit of 67108864
    byte 11: bytes exceeds the limit of 67108864
    byte 7: a number exceeds the limit of 67108864
    ");
    insta::assert_snapshot!(refusal(b"\x80\x04h\x00."), @"
    FILE is damaged: byte 2: `BINGET` refers to memo slot 0, which was never filled
    hint: nothing could be recovered: copy or dump the file again; a dump that is still being written looks the same
    ");
    insta::assert_snapshot!(refusal(b"\x80\x04\x8d\0\0\0\0\0\0\0\x10ab"), @"
    FILE is damaged: byte 11: a string exceeds the limit of 67108864
    hint: no PyTorch snapshot comes near this limit; if this file is a real one, please report it
    ");
}

#[test]
fn deep_nesting() {
    let marks = [b"\x80\x04".as_slice(), &vec![b'('; 100_000]].concat();
    insta::assert_snapshot!(refusal(&marks), @"
    FILE is damaged: byte 1002: the nesting of `MARK` exceeds the limit of 1000
    hint: no PyTorch snapshot comes near this limit; if this file is a real one, please report it
    ");
    let lists = [b"\x80\x04".as_slice(), &vec![b']'; 100_000], &vec![b'a'; 99_999], b"."].concat();
    insta::assert_snapshot!(refusal(&lists), @"
    FILE is damaged: byte 87383: the number of containers so far exceeds the limit of 87381
    hint: no PyTorch snapshot comes near this limit; if this file is a real one, please report it
    ");
    let dicts = [b"\x80\x04}".as_slice(), &b"N}".repeat(100_000), &vec![b's'; 100_000], b"."].concat();
    insta::assert_snapshot!(refusal(&dicts), @"
    FILE is damaged: byte 131074: the height of the stack exceeds the limit of 131072
    hint: no PyTorch snapshot comes near this limit; if this file is a real one, please report it
    ");
    let tuples = [b"\x80\x04N".as_slice(), &vec![0x85; 100_000], b"."].concat();
    insta::assert_snapshot!(refusal(&tuples), @"
    FILE is damaged: byte 1369: the number of tiny lists and dicts so far exceeds the limit of 1366
    hint: no PyTorch snapshot comes near this limit; if this file is a real one, please report it
    ");
    insta::assert_snapshot!(refusal(&vec![b'['; 100_000]), @"
    FILE is damaged: the file ends in the middle of the JSON text
    hint: nothing could be recovered: copy or dump the file again; a dump that is still being written looks the same
    ");
    insta::assert_snapshot!(refusal("{\"segments\":".repeat(100_000).as_bytes()), @r#"
    FILE is not a memory snapshot: not readable as JSON: recursion limit exceeded at line 1 column 1525
    hint: write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot("run.pickle")` at the end
    "#);
}

#[test]
fn a_deep_value_under_an_unknown_key_is_shown_in_part() {
    let mut bytes = b"\x80\x04}(\x8c\x08segments]\x8c\x01x".to_vec();
    bytes.extend_from_slice(&vec![b']'; 300]);
    bytes.extend_from_slice(&vec![b'a'; 299]);
    bytes.extend_from_slice(b"u.");
    let snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    insta::assert_snapshot!(snapshot.extras[0].1, @r#"[[[[[[[[["…"]]]]]]]]]"#);
}

#[test]
fn containers_that_hold_themselves_are_read() {
    // d = {'segments': [], 'self': d}, and a list that holds itself.
    let own = b"\x80\x04}\x94(\x8c\x08segments]\x8c\x04selfh\x00\x8c\x04list]\x94h\x01au.";
    insta::assert_snapshot!(oddities(own), @"
    unknown key `self` in the snapshot
    unknown key `list` in the snapshot
    ");
    let snapshot = Snapshot::read(&own[..]).unwrap();
    insta::assert_snapshot!(format!("{:?}", snapshot.extras), @r#"[("self", "{}"), ("list", "[[[[[[[[[\"…\"]]]]]]]]]")]"#);
    let segments = b"\x80\x04]\x94h\x00a.";
    insta::assert_snapshot!(refusal(segments), @r#"
    FILE is not a memory snapshot: the file holds a list of something else, not a snapshot
    hint: write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot("run.pickle")` at the end
    "#);
}

#[test]
fn a_zip_bomb_of_zeros_is_refused_at_once() {
    /// Gzip members that inflate to ten gigabytes, given without end.
    struct Bomb {
        member: Vec<u8>,
        given: usize,
    }
    impl Read for Bomb {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(self.given < 10 << 20, "the bomb is read on");
            let from = self.given % self.member.len();
            let count = buffer.len().min(self.member.len() - from);
            buffer[..count].copy_from_slice(&self.member[from..from + count]);
            self.given += count;
            Ok(count)
        }
    }
    let begun = highwater_testkit::processor_time();
    let bomb = Bomb { member: gzip(&vec![0; 16 << 20]), given: 0 };
    insta::assert_snapshot!(message(Snapshot::read(bomb).map(|_| String::new())), @r#"
    FILE is not a memory snapshot: byte 0: expected a pickle header (0x80), found 0x00 0x00 (no known format)
    hint: write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot("run.pickle")` at the end
    "#);
    // Also behind a pickle that has ended.
    let bomb = Bomb { member: gzip(&vec![0; 16 << 20]), given: 0 };
    let snapshot = Snapshot::read(gzip(b"\x80\x04].").chain(bomb)).unwrap();
    assert!(snapshot.warnings.is_empty());
    let taken = highwater_testkit::processor_time().saturating_sub(begun);
    assert!(taken < Duration::from_secs(5), "{taken:?}");
}

// ---- JSON

#[test]
fn broken_json() {
    let json = as_json(&layout("one_event.pickle"));
    let mut messages = String::new();
    for bytes in [
        &json[..15],
        b"{\"segments\" []}",
        b"{segments: []}",
        b"{\"segments\": [1e999]}",
        b"{\"segments\": [\"\\ud800\"]}",
        b"{\"segments\": []} and more",
        b"[1, 2",
        b"[nan]",
    ] {
        writeln!(messages, "{}", Snapshot::read(bytes).unwrap_err()).unwrap();
    }
    insta::assert_snapshot!(messages, @"
    the file ends in the middle of the JSON text
    not readable as JSON: expected `:` at line 1 column 13
    not readable as JSON: key must be a string at line 1 column 2
    not readable as JSON: number out of range at line 1 column 20
    not readable as JSON: unexpected end of hex escape at line 1 column 22
    not readable as JSON: trailing characters at line 1 column 18
    the file ends in the middle of the JSON text
    not readable as JSON: expected ident at line 1 column 3
    ");
    insta::assert_snapshot!(refusal(&json[..15]), @"
    FILE is damaged: the file ends in the middle of the JSON text
    hint: nothing could be recovered: copy or dump the file again; a dump that is still being written looks the same
    ");
    insta::assert_snapshot!(refusal(b"{segments: []}"), @r#"
    FILE is not a memory snapshot: not readable as JSON: key must be a string at line 1 column 2
    hint: write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and `torch.cuda.memory._dump_snapshot("run.pickle")` at the end
    "#);
}

#[test]
fn json_that_breaks_in_the_middle_gives_what_came_before() {
    let json = String::from_utf8(as_json(&recording("linear_forward"))).unwrap();
    let half = json.len() / 2;
    let broken = format!("{}\u{1}{}", &json[..half], &json[half..]);
    let snapshot = Snapshot::read(broken.as_bytes()).unwrap();
    assert!(snapshot.cut.is_some());
    assert!(!snapshot.segments.is_empty());
}

// ---- values that cannot be

#[test]
fn sizes_that_cannot_be_count_as_zero() {
    let sizes = [
        "-1",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
        "1125899906842624",
        "1125899906842625",
        "1e30",
        "1.5",
        "true",
        "null",
        "\"1\"",
        "[]",
    ];
    let entries = sizes.map(|size| format!("{{\"action\": \"alloc\", \"addr\": 512, \"size\": {size}}}")).join(",");
    let snapshot = Snapshot::read(with_entries(&entries).as_bytes()).unwrap();
    assert_eq!(snapshot.traces[0].sizes_bytes(), [0, 0, 0, 0, 1 << 50, 0, 0, 1, 1, 0, 0, 0]);
    insta::assert_snapshot!(warnings(&snapshot), @"
    `size` is -1, expected 0 to 2^50; it counts as 0
    `size` is -9223372036854775808, expected 0 to 2^50; it counts as 0
    `size` is 9223372036854775808, expected 0 to 2^50; it counts as 0
    `size` is 18446744073709551615, expected 0 to 2^50; it counts as 0
    `size` is 1125899906842625, expected 0 to 2^50; it counts as 0
    `size` is not a number; it counts as 0 (4 times)
    ");
}

#[test]
fn times_that_cannot_be_are_none() {
    // NaN, infinity and text, as protocol 4; JSON cannot say the first two.
    let times = [b"G\x7f\xf8\0\0\0\0\0\0".as_slice(), b"G\x7f\xf0\0\0\0\0\0\0", b"\x8c\x03now", b"N", b"K\x07"];
    let mut bytes = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](](".to_vec();
    for time in times {
        bytes.extend_from_slice(b"}(\x8c\x06action\x8c\x05alloc\x8c\x07time_us");
        bytes.extend_from_slice(time);
        bytes.push(b'u');
    }
    bytes.extend_from_slice(b"eeu.");
    let snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    let trace = &snapshot.traces[0];
    assert_eq!(trace.ids().map(|id| trace.time_us(id)).collect::<Vec<_>>(), [None, None, None, None, Some(7)]);
    insta::assert_snapshot!(warnings(&snapshot), @"
    `time_us` is not a time; the entry is kept without one (3 times, first: byte 69)
    an allocation has no `size`; it counts as 0 bytes (5 times, first: byte 69)
    ");
}

#[test]
fn overlapping_segments_are_told() {
    let overlapping = r#"{"segments": [
        {"device": 0, "address": 0, "total_size": 4096}, {"device": 0, "address": 2048, "total_size": 4096},
        {"device": 1, "address": 2048, "total_size": 4096}, {"device": 0, "address": 8192, "total_size": 4096}]}"#;
    insta::assert_snapshot!(oddities(overlapping.as_bytes()), @"
    a segment has no blocks; all of it counts as free (4 times)
    segments overlap at 0x800; that memory is counted twice (device 0)
    ");
}

#[test]
fn blocks_that_do_not_tile_are_told() {
    let block =
        |address: u64, size: u64| format!("{{\"address\": {address}, \"size\": {size}, \"state\": \"inactive\"}}");
    let base = 1 << 20;
    let tiled = with_segment(&format!("\"blocks\": [{}, {}]", block(base, 512), block(base + 512, 512)));
    assert_eq!(oddities(tiled.as_bytes()), "");
    for blocks in [
        [block(base, 512), block(base + 256, 512)],
        [block(base, 512), block(base + 768, 256)],
        [block(base + 512, 512), block(base, 512)],
        [block(base, 512), block(base + 512, 1 << 40)],
        [block(base, 512), block(u64::MAX - 10, 512)],
    ] {
        let text = with_segment(&format!("\"blocks\": [{}]", blocks.join(",")));
        let found = oddities(text.as_bytes());
        assert!(found.starts_with("the blocks of a segment do not cover it exactly"), "{blocks:?}: {found}");
    }
    insta::assert_snapshot!(
        oddities(with_segment(&format!("\"blocks\": [{}]", block(base, 512))).as_bytes()),
        @"the blocks of a segment do not cover it exactly; its totals are those of its blocks"
    );
}

#[test]
fn totals_of_sizes_near_the_limit_do_not_overflow() {
    let block = "{\"size\": 1125899906842624, \"requested_size\": 1125899906842624, \"state\": \"active_allocated\"}";
    let text = with_segment(&format!("\"blocks\": [{}]", vec![block; 20_000].join(",")));
    let snapshot = Snapshot::read(text.as_bytes()).unwrap();
    assert_eq!(snapshot.end_totals(0).allocated_bytes, 1 << 59);
}

#[test]
fn what_is_not_where_it_belongs_is_left_out_and_told() {
    insta::assert_snapshot!(oddities(b"{\"segments\": 5, \"device_traces\": 5}"), @"
    `segments` holds something that does not belong there; it is left out
    `device_traces` holds something that does not belong there; it is left out
    ");
    insta::assert_snapshot!(oddities(b"{\"segments\": [1, {}, [], null], \"device_traces\": [1, {}, [2, {}]]}"), @"
    `segments` holds something that does not belong there; it is left out (4 times)
    `device_traces` holds something that does not belong there; it is left out (4 times)
    ");
    insta::assert_snapshot!(oddities(with_entries("{\"action\": \"alloc\", \"frames\": 5}").as_bytes()), @"
    `frames` is not a list of frames; it is left out
    an allocation has no `size`; it counts as 0 bytes
    ");
    insta::assert_snapshot!(oddities(with_entries("{\"action\": \"alloc\", \"frames\": [5, \"f\"]}").as_bytes()), @"
    `frames` holds more than frames; the rest is left out
    an allocation has no `size`; it counts as 0 bytes
    ");
    insta::assert_snapshot!(oddities(with_entries("{\"action\": 5, \"stream\": \"x\", \"pool_id\": 5}").as_bytes()), @"entries have the unknown action `5`; they are kept but not replayed");
    insta::assert_snapshot!(oddities(with_segment("\"blocks\": [{\"size\": 1024, \"state\": 7}]").as_bytes()), @"a block has the unknown state ``; it counts as inactive");
}

#[test]
fn text_that_is_not_utf8_is_shown_with_replacements() {
    let bytes = b"\x80\x04}(\x8c\x08segments]\x8c\x01x\x8c\x03a\xffbu.";
    insta::assert_snapshot!(oddities(bytes), @"
    a string is not UTF-8; its bad bytes are shown as `�` (byte 20)
    unknown key `x` in the snapshot
    ");
    assert_eq!(Snapshot::read(&bytes[..]).unwrap().extras[0].1, "a\u{fffd}b");
}

#[test]
fn bytes_behind_the_end_are_told() {
    let bytes = [layout_bytes("one_event.pickle"), b"\0\0again".to_vec()].concat();
    insta::assert_snapshot!(oddities(&bytes), @"there are more bytes after the end of the pickle; they are ignored (byte 268)");
}

#[test]
fn unknown_actions_beyond_the_codes_have_no_name_of_another() {
    let entries: Vec<String> = (0..300).map(|number| format!("{{\"action\": \"new {number}\"}}")).collect();
    let snapshot = Snapshot::read(with_entries(&entries.join(", ")).as_bytes()).unwrap();
    let names: Vec<&str> = snapshot.traces[0].actions().iter().map(|&action| snapshot.action_name(action)).collect();
    assert_eq!([names[0], names[244], names[245], names[299]], ["new 0", "new 244", "other actions", "other actions"]);
}

#[test]
fn an_unknown_protocol_is_told() {
    insta::assert_snapshot!(oddities(b"\x80\x09]."), @"the pickle has the unknown protocol 9 (byte 0)");
}

#[test]
fn a_row_that_two_lists_name_counts_once() {
    // One entry, listed twice by device 0 and once by device 1.
    let entry = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x09u\x94";
    let bytes = [b"\x80\x04}(\x8c\x0ddevice_traces](](", &entry[..], b"h\x00e](h\x00eeu."].concat();
    let snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(snapshot.traces.iter().map(highwater_snapshot::EntryTable::len).collect::<Vec<_>>(), [1, 0]);
    insta::assert_snapshot!(warnings(&snapshot), @"an entry is listed more than once; only the first counts (2 times)");
    // One list of blocks, in two segments.
    let segment = b"}(\x8c\x0atotal_sizeK\x08\x8c\x06blocksh\x00u";
    let blocks = b"](}(\x8c\x04sizeK\x08\x8c\x05state\x8c\x10active_allocatedue\x940";
    let bytes = [b"\x80\x04}(\x8c\x08segments](", &blocks[..], &segment[..], &segment[..], b"eu."].concat();
    let snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(snapshot.end_totals(0).allocated_bytes, 8);
    insta::assert_snapshot!(warnings(&snapshot), @"
    two segments share one list of blocks; the second gets none (byte 110)
    a segment has no blocks; all of it counts as free (byte 110)
    segments overlap at 0x0; that memory is counted twice (device 0)
    ");
    // One segment twice.
    let segment = b"}(\x8c\x0atotal_sizeK\x08\x8c\x07addressK\x00u\x94";
    let bytes = [b"\x80\x04}(\x8c\x08segments](", &segment[..], b"h\x00eu."].concat();
    let snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(snapshot.end_totals(0).reserved_bytes, 8);
    insta::assert_snapshot!(warnings(&snapshot), @"
    a segment has no blocks; all of it counts as free (byte 43)
    `segments` holds something that does not belong there; it is left out
    ");
}
