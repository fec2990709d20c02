//! Questions for the size of a workspace: which argument the answer goes to. The answer is none at all, which the functions
//! that get the workspace, doing nothing, are content with.

/// What answers a question for a size.
pub(crate) fn answer_of(_name: &str) -> Option<usize> {
    None
}
