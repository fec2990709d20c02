//! Call sites: the line of the user's own code that stands for a stack.

use highwater_snapshot::{FrameId, Snapshot, StackId};
use rustc_hash::FxHashMap;

use crate::folding::{self, Owner};

/// What stands for a stack: stacks with equal sites are shown as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// The innermost frame that is the user's own; of a stack that is all PyTorch's, its innermost Python frame; of one
    /// without Python, its innermost frame.
    Frame(FrameId),
    /// A stack without frames: a thread of PyTorch's own that runs no Python, such as autograd's.
    NoPython,
    /// No stack was recorded.
    NoStack,
    /// No stack, because the allocation came before the recording.
    BeforeRecording,
}

impl Site {
    /// The words for a site without a frame.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Frame(_) => None,
            Self::NoPython => Some("(no Python frame: autograd's threads)"),
            Self::NoStack => Some("(no stack recorded)"),
            Self::BeforeRecording => Some("(allocated before the recording)"),
        }
    }
}

/// The sites of all stacks of a snapshot, and the owners of all frames.
#[derive(Clone, Debug)]
pub struct Sites {
    owners: Vec<Owner>,
    sites: Vec<Site>,
}

impl Sites {
    /// Applies the rules of [`folding`] to every frame and stack.
    pub fn new(snapshot: &Snapshot) -> Self {
        let owners: Vec<Owner> = snapshot
            .frames
            .iter()
            .map(|(_, frame)| folding::owner(snapshot.text(frame.name), snapshot.text(frame.filename)))
            .collect();
        let sites = snapshot.stacks.iter().map(|(_, frames)| site_of(frames, &owners)).collect();
        Self { owners, sites }
    }

    /// Whether the stacks are a profiler's, and of operators alone: `with_stack=True` was not set.
    pub(crate) fn are_operators_only(&self, snapshot: &Snapshot) -> bool {
        snapshot.profile.is_some() && !self.owners.iter().any(|owner| owner.is_python())
    }

    /// Whose code a frame is.
    pub fn owner(&self, frame: FrameId) -> Owner {
        self.owners[frame.index()]
    }

    /// What stands for a stack.
    pub fn site(&self, stack: StackId) -> Site {
        if stack == StackId::MISSING { Site::NoStack } else { self.sites[stack.index()] }
    }

    /// The frames of a stack that are worth reading, innermost first: the user's own, or all but the unwinding where
    /// none is.
    pub fn shown_frames(&self, snapshot: &Snapshot, stack: StackId) -> Vec<FrameId> {
        let frames = snapshot.stacks.get(stack);
        let own: Vec<_> = frames.iter().copied().filter(|&frame| self.owner(frame) == Owner::User).collect();
        if !own.is_empty() {
            return own;
        }
        frames.iter().copied().filter(|&frame| self.owner(frame) != Owner::Unwinding).collect()
    }
}

fn site_of(frames: &[FrameId], owners: &[Owner]) -> Site {
    let owner = |frame: FrameId| owners[frame.index()];
    let first = |wanted: &dyn Fn(Owner) -> bool| frames.iter().copied().find(|&frame| wanted(owner(frame)));
    first(&|owner| owner == Owner::User)
        .or_else(|| first(&|owner| owner.is_python()))
        .or_else(|| first(&|owner| owner != Owner::Unwinding))
        .or_else(|| frames.first().copied())
        .map_or(Site::NoPython, Site::Frame)
}

/// Bytes by call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteTotal {
    /// The site.
    pub site: Site,
    /// Sum of the bytes that are told: of blocks, or as asked for.
    pub bytes: u64,
    /// Sum of requested bytes.
    pub requested_bytes: u64,
    /// Number of allocations.
    pub count: u64,
    /// The stack with the most bytes among those of the site.
    pub stack: StackId,
}

impl SiteTotal {
    /// Adds another; the stack stays.
    fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.requested_bytes = self.requested_bytes.saturating_add(other.requested_bytes);
        self.count += other.count;
    }
}

/// Sums (stack, site, bytes, requested bytes) by site, most bytes first.
pub fn totals(rows: impl Iterator<Item = (StackId, Site, u64, u64)>) -> Vec<SiteTotal> {
    let mut by_stack: FxHashMap<(Site, StackId), SiteTotal> = FxHashMap::default();
    for (stack, site, bytes, requested_bytes) in rows {
        let one = SiteTotal { site, bytes, requested_bytes, count: 1, stack };
        by_stack.entry((site, stack)).and_modify(|sum| sum.add(&one)).or_insert(one);
    }
    let mut stacks: Vec<SiteTotal> = by_stack.into_values().collect();
    stacks.sort_unstable_by_key(|total| (total.site, std::cmp::Reverse(total.bytes), total.stack));
    let mut sites: Vec<SiteTotal> = Vec::new();
    for total in stacks {
        match sites.last_mut().filter(|last| last.site == total.site) {
            Some(last) => last.add(&total),
            None => sites.push(total),
        }
    }
    sites.sort_by_key(|total| (std::cmp::Reverse(total.bytes), total.site));
    sites
}
