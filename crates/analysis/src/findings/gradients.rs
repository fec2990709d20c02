//! Gradients that are there while nobody needs them: after the optimizer's step, until backward makes them anew.
//!
//! `zero_grad(set_to_none=False)` and `p.grad.zero_()` keep them throughout; `zero_grad()` after the forward pass keeps them
//! through it.

use highwater_snapshot::{EntryId, StackId};
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity};
use crate::category::Category;
use crate::category::course::Pass;
use crate::counterfactual::Change;
use crate::lifetime::Lifetime;
use crate::units::{counted, size};

/// Gradients times iterations: beyond, the answer is not worth the time.
const MOST_CHANGES: usize = 4_000_000;

/// One finding for all gradients.
pub(super) fn gradients_kept(evidence: &Evidence<'_>) -> Option<Finding> {
    let idle = idle_spans(evidence);
    let (mut changes, mut kept_bytes, mut count, mut stay) = (Vec::new(), 0_u64, 0_usize, false);
    for (_, gradient) in evidence.of(Category::Gradient) {
        let span = evidence.span(gradient);
        let before = changes.len();
        let first = idle.partition_point(|idle| idle.end_of_pass <= span.start);
        if changes.len() > MOST_CHANGES {
            return None;
        }
        for idle in idle[first..].iter().take_while(|idle| idle.from < span.end) {
            let until = idle.remade(gradient, span.start).min(span.end);
            changes.push(Change::without(idle.from..until, evidence.bytes(gradient)));
            stay |= until < span.end;
        }
        if changes.len() > before {
            count += 1;
            kept_bytes = kept_bytes.saturating_add(evidence.bytes(gradient));
        }
    }
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    let title = format!("{} of the peak is gradients that are not needed any more", size(saving));
    let how =
        if stay { "set to zero rather than to `None`" } else { "cleared only once the next forward pass has run" };
    let detail = format!(
        "{} are {how}: up to {} lies there from the optimizer's step until backward makes them anew; without, the peak \
         would be {}",
        counted(count, "gradient", "gradients"),
        size(kept_bytes.min(evidence.peak.bytes)),
        size(evidence.peak.bytes - saving)
    );
    Some(Finding::new("gradients-kept", Severity::Warning, title, detail).saves(saving).change(
        "`optimizer.zero_grad()` right after `optimizer.step()`, with `set_to_none=True`, the default (by hand: `p.grad = None`)",
    ))
}

/// A stretch in which the gradients of the iteration before are of no use.
struct Idle {
    /// From the first allocation of the next forward pass.
    from: usize,
    /// The backward pass that the gradients come from ends here.
    end_of_pass: usize,
    /// The next pass begins.
    next_pass: usize,
    /// When that pass is done with what it made of each kind, in order: then the gradient that was kept has it added.
    made: FxHashMap<Kind, Vec<usize>>,
    /// Where each gradient of the first pass stood among those of its kind.
    rank: std::rc::Rc<FxHashMap<usize, (Kind, usize, usize)>>,
}

/// Allocations that stand for each other in two passes.
type Kind = (StackId, u64);

impl Idle {
    /// The entry at which a gradient that were `None` would be there again.
    fn remade(&self, gradient: &Lifetime, alloc: usize) -> usize {
        let known = gradient.alloc().and_then(|_| self.rank.get(&alloc));
        let again = known.and_then(|(kind, rank, of)| {
            let made = self.made.get(kind).filter(|made| made.len() == *of)?;
            made.get(*rank).copied()
        });
        again.unwrap_or(self.next_pass)
    }
}

/// The stretches between the last pass of each iteration and the first of the next.
fn idle_spans(evidence: &Evidence<'_>) -> Vec<Idle> {
    let passes = evidence.passes();
    let iterations = &evidence.device.iterations.rows;
    let Some(first) = passes.first() else { return Vec::new() };
    let iteration_of = |pass: &Pass| iterations.iter().position(|row| row.entries.contains(&(pass.start as usize)));
    let made_first = made_in(evidence, first);
    let mut rank = FxHashMap::default();
    for (kind, made) in &made_first {
        for (at, &(alloc, _)) in made.iter().enumerate() {
            rank.insert(alloc, (*kind, at, made.len()));
        }
    }
    let rank = std::rc::Rc::new(rank);
    passes
        .windows(2)
        .filter(|pair| iteration_of(&pair[0]).is_some_and(|own| iteration_of(&pair[1]).is_some_and(|next| next > own)))
        .map(|pair| {
            let made = made_in(evidence, &pair[1]);
            Idle {
                from: next_forward(evidence, &pair[0], &pair[1]),
                end_of_pass: pair[0].sure_end as usize,
                next_pass: pair[1].start as usize,
                made: made.into_iter().map(|(k, made)| (k, made.into_iter().map(|(_, end)| end).collect())).collect(),
                rank: std::rc::Rc::clone(&rank),
            }
        })
        .collect()
}

/// What a pass makes, by stack and size, in order: the entries that allocate it and that free it.
fn made_in(evidence: &Evidence<'_>, pass: &Pass) -> FxHashMap<Kind, Vec<(usize, usize)>> {
    let rows = &evidence.device.lifetimes.rows;
    let alloc_of = |lifetime: &Lifetime| lifetime.alloc().map_or(0, EntryId::get);
    let first = rows.partition_point(|lifetime| alloc_of(lifetime) < pass.start);
    let mut made: FxHashMap<Kind, Vec<(usize, usize)>> = FxHashMap::default();
    for lifetime in rows[first..].iter().take_while(|lifetime| alloc_of(lifetime) < pass.end) {
        let span = evidence.span(lifetime);
        made.entry((lifetime.stack, lifetime.requested_bytes)).or_default().push((span.start, span.end));
    }
    made
}

/// The first allocation of the forward pass between two passes: of what the next backward pass frees.
fn next_forward(evidence: &Evidence<'_>, before: &Pass, next: &Pass) -> usize {
    let rows = &evidence.device.lifetimes.rows;
    let alloc_of = |lifetime: &Lifetime| lifetime.alloc().map_or(0, EntryId::get);
    let first = rows.partition_point(|lifetime| alloc_of(lifetime) < before.end);
    let between = rows[first..].iter().enumerate().take_while(|(_, lifetime)| alloc_of(lifetime) < next.start);
    let saved = |(row, _): &(usize, &Lifetime)| evidence.device.decided(first + row).category == Category::Activation;
    between.into_iter().find(saved).map_or(next.start as usize, |(_, lifetime)| alloc_of(lifetime) as usize)
}
