//! Call sites and frames in documents.

use highwater_snapshot::{FrameId, Snapshot, StackId};

use highwater_analysis::Analysis;
use highwater_analysis::callsite::Site;
use highwater_analysis::place::place_in;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FrameView<'a> {
    /// The function.
    pub name: &'a str,
    /// The file.
    pub filename: &'a str,
    /// The line.
    pub line: u64,
}

impl<'a> FrameView<'a> {
    /// The frame of an id.
    pub fn new(snapshot: &'a Snapshot, id: FrameId) -> Self {
        let frame = snapshot.frames.get(id);
        Self { name: snapshot.text(frame.name), filename: snapshot.text(frame.filename), line: frame.line }
    }
}

/// A call site, beside its frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceView<'a> {
    /// The call site in words, as every table shows it.
    pub place: String,
    /// The program's own first line, where `frames` begin in a library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_frame: Option<FrameView<'a>>,
    /// The node of autograd's graph, of a stack that runs one: `frames` are then those of its forward operator, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autograd_node: Option<&'a str>,
}

impl<'a> PlaceView<'a> {
    /// Of a site, and a stack of it.
    pub fn new(analysis: &Analysis<'a>, site: Site, stack: StackId) -> Self {
        let (snapshot, sites) = (analysis.snapshot, &analysis.sites);
        let own = site.line().and_then(|line| {
            let stack = if matches!(site, Site::Frame(_)) { stack } else { sites.example(line) };
            sites.own(stack).filter(|&own| own != line)
        });
        Self {
            place: place_in(snapshot, sites, site, stack),
            own_frame: own.map(|own| FrameView::new(snapshot, own)),
            autograd_node: site.node(snapshot),
        }
    }
}

/// The frames of a stack that are worth reading, the site's own first; of a node, those of its forward operator.
pub fn frames_from_site<'a>(analysis: &Analysis<'a>, site: Site, stack: StackId) -> Vec<FrameView<'a>> {
    let stack = match site {
        Site::Native { forward: Some(line), .. } => analysis.sites.example(line),
        _ => stack,
    };
    if stack == StackId::MISSING {
        return Vec::new();
    }
    let shown = analysis.sites.shown_frames(analysis.snapshot, stack);
    let from = site.line().and_then(|line| shown.iter().position(|&frame| frame == line)).unwrap_or(0);
    shown[from..].iter().map(|&frame| FrameView::new(analysis.snapshot, frame)).collect()
}
