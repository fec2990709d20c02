//! Two recordings' stacks in one tree: every byte of both is in it, once.

use highwater_analysis::{Analysis, analyse};
use highwater_findings::diff::compare_devices;
use highwater_findings::diff_stacks::{StackTree, merged_stacks};
use highwater_testkit::recording;

fn tree<'a>(analyses: &'a [&'a Analysis<'a>; 2]) -> StackTree<'a> {
    let (_, diff) = compare_devices(analyses, &[0, 0], None).expect("both have device 0");
    let side = |file: usize| (analyses[file], analyses[file].device(0).expect("device 0"), diff.sides[file].entry);
    merged_stacks([side(0), side(1)])
}

#[test]
fn the_tree_has_the_bytes_of_the_call_sites_and_callers_hold_what_their_callees_do() {
    let snapshots = [recording("qwen_train_b2"), recording("qwen_train_b16")];
    let analyses = snapshots.each_ref().map(analyse);
    let analyses = analyses.each_ref();
    let tree = tree(&analyses);
    let (_, diff) = compare_devices(&analyses, &[0, 0], None).expect("both have device 0");
    for side in 0..2 {
        assert_eq!(tree.bytes[side], diff.sites.iter().map(|site| site.bytes[side]).sum::<u64>());
        let roots = tree.nodes.iter().filter(|node| node.parent.is_none());
        let in_roots: u64 = roots.map(|node| node.bytes[side]).sum();
        assert!(in_roots <= tree.bytes[side] && in_roots > tree.bytes[side] / 100 * 99, "little is left out");
        let mut below = vec![0; tree.nodes.len()];
        for (at, node) in tree.nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                assert!(parent < at, "callers come first");
                below[parent] += node.bytes[side];
            }
        }
        assert!(tree.nodes.iter().zip(below).all(|(node, below)| below <= node.bytes[side]));
    }
    assert!(tree.nodes.iter().any(|node| node.bytes[0] > 0 && node.bytes[1] > node.bytes[0]), "a frame that grew");
}

#[test]
fn a_recording_beside_itself_changes_nowhere() {
    let snapshot = recording("oom_gpt2_8gib");
    let analyses = [analyse(&snapshot), analyse(&snapshot)];
    let analyses = analyses.each_ref();
    let tree = tree(&analyses);
    assert!(!tree.nodes.is_empty());
    assert!(tree.nodes.iter().all(|node| node.bytes[0] == node.bytes[1]));
}
