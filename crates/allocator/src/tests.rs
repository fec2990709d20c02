//! Claims that no golden file makes: releases and settings without one, and what a program cannot ask.

use crate::{
    AddressPolicy, Allocator, Failure, OutOfMemory, PoolFlags, Settings, TorchVersion, Undefined, VirtualDevice,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

type Tested = Allocator<VirtualDevice>;

/// An allocator on a device of 1 GiB.
fn allocator(minor: u16, conf: &str) -> Tested {
    let mut settings = Settings::new(TorchVersion::v2(minor));
    settings.parse(conf).unwrap();
    Allocator::new(VirtualDevice::new(1 << 30, 0, AddressPolicy::FirstFit), settings, ())
}

/// Where a request of stream 0 lies.
fn address_of(allocator: &mut Tested, bytes: u64) -> u64 {
    let block = allocator.malloc(bytes, 0).unwrap().unwrap();
    allocator.address(block)
}

fn reserved(allocator: &Tested) -> u64 {
    allocator.statistics().reserved_bytes.all().current
}

fn out_of_memory(allocator: &mut Tested, bytes: u64) -> OutOfMemory {
    match allocator.malloc(bytes, 0) {
        Err(Failure::OutOfMemory(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_block_lies_where_it_was_cut_and_is_as_large_as_rounded() {
    let mut allocator = allocator(11, "");
    let blocks = [1000, 3 * KIB].map(|bytes| allocator.malloc(bytes, 0).unwrap().unwrap());
    assert_eq!(blocks.map(|block| allocator.address(block)), [0, 1024]);
    assert_eq!(blocks.map(|block| allocator.size_bytes(block)), [1024, 3 * KIB]);
}

#[test]
fn a_limit_in_bytes_may_be_reached_and_not_exceeded() {
    let mut allocator = allocator(11, "");
    allocator.set_limit_bytes(Some(4 * MIB));
    for _ in 0..4 {
        allocator.malloc(MIB, 0).unwrap();
    }
    assert_eq!(out_of_memory(&mut allocator, 1).limit_bytes, Some(4 * MIB));
    allocator.set_limit_bytes(None);
    allocator.malloc(1, 0).unwrap();
}

#[test]
fn up_to_2_5_an_oversize_block_is_less_than_20_mib_larger_than_its_request() {
    for (minor, takes_81) in [(5, true), (6, false)] {
        let mut allocator = allocator(minor, "max_split_size_mb:64");
        allocator.settings_mut().max_non_split_rounding_bytes = 19 * MIB;
        let cached = allocator.malloc(100 * MIB, 0).unwrap().unwrap();
        allocator.free(cached);
        address_of(&mut allocator, 80 * MIB);
        assert_eq!(reserved(&allocator), 180 * MIB, "a block 20 MiB larger is not taken");
        address_of(&mut allocator, 81 * MIB);
        assert_eq!(reserved(&allocator) == 180 * MIB, takes_81, "2.{minor}");
    }
}

#[test]
fn of_blocks_alike_2_12_takes_the_oldest_object_and_others_the_lowest_address() {
    for (minor, expected) in [(11, 0), (12, 1536 * KIB), (13, 0)] {
        let mut allocator = allocator(minor, "");
        let quarters = [0; 4].map(|_| allocator.malloc(512 * KIB, 0).unwrap().unwrap());
        // What is cut off is a new object: the last quarter is what became of the segment's own.
        allocator.free(quarters[3]);
        allocator.free(quarters[0]);
        assert_eq!(address_of(&mut allocator, 512 * KIB), expected, "2.{minor}");
    }
}

#[test]
fn a_failure_is_told_with_what_the_allocator_and_the_device_held() {
    let mut allocator = allocator(15, "expandable_segments:True,expandable_segments_reserve:0.5");
    allocator.begin_pool(7, None).unwrap();
    let private = allocator.malloc(30 * MIB, 0).unwrap().unwrap();
    allocator.end_pool(7).unwrap();
    allocator.free(private);
    allocator.malloc(50 * MIB, 0).unwrap();
    allocator.set_limit_bytes(Some(900 * MIB));
    let failure = out_of_memory(&mut allocator, 901 * MIB);
    let message = allocator.message(&failure);
    assert_eq!(message.segment_bytes, 902 * MIB);
    assert_eq!(message.total_bytes, Some(1 << 30));
    assert_eq!(message.free_bytes, (1 << 30) - 100 * MIB);
    assert_eq!(message.limit_bytes, Some(900 * MIB));
    assert_eq!(message.allocated_bytes, 50 * MIB);
    assert_eq!(message.reserved_bytes, 100 * MIB);
    assert_eq!(message.private_free_bytes, 40 * MIB);
    assert!(message.expandable_segments);
    assert_eq!(message.exceeded_reserve_bytes, Some(512 * MIB));
    // Half of the device, in pages of 20 MiB, is 520 MiB.
    let smaller = OutOfMemory { rounded_bytes: 520 * MIB, ..failure };
    assert_eq!(allocator.message(&smaller).exceeded_reserve_bytes, None);
}

#[test]
fn a_request_beyond_the_configured_fraction_is_rejected_and_one_that_reaches_it_is_not() {
    let mut allocator = allocator(15, "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5");
    allocator.set_limit_bytes(None);
    allocator.malloc(512 * MIB, 0).unwrap();
    for rejected in 1..=2 {
        assert_eq!(allocator.malloc(1, 0), Err(Failure::Rejected { segment_bytes: 2 * MIB }));
        assert_eq!(allocator.statistics().num_oom_rejections, rejected);
    }
    assert_eq!(allocator.statistics().num_ooms, 0);
}

#[test]
fn a_reservation_as_long_as_its_request_serves_it() {
    let mut allocator = allocator(15, "expandable_segments:True,expandable_segments_reserve:0.5");
    let bytes = allocator.settings().reservation_bytes(1 << 30, 20 * MIB);
    allocator.malloc(bytes, 0).unwrap();
    assert_eq!(reserved(&allocator), bytes);
}

#[test]
fn equal_blocks_of_a_segment_at_a_high_address_are_taken_from_the_front() {
    let mut settings = Settings::new(TorchVersion::v2(15));
    settings.parse("").unwrap();
    let mut allocator = Allocator::new(VirtualDevice::new(1 << 30, 0, AddressPolicy::Descending), settings, ());
    let quarters = [0; 4].map(|_| allocator.malloc(512 * KIB, 0).unwrap().unwrap());
    let first = allocator.address(quarters[0]);
    allocator.free(quarters[0]);
    allocator.free(quarters[2]);
    assert_eq!(address_of(&mut allocator, 512 * KIB), first);
}

#[test]
fn what_is_left_around_unmapped_pages_is_new_objects_in_2_12() {
    let mut allocator = allocator(12, "expandable_segments:True");
    let sizes = [1024, 1024, 1024, 1024, 512, 512, 1024, 1024, 1024, 1024];
    let blocks = sizes.map(|kib| allocator.malloc(kib * KIB, 0).unwrap().unwrap());
    // Two runs of free blocks: from 1 to 4.5 MiB, and from 5 to 8 MiB, which is smaller and of a younger object.
    for freed in [1, 4, 3, 2, 6, 8, 7] {
        allocator.free(blocks[freed]);
    }
    allocator.empty_cache().unwrap();
    assert_eq!(reserved(&allocator), 6 * MIB);
    // Each kept 1 MiB in front of what was unmapped; that of the smaller run is older.
    assert_eq!(address_of(&mut allocator, MIB), 5 * MIB);
}

#[test]
fn a_pool_whose_pages_are_all_unmapped_is_gone() {
    let mut allocator = allocator(15, "expandable_segments:True");
    for _ in 0..2 {
        allocator.begin_pool(1, None).unwrap();
        let block = allocator.malloc(MIB, 0).unwrap().unwrap();
        allocator.end_pool(1).unwrap();
        allocator.free(block);
        allocator.release_pool_use(1).unwrap();
        allocator.empty_cache().unwrap();
        assert_eq!(reserved(&allocator), 0);
    }
}

#[test]
fn pending_frees_complete_when_they_are_polled_but_not_during_a_capture() {
    let mut allocator = allocator(15, "");
    let block = allocator.malloc(MIB, 0).unwrap().unwrap();
    allocator.record_stream(block, 1);
    allocator.free(block);
    let active = |allocator: &Tested| allocator.statistics().active.all().current;
    assert_eq!(active(&allocator), 1);
    allocator.set_capturing(true);
    allocator.poll_events();
    assert_eq!(active(&allocator), 1);
    allocator.set_capturing(false);
    allocator.poll_events();
    assert_eq!(active(&allocator), 0);
}

#[test]
fn only_where_splits_are_asked_for_is_a_tail_of_a_mebibyte_cut_off() {
    for (always, largest) in [(false, 0), (true, MIB)] {
        let mut allocator = allocator(15, "");
        if always {
            allocator.split_always();
        }
        allocator.malloc(19 * MIB, 0).unwrap();
        assert_eq!(allocator.largest_free_bytes(), largest);
    }
}

#[test]
fn a_pool_that_opted_in_does_not_lend_parts_of_expandable_segments() {
    let mut allocator = allocator(15, "expandable_segments:True");
    allocator.create_pool(1, PoolFlags { use_on_oom: true, no_split: false }).unwrap();
    allocator.begin_pool(1, None).unwrap();
    let block = allocator.malloc(600 * MIB, 0).unwrap().unwrap();
    allocator.end_pool(1).unwrap();
    allocator.free(block);
    let failure = out_of_memory(&mut allocator, 500 * MIB);
    assert_eq!(failure.private_free_bytes, 600 * MIB);
}

#[test]
fn the_garbage_collector_stops_when_it_has_reclaimed_what_it_wants() {
    let mut allocator = allocator(15, "garbage_collection_threshold:0.25");
    allocator.set_limit_bytes(Some(440 * MIB));
    for mebibytes in [100, 110] {
        let block = allocator.malloc(mebibytes * MIB, 0).unwrap().unwrap();
        allocator.free(block);
    }
    // 210 MiB are held and 110 may be: the older block's 100 are enough.
    allocator.malloc(120 * MIB, 0).unwrap();
    assert_eq!(reserved(&allocator), 230 * MIB);
}

#[test]
fn a_pool_is_open_at_most_once() {
    let mut allocator = allocator(15, "");
    let undefined = |reason| Err(Failure::Undefined(reason));
    assert_eq!(allocator.end_pool(1), undefined(Undefined::PoolNotOpen));
    allocator.begin_pool(1, None).unwrap();
    allocator.begin_pool(2, None).unwrap();
    assert_eq!(allocator.begin_pool(1, Some(5)), undefined(Undefined::PoolOpenAlready));
    allocator.end_pool(1).unwrap();
    assert_eq!(allocator.end_pool(1), undefined(Undefined::PoolNotOpen));
    allocator.begin_pool(1, None).unwrap();
}

#[test]
fn an_open_pool_that_opted_in_is_not_searched_for_requests_of_other_streams() {
    let mut allocator = allocator(15, "");
    allocator.create_pool(1, PoolFlags { use_on_oom: true, no_split: false }).unwrap();
    allocator.begin_pool(1, Some(5)).unwrap();
    assert_eq!(allocator.malloc(2 << 30, 0), Err(Failure::Undefined(Undefined::PoolOpenAlready)));
}

#[test]
fn nothing_is_asked_of_a_pool_that_was_deleted_while_it_was_open() {
    let mut allocator = allocator(15, "");
    allocator.begin_pool(1, Some(5)).unwrap();
    allocator.release_pool_use(1).unwrap();
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.malloc(MIB, 5), Err(Failure::Undefined(Undefined::NoSuchPool)));
    allocator.malloc(MIB, 0).unwrap();
}

#[test]
fn a_pool_does_not_return_more_often_than_it_took() {
    let mut allocator = allocator(15, "expandable_segments:True");
    allocator.begin_pool(1, None).unwrap();
    let whole = allocator.malloc(60 * MIB, 0).unwrap().unwrap();
    allocator.free(whole);
    let thirds = [0; 3].map(|_| allocator.malloc(20 * MIB, 0).unwrap().unwrap());
    allocator.end_pool(1).unwrap();
    allocator.release_pool_use(1).unwrap();
    // Mapped at once, and unmapped on either side of what is in use.
    allocator.free(thirds[0]);
    allocator.free(thirds[2]);
    assert_eq!(allocator.empty_cache(), Err(Failure::Undefined(Undefined::PoolCountBelowZero)));
}
