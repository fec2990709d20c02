//! Memory of the process on a GPU outside PyTorch, where the driver was recorded: bands over the entries, and blocks
//! in the address space.

use std::collections::HashMap;

use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::lifetime::number;
use highwater_outside::{Beside, Block, Recording, Timeline};

use super::PeakAt;
use super::entries::times_of;
use super::section::Section;
use crate::report::site_of;

/// Memory outside PyTorch on a GPU.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideView {
    /// The owners, largest first.
    pub owners: Vec<OutsideOwnerView>,
    /// The GPU's memory, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// The largest sum of the owners after an entry.
    pub peak: PeakAt,
    /// Call sites of the allocations, in words.
    pub sites: Vec<String>,
    /// Allocations without a row, the smallest: there are too many.
    #[serde(skip_serializing_if = "super::manifest::is_zero")]
    pub blocks_left_out: usize,
}

/// The owner of memory.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutsideOwnerView {
    /// The words for it.
    pub title: String,
    /// As in the report: `library`, `code`, `kernels`, `graphs`, `streams`, `context`.
    pub role: &'static str,
}

/// Rows of blocks: a page of more would not open.
const MAX_BLOCKS: usize = 200_000;

/// The memory beside PyTorch's after each entry; none if the entries have no times.
pub(super) fn beside(driver: &Timeline<'_>, device: &DeviceAnalysis<'_>) -> Option<Beside> {
    let ordinal = i32::try_from(device.device).ok()?;
    if device.entries.is_empty() {
        // "After entry 0" is the dump.
        return Some(driver.beside(ordinal, [0]));
    }
    let (first_us, times) = times_of(device)?;
    let begins = times.map(|since_us| {
        let time_us = first_us.saturating_add_unsigned(since_us);
        u64::try_from(time_us).unwrap_or(0).saturating_mul(1000)
    });
    Some(driver.beside(ordinal, begins))
}

/// The view of a device's memory outside PyTorch, and its columns.
pub(super) fn outside(
    driver: &Timeline<'_>,
    device: &DeviceAnalysis<'_>,
) -> Option<(OutsideView, Vec<(&'static str, Section)>)> {
    let mut beside = beside(driver, device).filter(|beside| !beside.owners.is_empty())?;
    let blocks_left_out = beside.blocks.len().saturating_sub(MAX_BLOCKS);
    if blocks_left_out > 0 {
        beside.blocks.sort_by_key(|block| std::cmp::Reverse(block.bytes));
        beside.blocks.truncate(MAX_BLOCKS);
        beside.blocks.sort_by_key(|block| block.from);
    }
    let mut peak = PeakAt { bytes: 0, entry: 0 };
    beside.sums(|entry, sums| {
        let bytes = sums.iter().fold(0_u64, |sum, &bytes| sum.saturating_add(bytes));
        if bytes > peak.bytes {
            peak = PeakAt { bytes, entry: number(entry) };
        }
    });
    let recording = driver.recording();
    let (sites, site_of) = sites(recording, &beside.blocks);
    let capacities = &recording.about.capacities;
    let view = OutsideView {
        owners: beside
            .owners
            .iter()
            .map(|owner| OutsideOwnerView { title: owner.title(), role: owner.role.name() })
            .collect(),
        capacity_bytes: capacities
            .iter()
            .find(|&&(of, _)| u32::try_from(of) == Ok(device.device))
            .map(|&(_, bytes)| bytes),
        peak,
        sites,
        blocks_left_out,
    };
    let steps =
        |of: &dyn Fn(&highwater_outside::Step) -> u64| Section::of(&beside.steps.iter().map(of).collect::<Vec<_>>());
    let blocks = |of: &dyn Fn(&Block) -> u64| Section::of(&beside.blocks.iter().map(of).collect::<Vec<_>>());
    let sections = vec![
        ("outside_entry", steps(&|step| step.moment as u64)),
        ("outside_owner", steps(&|step| step.owner.into())),
        ("outside_bytes", steps(&|step| step.bytes)),
        ("outside_block_address", blocks(&|block| block.address)),
        ("outside_block_bytes", blocks(&|block| block.bytes)),
        ("outside_block_owner", blocks(&|block| block.owner.into())),
        ("outside_block_start", blocks(&|block| block.from as u64)),
        ("outside_block_end", blocks(&|block| block.to as u64)),
        ("outside_block_site", Section::of_u32(&site_of)),
    ];
    Some((view, sections))
}

/// The places where blocks were made, in words, and the row of each block; one past the last for those of which
/// nothing is known.
fn sites(recording: &Recording, blocks: &[Block]) -> (Vec<String>, Vec<u32>) {
    let mut rows: HashMap<(u32, u32), Option<u32>> = HashMap::new();
    let mut words: HashMap<String, u32> = HashMap::new();
    let mut sites = Vec::new();
    let of_blocks: Vec<Option<u32>> = blocks
        .iter()
        .map(|block| {
            let event = &block.event;
            *rows.entry((event.stack, event.python)).or_insert_with(|| {
                let text = site_of(recording, event)?;
                Some(*words.entry(text).or_insert_with_key(|text| {
                    sites.push(text.clone());
                    number(sites.len() - 1)
                }))
            })
        })
        .collect();
    let unknown = number(sites.len());
    (sites, of_blocks.into_iter().map(|row| row.unwrap_or(unknown)).collect())
}
