//! A column that grows stays one mapping with the advice: the kernel then moves it and copies nothing.

#![cfg(target_os = "linux")]

use std::path::Path;

use highwater_huge_pages::HugePages;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

#[test]
fn a_column_that_grows_stays_one_mapping_with_huge_pages() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return; // this kernel has none
    }
    let mut column = Vec::new();
    for value in 0_u64..12_000_000 {
        column.push(value);
    }
    let first = column.as_ptr().addr();
    let last = first + column.len() * size_of::<u64>();
    assert!(column.iter().copied().eq(0..12_000_000), "growing changed what is in it");

    let mappings = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
    let mut holds_it = false;
    for line in mappings.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let bounds = range
            .and_then(|(from, to)| Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?)));
        if let Some((from, to)) = bounds {
            holds_it = from <= first && last <= to;
        } else if holds_it && line.starts_with("VmFlags:") {
            assert!(line.split(' ').any(|flag| flag == "hg"), "without advice: {line}");
            return;
        }
    }
    panic!("no single mapping holds {first:x}-{last:x}");
}
