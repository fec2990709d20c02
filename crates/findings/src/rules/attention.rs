//! Attention matrices made in full: queries times keys for every head, of which a fused kernel keeps a tile.
//!
//! What gives them away is a softmax in a function that made a block of the same size right before, by itself rather than by a layer,
//! and makes a smaller one of it right after: scores, weights, and weights times values. Logits, experts' scores and feed-forward
//! layers do not go that way.

use highwater_analysis::category::Category;
use highwater_analysis::folding::Owner;
use highwater_analysis::lifetime::Lifetime;
use highwater_snapshot::{EntryId, FrameId, StackId};
use highwater_units::{counted, size};
use highwater_whatif::counterfactual::Change;
use rustc_hash::{FxHashMap, FxHashSet};

use super::evidence::StackSet;
use super::{Evidence, Finding, Severity};

/// A saving below this share of the peak is not worth a word, in percent.
const WORTH_PERCENT: u64 = 3;

/// A matrix below such a part of the peak is not looked at: thousands of them would not be worth a word.
const LEAST_PART: u64 = 1 << 16;

/// Allocations of one function around a softmax that belong to the same attention.
const AROUND: usize = 16;

/// Sizes of matrices that are looked for in one function: one for each length of a batch.
const MOST_SIZES: usize = 64;

/// One finding for all layers.
pub(super) fn in_full(evidence: &Evidence<'_>) -> Option<Finding> {
    let calls = Calls::new(evidence);
    let found = attentions(evidence, &calls);
    if found.is_empty() {
        return None;
    }
    let matrices: Vec<&Lifetime> = evidence
        .rows()
        .filter(|&(row, lifetime)| {
            let sizes = calls.of(lifetime.stack).and_then(|caller| found.get(&caller));
            let is_matrix = |sizes: &FxHashSet<u64>| is_of(sizes, lifetime.requested_bytes);
            lifetime.alloc().is_some() && sizes.is_some_and(is_matrix) && is_fleeting(evidence, row)
        })
        .map(|(_, lifetime)| lifetime)
        .collect();
    let in_backward = in_backward(evidence, &calls, &found);
    let changes: Vec<Change> =
        matrices.iter().chain(&in_backward).map(|l| Change::without(evidence.span(l), evidence.bytes(l))).collect();
    let saving = evidence.worth(evidence.peak_with(&changes))?;
    if saving < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    let all: Vec<&Lifetime> = matrices.iter().chain(&in_backward).copied().collect();
    let most = fullest(evidence, &all)?;
    let kept: Vec<&&Lifetime> = all.iter().filter(|l| l.is_live_after(most)).collect();
    let bytes = kept.iter().map(|l| evidence.bytes(l)).fold(0, u64::saturating_add);
    let largest = kept.iter().map(|l| l.requested_bytes).max()?;
    let title = format!("full attention matrices take {} at once", size(bytes));
    let lines = evidence.places(kept.iter().map(|l| (evidence.site(l), evidence.bytes(l))));
    let detail = format!(
        "{} of up to {}, with one element per head and pair of positions: {lines}",
        counted(kept.len(), "block", "blocks"),
        size(largest)
    );
    Some(Finding::new("attention-matrices", Severity::Warning, title, detail).saves_about(saving).change(
        "use `F.scaled_dot_product_attention(q, k, v, is_causal=True)` (in transformers \
         `attn_implementation=\"sdpa\"`), which computes them tile by tile, but only if the attention weights are \
         not returned (`need_weights=False`)",
    ))
}

fn is_fleeting(evidence: &Evidence<'_>, row: usize) -> bool {
    matches!(evidence.device.decided(row).category, Category::Activation | Category::Temporary | Category::Unknown)
}

/// Sizes of one matrix: its numbers in 32 or 16 bits, or a mask of bytes.
fn is_of(sizes: &FxHashSet<u64>, bytes: u64) -> bool {
    [Some(bytes), bytes.checked_mul(2), bytes.checked_mul(4), bytes.is_multiple_of(2).then_some(bytes / 2)]
        .into_iter()
        .flatten()
        .any(|size| sizes.contains(&size))
}

/// When they are told: at the peak, or as the last of them before it was made.
fn fullest(evidence: &Evidence<'_>, matrices: &[&Lifetime]) -> Option<EntryId> {
    let peak = evidence.peak.entry?;
    if matrices.iter().any(|l| l.is_live_after(peak)) {
        return Some(peak);
    }
    let last = matrices.iter().rfind(|l| evidence.span(l).start <= peak.index())?;
    last.alloc()
}

/// A function that the program calls: stacks that differ in its own line alone have the same. A number from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Caller(usize);

/// What calls what, for each stack.
struct Calls {
    callers: Vec<Option<Caller>>,
    /// How many callers there are.
    count: usize,
    /// Stacks below a softmax, by the names of functions or operators.
    softmax: StackSet,
    /// Stacks of products of batches of matrices, by the names of operators.
    products: StackSet,
    /// Stacks in a function or file that is called attention.
    named: StackSet,
    /// Stacks that end in the function itself, with nothing of a library's Python below it.
    direct: Vec<bool>,
    /// Of compiled code in a function that is called attention, the line that it was made from.
    compiled: Vec<Option<FrameId>>,
    /// Operators are named.
    has_operators: bool,
}

impl Calls {
    fn new(evidence: &Evidence<'_>) -> Self {
        let snapshot = evidence.analysis.snapshot;
        let frames: Vec<FrameKind> = snapshot
            .frames
            .iter()
            .map(|(id, frame)| FrameKind::new(evidence, id, snapshot.text(frame.name), snapshot.text(frame.filename)))
            .collect();
        let mut numbers: FxHashMap<u64, Caller> = FxHashMap::default();
        let mut callers = Vec::with_capacity(snapshot.stacks.len());
        for (_, stack) in snapshot.stacks.iter() {
            let next = Caller(numbers.len());
            callers.push(caller(stack, &frames).map(|hash| *numbers.entry(hash).or_insert(next)));
        }
        let innermost = |stack: &[FrameId]| stack.iter().find(|frame| frames[frame.index()].is_python).copied();
        let direct = snapshot
            .stacks
            .iter()
            .map(|(_, stack)| innermost(stack).is_some_and(|frame| !frames[frame.index()].is_inner));
        let direct: Vec<bool> = direct.collect();
        let compiled = snapshot.stacks.iter().map(|(_, stack)| {
            let sites = &evidence.analysis.sites;
            let runs = innermost(stack).filter(|&frame| sites.owner(frame) == Owner::Generated)?;
            let at = stack.iter().position(|&frame| frame == runs)?;
            let noted = stack.get(at + 1).copied().filter(|&frame| sites.owner(frame) == Owner::User)?;
            is_attention(snapshot.text(snapshot.frames.get(noted).name), "").then_some(noted)
        });
        let compiled = compiled.collect();
        let is_softmax = |name: &str, _: &str| {
            name.contains("softmax") && !["log_softmax", "logsoftmax", "ackward"].iter().any(|no| name.contains(no))
        };
        Self {
            callers,
            count: numbers.len(),
            softmax: evidence.stacks_with(is_softmax),
            products: evidence.stacks_with(|name, _| name.contains("bmm") || name.contains("baddbmm")),
            named: evidence.stacks_with(is_attention),
            direct,
            compiled,
            has_operators: frames.iter().any(|frame| frame.is_operator),
        }
    }

    fn is_direct(&self, stack: StackId) -> bool {
        stack.is_recorded() && self.direct.get(stack.index()).copied().unwrap_or(false)
    }

    /// The line in a function that is called attention, if its code was compiled.
    fn compiled(&self, stack: StackId) -> Option<FrameId> {
        if stack.is_recorded() { self.compiled.get(stack.index()).copied().flatten() } else { None }
    }

    fn of(&self, stack: StackId) -> Option<Caller> {
        if stack.is_recorded() { self.callers.get(stack.index()).copied().flatten() } else { None }
    }
}

/// A function that says so, or a file.
fn is_attention(name: &str, file: &str) -> bool {
    let is_so = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.contains("attention") || text.contains("attn")
    };
    let last = file.rsplit(['/', '\\']).next().unwrap_or(file);
    !name.contains("::") && (is_so(name) || is_so(last))
}

/// What a frame is to the search for the function that makes a block.
struct FrameKind {
    /// Native, PyTorch's own Python, or a function called softmax.
    is_inner: bool,
    is_python: bool,
    is_operator: bool,
    function: u64,
    line: u64,
}

impl FrameKind {
    fn new(evidence: &Evidence<'_>, id: FrameId, name: &str, file: &str) -> Self {
        let owner = evidence.analysis.sites.owner(id);
        let is_helper = name.contains("softmax") || name.contains("einsum") || file.contains("/einops/");
        Self {
            is_inner: owner != Owner::User || is_helper,
            is_python: owner.is_python(),
            is_operator: owner == Owner::Native && name.contains("at::"),
            function: hash(&(name, file)),
            line: hash(&id.index()),
        }
    }
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    use std::hash::BuildHasher;
    rustc_hash::FxBuildHasher.hash_one(value)
}

/// The innermost function of the program's own that is no mere helper, with the lines around it: a hash.
fn caller(stack: &[FrameId], frames: &[FrameKind]) -> Option<u64> {
    let at = stack.iter().position(|frame| !frames[frame.index()].is_inner)?;
    let own = frames[stack[at].index()].function;
    // What the interpreter does between two functions differs from call to call.
    let outer = stack[at + 1..].iter().map(|frame| &frames[frame.index()]).filter(|frame| frame.is_python);
    let outer =
        outer.fold(0_u64, |path, frame| (path ^ frame.line).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
    Some(own ^ outer.rotate_left(1))
}

/// The functions that attend, each with the sizes of its matrices.
fn attentions(evidence: &Evidence<'_>, calls: &Calls) -> FxHashMap<Caller, FxHashSet<u64>> {
    let mut by_caller: Vec<Vec<&Lifetime>> = vec![Vec::new(); calls.count];
    for (row, lifetime) in evidence.rows().filter(|(_, lifetime)| lifetime.alloc().is_some()) {
        if let Some(Caller(caller)) = calls.of(lifetime.stack)
            && is_fleeting(evidence, row)
        {
            by_caller[caller].push(lifetime);
        }
    }
    let least = evidence.peak.bytes / LEAST_PART;
    let mut found: FxHashMap<Caller, FxHashSet<u64>> = FxHashMap::default();
    for (caller, made) in by_caller.iter().enumerate() {
        let mut sizes: FxHashSet<u64> = FxHashSet::default();
        for (at, bytes) in made.iter().map(|lifetime| lifetime.requested_bytes).enumerate() {
            if bytes >= least && sizes.len() < MOST_SIZES && !sizes.contains(&bytes) && attends(calls, made, at) {
                sizes.insert(bytes);
            }
        }
        if !sizes.is_empty() {
            found.insert(Caller(caller), sizes);
        }
    }
    found
}

/// Whether a block is the weights of attention.
fn attends(calls: &Calls, made: &[&Lifetime], at: usize) -> bool {
    if calls.compiled(made[at].stack).is_some() {
        return is_compiled(calls, made, at);
    }
    let bytes = made[at].requested_bytes;
    let before = &made[at.saturating_sub(AROUND)..at];
    let after = &made[at + 1..(at + 1 + AROUND).min(made.len())];
    // The scores may be in other bits than the weights.
    let is_alike = |other: u64| other == bytes || other == bytes / 2 || other == bytes.saturating_mul(2);
    let is_softmax = calls.softmax.has(made[at].stack);
    if calls.has_operators {
        let is_product = |l: &&&Lifetime| calls.products.has(l.stack);
        return is_softmax
            && before.iter().filter(is_product).any(|l| is_alike(l.requested_bytes))
            && after.iter().filter(is_product).any(|l| l.requested_bytes != bytes);
    }
    // Without operators' names: a softmax that is a function, of scores that the caller made itself.
    let is_own = |l: &&&Lifetime| calls.is_direct(l.stack) || calls.named.has(l.stack);
    if is_softmax {
        let has_scores =
            before.iter().filter(is_own).any(|l| is_alike(l.requested_bytes) && !calls.softmax.has(l.stack));
        let has_result = after.iter().filter(is_own).any(|l| l.requested_bytes < bytes && !calls.softmax.has(l.stack));
        return has_scores && has_result;
    }
    is_masked(calls, made, at)
}

/// Whether a function that is called attention makes blocks of this size at several lines, with none larger between them, and right after
/// the last of them a smaller one at yet another line: scores, weights and their product with the values. Compiled kernels have no names
/// in stacks, and a fused one makes its result and its statistics at one line.
fn is_compiled(calls: &Calls, made: &[&Lifetime], at: usize) -> bool {
    let (bytes, first) = (made[at].requested_bytes, calls.compiled(made[at].stack));
    let next = &made[at + 1..(at + 1 + AROUND).min(made.len())];
    let line = |lifetime: &&Lifetime| calls.compiled(lifetime.stack);
    let is_alike = |l: &&Lifetime| l.requested_bytes == bytes;
    // The next layer begins at the first line.
    let ends = |l: &&Lifetime| l.requested_bytes > bytes || line(l).is_none() || (is_alike(l) && line(l) == first);
    let end = next.iter().position(ends).unwrap_or(next.len());
    let Some(last) = next[..end].iter().rposition(is_alike) else { return false };
    next[..end].get(last + 1).is_some_and(|result| line(result) != line(&next[last]))
}

/// Whether the caller makes scores, a mask over pairs of positions, masked scores and weights, all by itself and one after the
/// other, and a smaller block of them: where softmax is a method, that is all that stacks tell.
fn is_masked(calls: &Calls, made: &[&Lifetime], at: usize) -> bool {
    let bytes = made[at].requested_bytes;
    let is_one = |l: &&Lifetime| l.requested_bytes == bytes && calls.is_direct(l.stack);
    let next = &made[at + 1..(at + 1 + AROUND).min(made.len())];
    // The first of a run of such blocks, with masks between them and nothing else.
    if !is_one(&made[at]) {
        return false;
    }
    let is_mask = |l: &&Lifetime| calls.is_direct(l.stack) && positions_of(l.requested_bytes, bytes).is_some();
    let end = next.iter().position(|l| !is_one(l) && !is_mask(l)).unwrap_or(next.len());
    let run = &next[..end];
    let ones = run.iter().filter(|l| is_one(l)).count() + 1;
    // A fused kernel makes its result, statistics and copies of its operands at one line.
    let has_lines = run.iter().any(|l| is_one(l) && l.stack != made[at].stack);
    let mask = run.iter().find(|l| is_mask(l)).map(|l| l.requested_bytes);
    // The operands of the product of weights and values are of one size, and its result.
    let result = next[end..].first().filter(|l| calls.is_direct(l.stack)).map(|l| l.requested_bytes);
    let (Some(mask), Some(result)) = (mask, result) else { return false };
    // Of as many heads and positions, with as many numbers each as a head has.
    let positions = positions_of(mask, bytes).unwrap_or(1);
    let of_positions = (bytes / mask).saturating_mul(positions);
    let is_head = result.is_multiple_of(of_positions) && HEAD_SIZES.contains(&(result / of_positions));
    ones >= MIN_RUN && has_lines && is_head && result < bytes
}

/// Numbers that a head has for each position.
const HEAD_SIZES: std::ops::RangeInclusive<u64> = 16..=256;

/// Scores, masked scores and weights.
const MIN_RUN: usize = 3;

/// For how many positions a block may be a mask, in bytes, with as many rows as columns, over matrices of such a size.
fn positions_of(mask: u64, bytes: u64) -> Option<u64> {
    /// Positions below which squares are chance.
    const MIN_POSITIONS: u64 = 32;
    let positions = mask.isqrt();
    let is_square = positions >= MIN_POSITIONS && positions * positions == mask;
    (is_square && bytes > mask && bytes.is_multiple_of(mask.saturating_mul(2))).then_some(positions)
}

/// What the backward pass makes of them: blocks of just such a size, if nothing else in the forward pass has it.
fn in_backward<'a>(
    evidence: &Evidence<'a>,
    calls: &Calls,
    found: &FxHashMap<Caller, FxHashSet<u64>>,
) -> Vec<&'a Lifetime> {
    let mut sizes: FxHashSet<u64> = found.values().flatten().copied().collect();
    let is_backward = |lifetime: &Lifetime| {
        lifetime.alloc().is_some_and(|alloc| {
            let passes = evidence.passes();
            let next = passes.partition_point(|pass| pass.end <= alloc.get());
            passes.get(next).is_some_and(|pass| pass.start <= alloc.get())
        })
    };
    let of_attention = |lifetime: &Lifetime| calls.of(lifetime.stack).is_some_and(|caller| found.contains_key(&caller));
    for (row, lifetime) in evidence.rows() {
        let is_other = sizes.contains(&lifetime.requested_bytes)
            && !is_backward(lifetime)
            && !of_attention(lifetime)
            && is_fleeting(evidence, row);
        if is_other {
            sizes.remove(&lifetime.requested_bytes);
        }
    }
    evidence
        .rows()
        .filter(|&(row, l)| sizes.contains(&l.requested_bytes) && is_backward(l) && is_fleeting(evidence, row))
        .filter(|(_, l)| !of_attention(l))
        .map(|(_, l)| l)
        .collect()
}
