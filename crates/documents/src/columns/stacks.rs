//! Frames, and the stacks as a tree of calls.

use hashbrown::HashMap;
use highwater_analysis::Analysis;
use highwater_analysis::callsite::{Site, Sites};
use highwater_analysis::folding::Owner;
use highwater_analysis::lifetime::number;
use highwater_analysis::place::place;
use highwater_snapshot::{Snapshot, StringId};

use super::section::Section;

/// Stacks that stand for none: "no stack recorded" and "allocated before the recording".
pub(super) const WITHOUT_STACK: usize = 2;

/// The sites that are no frame, in the order of the labels; nodes and operators come behind them.
const LABELLED: [Site; 3] = [Site::NoPython, Site::NoStack, Site::BeforeRecording];

/// The sites that are no line of Python, in the order of the labels.
fn labelled(snapshot: &Snapshot, sites: &Sites) -> Vec<Site> {
    let mut native: Vec<Site> = snapshot
        .stacks
        .iter()
        .map(|(id, _)| sites.site(id))
        .filter(|site| matches!(site, Site::Native { .. }))
        .collect();
    native.sort_unstable();
    native.dedup();
    LABELLED.into_iter().chain(native).collect()
}

/// The `frames` section: columns, and the strings that they name.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct FramesView<'a> {
    strings: Vec<&'a str>,
    name: Vec<u32>,
    file: Vec<u32>,
    line: Vec<u64>,
    owner: Vec<u8>,
    labels: Vec<String>,
}

impl<'a> FramesView<'a> {
    pub(super) fn new(analysis: &Analysis<'a>) -> Self {
        let snapshot = analysis.snapshot;
        let mut rows = vec![u32::MAX; snapshot.strings.len()];
        let mut strings = Vec::new();
        let mut row_of = |id: StringId| {
            if id == StringId::MISSING {
                // No frame without a name and a file is made; the empty text would be right for it.
                return 0;
            }
            let row = &mut rows[id.index()];
            if *row == u32::MAX {
                *row = number(strings.len());
                strings.push(snapshot.text(id));
            }
            *row
        };
        let (mut name, mut file, mut line, mut owner) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, frame) in snapshot.frames.iter() {
            name.push(row_of(frame.name));
            file.push(row_of(frame.filename));
            line.push(frame.line);
            owner.push(owner_code(analysis.sites.owner(id)));
        }
        if strings.is_empty() {
            strings.push("");
        }
        let labels = labelled(snapshot, &analysis.sites).into_iter().map(|site| place(analysis, site)).collect();
        Self { strings, name, file, line, owner, labels }
    }
}

fn owner_code(owner: Owner) -> u8 {
    match owner {
        Owner::User => 0,
        Owner::Torch => 1,
        Owner::Generated => 2,
        Owner::Python => 3,
        Owner::Native => 4,
        Owner::Unwinding => 5,
    }
}

/// The stacks as a tree from the outermost frame inwards, and the call site of each.
pub(super) fn stacks(snapshot: &Snapshot, sites: &Sites) -> Vec<(&'static str, Section)> {
    let mut rows: HashMap<(u32, u32), u32> = HashMap::default();
    let (mut parents, mut frames): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut innermost: Vec<Option<u32>> = Vec::with_capacity(snapshot.stacks.len() + WITHOUT_STACK);
    for (_, stack) in snapshot.stacks.iter() {
        let mut node = None;
        for frame in stack.iter().rev() {
            // A root has no parent: that is told by a number that no node has.
            let parent = node.unwrap_or(u32::MAX);
            node = Some(*rows.entry((parent, frame.get())).or_insert_with(|| {
                let row = number(parents.len());
                parents.push(if parent == u32::MAX { row } else { parent });
                frames.push(frame.get());
                row
            }));
        }
        innermost.push(node);
    }
    innermost.extend([None; WITHOUT_STACK]);
    let nodes = number(parents.len());
    let innermost: Vec<u32> = innermost.into_iter().map(|node| node.unwrap_or(nodes)).collect();
    let own_sites = snapshot.stacks.iter().map(|(id, _)| sites.site(id));
    let all_sites = own_sites.chain([Site::NoStack, Site::BeforeRecording]);
    let labels: HashMap<Site, usize> = labelled(snapshot, sites).into_iter().zip(0..).collect();
    let site_rows: Vec<u32> = all_sites.map(|site| site_row(snapshot, &labels, site)).collect();
    vec![
        ("node_parent", Section::of_u32(&parents)),
        ("node_frame", Section::of_u32(&frames)),
        ("stack_node", Section::of_u32(&innermost)),
        ("stack_site", Section::of_u32(&site_rows)),
    ]
}

/// A frame, or behind the frames one of the labels.
fn site_row(snapshot: &Snapshot, labels: &HashMap<Site, usize>, site: Site) -> u32 {
    match site {
        Site::Frame(frame) => frame.get(),
        labelled => number(snapshot.frames.len() + labels.get(&labelled).copied().unwrap_or(0)),
    }
}
