//! The pages of `docs/findings/`, which the program has with it: 29 KB.

macro_rules! pages {
    ($($id:literal)*) => {
        &[$(($id, include_str!(concat!("../../../embedded/findings/", $id, ".md"))),)*
            ("findings", include_str!("../../../embedded/findings/README.md"))]
    };
}

/// The page of each finding by its id, and the list of all.
pub(super) const PAGES: &[(&str, &str)] = pages! {
    "allocation-retries" "allocator-settings" "attention-matrices" "autocast-cache" "awaiting-free"
    "batch-size" "checkpointing" "collected-results" "communicators" "data-on-device" "device-prefetch"
    "empty-cache" "free-at-dump" "freed-late" "frozen-weights" "full-precision-moments" "garbage-collector"
    "gradients-kept" "growth" "idle-context" "idle-stream" "imbalance" "large-tensor" "late-recording"
    "library-growth" "library-workspaces" "loading-copies" "logits-copies" "mixed-precision" "no-stacks"
    "one-hot" "oom" "optimizer-intermediates" "pinned-memory" "private-pools" "reserved-unused"
    "second-allocator"
    "truncated" "varying-shapes" "weights-twice"
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_its_page() {
        for id in highwater_findings::IDS {
            assert!(PAGES.iter().any(|(page, _)| *page == id), "{id}");
        }
        assert_eq!(PAGES.len(), highwater_findings::IDS.len() + 1);
    }
}
