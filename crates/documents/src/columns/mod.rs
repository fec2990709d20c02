//! `highwater-view`: the viewer's data, as columns of numbers. `docs/viewer-data.md` describes each.
//!
//! A row a lifetime, a segment, a piece of one, or an entry; names and texts are rows of tables. Nothing is made twice: what
//! the report says, the page reads from the report.

mod calls;
mod curves;
mod entries;
mod heat;
mod lifetimes;
mod manifest;
mod outside;
mod section;
mod segments;
mod stacks;

use std::collections::BTreeMap;

use highwater_snapshot::PoolId;

pub use calls::with_calls;
pub use curves::{CurveView, CurvesView, curves};
pub use heat::{HeatDeviceView, HeatView, heat};
pub use manifest::{
    DeviceManifest, IterationSpan, LeftOutView, Manifest, Mark, PeakAt, PhaseSpan, PoolView, ScopeView, Sections,
    WhatIf,
};
pub use outside::{OutsideOwnerView, OutsideView};
pub use section::{Encoding, Kind, Section, SectionInfo};

use self::lifetimes::{LeftOut, Lives};
use self::section::double;
use self::segments::Segments;
use crate::{Format, TorchView, Version, warnings};
use highwater_analysis::Analysis;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::lifetime::number;
use highwater_analysis::parallel;
use highwater_outside::Timeline;

/// The input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Leave out lifetimes smaller than this.
    pub least_bytes: Option<u64>,
}

/// The manifest and all columns.
#[derive(Clone, Debug)]
pub struct Columns {
    /// What there is.
    pub manifest: Manifest,
    /// By name; those of a device begin with its number and a slash.
    pub sections: BTreeMap<String, Section>,
}

/// Makes every column of an analysis. The `report` and `explain` sections, and the answers of a server, are not among
/// them.
///
/// # Examples
/// ```
/// use highwater_documents::columns::{Options, columns};
/// use highwater_snapshot::Snapshot;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/recordings/linear_forward.pickle.gz");
/// let snapshot = Snapshot::open(path)?;
/// let analysis = highwater_analysis::analyse(&snapshot);
/// let columns = columns(&analysis, "linear_forward.pickle.gz", &Options::default());
/// let device = &columns.manifest.devices[0];
/// assert_eq!(columns.sections["0/start"].length, device.rows);
/// assert_eq!(device.unit_bytes, 512);
/// # Ok::<(), highwater_snapshot::Error>(())
/// ```
pub fn columns(analysis: &Analysis<'_>, name: &str, options: &Options) -> Columns {
    let snapshot = analysis.snapshot;
    let mut sections = BTreeMap::new();
    let mut infos = Sections::new();
    for (name, section) in stacks::stacks(snapshot, &analysis.sites) {
        infos.insert(name.to_owned(), section.info());
        sections.insert(name.to_owned(), section);
    }
    infos.insert("frames".to_owned(), SectionInfo::JSON);
    infos.insert("report".to_owned(), SectionInfo::JSON);
    if analysis.devices.iter().any(|device| !device.oom.is_empty()) {
        infos.insert("explain".to_owned(), SectionInfo::JSON);
    }
    let mut left_out = LeftOut::default();
    let mut devices = Vec::with_capacity(analysis.devices.len());
    let driver = analysis.driver.as_ref().map(Timeline::new);
    for device in &analysis.devices {
        let made = of_device(analysis, device, driver.as_ref(), options);
        left_out.allocations += made.left_out.allocations;
        left_out.bytes = left_out.bytes.max(made.left_out.bytes);
        let prefix = device.device;
        sections.extend(made.sections.into_iter().map(|(name, section)| (format!("{prefix}/{name}"), section)));
        devices.push(made.manifest);
    }
    let manifest = Manifest {
        format: Format::default(),
        version: Version::default(),
        name: name.to_owned(),
        torch: TorchView::of(snapshot),
        warnings: warnings(analysis),
        left_out: options.least_bytes.map(|below_bytes| LeftOutView {
            below_bytes,
            allocations: left_out.allocations,
            bytes: left_out.bytes,
        }),
        what_if: WhatIf::Live,
        what_if_reason: None,
        frames: snapshot.frames.len(),
        stacks: snapshot.stacks.len() + stacks::WITHOUT_STACK,
        other_actions: snapshot.unknown_actions.iter().map(|&name| snapshot.text(name).to_owned()).collect(),
        sections: infos,
        opens_on: analysis.leading().map(|device| device.device),
        devices,
    };
    Columns { manifest, sections }
}

/// The `frames` section as JSON.
pub fn frames<'a>(analysis: &Analysis<'a>) -> impl serde::Serialize + use<'a> {
    stacks::FramesView::new(analysis)
}

/// The columns of one device.
struct OfDevice {
    manifest: DeviceManifest,
    sections: Vec<(&'static str, Section)>,
    left_out: LeftOut,
}

/// A job that runs in parallel with others.
type Job<'a, T> = Box<dyn Fn() -> T + Sync + 'a>;

/// A part of the work.
enum Part {
    Segments(Segments),
    Sizes(Vec<u64>),
    Sections(Vec<(&'static str, Section)>),
    Times(Option<(Section, [i64; 2])>),
    Categories(Option<(Vec<String>, Section)>),
}

fn of_device(
    analysis: &Analysis<'_>,
    device: &DeviceAnalysis<'_>,
    driver: Option<&Timeline<'_>>,
    options: &Options,
) -> OfDevice {
    let snapshot = analysis.snapshot;
    let (lives, left_out) = Lives::new(snapshot, device, options.least_bytes);
    // The longest first.
    let jobs: [Job<'_, Part>; 10] = [
        Box::new(|| Part::Segments(segments::segments(&lives))),
        Box::new(|| Part::Sections(entries::others(snapshot, device))),
        Box::new(|| Part::Sizes(lives.sizes_bytes())),
        Box::new(|| Part::Sections(vec![("start", lives.starts())])),
        Box::new(|| Part::Sections(vec![("end", lives.ends())])),
        Box::new(|| Part::Sections(vec![("requested", lives.requested())])),
        Box::new(|| Part::Sections(vec![("stack", lives.stacks())])),
        Box::new(|| {
            let (rows, entries) = lives.pending();
            Part::Sections(vec![("pending_row", rows), ("pending_entry", entries)])
        }),
        Box::new(|| Part::Times(entries::times(device))),
        Box::new(|| Part::Categories(lives.categories())),
    ];
    let mut manifest = manifest::device(analysis, device);
    let mut sections = Vec::new();
    let mut segments = None;
    let mut sizes = Vec::new();
    for part in parallel::map(&jobs, |job| job()) {
        match part {
            Part::Segments(made) => segments = Some(made),
            Part::Sizes(made) => sizes = made,
            Part::Sections(made) => sections.extend(made),
            Part::Times(Some((section, span))) => {
                sections.push(("time", section));
                manifest.time_us = Some(span);
            }
            Part::Categories(Some((names, section))) => {
                sections.push(("category", section));
                manifest.categories = Some(names);
            }
            Part::Times(None) | Part::Categories(None) => {}
        }
    }
    let segments = segments.expect("it is among the jobs");
    sections.extend(placed(&lives, &segments, &sizes, &mut manifest));
    if let Some((view, columns)) = driver.and_then(|driver| outside::outside(driver, device)) {
        manifest.outside = Some(view);
        sections.extend(columns);
    }
    manifest.rows = lives.rows.len();
    manifest.before = lives.before;
    manifest.sections = sections.iter().map(|(name, section)| ((*name).to_owned(), section.info())).collect();
    OfDevice { manifest, sections, left_out }
}

/// The columns that need to know the unit, or the segment that a lifetime lies in.
fn placed(
    lives: &Lives<'_>,
    segments: &Segments,
    sizes: &[u64],
    manifest: &mut DeviceManifest,
) -> Vec<(&'static str, Section)> {
    let snapshot = lives.snapshot;
    let Segments { rows, pieces, of_lifetimes } = segments;
    let shift = shift(
        sizes
            .iter()
            .copied()
            .chain(of_lifetimes.iter().map(|&(_, offset)| offset))
            .chain(rows.iter().map(|row| row.bytes))
            .chain(pieces.iter().flat_map(|piece| [piece.bytes, piece.offset_bytes])),
    );
    let pool_of = |at: usize| {
        let own = lives.rows[at].pool;
        if own == PoolId::MISSING { rows[of_lifetimes[at].0 as usize].pool } else { own }
    };
    let streams = Dense::new(
        lives.rows.iter().map(|lifetime| lifetime.stream.get()).chain(rows.iter().map(|row| row.stream.get())),
        snapshot.streams.len(),
    );
    let pools = Dense::new(
        (0..lives.rows.len()).map(|at| pool_of(at).get()).chain(rows.iter().map(|row| row.pool.get())),
        snapshot.pools.len(),
    );
    manifest.unit_bytes = 1 << shift;
    manifest.streams = manifest::streams(snapshot, &streams.ids);
    manifest.pools = manifest::pools(snapshot, &pools.ids);
    let of_rows = |of: &dyn Fn(&segments::SegmentRow) -> u64| {
        let values: Vec<u64> = rows.iter().map(of).collect();
        Section::of(&values)
    };
    let of_pieces = |of: &dyn Fn(&segments::Piece) -> u64| {
        let values: Vec<u64> = pieces.iter().map(of).collect();
        Section::of(&values)
    };
    let addresses: Vec<f64> = rows.iter().map(|row| double(row.address)).collect();
    let mut sections = vec![
        ("segment_address", Section::of_doubles(&addresses)),
        ("segment_size", of_rows(&|row| row.bytes >> shift)),
        ("segment_stream", of_rows(&|row| streams.row(row.stream.get()).into())),
        ("segment_pool", of_rows(&|row| pools.row(row.pool.get()).into())),
        ("segment_stack", of_rows(&|row| row.stack.into())),
        ("segment_flags", of_rows(&|row| row.flags.into())),
        ("piece_segment", of_pieces(&|piece| piece.segment.into())),
        ("piece_offset", of_pieces(&|piece| piece.offset_bytes >> shift)),
        ("piece_size", of_pieces(&|piece| piece.bytes >> shift)),
        ("piece_start", of_pieces(&|piece| piece.start.into())),
        ("piece_end", of_pieces(&|piece| piece.end.into())),
    ];
    let jobs: [Job<'_, (&'static str, Section)>; 5] = [
        Box::new(|| ("size", Section::narrowed(sizes.len(), sizes.iter().map(|size| size >> shift)))),
        Box::new(|| {
            let offsets = of_lifetimes.iter().map(|&(_, offset)| offset >> shift);
            ("offset", Section::narrowed(of_lifetimes.len(), offsets))
        }),
        Box::new(|| {
            let rows = of_lifetimes.iter().map(|&(row, _)| u64::from(row));
            ("segment", Section::narrowed(of_lifetimes.len(), rows))
        }),
        Box::new(|| ("stream", lives.column_of(|_, lifetime| streams.row(lifetime.stream.get())))),
        Box::new(|| ("pool", lives.column_of(|at, _| pools.row(pool_of(at).get())))),
    ];
    sections.extend(parallel::map(&jobs, |job| job()));
    sections
}

/// The unit as a power of two: at most 512 bytes, to which PyTorch rounds, and all of these are multiples of it.
fn shift(bytes: impl Iterator<Item = u64>) -> u32 {
    bytes.fold(512, |all, bytes| all | bytes).trailing_zeros()
}

/// Ids that occur, numbered anew: ascending, the missing one last.
struct Dense {
    ids: Vec<u32>,
    rows: Vec<u32>,
}

impl Dense {
    /// Of ids below `count`, and `u32::MAX`.
    fn new(ids: impl Iterator<Item = u32>, count: usize) -> Self {
        let mut occurs = vec![false; count];
        let mut is_missing = false;
        for id in ids {
            match occurs.get_mut(id as usize) {
                Some(occurs) => *occurs = true,
                None => is_missing = true,
            }
        }
        let mut dense = Self { ids: Vec::new(), rows: vec![0; count] };
        for (id, _) in occurs.iter().enumerate().filter(|&(_, &occurs)| occurs) {
            dense.rows[id] = number(dense.ids.len());
            dense.ids.push(number(id));
        }
        if is_missing {
            dense.ids.push(u32::MAX);
        }
        dense
    }

    fn row(&self, id: u32) -> u32 {
        self.rows.get(id as usize).copied().unwrap_or_else(|| number(self.ids.len().saturating_sub(1)))
    }
}
