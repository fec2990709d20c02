//! Small files that would become large: each is refused while it is still small.

use std::io::Read;

use highwater_snapshot::{ErrorKind, Snapshot, Unpacking};
use highwater_testkit::{gzip, refusal};

use crate::common::layout_bytes;

/// A pickle of an empty list, after so many bytes that leave nothing behind.
fn padded(bytes: usize) -> Vec<u8> {
    [b"\x80\x04", &b"N0".repeat(bytes / 2)[..], b"]."].concat()
}

#[test]
fn a_stack_that_holds_nothing_of_use_ends_the_reading() {
    for (unit, end) in [(&b"N"[..], &b"e."[..]), (b"2", b"."), (b"K\x00", b"e."), (b"\x88", b"t.")] {
        let bytes = [b"\x80\x04](", &unit.repeat(1_000_000)[..], end].concat();
        let error = Snapshot::read(bytes.as_slice()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Limit { what: "the height of the stack", .. }), "{error}");
    }
    insta::assert_snapshot!(refusal(&[b"\x80\x04](", &b"N".repeat(1_000_000)[..]].concat()), @"
    FILE is damaged: byte 131075: the height of the stack exceeds the limit of 65537
    hint: no PyTorch snapshot comes near this limit; if this file is a real one, please report it
    ");
}

#[test]
fn containers_that_nothing_fills_end_the_reading() {
    for unit in [&b"]"[..], b"}", b")", b"\x8f", b"]\x94"] {
        let bytes = [b"\x80\x04](", &unit.repeat(1_000_000)[..], b"e."].concat();
        let error = Snapshot::read(bytes.as_slice()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Limit { what: "the number of containers so far", .. }), "{error}");
    }
}

/// PyTorch's C++ writer leaves a whole trace on the stack before it says `APPENDS`.
#[test]
fn a_long_list_that_is_written_at_once_is_read() {
    const ENTRIES: usize = 300_000;
    let mut bytes = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](](".to_vec();
    bytes.extend_from_slice(b"}(\x8c\x06action\x94\x8c\x05alloc\x94\x8c\x04addr\x94K\x00\x8c\x04size\x94K\x08u");
    for _ in 1..ENTRIES {
        bytes.extend_from_slice(b"}(h\x00h\x01h\x02K\x00h\x03K\x08u");
    }
    bytes.extend_from_slice(b"eeu.");
    let snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(snapshot.traces[0].len(), ENTRIES);
    assert!(snapshot.warnings.is_empty());
}

#[test]
fn a_compressed_file_may_not_become_two_hundred_times_as_large() {
    let bomb = gzip(&padded(80 << 20));
    let message = refusal(&bomb);
    assert!(message.starts_with("FILE is too large when unpacked: "), "{message}");
    assert!(message.contains("64 MiB, which is more than 200 times as much"), "{message}");
    assert!(message.contains("`--allow-any-size`"), "{message}");
    assert!(Snapshot::read_with(bomb.as_slice(), Unpacking::Unbounded).is_ok());
    // What is not compressed, and what is below 64 MiB, is not concerned.
    assert!(Snapshot::read(padded(80 << 20).as_slice()).is_ok());
    assert!(Snapshot::read(gzip(&padded(60 << 20)).as_slice()).is_ok());
    // Also where the inner layer is the large one, or holds nothing.
    assert!(matches!(Snapshot::read(gzip(&bomb).as_slice()).unwrap_err().kind(), ErrorKind::Overgrown { .. }));
    let nothing = gzip(&gzip(b"").repeat(4 << 20));
    let error = Snapshot::read(nothing.as_slice()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Overgrown { .. }), "{error}, {} bytes", nothing.len());
}

#[test]
fn json_and_text_are_held_to_the_same() {
    let json = gzip(&[&b"["[..], &vec![b' '; 80 << 20], b"]"].concat());
    assert!(matches!(Snapshot::read(json.as_slice()).unwrap_err().kind(), ErrorKind::Overgrown { .. }));
    let error = highwater_snapshot::decompressed(json.as_slice(), Unpacking::Bounded)
        .unwrap()
        .read_to_end(&mut Vec::new())
        .unwrap_err();
    let error = highwater_snapshot::Error::of_reading(error);
    assert!(matches!(error.kind(), ErrorKind::Overgrown { .. }), "{error}");
}

#[test]
fn two_layers_of_compression_are_read_and_no_third() {
    let twice = gzip(&gzip(&layout_bytes("torch_2_1.pickle")));
    assert!(Snapshot::read(twice.as_slice()).is_ok());
    insta::assert_snapshot!(refusal(&gzip(&twice)), @"
    FILE is damaged: the number of compressed layers exceeds the limit of 2
    hint: no PyTorch snapshot comes near this limit; if this file is a real one, please report it
    ");
}
