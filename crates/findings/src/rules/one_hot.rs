//! Classes as rows of zeros with a one: eight bytes for every class of every position, where an index is enough.

use highwater_analysis::callsite::Site;
use highwater_analysis::category::Category;
use highwater_analysis::folding::Owner;
use highwater_analysis::lifetime::Lifetime;
use highwater_units::{counted, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity};

/// Blocks below this share of the peak are not worth a word, in percent.
const WORTH_PERCENT: u64 = 2;

/// One-hot rows are of 64-bit integers; what is computed with them is as wide as the logits.
const INTEGER_BYTES: u64 = 8;

/// Allocations behind one-hot rows among which their copy in floating point is.
const NEAR: usize = 3;

/// One finding for all lines that make them.
pub(super) fn one_hot(evidence: &Evidence<'_>) -> Option<Finding> {
    let peak = evidence.peak.entry?;
    let named = evidence.stacks_with(makes_one_hot);
    let least = evidence.share_of_peak(WORTH_PERCENT).max(1);
    let rows = &evidence.device.lifetimes.rows;
    let mut lines: FxHashMap<Site, Vec<u64>> = FxHashMap::default();
    for (row, lifetime) in evidence.rows() {
        if lifetime.alloc().is_none() || lifetime.requested_bytes < least || !is_fleeting(evidence, row) {
            continue;
        }
        let is_one = named.has(lifetime.stack) || is_one_hot(evidence, row);
        if is_one && matches!(evidence.site(lifetime), Site::Frame(_)) {
            let sizes = lines.entry(evidence.site(lifetime)).or_default();
            if !sizes.contains(&lifetime.requested_bytes) && sizes.len() < 64 {
                sizes.push(lifetime.requested_bytes);
            }
        }
    }
    if lines.is_empty() {
        return None;
    }
    // The line that makes them casts or multiplies them, too.
    let of_lines = rows.iter().enumerate().filter(|&(row, lifetime)| {
        let of = |sizes: &Vec<u64>| {
            let bytes = lifetime.requested_bytes;
            sizes.iter().any(|&size| [size, size / 2, size / 4].contains(&bytes))
        };
        lifetime.alloc().is_some() && lines.get(&evidence.site(lifetime)).is_some_and(of) && is_fleeting(evidence, row)
    });
    let of_lines: Vec<&Lifetime> = of_lines.map(|(_, lifetime)| lifetime).collect();
    let at_peak: Vec<&&Lifetime> = of_lines.iter().filter(|lifetime| lifetime.is_live_after(peak)).collect();
    let changes = of_lines.iter().map(|l| Change::without(evidence.span(l), evidence.bytes(l)));
    let saving = evidence.worth(evidence.peak_with(&changes.collect::<Vec<_>>()))?;
    let bytes = at_peak.iter().map(|l| evidence.bytes(l)).fold(0, u64::saturating_add);
    let title = format!("one-hot rows and their products take {} at the peak", size(bytes));
    let detail = format!(
        "{}, with one element per position and class: {}",
        counted(at_peak.len(), "block", "blocks"),
        evidence.places(at_peak.iter().map(|l| (evidence.site(l), evidence.bytes(l))))
    );
    Some(Finding::new("one-hot", Severity::Warning, title, detail).saves_about(saving).change(
        "keep the classes as indices: `F.cross_entropy(logits, classes)`, `log_probs.gather(-1, \
         classes.unsqueeze(-1))`, or `F.embedding(classes, weight)` for a product with a matrix",
    ))
}

/// The operator, or a function of the program's own for the same: one that only uses them has a longer name.
fn makes_one_hot(name: &str, _: &str) -> bool {
    let is_native = name.contains("::");
    if is_native { name.contains("one_hot") } else { ["one_hot", "onehot", "to_one_hot", "to_onehot"].contains(&name) }
}

fn is_fleeting(evidence: &Evidence<'_>, row: usize) -> bool {
    !matches!(
        evidence.device.decided(row).category,
        Category::Parameter | Category::Gradient | Category::OptimizerState | Category::Workspace
    )
}

/// Where no operator is named: a line of the program makes 64-bit numbers out of nothing of their size, then numbers of 32 or 16
/// bits in the same shape, and logits of that shape are there.
fn is_one_hot(evidence: &Evidence<'_>, row: usize) -> bool {
    let rows = &evidence.device.lifetimes.rows;
    let (lifetime, site) = (&rows[row], evidence.site(&rows[row]));
    let bytes = lifetime.requested_bytes;
    if bytes % INTEGER_BYTES != 0 || !is_by_program(evidence, lifetime) {
        return false;
    }
    let in_shape = |other: u64| other == bytes / 2 || other == bytes / 4;
    let behind = rows.iter().skip(row + 1).take(NEAR);
    let has_copy = behind.into_iter().any(|next| in_shape(next.requested_bytes) && next.stack == lifetime.stack);
    // Sorting makes indices beside values, and a cast to 64 bits follows what it casts.
    let before = || (row.saturating_sub(64)..row).rev();
    let is_alone =
        before().take(NEAR).all(|at| evidence.site(&rows[at]) != site || rows[at].requested_bytes < bytes / 8);
    let is_computed =
        |at: usize| matches!(evidence.device.decided(at).category, Category::Activation | Category::Temporary);
    let is_there = |at: usize| lifetime.alloc().is_some_and(|alloc| rows[at].is_live_after(alloc));
    let has_logits = before().any(|at| {
        in_shape(rows[at].requested_bytes) && is_there(at) && is_computed(at) && evidence.site(&rows[at]) != site
    });
    has_copy && is_alone && has_logits
}

/// Whether the program's own line made a block, with nothing of PyTorch's Python between.
fn is_by_program(evidence: &Evidence<'_>, lifetime: &Lifetime) -> bool {
    if !lifetime.stack.is_recorded() {
        return false;
    }
    let sites = &evidence.analysis.sites;
    let frames = evidence.analysis.snapshot.stacks.get(lifetime.stack);
    let has_operators = frames.iter().any(|&frame| sites.owner(frame) == Owner::Native);
    let innermost = frames.iter().copied().find(|&frame| sites.owner(frame).is_python());
    !has_operators && innermost.is_some_and(|frame| sites.owner(frame) == Owner::User)
}
