//! Two recordings, compared.

use std::sync::Arc;

use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_answers::diff::{Asked, Comparison};
use highwater_documents::diff::StackTreeView;
use highwater_findings::diff::{Moment, compare_devices};
use highwater_findings::diff_stacks::merged_stacks;
use highwater_snapshot::EntryId;

use crate::reader::{Recording, json};
use crate::refusal::Refusal;
use axum::body::Bytes;

/// What is asked of two recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The document of `highwater diff`.
    Numbers,
    /// The stacks of both in one tree, at the same moments.
    Stacks,
}

/// A recording to compare with.
pub(crate) struct Other {
    pub(crate) recording: Arc<Recording>,
    /// What the two are called.
    pub(crate) names: [String; 2],
    /// A device of each; `None` for those that match.
    pub(crate) devices: Option<[u32; 2]>,
}

/// The answer, as JSON.
pub(crate) fn compared(analysis: &Analysis<'_>, other: &Other, wanted: Wanted) -> Result<Bytes, Refusal> {
    let both = [analysis, other.recording.analysis()];
    match wanted {
        Wanted::Numbers => {
            let device = other.devices.map(Vec::from);
            let comparison = Comparison::new(other.names.to_vec(), &both, Asked { device, ..Asked::default() })?;
            Ok(json(&comparison.view()))
        }
        Wanted::Stacks => stacks(&both, other),
    }
}

fn stacks(analyses: &[&Analysis<'_>; 2], other: &Other) -> Result<Bytes, Refusal> {
    let missing = || Refusal::malformed("there is no such device").hint("give one of each file, such as `device=0,1`");
    let leading = || Some([analyses[0].leading()?.device, analyses[1].leading()?.device]);
    let devices = other.devices.or_else(leading).ok_or_else(missing)?;
    let (_, diff) = compare_devices(analyses, &devices, None::<Moment>).ok_or_else(missing)?;
    let side = |file: usize| -> Option<(&Analysis<'_>, &DeviceAnalysis<'_>, Option<EntryId>)> {
        Some((analyses[file], analyses[file].device(devices[file])?, diff.sides[file].entry))
    };
    let (first, second) = side(0).zip(side(1)).ok_or_else(missing)?;
    Ok(json(&StackTreeView::new(&merged_stacks([first, second]))))
}
