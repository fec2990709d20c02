//! The words that a snapshot is written in, interned first so that their ids are constants.

use crate::{Action, StringId, StringTable};

macro_rules! words {
    ($($name:ident = $text:literal),* $(,)?) => {
        words!(@number FIRST_KEY; $($name,)*);

        /// Every word, in order of its id.
        const WORDS: &[&str] = &[$($text),*];
    };
    (@number $n:expr; $name:ident, $($rest:ident,)*) => {
        pub(crate) const $name: StringId = StringId::new($n);
        words!(@number $n + 1; $($rest,)*);
    };
    (@number $n:expr;) => {};
}

words! {
    // Keys of a trace entry.
    ACTION = "action",
    ADDR = "addr",
    DEVICE_FREE = "device_free",
    SIZE = "size",
    STREAM = "stream",
    TIME_US = "time_us",
    COMPILE_CONTEXT = "compile_context",
    USER_METADATA = "user_metadata",
    POOL_ID = "pool_id",
    INTERNAL_METADATA = "internal_metadata",
    CATEGORY = "category",
    FRAMES = "frames",
    FORWARD_FRAMES = "forward_frames",
    CPP_FRAMES = "cpp_frames",
    // Keys of a frame.
    NAME = "name",
    FILENAME = "filename",
    LINE = "line",
    FX_NODE_OP = "fx_node_op",
    FX_NODE_NAME = "fx_node_name",
    FX_NODE_TARGET = "fx_node_target",
    FX_ORIGINAL_TRACE = "fx_original_trace",
    // Keys of a segment.
    DEVICE = "device",
    ADDRESS = "address",
    TOTAL_SIZE = "total_size",
    ALLOCATED_SIZE = "allocated_size",
    ACTIVE_SIZE = "active_size",
    REQUESTED_SIZE = "requested_size",
    SEGMENT_TYPE = "segment_type",
    SEGMENT_POOL_ID = "segment_pool_id",
    IS_EXPANDABLE = "is_expandable",
    BLOCKS = "blocks",
    SMALL = "small",
    LARGE = "large",
    // Keys of a block.
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    ACTIVE_ALLOCATED = "active_allocated",
    ACTIVE_PENDING_FREE = "active_pending_free",
    ACTIVE_AWAITING_FREE = "active_awaiting_free",
    INACTIVE = "inactive",
    // Keys of an annotation.
    STAGE = "stage",
    START = "START",
    END = "END",
    // Keys of the whole.
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
}

/// What `augment_with_fx_traces=True` adds to frames of generated code.
pub(crate) const FX: [StringId; 4] = [FX_NODE_OP, FX_NODE_NAME, FX_NODE_TARGET, FX_ORIGINAL_TRACE];

/// The names of the actions come first, so that an action's id is its code.
const FIRST_KEY: u32 = 10;

const _: () = assert!(Action::NAMES.len() == FIRST_KEY as usize);

/// A table that begins with the names of the actions and the words above.
pub(crate) fn vocabulary() -> StringTable {
    let mut strings = StringTable::new();
    for word in Action::NAMES.iter().chain(WORDS) {
        strings.intern(word);
    }
    debug_assert_eq!(strings.len(), Action::NAMES.len() + WORDS.len(), "a word stands twice");
    strings
}

/// The known action that this string names.
#[inline]
pub(crate) fn action(word: StringId) -> Option<Action> {
    if word.get() < FIRST_KEY { u8::try_from(word.get()).ok().map(Action::known) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_words_and_actions_keep_their_order() {
        let strings = vocabulary();
        assert_eq!(strings.get(HOST_TRACES), "host_traces");
        assert_eq!(strings.get(FRAMES), "frames");
        for (code, name) in Action::NAMES.iter().enumerate() {
            let id = strings.find(name).unwrap();
            assert_eq!(action(id).map(|a| usize::from(a.code())), Some(code));
        }
        assert_eq!(action(ACTION), None);
    }
}
