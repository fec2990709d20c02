//! `highwater segments FILE`: the map of the memory at the dump.

mod bar;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use clap::ValueEnum;
use highwater_analysis::callsite::Sites;
use highwater_answers::frames;
use highwater_documents::segments::{SegmentsView, Usage};
use highwater_findings::verdict::NOTHING_RECORDED;
use highwater_snapshot::{Block, BlockState, PoolId, Segment, Snapshot, StreamId};

use crate::args::{Format, SitesArgs};
use crate::input::InputArgs;
use crate::style::{Ink, STRONG, runs};
use crate::table::{Align, Cell, Table, terminal_width};
use crate::units::{counted, size};
use crate::{output, warnings};

/// Segments of a pool and stream that are shown as text unless `--top` says otherwise.
const DEFAULT_LIMIT: usize = 100;

/// Options of `highwater segments`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: the segments with the most free memory, and the blocks that keep them
  highwater segments run.pickle --sort free --top 5 --blocks")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    sites: SitesArgs,
    /// Order of the segments of each pool and stream
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Show at most this many segments of each pool and stream; 0 for all [default: 100 as text, all as JSON]
    #[arg(long, alias = "limit", value_name = "N")]
    top: Option<usize>,
    /// Also list the blocks of each segment; JSON always has them
    #[arg(long)]
    blocks: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The order of the segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Lowest first
    #[default]
    Address,
    /// Largest first
    Size,
    /// Most free bytes first
    Free,
}

impl Args {
    fn limit(&self) -> usize {
        self.format.limit(self.top, DEFAULT_LIMIT)
    }
}

/// Draws the segments.
///
/// # Errors
/// If the snapshot cannot be read, or the output cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (snapshot, sites) = args.input.read_with(|snapshot| Sites::with(snapshot, args.sites.lines()))?;
    let devices = args.input.devices(&snapshot);
    let maps: Vec<_> = devices.into_iter().map(|device| DeviceMap::new(&snapshot, device, args)).collect();
    match args.format {
        Format::Text => {
            output::text_to_stdout(|out| write_text(out, &snapshot, &maps, args.blocks.then_some(&sites)))?;
            warnings::print(&snapshot.warnings)?;
        }
        Format::Json => {
            let view = SegmentsView::new(&snapshot, maps.iter().map(|map| (map.device, map.segments())));
            output::to_stdout(|out| output::write_json(out, &view))?;
        }
    }
    Ok(())
}

/// The segments of one device, by pool and stream.
struct DeviceMap<'a> {
    device: u32,
    groups: Vec<Group<'a>>,
}

/// The segments of one pool and stream, in the order that was asked for.
struct Group<'a> {
    pool: (u64, u64),
    stream: u64,
    segments: Vec<(&'a Segment, Usage)>,
    left_out: usize,
}

impl<'a> DeviceMap<'a> {
    fn new(snapshot: &'a Snapshot, device: u32, args: &Args) -> Self {
        let mut by_owner: BTreeMap<(PoolId, StreamId), Vec<_>> = BTreeMap::new();
        for segment in snapshot.segments_of(device) {
            let usage = Usage::of(snapshot.blocks_of(segment));
            by_owner.entry((segment.pool, segment.stream)).or_default().push((segment, usage));
        }
        let groups = by_owner.into_iter().map(|((pool, stream), mut segments)| {
            match args.sort {
                Sort::Address => segments.sort_by_key(|(segment, _)| segment.address),
                Sort::Size => segments.sort_by_key(|(segment, _)| (Reverse(segment.total_bytes), segment.address)),
                Sort::Free => segments.sort_by_key(|(segment, usage)| (Reverse(usage.free_bytes), segment.address)),
            }
            let left_out = segments.len().saturating_sub(args.limit());
            segments.truncate(args.limit());
            Group { pool: snapshot.pool_id(pool), stream: snapshot.stream_handle(stream), segments, left_out }
        });
        Self { device, groups: groups.collect() }
    }

    fn segments(&self) -> Vec<(&'a Segment, Usage)> {
        self.groups.iter().flat_map(|group| group.segments.iter().copied()).collect()
    }
}

fn write_text(
    out: &mut impl Ink,
    snapshot: &Snapshot,
    maps: &[DeviceMap],
    block_sites: Option<&Sites>,
) -> io::Result<()> {
    if maps.is_empty() {
        writeln!(out, "{NOTHING_RECORDED}")?;
    }
    if let Some(profile) = &snapshot.profile {
        return writeln!(out, "this is {}: it has no segments", profile.form.name());
    }
    for map in maps {
        write_totals(out, snapshot, map.device)?;
        for group in &map.groups {
            writeln!(out)?;
            out.ink(STRONG, &format!("{}, stream {}", pool_name(group.pool), group.stream))?;
            writeln!(out)?;
            write_group(out, snapshot, group, block_sites)?;
        }
        writeln!(out)?;
    }
    if maps.iter().any(|map| !map.groups.is_empty()) {
        runs(bar::LEGEND, bar::style_of).into_iter().try_for_each(|(style, run)| out.ink(style, run))?;
        writeln!(out)?;
    }
    if let Some(host) = &snapshot.host {
        let bytes = host.segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.total_bytes));
        writeln!(out, "pinned host memory: {}, {}", counted(host.segments.len(), "segment", "segments"), size(bytes))?;
    }
    Ok(())
}

fn write_totals(out: &mut impl Ink, snapshot: &Snapshot, device: u32) -> io::Result<()> {
    let totals = snapshot.end_totals(device);
    let awaiting = totals.active_bytes.saturating_sub(totals.allocated_bytes);
    let free = totals.reserved_bytes.saturating_sub(totals.active_bytes);
    let count = snapshot.segments_of(device).count();
    let segments = counted(count, "segment", "segments");
    out.ink(STRONG, &format!("device {device}: {segments}, {} reserved", size(totals.reserved_bytes)))?;
    writeln!(out)?;
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
    table.row(["allocated".to_owned(), size(totals.allocated_bytes), String::new()]);
    table.row(["awaiting free".to_owned(), size(awaiting), String::new()]);
    let stuck = format!("{} of it inactive split: in segments that are in use", size(totals.inactive_split_bytes));
    table.row(["free".to_owned(), size(free), stuck]);
    table.write(out, terminal_width())
}

/// A pool's name: the default one, or a private one with its id as PyTorch writes it.
fn pool_name((by_graph, by_user): (u64, u64)) -> String {
    if (by_graph, by_user) == (0, 0) {
        "default pool".to_owned()
    } else {
        format!("private pool ({by_graph}, {by_user})")
    }
}

fn write_group(out: &mut impl Ink, snapshot: &Snapshot, group: &Group, block_sites: Option<&Sites>) -> io::Result<()> {
    let mut table = Table::new([
        ("address", Align::Left),
        ("type", Align::Left),
        ("size", Align::Right),
        ("active", Align::Right),
        ("free", Align::Right),
        ("blocks", Align::Right),
        ("map", Align::Left),
    ])
    .indented(2)
    .optional(&[1])
    .wrapped();
    for &(segment, usage) in &group.segments {
        let of_segment = snapshot.blocks_of(segment);
        table.row([
            format!("{:#x}", segment.address).into(),
            if segment.is_expandable { "expandable" } else { segment.segment_type.name() }.into(),
            size(segment.total_bytes).into(),
            size(usage.active_bytes).into(),
            size(usage.free_bytes).into(),
            of_segment.len().to_string().into(),
            Cell::drawn(bar::bar(segment, of_segment), bar::style_of),
        ]);
        if let Some(sites) = block_sites {
            for block in of_segment {
                table.below(block_line(snapshot, sites, block));
            }
        }
    }
    table.write(out, terminal_width())?;
    match group.left_out {
        0 => Ok(()),
        more => writeln!(out, "  … {}; `--top 0` shows all", counted(more, "more segment", "more segments")),
    }
}

fn block_line(snapshot: &Snapshot, sites: &Sites, block: &Block) -> String {
    let place = format!("  {:<#14x}  {:>11}", block.address, size(block.size_bytes));
    let state = match block.state {
        BlockState::ActiveAllocated => "allocated",
        BlockState::ActiveAwaitingFree => "awaiting free",
        // What a free block's last owner asked for says nothing.
        BlockState::Inactive => return format!("{place}  free"),
    };
    let owner = frames::owner(snapshot, sites, block.stack);
    format!("{place}  {state:<13}  {:>11} requested  {owner}", size(block.requested_bytes))
}
