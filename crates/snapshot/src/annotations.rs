//! What `record_function` and PyTorch itself noted beside the traces.

use crate::StringId;

/// Where an annotation stands in its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The scope began.
    Start,
    /// The scope ended.
    End,
    /// Neither word.
    Other(StringId),
}

/// One annotation event: `external_annotations` of the file, in its order.
///
/// # Source
/// `spec/snapshot-format.md` section 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Start or end.
    pub stage: Stage,
    /// The scope's name, such as `Optimizer.step#AdamW.step`.
    pub name: StringId,
    /// The current device at that moment, not necessarily the one it concerns; -1 if absent.
    pub device: i32,
    /// Microseconds since the Unix epoch.
    pub time_us: Option<i64>,
}
