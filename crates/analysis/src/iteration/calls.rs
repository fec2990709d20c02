//! Iterations of a model that is not trained: its calls, one by one or in rounds.

use std::ops::Range;

use highwater_snapshot::{Action, EntryTable, FrameId, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{MAX_TURN, Ranges};
use crate::outline::{Kind, Outline};

/// The calls of a model that is not trained, from one to the next: of the place that calls most often, where it is a loop.
///
/// Between other calls on both sides, a place that calls again and again runs layers, unless that whole sequence comes again.
pub(super) fn by_calls(outline: &Outline, entries: &EntryTable) -> Ranges {
    let calls: Vec<(u32, usize)> = outline
        .parts
        .iter()
        .filter_map(|part| if let Kind::Call(call) = part.kind { Some((call, part.entries.start)) } else { None })
        .collect();
    if let Some(ranges) = by_rounds(outline, entries) {
        return ranges;
    }
    // One place after the other, without its repetitions.
    let mut runs: Vec<(u32, Vec<usize>)> = Vec::new();
    for &(call, start) in &calls {
        match runs.last_mut().filter(|run| run.0 == call) {
            Some(run) => run.1.push(start),
            None => runs.push((call, vec![start])),
        }
    }
    let places: Vec<u32> = runs.iter().map(|run| run.0).collect();
    let starts: Vec<usize> = match cycle(&places) {
        Some((first, period)) => runs[first..].iter().step_by(period).map(|run| run.1[0]).collect(),
        None => {
            let Some(at) = (0..runs.len()).max_by_key(|&i| (runs[i].1.len(), std::cmp::Reverse(i))) else {
                return Vec::new();
            };
            let is_amid = at > 0 && at + 1 < runs.len();
            if is_amid { Vec::new() } else { runs[at].1.clone() }
        }
    };
    if starts.len() < 2 {
        return Vec::new();
    }
    // What the program feeds in comes before the call.
    let fed = |start: usize| {
        let at = outline.parts.partition_point(|part| part.entries.start < start);
        let before = outline.parts[..at].iter().rev().take_while(|part| part.kind == Kind::Program);
        before.last().map_or(start, |part| part.entries.start)
    };
    let begins: Vec<usize> = starts.iter().map(|&start| fed(start)).collect();
    let ends = begins.iter().skip(1).copied().chain([entries.len()]);
    begins.iter().zip(ends).map(|(&start, end)| (start..end, true)).collect()
}

/// The rounds of a program that calls and computes in turns, always in the same order of places.
fn by_rounds(outline: &Outline, entries: &EntryTable) -> Option<Ranges> {
    let mut in_turns = Places::default();
    for part in outline.parts.iter().filter(|part| part.kind != Kind::Build) {
        let first = if part.kind == Kind::Program { part.first } else { StackId::MISSING };
        let swept = if part.kind == Kind::Program { swept(entries, &part.entries) } else { 0 };
        if in_turns.runs.last() != Some(&(part.kind, first)) {
            in_turns.runs.push((part.kind, first));
            in_turns.swept.push(swept);
            in_turns.starts.push(part.entries.start);
        }
    }
    let (first, period) = match in_turns.of_evaluations() {
        Some(round) => round,
        None => match by_loop(outline, entries) {
            Some(ranges) => return Some(ranges),
            None => cycle(&in_turns.runs)?,
        },
    };
    let Places { runs: places, starts, .. } = in_turns;
    let calls = |range: &[(Kind, StackId)]| range.iter().filter(|place| matches!(place.0, Kind::Call(_))).count();
    // What the program does again and again without a call is a loop over parameters.
    if calls(&places[first..(first + period).min(places.len())]) == 0 {
        return None;
    }
    let begins: Vec<usize> = (first..places.len()).step_by(period).map(|at| starts[at]).collect();
    let is_whole = |at: usize| first + (at + 1) * period <= places.len();
    Some(rounds(outline, entries, (&begins, entries.len()), is_whole))
}

/// The iterations of the outermost loop whose body has several lines. Its lines alone repeat: the functions that they call may take other
/// branches in each iteration.
fn by_loop(outline: &Outline, entries: &EntryTable) -> Option<Ranges> {
    /// Functions between the program's first line and the loop, launchers and servers among them.
    const MOST_DEPTH: usize = 64;
    let rows = outline.parts.iter().filter(|part| part.kind != Kind::Build).flat_map(|part| part.entries.clone());
    let made = rows.filter(|&row| entries.actions()[row] == Action::ALLOC);
    let callers = |row: usize| outline.callers.get(entries.stacks()[row].index()).filter(|frames| !frames.is_empty());
    let mut made: Vec<(usize, &[FrameId])> = made.filter_map(|row| Some((row, callers(row)?.as_slice()))).collect();
    // A call that begins within the entries of another part is in both.
    made.sort_unstable_by_key(|row| row.0);
    made.dedup_by_key(|row| row.0);
    for _ in 0..MOST_DEPTH {
        // Where each line begins, without its repetitions, and how often it allocates. Without a line: what the calling line allocates.
        let mut lines: Vec<(Option<FrameId>, usize, usize)> = Vec::new();
        for &(row, frames) in &made {
            let line = frames.first().copied();
            match lines.last_mut().filter(|last| last.0 == line) {
                Some(last) => last.2 += 1,
                None => lines.push((line, row, 1)),
            }
        }
        let places: Vec<Option<FrameId>> = lines.iter().map(|line| line.0).collect();
        if let Some((first, period)) = cycle(&places) {
            let begins: Vec<usize> = lines[first..].iter().step_by(period).map(|line| line.1).collect();
            let is_whole = |at: usize| first + (at + 1) * period <= lines.len();
            let until = made.last().map_or(0, |row| row.0 + 1);
            return Some(rounds(outline, entries, (&begins, until), is_whole));
        }
        // The one line that makes nearly everything calls the loop.
        let (line, ..) = lines.iter().copied().find(|line| line.0.is_some() && line.2 * 2 > made.len())?;
        made.retain(|(_, frames)| frames.first().copied() == line);
        for (_, frames) in &mut made {
            *frames = &frames[1..];
        }
    }
    None
}

/// From one begin to the next, and whether each is whole. What comes after the last round is no round if it never calls up to `until`,
/// where the loop ends.
fn rounds(
    outline: &Outline,
    entries: &EntryTable,
    (begins, until): (&[usize], usize),
    is_whole: impl Fn(usize) -> bool,
) -> Ranges {
    let ends = begins.iter().skip(1).copied().chain([entries.len()]);
    let rounds = begins.iter().zip(ends).enumerate().map(|(at, (&start, end))| (start..end, is_whole(at)));
    rounds.filter(|(range, is_whole)| *is_whole || calls_in(outline, &(range.start..range.end.min(until)))).collect()
}

/// Where a program calls and computes in turns.
#[derive(Default)]
struct Places {
    /// Runs of one kind, each of the program's with its first place.
    runs: Vec<(Kind, StackId)>,
    /// By run: allocations in loops over parameters.
    swept: Vec<usize>,
    /// By run: its first entry.
    starts: Vec<usize>,
}

impl Places {
    /// Where the rounds begin, and their period, of a program that changes all parameters between any two calls, without autograd: the
    /// calls evaluate them, and a round has a step of them all. So how often it goes through them tells its places apart, too.
    fn of_evaluations(&self) -> Option<(usize, usize)> {
        let is_call = |at: usize| matches!(self.runs[at].0, Kind::Call(_));
        let calls: Vec<usize> = (0..self.runs.len()).filter(|&at| is_call(at)).collect();
        let sweeps = |pair: &[usize]| (pair[0]..pair[1]).any(|at| self.swept[at] > 0);
        if calls.len() < 2 || !calls.windows(2).all(sweeps) {
            return None;
        }
        let (first, last) = (calls[0], calls[calls.len() - 1]);
        // Behind the last call the next step does not begin, so its place is like no other.
        let told_apart: Vec<_> = self.runs[..=last].iter().zip(&self.swept).collect();
        let is_one = || (calls.len() <= MAX_TURN).then_some((first, self.runs.len() - first));
        cycle(&told_apart).or_else(is_one)
    }
}

/// Allocations of a range at places that make so many, in so many sizes, that they go through a model's parameters.
fn swept(entries: &EntryTable, range: &Range<usize>) -> usize {
    const MIN_PARAMETERS: usize = 8;
    const MIN_SIZES: usize = 3;
    let mut by_stack: FxHashMap<StackId, (usize, FxHashSet<u64>)> = FxHashMap::default();
    for row in range.clone().filter(|&row| entries.actions()[row] == Action::ALLOC) {
        let of = by_stack.entry(entries.stacks()[row]).or_default();
        of.0 += 1;
        of.1.insert(entries.sizes_bytes()[row]);
    }
    let sweeps = by_stack.values().filter(|(count, sizes)| *count >= MIN_PARAMETERS && sizes.len() >= MIN_SIZES);
    sweeps.map(|(count, _)| count).sum()
}

fn calls_in(outline: &Outline, range: &Range<usize>) -> bool {
    outline.of(|kind| matches!(kind, Kind::Call(_))).any(|part| range.contains(&part.entries.start))
}

/// Where a sequence begins to repeat itself to its end, and with which period; a part of a period may follow.
fn cycle<T: PartialEq>(places: &[T]) -> Option<(usize, usize)> {
    /// Calls that come before the loop: of an encoder, of a prompt.
    const LEAD: usize = 4;
    /// Longer sequences are not compared.
    const MAX_PLACES: usize = 100_000;
    if places.len() > MAX_PLACES {
        return None;
    }
    (2..=places.len() / 2).take(MAX_PERIOD).find_map(|period| {
        (0..=LEAD.min(places.len().saturating_sub(2 * period)))
            .find(|&first| places[first..].iter().zip(&places[first + period..]).all(|(a, b)| a == b))
            .map(|first| (first, period))
    })
}

/// Calls from different places in one iteration, at most.
const MAX_PERIOD: usize = 512;
