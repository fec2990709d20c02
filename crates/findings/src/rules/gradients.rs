//! Gradients that are there while nobody needs them: after the optimizer's step, until backward makes them anew.
//!
//! `zero_grad(set_to_none=False)` and `p.grad.zero_()` keep them throughout; `zero_grad()` after the forward pass keeps them
//! through it.

use std::ops::Range;

use highwater_analysis::category::Category;
use highwater_analysis::category::course::Pass;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::{EntryId, StackId};
use highwater_units::{counted, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity};

/// Gradients times iterations: beyond, the answer is not worth the time.
const MOST_CHANGES: usize = 4_000_000;

/// One finding for all gradients.
pub(super) fn gradients_kept(evidence: &Evidence<'_>) -> Option<Finding> {
    let idle = Idle::of(evidence)?;
    let (mut changes, mut kept_bytes, mut count, mut stay) = (Vec::new(), 0_u64, 0_usize, false);
    for (_, gradient) in evidence.of(Category::Gradient) {
        let span = evidence.span(gradient);
        let before = changes.len();
        if before > MOST_CHANGES {
            return None;
        }
        for stretch in idle.during(&span) {
            let until = idle.remade(stretch, gradient).min(span.end);
            changes.push(Change::without(stretch.from..until, evidence.bytes(gradient)));
            stay |= until < span.end;
        }
        if changes.len() > before {
            count += 1;
            kept_bytes = kept_bytes.saturating_add(evidence.bytes(gradient));
        }
    }
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    let title = format!("{} of the peak is gradients that are no longer needed", size(saving));
    let how =
        if stay { "set to zero rather than to `None`" } else { "cleared only once the next forward pass has run" };
    let detail = format!(
        "{} are {how}: they hold up to {} from the optimizer's step until the next backward pass; without them, the \
         peak would be {}",
        counted(count, "gradient", "gradients"),
        size(kept_bytes.min(evidence.peak.bytes)),
        size(evidence.peak.bytes - saving)
    );
    Some(Finding::new("gradients-kept", Severity::Warning, title, detail).saves(saving).change(
        "call `optimizer.zero_grad()` right after `optimizer.step()`, with `set_to_none=True`, the \
         default (by hand: `p.grad = None`)",
    ))
}

/// Allocations that stand for each other in two passes: of one stack and size.
type Kind = (StackId, u64);

/// When gradients are of no use.
struct Idle {
    /// Between the last pass of each iteration and the first of the next, in order.
    stretches: Vec<Stretch>,
    /// By the entry that allocates it, each block of the first pass: its kind, its place among those, and how many there are.
    in_first_pass: FxHashMap<usize, (Kind, usize, usize)>,
}

/// A stretch in which the gradients of the iteration before are of no use.
struct Stretch {
    /// The backward pass that the gradients come from ends here.
    end_of_pass: usize,
    /// The next forward pass begins: its first allocation for backward.
    from: usize,
    /// The next backward pass begins.
    next_pass: usize,
    /// When that pass is done with what it made of each kind, in order: then the gradient that was kept has it added.
    done: FxHashMap<Kind, Vec<usize>>,
}

impl Idle {
    fn of(evidence: &Evidence<'_>) -> Option<Self> {
        let passes = evidence.passes();
        let iterations = &evidence.device.iterations.rows;
        let iteration_of = |pass: &Pass| iterations.partition_point(|row| row.entries.end <= pass.start as usize);
        let mut in_first_pass = FxHashMap::default();
        for (kind, made) in made_in(evidence, passes.first()?) {
            let of = made.len();
            in_first_pass.extend(made.into_iter().enumerate().map(|(at, (alloc, _))| (alloc, (kind, at, of))));
        }
        let stretches = passes.windows(2).filter(|pair| iteration_of(&pair[0]) < iteration_of(&pair[1])).map(|pair| {
            let ends = |made: Vec<(usize, usize)>| made.into_iter().map(|(_, end)| end).collect();
            Stretch {
                end_of_pass: pair[0].sure_end as usize,
                from: next_forward(evidence, &pair[0], &pair[1]),
                next_pass: pair[1].start as usize,
                done: made_in(evidence, &pair[1]).into_iter().map(|(kind, made)| (kind, ends(made))).collect(),
            }
        });
        Some(Self { stretches: stretches.collect(), in_first_pass })
    }

    /// The stretches that a gradient is there in.
    fn during(&self, span: &Range<usize>) -> impl Iterator<Item = &Stretch> {
        let first = self.stretches.partition_point(|stretch| stretch.end_of_pass <= span.start);
        let end = span.end;
        self.stretches[first..].iter().take_while(move |stretch| stretch.from < end)
    }

    /// The entry at which a gradient that were `None` would be there again.
    fn remade(&self, stretch: &Stretch, gradient: &Lifetime) -> usize {
        let first = gradient.alloc().and_then(|alloc| self.in_first_pass.get(&alloc.index()));
        let again = first.and_then(|(kind, at, of)| {
            let done = stretch.done.get(kind).filter(|done| done.len() == *of)?;
            done.get(*at).copied()
        });
        again.unwrap_or(stretch.next_pass)
    }
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
