//! Each table was filled in by the releases themselves, 2.1 to 2.15.

use highwater_problem::Explained as _;
use proptest::prelude::*;

use super::*;

fn parsed(version: u16, confs: &[&str]) -> Settings {
    let mut settings = Settings::new(TorchVersion::v2(version));
    for conf in confs {
        settings.parse(conf).unwrap_or_else(|error| panic!("`{conf}` with 2.{version}: {error}"));
    }
    settings
}

fn error(version: u16, conf: &str) -> String {
    let error = Settings::new(TorchVersion::v2(version)).parse(conf).unwrap_err();
    match error.hint() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

/// One letter a release, from 2.1: `.` takes the string, `x` refuses it.
#[test]
fn each_release_takes_what_it_took() {
    #[rustfmt::skip]
    let rows = [
        ("", "..............."),
        (" ", "..............."),
        ("backend:native", "..............."),
        ("backend:cudaMallocAsync", "..............."),
        ("backend:foo", "xxxxxxxxxxxxxxx"),
        ("max_split_size_mb:64", "..............."),
        ("max_split_size_mb:20", "xxxxxxxxx......"),
        ("max_split_size_mb:21", "..............."),
        ("max_split_size_mb:-5", "..............."),
        ("max_split_size_mb:99999999999", "xxxxxxxxx......"),
        ("max_split_size_mb:99999999999999999999999", "xxxxxxxxxxxxxxx"),
        ("max_split_size_mb:64,", "..............."),
        ("max_split_size_mb:64,,", "xxxxxxxxxxxxxxx"),
        (",max_split_size_mb:64", "xxxxxxxxxxxxxxx"),
        ("max_split_size_mb:6 4", "..............."),
        ("max_split_size_mb:\t64", "..............."),
        ("\tmax_split_size_mb:64", "xxxxxxxxx......"),
        ("max_split_size_mb]64", "xxxxxxxxx......"),
        ("max_split_size_mb:64:expandable_segments:True", "xxxxxxxxx......"),
        ("max_split_size_mb:64;expandable_segments:True", "xxxxxxxxxxxxxxx"),
        ("max_split_size_mb=64", "xxxxxxxxxxxxxxx"),
        ("max_split_size_mb:", "xxxxxxxxxxxxxxx"),
        ("max_split_size_mb", "xxxxxxxxxxxxxxx"),
        ("max_non_split_rounding_mb:20", "xxxxxxxxx......"),
        ("max_non_split_rounding_mb:64", "xxxxx.........."),
        ("large_segment_size_mb:40", "xxxxxxxxxx....."),
        ("large_segment_size_mb:10", "xxxxxxxxxxxxxxx"),
        ("garbage_collection_threshold:0.5", "..............."),
        ("garbage_collection_threshold:0.5x", "..............."),
        ("garbage_collection_threshold:1", "xxxxxxxxxxxxxxx"),
        ("garbage_collection_threshold:1e-310", "xxxxxxxxxxxxxxx"),
        ("roundup_power2_divisions:4", "..............."),
        ("roundup_power2_divisions:0", "xxxxxxxxxxxxxxx"),
        ("roundup_power2_divisions:[1:0]", "xxx............"),
        ("roundup_power2_divisions:[>:4]", "..............."),
        ("roundup_power2_divisions:[]", "..............."),
        ("roundup_power2_divisions:[1:2,]", "..............."),
        ("roundup_power2_divisions:[1:2", "xxxxxxxxxxxxxxx"),
        ("roundup_power2_divisions:[1:2,", ".........xxxxxx"),
        ("roundup_power2_divisions:[", ".........xxxxxx"),
        ("roundup_power2_divisions:[0:2]", "xxxxxxxxxxxxxxx"),
        ("roundup_bypass_threshold_mb:40", "xxxxxxxxxxxxxxx"),
        ("expandable_segments:True", "..............."),
        ("expandable_segments:true", "xxxxxxxxxxxxxxx"),
        ("expandable_segments_reserve:40G", "xxxxxxxxxxxxxx."),
        ("expandable_segments_reserve:bad", "xxxxxxxxxxxxxx."),
        ("expandable_segments_reserve_by_class:[a:0.5,b:3G]", "xxxxxxxxxxxxxx."),
        ("expandable_segments_reserve_by_class:x", "xxxxxxxxxxxxxxx"),
        ("expandable_segments_handle_type:posix_fd", "xxxxxxxxxxxxxxx"),
        ("per_process_memory_fraction:0.5", "xxxxxxxxx......"),
        ("throw_on_cudamalloc_oom:True", "xxxxxxxxxxx...."),
        ("release_lock_on_cudamalloc:True", "x.............."),
        ("release_lock_on_hipmalloc:True", "x.............."),
        ("graph_capture_record_stream_reuse:True", "xxxxxxxx......."),
        ("pinned_use_cuda_host_register:True", "x.............."),
        ("pinned_use_hip_host_register:True", "x.............."),
        ("pinned_num_register_threads:8", "x.............."),
        ("pinned_num_register_threads:256", "xxxxxxxxxxxxxxx"),
        ("pinned_use_background_threads:True", "xxxxx.........."),
        ("pinned_reserve_segment_size_mb:1", "xxxxxxxxx......"),
        ("pinned_free_catch_all:True", "xxxxxxxxxxx...."),
        ("pinned_max_round_threshold_mb:1", "xxxxxxxxxxxx..."),
        ("pinned_max_cached_size_mb:1", "xxxxxxxxxxxx..."),
    ];
    for (conf, expected) in rows {
        let taken = |minor| Settings::new(TorchVersion::v2(minor)).parse(conf).is_ok();
        let found: String = (1..=15).map(|minor| if taken(minor) { '.' } else { 'x' }).collect();
        assert_eq!(found, expected, "`{conf}`");
    }
}

#[test]
fn sizes_are_in_mib_and_negative_ones_have_no_limit() {
    for version in [1, 8, 9, 10, 15] {
        assert_eq!(parsed(version, &["max_split_size_mb:64.9"]).max_split_bytes, 64 << 20);
        assert_eq!(parsed(version, &["max_split_size_mb:-5"]).max_split_bytes, u64::MAX / MIB * MIB);
    }
}

#[test]
fn the_segment_size_is_read_first_and_moves_the_others() {
    let settings = parsed(11, &["max_split_size_mb:40,large_segment_size_mb:40"]);
    assert_eq!((settings.large_segment_bytes, settings.max_non_split_rounding_bytes), (40 << 20, 40 << 20));
    insta::assert_snapshot!(
        error(11, "max_split_size_mb:39,large_segment_size_mb:40"),
        @"byte 18: `max_split_size_mb:39` is out of range: at least 40, the size of a large segment in MiB"
    );
}

#[test]
fn a_second_string_resets_what_pytorch_resets() {
    let first = "max_split_size_mb:64,max_non_split_rounding_mb:64,garbage_collection_threshold:0.5,\
                 roundup_power2_divisions:8,expandable_segments:True";
    let newer = "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,large_segment_size_mb:40,\
                 expandable_segments_reserve:0.5";
    for version in 6..=15 {
        let second = parsed(version, &[first, ""]);
        assert_eq!(second.max_split_bytes, UNLIMITED);
        assert!(second.garbage_collection_threshold <= 0.0);
        assert_eq!(second.roundup_power2_divisions, [0; 16]);
        assert!(second.expandable_segments);
        assert_eq!(second.max_non_split_rounding_bytes, if version < 11 { 64 << 20 } else { 20 << 20 }, "2.{version}");
    }
    let second = parsed(15, &[newer, "max_split_size_mb:64"]);
    assert_eq!(second.per_process_memory_fraction, Some(0.5));
    assert!(second.throw_on_cudamalloc_oom);
    assert_eq!(second.large_segment_bytes, 40 << 20);
    assert_eq!(second.max_non_split_rounding_bytes, 40 << 20);
    assert_eq!(second.expandable_segments_reserve, Some(Reserve::Fraction(0.5)));
}

#[test]
fn an_error_leaves_the_settings_as_they_were() {
    let before = parsed(15, &["max_split_size_mb:64,backend:native,pinned_free_catch_all:True"]);
    for conf in ["foo:1", "max_split_size_mb:128,foo:1", "expandable_segments:True,backend:cudaMallocAsync"] {
        let mut after = before.clone();
        after.parse(conf).unwrap_err();
        assert_eq!(after, before, "`{conf}`");
    }
}

#[test]
fn divisions_are_listed_as_in_pytorch() {
    let divisions = |version, list: &str| {
        parsed(version, &[&format!("roundup_power2_divisions:{list}")])
            .roundup_power2_divisions
            .map(|entry| char::from_digit(entry.try_into().unwrap(), 10).unwrap())
            .iter()
            .collect::<String>()
    };
    for version in 10..=15 {
        assert_eq!(divisions(version, "8"), "8888888888888888");
        assert_eq!(divisions(version, "[256:1,512:2,1024:4,>:8]"), "1111111112488888");
        assert_eq!(divisions(version, "[64:8,256:4,1024:4,>:1]"), "8888888040411111");
        assert_eq!(divisions(version, "[>:4]"), "0444444444444444");
        assert_eq!(divisions(version, "[131072:4]"), "4444444444444444");
        assert_eq!(divisions(version, "[32768:2,>:4]"), "2222222222222222");
    }
    for version in 1..=9 {
        assert_eq!(divisions(version, "[256:1,512:2,1024:4,>:8]"), "1111111112888888");
        assert_eq!(divisions(version, "[>:4]"), "4444444444444444");
        assert_eq!(divisions(version, "[32768:2,>:4]"), "2222222222222224");
    }
}

#[test]
fn the_backend_is_chosen_once() {
    let conf = "backend:cudaMallocAsync";
    assert_eq!(parsed(15, &[conf, "", conf]).backend, Backend::CudaMallocAsync);
    assert_eq!(parsed(15, &["expandable_segments:True", "backend:native"]).backend, Backend::Native);
    insta::assert_snapshot!(error(15, "backend:native,backend:cudaMallocAsync"), @"
    byte 23: `backend:cudaMallocAsync` differs from the backend chosen before
    hint: set the backend in the first settings string only
    ");
    assert!(parsed(15, &[""]).parse(conf).is_err());
}

/// On a device of 1 GiB, as torch 2.15 mapped and reserved.
#[test]
fn a_reservation_is_nine_eighths_of_the_device_or_what_is_configured() {
    let (device, small, large) = (1 << 30, 2 << 20, 20 << 20);
    let reserved = |conf: &str| {
        let settings = parsed(15, &[conf]);
        (settings.reservation_bytes(device, small), settings.reservation_bytes(device, large))
    };
    assert_eq!(reserved(""), (1_207_959_552, 1_216_348_160));
    assert_eq!(reserved("expandable_segments_reserve:0.25"), (268_435_456, 272_629_760));
    assert_eq!(reserved("expandable_segments_reserve:0.25G"), (268_435_456, 272_629_760));
    assert_eq!(reserved("expandable_segments_reserve:0.26"), (281_018_368, 293_601_280));
    assert_eq!(reserved("expandable_segments_reserve:1e-9"), (small, large));
    for value in ["5", "4G", "1e300g", "bad", "0", "-1", "1e400"] {
        assert_eq!(reserved(&format!("expandable_segments_reserve:{value}")), reserved(""), "{value}");
    }
}

#[test]
fn only_a_reserve_below_the_default_is_named_as_exceeded() {
    let exceeded =
        |conf: &str, mebibytes: u64| parsed(15, &[conf]).exceeded_reserve(mebibytes << 20, 1 << 30, 20 << 20);
    assert_eq!(exceeded("expandable_segments_reserve:0.25", 260), None);
    assert_eq!(exceeded("expandable_segments_reserve:0.25", 261), Some(256 << 20));
    assert_eq!(exceeded("expandable_segments_reserve:4G", 2000), None);
    assert_eq!(exceeded("", 2000), None);
}

#[test]
fn settings_without_effect_are_remarked_on() {
    let conf = "pinned_use_background_threads:True,pinned_num_register_threads:8,expandable_segments_reserve:lots";
    let settings = parsed(15, &[conf]);
    let remarks: Vec<_> = settings.remarks().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(remarks.join("\n"), @"
    `pinned_use_background_threads` changes nothing here
    `pinned_num_register_threads` changes nothing here
    the reserve `lots` is ignored, as PyTorch does: a fraction such as `0.5` or a size such as `40G`
    ");
    assert_eq!(parsed(15, &[conf, ""]).remarks(), []);
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    insta::assert_snapshot!(
        error(11, "max_split_size_mb:10"),
        @"byte 18: `max_split_size_mb:10` is out of range: at least 20, the size of a large segment in MiB"
    );
    insta::assert_snapshot!(
        error(8, "expandable_segments:True, max_split_size_mb: 20"),
        @"byte 45: `max_split_size_mb:20` is out of range: at least 21, larger than a large segment in MiB"
    );
    insta::assert_snapshot!(error(11, "large_segment_size_mb:10"), @"byte 22: `large_segment_size_mb:10` is out of range: at least 11, in MiB");
    insta::assert_snapshot!(error(11, "garbage_collection_threshold:80"), @"byte 29: `garbage_collection_threshold:80` is out of range: above 0 and below 1");
    insta::assert_snapshot!(error(11, "per_process_memory_fraction:1.5"), @"byte 28: `per_process_memory_fraction:1.5` is out of range: from 0 to 1");
    insta::assert_snapshot!(error(11, "roundup_power2_divisions:3"), @"byte 25: `roundup_power2_divisions:3` is out of range: a power of two");
    insta::assert_snapshot!(error(11, "roundup_power2_divisions:[4:3]"), @"byte 28: `roundup_power2_divisions:3` is out of range: 0 or a power of two");
    insta::assert_snapshot!(
        error(11, "roundup_power2_divisions:[3:4]"),
        @"byte 26: `roundup_power2_divisions:3` is out of range: sizes are powers of two, in MiB, or `>`"
    );
    insta::assert_snapshot!(error(11, "roundup_power2_divisions:[256:4"), @"
    byte 31: the list of `roundup_power2_divisions` has no `]`
    hint: close the list with `]`
    ");
    insta::assert_snapshot!(error(11, "pinned_num_register_threads:7"), @"byte 28: `pinned_num_register_threads:7` is out of range: a power of two up to 128");
    insta::assert_snapshot!(error(11, "max_split_size_mb:many"), @"byte 18: `max_split_size_mb:many` is not a number");
    insta::assert_snapshot!(error(8, "max_split_size_mb:2147483648"), @"byte 18: `max_split_size_mb:2147483648` is beyond what PyTorch can read");
    insta::assert_snapshot!(error(11, "max_split_size_mb:"), @"
    byte 18: `max_split_size_mb` has no value
    hint: write `max_split_size_mb:VALUE`
    ");
    insta::assert_snapshot!(error(11, "expandable_segments:true"), @"
    byte 20: `expandable_segments:true` is neither `True` nor `False`
    hint: write `True` or `False`, with a capital letter
    ");
    insta::assert_snapshot!(error(11, "backend:foo"), @"byte 8: `backend:foo` does not exist: `native` or `cudaMallocAsync`");
    insta::assert_snapshot!(error(8, "max_split_size_mb:64]expandable_segments:True"), @"
    byte 20: expected `,`, found `]`
    hint: write `KEY:VALUE,KEY:VALUE`; the value of `roundup_power2_divisions` may be a list `[MIB:DIVISIONS,…]`
    ");
}

#[test]
fn the_ends_of_a_range_are_in_it_or_not() {
    insta::assert_snapshot!(error(15, "garbage_collection_threshold:0"), @"byte 29: `garbage_collection_threshold:0` is out of range: above 0 and below 1");
    insta::assert_snapshot!(error(15, "garbage_collection_threshold:1"), @"byte 29: `garbage_collection_threshold:1` is out of range: above 0 and below 1");
    parsed(15, &["per_process_memory_fraction:0", "per_process_memory_fraction:1"]);
    parsed(15, &["pinned_num_register_threads:128", "pinned_reserve_segment_size_mb:1"]);
    insta::assert_snapshot!(error(15, "pinned_num_register_threads:256"), @"byte 28: `pinned_num_register_threads:256` is out of range: a power of two up to 128");
    insta::assert_snapshot!(error(15, "pinned_reserve_segment_size_mb:0"), @"byte 31: `pinned_reserve_segment_size_mb:0` is out of range: at least 1");
}

#[test]
fn a_list_of_reserves_ends_at_its_bracket() {
    let list = "expandable_segments_reserve_by_class:[compute:0.5,comm:lots,rest:10G],max_split_size_mb:64";
    let settings = parsed(15, &[list]);
    assert_eq!(settings.max_split_bytes, 64 * MIB);
    let remarks: Vec<_> = settings.remarks().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(remarks.join("\n"), @"
    the reserve `lots` is ignored, as PyTorch does: a fraction such as `0.5` or a size such as `40G`
    `expandable_segments_reserve_by_class` changes nothing here
    ");
    // In the last two the bracket is a value.
    for open in ["[", "[compute", "[compute:0.5", "[compute:0.5,", "[compute:0.5,comm:", "[compute:]", "[compute:],"] {
        let conf = format!("expandable_segments_reserve_by_class:{open}");
        let error = Settings::new(TorchVersion::v2(15)).parse(&conf).unwrap_err();
        assert_eq!(error.at, conf.len(), "{conf}: {error}");
    }
    // Of a list that another pass reads, only the end is looked for.
    insta::assert_snapshot!(error(15, "expandable_segments_reserve:[40G"), @"
    byte 32: the list of `expandable_segments_reserve` has no `]`
    hint: close the list with `]`
    ");
    insta::assert_snapshot!(error(11, "roundup_power2_divisions:[256:1,"), @"
    byte 32: the list of `roundup_power2_divisions` has no `]`
    hint: close the list with `]`
    ");
}

#[test]
fn an_unknown_key_says_why() {
    insta::assert_snapshot!(error(8, "large_segment_size_mb:40"), @"
    byte 0: `large_segment_size_mb` is not a setting of torch 2.8
    hint: torch 2.11 introduced it
    ");
    insta::assert_snapshot!(error(15, "max_split_size:64"), @"
    byte 0: `max_split_size` is not a setting of torch 2.15
    hint: did you mean `max_split_size_mb`?
    ");
    insta::assert_snapshot!(error(15, "roundup_bypass_threshold_mb:64"), @"
    byte 0: `roundup_bypass_threshold_mb` is not a setting of torch 2.15
    hint: torch 2.1 removed it: requests of every size are rounded
    ");
    insta::assert_snapshot!(error(15, "max_split_size_mb:64;expandable_segments:True"), @"
    byte 41: `True` is not a setting of torch 2.15
    hint: write `KEY:VALUE,KEY:VALUE`
    ");
}

/// Pieces of settings strings, right and wrong, in any order.
fn conf() -> impl Strategy<Value = String> {
    let name = (0..key::KEYS.len()).prop_map(|index| key::KEYS[index].name.to_owned());
    let piece = prop_oneof![
        3 => name,
        3 => "[,:\\[\\]]",
        2 => "-?[0-9]{1,3}(\\.[0-9])?",
        1 => "True|False|native|>| |\\PC{1,3}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_string_is_read_or_refused_at_one_of_its_bytes(version in 1..16u16, conf in conf()) {
        let mut settings = Settings::new(TorchVersion::v2(version));
        if let Err(error) = settings.parse(&conf) {
            prop_assert!(error.at <= conf.len() && conf.is_char_boundary(error.at));
            prop_assert!(!error.to_string().is_empty());
            error.hint();
        }
    }
}

#[test]
fn settings_of_two_versions_decide_alike_where_rules_and_values_do() {
    let with = |minor, conf: &str| {
        let mut settings = Settings::new(TorchVersion::v2(minor));
        settings.parse(conf).unwrap();
        settings
    };
    assert!(with(10, "max_split_size_mb:64").decides_like(&with(11, "max_split_size_mb:64")));
    assert!(with(11, "").decides_like(&Settings::new(TorchVersion::v2(11))), "read or not");
    assert!(!with(11, "max_split_size_mb:64").decides_like(&with(11, "")), "another value");
    assert!(!with(11, "").decides_like(&with(12, "")), "another order of equal blocks");
}
