//! `highwater-live`: who is there at a moment.

use crate::{Document, Format, Version};
use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_snapshot::EntryId;

use crate::report::call_site_view;
use crate::{CallSiteView, FrameView, PlaceView, WarningView, frames_from_site, warnings};

/// The live blocks at a moment.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveView<'a> {
    pub(crate) format: Format<Self>,
    pub(crate) version: Version<Self>,
    /// Each device at its moment, and which call sites hold its memory.
    pub devices: Vec<LiveDeviceView<'a>>,
    /// Every active block, by device, then by address.
    pub blocks: Vec<BlockView<'a>>,
    /// Warnings.
    pub warnings: Vec<WarningView>,
}

impl Document for LiveView<'_> {
    const FORMAT: &'static str = "highwater-live";
    const VERSION: u32 = 1;
}

/// A device at a moment.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveDeviceView<'a> {
    /// CUDA ordinal.
    pub device: u32,
    /// Number of trace entries.
    pub entries: usize,
    /// The entry after which this is; null before the first, and where there are no entries.
    pub after_entry: Option<u32>,
    /// Requested bytes.
    pub requested_bytes: u64,
    /// Bytes that tensors own: the report's `allocated`.
    pub allocated_bytes: u64,
    /// Bytes of the active blocks.
    pub active_bytes: u64,
    /// Active blocks.
    pub block_count: usize,
    /// The requested bytes by call site, largest first.
    pub call_sites: Vec<CallSiteView<'a>>,
}

/// One active block.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockView<'a> {
    /// CUDA ordinal.
    pub device: u32,
    /// First byte.
    pub address: u64,
    /// Requested bytes.
    pub requested_bytes: u64,
    /// Bytes of the block; the lower bound if two sizes are possible.
    pub size_bytes: u64,
    /// The upper bound, if it is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes_at_most: Option<u64>,
    /// The raw stream handle.
    pub stream: u64,
    /// The pool's id; null where the file does not say.
    pub pool: Option<(u64, u64)>,
    /// `active_allocated`, or `active_awaiting_free`.
    pub state: &'static str,
    /// Its category.
    pub category: &'static str,
    /// The rule that says so.
    pub category_rule: &'static str,
    /// The entry that allocated it; null if that came before the recording.
    pub alloc_entry: Option<u32>,
    /// The label that the program gave it (`user_metadata`), if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// Its call site in words, and whose it is.
    #[serde(flatten)]
    pub at: PlaceView<'a>,
    /// Its stack, folded to the user's own code, innermost first.
    pub frames: Vec<FrameView<'a>>,
}

/// The blocks that are active on some devices, each after its own entry (before the first for `None`).
pub fn live<'a>(analysis: &Analysis<'a>, moments: &[(u32, Option<EntryId>)]) -> LiveView<'a> {
    let (mut devices, mut blocks) = (Vec::new(), Vec::new());
    for &(device, after) in moments {
        let Some(device) = analysis.device(device) else { continue };
        devices.push(device_view(analysis, device, after));
        let start = blocks.len();
        blocks.extend(device.live_rows(after).map(|(row, _)| block_view(analysis, device, row, after)));
        blocks[start..].sort_by_key(|block: &BlockView<'_>| block.address);
    }
    LiveView { format: Format::default(), version: Version::default(), devices, blocks, warnings: warnings(analysis) }
}

fn device_view<'a>(analysis: &Analysis<'a>, device: &DeviceAnalysis<'a>, after: Option<EntryId>) -> LiveDeviceView<'a> {
    let sites = device.live_by_site(after, &analysis.sites);
    LiveDeviceView {
        device: device.device,
        entries: device.entries.len(),
        after_entry: after.map(EntryId::get),
        requested_bytes: sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add),
        allocated_bytes: device.totals(after).allocated_bytes,
        active_bytes: device.totals(after).active_bytes,
        block_count: device.live(after).count(),
        call_sites: sites.iter().map(|site| call_site_view(analysis, site)).collect(),
    }
}

fn block_view<'a>(
    analysis: &Analysis<'a>,
    device: &DeviceAnalysis<'a>,
    row: usize,
    after: Option<EntryId>,
) -> BlockView<'a> {
    let snapshot = analysis.snapshot;
    let lifetime = &device.lifetimes.rows[row];
    let decided = device.decided(row);
    let metadata = device.entries.user_metadata();
    let site = device.site(lifetime, &analysis.sites);
    let awaits = lifetime.awaits_free(after);
    let size_bytes = device.blocks().of(lifetime, snapshot);
    let doubt = device.blocks().doubt(lifetime);
    BlockView {
        device: device.device,
        address: lifetime.address,
        requested_bytes: lifetime.requested_bytes,
        size_bytes,
        size_bytes_at_most: (doubt > 0).then(|| size_bytes.saturating_add(doubt)),
        stream: snapshot.stream_handle(lifetime.stream),
        pool: (lifetime.pool != highwater_snapshot::PoolId::MISSING).then(|| snapshot.pool_id(lifetime.pool)),
        state: if awaits { "active_awaiting_free" } else { "active_allocated" },
        category: decided.category.name(),
        category_rule: decided.rule,
        alloc_entry: lifetime.alloc().map(EntryId::get),
        name: lifetime.alloc().map(|entry| snapshot.text(metadata.get(entry.index()))).filter(|name| !name.is_empty()),
        at: PlaceView::new(analysis, site, lifetime.stack),
        frames: frames_from_site(analysis, site, lifetime.stack),
    }
}
