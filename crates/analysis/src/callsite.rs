//! Call sites: the line of a program that stands for a stack.

use std::borrow::Cow;

use highwater_snapshot::{Frame, FrameId, Snapshot, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::category::origin::MODULE_CALL;
use crate::folding::{self, Owner};
use crate::native::{self, Native};

/// What stands for a stack: stacks with equal sites are shown as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// The innermost frame that is not PyTorch's, Python's or C++; of a stack whose Python is all PyTorch's, its innermost
    /// Python frame.
    Frame(FrameId),
    /// Of a stack that runs C++ and no Python, such as one of autograd's threads: the node, or the operator.
    Native {
        /// A frame with its name: the first one of the snapshot, so that equal names are equal sites.
        frame: FrameId,
        /// The line whose forward operator the node belongs to, where the recording tells.
        forward: Option<FrameId>,
    },
    /// A stack without frames that say anything: a thread of PyTorch's own that runs no Python, such as autograd's.
    NoPython,
    /// No stack was recorded.
    NoStack,
    /// No stack, because the allocation came before the recording.
    BeforeRecording,
}

impl Site {
    /// The words for a site without a line of Python: the name of a node (`BmmBackward0`), or why there is none.
    pub fn label(self, snapshot: &Snapshot) -> Option<&str> {
        match self {
            Self::Frame(_) => None,
            Self::Native { frame, .. } => {
                let name = snapshot.text(snapshot.frames.get(frame).name);
                Some(Native::of(name).map_or(name, Native::words))
            }
            other => other.absence(),
        }
    }

    /// Why there is neither a line nor a name.
    pub const fn absence(self) -> Option<&'static str> {
        match self {
            Self::Frame(_) | Self::Native { .. } => None,
            Self::NoPython => Some("(no Python frame: autograd's threads)"),
            Self::NoStack => Some("(no stack recorded)"),
            Self::BeforeRecording => Some("(allocated before the recording)"),
        }
    }

    /// The node of autograd's graph, if it is one.
    pub fn node(self, snapshot: &Snapshot) -> Option<&str> {
        match self {
            Self::Native { frame, .. } => native::node(snapshot.text(snapshot.frames.get(frame).name)),
            _ => None,
        }
    }

    /// The line that stands for it; for a node that of its forward operator, where that is known.
    pub const fn line(self) -> Option<FrameId> {
        match self {
            Self::Frame(frame) | Self::Native { forward: Some(frame), .. } => Some(frame),
            _ => None,
        }
    }
}

/// Which line of a stack stands for it, where a library of the program's has made the call: `--sites`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// The innermost line that is not PyTorch's, be it of a library.
    Library,
    /// The innermost line of the program itself.
    Own,
    /// As `Library`, and beside it the program's own line.
    #[default]
    Both,
}

/// The sites of all stacks of a snapshot, and the owners of all frames.
#[derive(Clone, Debug)]
pub struct Sites {
    lines: Lines,
    owners: Vec<Owner>,
    /// What stands for each stack.
    by_stack: Vec<Site>,
    /// The program's own first line, by stack.
    own: Vec<Option<FrameId>>,
    /// A stack that a frame stands for, by frame.
    examples: Vec<StackId>,
    /// Whether a frame is one by which modules are called, by frame.
    is_module_call: Vec<bool>,
}

impl Sites {
    /// Applies the rules of [`folding`] to every frame and stack.
    pub fn new(snapshot: &Snapshot) -> Self {
        Self::with(snapshot, Lines::default())
    }

    /// As [`new`](Self::new), with the lines that shall stand for stacks.
    pub fn with(snapshot: &Snapshot, lines: Lines) -> Self {
        let frames = Frames::new(snapshot);
        let own: Vec<Option<FrameId>> = snapshot.stacks.iter().map(|(_, stack)| frames.own(stack)).collect();
        let is_profile = snapshot.profile.is_some();
        let site = |(stack, own): ((StackId, &[FrameId]), &Option<FrameId>)| match own {
            Some(own) if lines == Lines::Own => Site::Frame(*own),
            _ if is_profile => frames.site_of_ranges(stack.1),
            _ => frames.site(stack.1),
        };
        let sites: Vec<Site> = snapshot.stacks.iter().zip(&own).map(site).collect();
        let mut examples = vec![StackId::MISSING; snapshot.frames.len()];
        for ((stack, _), site) in snapshot.stacks.iter().zip(&sites) {
            if let Site::Frame(frame) = site
                && examples[frame.index()] == StackId::MISSING
            {
                examples[frame.index()] = stack;
            }
        }
        let is_module_call = module_calls(snapshot, &frames.owners);
        Self { lines, owners: frames.owners, by_stack: sites, own, examples, is_module_call }
    }

    /// Whether a frame is one by which modules are called: PyTorch's, or a `forward` that the program calls itself.
    pub fn is_module_call(&self, frame: FrameId) -> bool {
        self.is_module_call[frame.index()]
    }

    /// The frames of a stack that run, without the lines that compiled code was made from.
    pub(crate) fn running<'a>(&self, frames: &'a [FrameId]) -> Cow<'a, [FrameId]> {
        if frames.iter().any(|&frame| self.owner(frame) == Owner::Generated) {
            running(frames, &self.owners).copied().collect()
        } else {
            frames.into()
        }
    }

    /// Which lines stand for stacks.
    pub const fn lines(&self) -> Lines {
        self.lines
    }

    /// Whether the stacks are a profiler's, and of operators alone: `with_stack=True` was not set.
    pub(crate) fn are_operators_only(&self, snapshot: &Snapshot) -> bool {
        snapshot.profile.is_some() && !self.owners.iter().copied().any(Owner::is_python)
    }

    /// Whose code a frame is.
    pub fn owner(&self, frame: FrameId) -> Owner {
        self.owners[frame.index()]
    }

    /// What stands for a stack.
    pub fn site(&self, stack: StackId) -> Site {
        if stack == StackId::MISSING { Site::NoStack } else { self.by_stack[stack.index()] }
    }

    /// The innermost line of the program itself, of a stack: no library's. What is installed, its directory tells.
    pub fn own(&self, stack: StackId) -> Option<FrameId> {
        self.own.get(stack.index()).copied().flatten()
    }

    /// Some stack that a frame is the site of.
    pub fn example(&self, frame: FrameId) -> StackId {
        self.examples[frame.index()]
    }

    /// The frames of a stack that are worth reading, innermost first: those that are not PyTorch's, or all of Python
    /// where none is. A profiler's operators are all there is of some of its stacks.
    pub fn shown_frames(&self, snapshot: &Snapshot, stack: StackId) -> Vec<FrameId> {
        let frames = snapshot.stacks.get(stack);
        let those = |wanted: &dyn Fn(Owner) -> bool| -> Vec<FrameId> {
            frames.iter().copied().filter(|&frame| wanted(self.owner(frame))).collect()
        };
        let user = those(&|owner| owner == Owner::User);
        if !user.is_empty() {
            return user;
        }
        if snapshot.profile.is_some() { those(&|owner| owner != Owner::Unwinding) } else { those(&Owner::is_python) }
    }
}

/// What the frames of a snapshot are.
struct Frames {
    owners: Vec<Owner>,
    is_library: Vec<bool>,
    native: Vec<Option<Kind>>,
}

/// What a C++ frame is, with the first frame that is the same.
#[derive(Clone, Copy)]
struct Kind {
    is_operator: bool,
    is_node: bool,
    first: FrameId,
}

/// By frame, whether modules are called by it: PyTorch's `Module.__call__`, or a method `forward` of the program's. Programs call that
/// themselves, too (`self.layer.forward(x)`): it shows where one `forward` calls another with nothing of PyTorch in between.
fn module_calls(snapshot: &Snapshot, owners: &[Owner]) -> Vec<bool> {
    let is_forward = |frame: &FrameId| {
        owners[frame.index()] == Owner::User && snapshot.text(snapshot.frames.get(*frame).name) == "forward"
    };
    // The files whose `forward` calls another.
    let mut files = FxHashSet::default();
    for (_, frames) in snapshot.stacks.iter() {
        let mut inner: Option<FrameId> = None;
        for &frame in running(frames, owners).filter(|frame| owners[frame.index()].is_python()) {
            if let Some(inner) = inner.replace(frame)
                && is_forward(&inner)
                && is_forward(&frame)
            {
                files.insert(snapshot.frames.get(inner).filename);
                files.insert(snapshot.frames.get(frame).filename);
            }
        }
    }
    let is_call = |(id, frame): (FrameId, Frame)| {
        let (name, file) = (snapshot.text(frame.name), snapshot.text(frame.filename));
        MODULE_CALL.holds(name, &file.replace('\\', "/")) || (is_forward(&id) && files.contains(&frame.filename))
    };
    snapshot.frames.iter().map(is_call).collect()
}

/// The frames of a stack that run: right outward of its own frame, compiled code has the lines that it was made from.
fn running<'a>(frames: &'a [FrameId], owners: &'a [Owner]) -> impl Iterator<Item = &'a FrameId> {
    let mut is_noted = false;
    frames.iter().filter(move |frame| {
        let owner = owners[frame.index()];
        is_noted = owner == Owner::Generated || (is_noted && owner == Owner::User);
        owner == Owner::Generated || !is_noted
    })
}

impl Frames {
    fn new(snapshot: &Snapshot) -> Self {
        let mut first = FxHashMap::default();
        let mut frames = Self { owners: Vec::new(), is_library: Vec::new(), native: Vec::new() };
        for (id, frame) in snapshot.frames.iter() {
            let (name, file) = (snapshot.text(frame.name), snapshot.text(frame.filename));
            let owner = folding::owner(name, file);
            let native = if owner.is_python() { None } else { Native::of(name) };
            frames.owners.push(owner);
            frames.is_library.push(folding::is_library(file));
            frames.native.push(native.map(|native| Kind {
                is_operator: matches!(native, Native::Operator(_)),
                is_node: matches!(native, Native::Node(_)),
                first: *first.entry(native.words()).or_insert(id),
            }));
        }
        frames
    }

    fn owner(&self, frame: FrameId) -> Owner {
        self.owners[frame.index()]
    }

    fn own(&self, stack: &[FrameId]) -> Option<FrameId> {
        let is_own = |frame: &FrameId| self.owner(*frame) == Owner::User && !self.is_library[frame.index()];
        stack.iter().copied().find(is_own)
    }

    fn site(&self, stack: &[FrameId]) -> Site {
        let first = |wanted: &dyn Fn(Owner) -> bool| stack.iter().position(|&frame| wanted(self.owner(frame)));
        if let Some(user) = first(&|owner| owner == Owner::User) {
            return Site::Frame(stack[user]);
        }
        let python = first(&Owner::is_python);
        // A node that PyTorch's own Python runs, as in a checkpoint, says more than that does.
        let native = || stack[..python.unwrap_or(stack.len())].iter().filter_map(|frame| self.native[frame.index()]);
        if let Some(node) = native().find(|kind| kind.is_node) {
            return Site::Native { frame: node.first, forward: None };
        }
        if let Some(python) = python {
            return Site::Frame(stack[python]);
        }
        // Of operators that call each other, the outermost was asked for.
        let engine = native().find(|kind| !kind.is_operator);
        let found = engine.or_else(|| native().rfind(|kind| kind.is_operator));
        found.map_or(Site::NoPython, |kind| Site::Native { frame: kind.first, forward: None })
    }

    /// The site of a profiler's stack: its ranges are functions and operators, whichever ran.
    fn site_of_ranges(&self, stack: &[FrameId]) -> Site {
        let first = |wanted: &dyn Fn(Owner) -> bool| stack.iter().copied().find(|&frame| wanted(self.owner(frame)));
        first(&|owner| owner == Owner::User)
            .or_else(|| first(&Owner::is_python))
            .or_else(|| first(&|owner| owner != Owner::Unwinding))
            .or_else(|| stack.first().copied())
            .map_or(Site::NoPython, Site::Frame)
    }
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
