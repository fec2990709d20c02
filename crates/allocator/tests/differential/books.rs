//! What must hold of any allocator, whatever PyTorch does: the events say what the block map and the statistics say.

use std::collections::{BTreeMap, HashMap};

use highwater_allocator::TorchVersion;

use crate::cases::Case;
use crate::outcome;

/// The rows of a CSV after its header.
fn rows(csv: &str) -> impl Iterator<Item = Vec<&str>> {
    csv.lines().skip(1).map(|line| line.split(',').collect())
}

fn bytes(field: &str) -> u64 {
    field.parse().expect("a number")
}

/// The live blocks and the reserved bytes that the events leave, against the last block map and the statistics.
fn check(case: &Case, [events, blocks, stats]: &[String; 3]) {
    let at = || format!("seed {}, torch {}, {}", case.seed, case.torch, case.kind);
    let (mut live, mut reserved) = (BTreeMap::new(), 0);
    for row in rows(events) {
        let (action, address, size) = (row[1], bytes(row[2]), bytes(row[3]));
        match action {
            "alloc" => assert_eq!(live.insert(address, (size, "allocated")), None, "{}: {row:?}", at()),
            "free_requested" => {
                assert_eq!(live.insert(address, (size, "pending")), Some((size, "allocated")), "{}: {row:?}", at());
            }
            "free_completed" => assert_eq!(live.remove(&address), Some((size, "pending")), "{}: {row:?}", at()),
            "segment_alloc" | "segment_map" => reserved += size,
            "segment_free" | "segment_unmap" => reserved -= size,
            _ => {}
        }
    }
    let last = case.rows.len().to_string();
    let mut end = 0;
    let mut mapped = 0;
    let mut blocks_live = BTreeMap::new();
    for row in rows(blocks).filter(|row| row[0] == last) {
        let (address, size) = (bytes(row[7]), bytes(row[8]));
        assert!(address >= end && size > 0, "{}: blocks overlap, {row:?}", at());
        (end, mapped) = (address + size, mapped + size);
        if row[10] != "inactive" {
            assert!(bytes(row[9]) <= size, "{}: more than the block has, {row:?}", at());
            blocks_live.insert(address, (bytes(row[9]), row[10]));
        }
    }
    assert_eq!(live, blocks_live, "{}: live blocks by the events and by the map", at());
    let stats: HashMap<(&str, &str), Vec<&str>> = rows(stats).map(|row| ((row[0], row[1]), row)).collect();
    let current = |name| bytes(stats[&(name, "all")][2]);
    assert_eq!([mapped, current("reserved_bytes")], [reserved; 2], "{}: reserved bytes", at());
    assert_eq!(current("active"), live.len() as u64, "{}: active blocks", at());
    assert_eq!(current("requested_bytes"), live.values().map(|(size, _)| size).sum::<u64>(), "{}: requested", at());
}

#[test]
fn events_block_map_and_statistics_agree() {
    let mut run = 0;
    for seed in 0..60 {
        for torch in [8, 11, 12, 15].map(TorchVersion::v2) {
            let case = Case::new(seed, torch);
            // Programs on which PyTorch fails are refused, and so are some settings.
            if let Ok(outputs) = outcome::ours(&case) {
                check(&case, &outputs);
                run += 1;
            }
        }
    }
    assert!(run > 150, "only {run} programs ran");
}

#[test]
fn a_seed_gives_the_same_program_always() {
    let (one, other) = (Case::new(7, TorchVersion::NEWEST), Case::new(7, TorchVersion::NEWEST));
    assert_eq!((one.rows, one.conf, one.capacity_bytes), (other.rows, other.conf, other.capacity_bytes));
}
