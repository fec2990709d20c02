//! Snapshots whose parts do not say the same, or leave out what the totals rest on: read, and told.

use highwater_snapshot::Snapshot;
use highwater_testkit::warnings;

const MIB: u64 = 1 << 20;

/// What was odd about a snapshot with these segments.
fn of_segments(segments: &str) -> (Snapshot, String) {
    let snapshot = Snapshot::read(format!("{{\"segments\": [{segments}], \"device_traces\": []}}").as_bytes()).unwrap();
    let told = warnings(&snapshot);
    (snapshot, told)
}

/// A segment of one block of a mebibyte, with these pairs beside.
fn segment(number: u64, pairs: &str, block: &str) -> String {
    let address = (number + 1) * MIB;
    format!(
        "{{\"address\": {address}, \"total_size\": {MIB}, {pairs}, \"blocks\": [{{\"address\": {address}, {block}}}]}}"
    )
}

const ACTIVE: &str = "\"size\": 1048576, \"requested_size\": 1048000, \"state\": \"active_allocated\"";

fn on(device: &str) -> String {
    segment(0, &format!("\"device\": {device}"), ACTIVE)
}

#[test]
fn a_device_that_is_no_number_of_one_is_told() {
    for (device, shown) in [("-1", "-1"), ("1099511627776", "1099511627776"), ("null", "null"), ("\"gpu\"", "gpu")] {
        let (snapshot, told) = of_segments(&on(device));
        assert!(snapshot.devices().is_empty());
        assert_eq!(
            told,
            format!("a segment is on device `{shown}`, expected a number from 0 to 2^31 - 1; it is left out\n")
        );
    }
    let (_, told) = of_segments(&[on("-1"), on("null"), on("null")].join(","));
    insta::assert_snapshot!(told, @"
    a segment is on device `-1`, expected a number from 0 to 2^31 - 1; it is left out
    a segment is on device `null`, expected a number from 0 to 2^31 - 1; it is left out (2 times)
    ");
}

#[test]
fn the_name_of_a_device_is_its_number() {
    for (device, number) in [("\"cuda\"", 0), ("\"cuda:0\"", 0), ("\"cuda:3\"", 3), ("3", 3), ("3.0", 3)] {
        let (snapshot, told) = of_segments(&on(device));
        assert_eq!((snapshot.devices(), told.as_str()), (vec![number], ""));
    }
    for name in ["\"cuda:\"", "\"cuda:-1\"", "\"cuda0\"", "\"cuda:99999999999\"", "\"cpu\""] {
        let (snapshot, told) = of_segments(&on(name));
        assert!(snapshot.devices().is_empty() && told.contains("a segment is on device"), "{name}: {told}");
    }
}

#[test]
fn pinned_host_memory_is_on_no_device_and_that_is_not_odd() {
    let text = format!("{{\"segments\": [], \"device_traces\": [], \"host_segments\": [{}]}}", on("-1"));
    let snapshot = Snapshot::read(text.as_bytes()).unwrap();
    assert_eq!((snapshot.host.as_ref().map(|host| host.segments.len()), warnings(&snapshot)), (Some(1), String::new()));
}

#[test]
fn sums_of_a_segment_that_are_not_those_of_its_blocks_are_told_once() {
    let own = |allocated: u64, active: u64, requested: u64| {
        format!("\"allocated_size\": {allocated}, \"active_size\": {active}, \"requested_size\": {requested}")
    };
    let (_, told) = of_segments(&segment(0, &own(MIB, MIB, 1_048_000), ACTIVE));
    assert_eq!(told, "");
    for own in [own(MIB, MIB, 5), own(MIB, 5, 1_048_000), own(5, MIB, 1_048_000)] {
        let (_, told) = of_segments(&segment(0, &own, ACTIVE));
        assert!(told.starts_with("a segment reports 5 bytes as "), "{told}");
    }
    let (_, told) = of_segments(&[segment(0, &own(7, 7, 7), ACTIVE), segment(1, &own(8, 8, 8), ACTIVE)].join(","));
    insta::assert_snapshot!(told, @"a segment reports 7 bytes as allocated, and its blocks 1048576; the blocks count (2 times)");
}

#[test]
fn blocks_without_a_state_and_segments_without_blocks_are_told() {
    let own = "\"allocated_size\": 1048576, \"active_size\": 1048576";
    let (snapshot, told) = of_segments(&segment(0, own, "\"size\": 1048576, \"requested_size\": 1048576"));
    assert_eq!((snapshot.blocks.len(), snapshot.end_totals(0).allocated_bytes), (1, 0));
    insta::assert_snapshot!(told, @"
    a block has no `state`; it counts as inactive
    a segment reports 1048576 bytes as allocated, and its blocks 0; the blocks count
    ");
    let (_, told) = of_segments(&format!("{{\"address\": {MIB}, \"total_size\": {MIB}, {own}}}"));
    insta::assert_snapshot!(told, @"
    a segment has no blocks; all of it counts as free
    a segment reports 1048576 bytes as allocated, and its blocks 0; the blocks count
    ");
    let (_, told) =
        of_segments(&format!("{{\"address\": {MIB}, \"total_size\": {MIB}, \"blocks\": [5, {{\"size\": 3}}]}}"));
    insta::assert_snapshot!(told, @"
    `blocks` holds something that does not belong there; it is left out (2 times)
    a segment has no blocks; all of it counts as free
    ");
}

#[test]
fn allocations_without_a_size_are_told() {
    let entries = |entries: &str| {
        let text = format!("{{\"segments\": [], \"device_traces\": [[{entries}]]}}");
        warnings(&Snapshot::read(text.as_bytes()).unwrap())
    };
    let told = entries("{\"action\": \"alloc\", \"addr\": 1}, {\"action\": \"segment_alloc\", \"addr\": 1}");
    insta::assert_snapshot!(told, @"an allocation has no `size`; it counts as 0 bytes (2 times)");
    assert_eq!(entries("{\"action\": \"snapshot\", \"addr\": 1}, {\"action\": \"free_completed\", \"addr\": 1}"), "");
}

#[test]
fn no_sum_of_sizes_leaves_what_a_number_can_hold() {
    const PIB: u64 = 1 << 50;
    let entry = |number: usize| format!("{{\"action\": \"alloc\", \"addr\": {number}, \"size\": {PIB}}}");
    let entries: Vec<String> = (0..17_000).map(entry).collect();
    let text = format!("{{\"segments\": [], \"device_traces\": [[{}]]}}", entries.join(","));
    let snapshot = Snapshot::read(text.as_bytes()).unwrap();
    assert_eq!(snapshot.traces[0].sizes_bytes().iter().sum::<u64>(), 1 << 60);
    insta::assert_snapshot!(warnings(&snapshot), @"the sizes in this file add up to more than 2^60 bytes; those beyond count as 0 (15976 times)");
}

fn pickled_text(text: &str) -> Vec<u8> {
    [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn pickled_pair(key: &str, number: i64) -> Vec<u8> {
    [&pickled_text(key)[..], &[0x8a, 8], &number.to_le_bytes()].concat()
}

/// A pickle with these segments, after text that is read and dropped: a longer file may list a row more often.
fn pickle_of_segments(segments: &[u8]) -> Vec<u8> {
    const DROPPED: usize = 400_000;
    let dropped = [b"X", &u32::try_from(DROPPED).unwrap().to_le_bytes()[..], &b"a".repeat(DROPPED), b"0"].concat();
    let (first, second) = (pickled_text("segments"), pickled_text("device_traces"));
    [b"\x80\x04", &dropped[..], b"}(", &first, b"](", segments, b"e", &second, b"]u."].concat()
}

/// A file may list one block again and again by its place in the memo: the sum over such a list is more than 64 bits hold.
#[test]
fn the_sums_of_a_block_that_a_segment_lists_over_and_over_saturate() {
    let size = 1 << 50;
    let address = pickled_pair("address", 1 << 20);
    let block = [&address[..], &pickled_pair("size", size), &pickled_text("state"), &pickled_text("active_allocated")];
    let own = [&address[..], &pickled_pair("total_size", size), &pickled_pair("allocated_size", 1)];
    let (own, block, repeated) = (own.concat(), block.concat(), b"h\x00".repeat(20_000));
    let segment = [b"}(", &own[..], &pickled_text("blocks"), b"](}(", &block, b"u\x94", &repeated, b"eu"].concat();
    let snapshot = Snapshot::read(pickle_of_segments(&segment).as_slice()).unwrap();
    assert_eq!(snapshot.segments[0].blocks.len(), 20_001);
    let told = warnings(&snapshot);
    assert!(told.contains(&format!("1 bytes as allocated, and its blocks {}", u64::MAX)), "{told}");
}

#[test]
fn a_segment_on_no_device_that_is_listed_twice_is_told_once() {
    let own = [pickled_pair("address", 1 << 20), pickled_pair("total_size", 512), pickled_pair("device", -1)].concat();
    let segment = [b"}(", &own[..], &pickled_text("blocks"), b"]u\x94h\x00"].concat();
    let told = warnings(&Snapshot::read(pickle_of_segments(&segment).as_slice()).unwrap());
    assert!(told.contains("on device `-1`, expected a number from 0 to 2^31 - 1; it is left out\n"), "{told}");
}
