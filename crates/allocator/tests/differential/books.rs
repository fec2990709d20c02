//! What must hold of any allocator: its events say what its block maps and its statistics say.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

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

fn same<T: PartialEq + Debug>(what: &str, events: &T, other: &T) -> Result<(), String> {
    if events == other { Ok(()) } else { Err(format!("{what}: {events:?} by the events, and {other:?}")) }
}

/// Compares the live blocks, the segments and the bytes that the events leave with the last block map and the
/// statistics.
///
/// # Errors
/// What does not agree. PyTorch's own books do not where it uses memory that it has freed, or frees part of a segment.
pub(crate) fn check(case: &Case, [events, blocks, stats]: &[String; 3]) -> Result<(), String> {
    let (mut live, mut segments, mut mapped_bytes) = (BTreeMap::new(), BTreeMap::new(), 0);
    for row in rows(events) {
        let (action, address, size, pool) = (row[1], bytes(row[2]), bytes(row[3]), row[5]);
        // Programs have small numbers: this one was read from memory that is somebody else's now.
        if bytes(pool) > u64::from(u32::MAX) {
            return Err(format!("there is no such pool: {row:?}"));
        }
        let agrees = match action {
            "alloc" => live.insert(address, (size, pool, "allocated")).is_none(),
            "free_requested" => live.insert(address, (size, pool, "pending")) == Some((size, pool, "allocated")),
            "free_completed" => live.remove(&address) == Some((size, pool, "pending")),
            "segment_alloc" => segments.insert(address, (size, pool)).is_none(),
            "segment_free" => segments.remove(&address) == Some((size, pool)),
            "segment_map" => {
                mapped_bytes += size;
                true
            }
            "segment_unmap" => {
                mapped_bytes -= size;
                true
            }
            _ => true,
        };
        if !agrees {
            return Err(format!("the events before do not allow {row:?}"));
        }
    }
    let last = case.rows.len().to_string();
    let (mut live_in_map, mut segments_in_map, mut mapped_in_map) = (BTreeMap::new(), BTreeMap::new(), 0);
    let mut end = 0;
    for row in rows(blocks).filter(|row| row[0] == last) {
        let (address, size, pool) = (bytes(row[7]), bytes(row[8]), row[4]);
        if address < end || size == 0 || bytes(row[9]) > size {
            return Err(format!("a block overlaps another, or is smaller than was requested: {row:?}"));
        }
        end = address + size;
        if row[10] != "inactive" {
            live_in_map.insert(address, (bytes(row[9]), pool, row[10]));
        }
        if row[6] == "1" {
            mapped_in_map += size;
        } else {
            segments_in_map.insert(bytes(row[1]), (bytes(row[2]), pool));
        }
    }
    same("live blocks", &live, &live_in_map)?;
    same("segments", &segments, &segments_in_map)?;
    same("mapped bytes", &mapped_bytes, &mapped_in_map)?;
    let stats: HashMap<(&str, &str), Vec<&str>> = rows(stats).map(|row| ((row[0], row[1]), row)).collect();
    let current = |name| bytes(stats[&(name, "all")][2]);
    let reserved = mapped_bytes + segments.values().map(|(size, _)| size).sum::<u64>();
    same("reserved bytes", &reserved, &current("reserved_bytes"))?;
    same("requested bytes", &live.values().map(|(size, ..)| size).sum(), &current("requested_bytes"))?;
    same("active blocks", &(live.len() as u64), &current("active"))
}

#[test]
fn events_block_maps_and_statistics_agree() {
    let mut run = 0;
    for seed in 0..60 {
        for torch in [8, 11, 12, 15].map(TorchVersion::v2) {
            let case = Case::new(seed, torch);
            // Programs on which PyTorch fails are refused, and so are some settings.
            if let Ok(outputs) = outcome::ours(&case) {
                check(&case, &outputs).unwrap_or_else(|error| panic!("seed {seed}, torch {torch}: {error}"));
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
