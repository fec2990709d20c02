//! The operators and Python functions that ran on each thread, as the stacks of what happened meanwhile.

use crate::error::ErrorKind;
use crate::limits::MAX_ROWS;
use crate::snapshot::Snapshot;
use crate::stacks::Frame;
use crate::{FrameId, StackId, StringId};

/// Frames of one stack; what lies further out is left out. Real stacks have some hundred.
const MAX_FRAMES: usize = 256;

/// Frames of all stacks, for each range: without a limit a file of ranges in ranges would grow by its square.
const MAX_FRAMES_PER_RANGE: usize = 64;

/// Operators that do nothing but allocate: who called them says more.
const ALLOCATING: [&str; 5] =
    ["aten::empty", "aten::empty_strided", "aten::empty_like", "aten::resize_", "aten::new_empty"];

/// Something that ran from one time to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) thread: u32,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) name: StringId,
}

/// When and where a stack is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) thread: u32,
    pub(super) time_ns: i64,
}

/// The stack of each moment wanted, in their order: what ran on its thread then, innermost first.
pub(super) fn stacks(
    mut ranges: Vec<Range>,
    wanted: &[Wanted],
    snapshot: &mut Snapshot,
) -> Result<Vec<StackId>, ErrorKind> {
    ranges.sort_by_key(|range| (range.thread, range.start_ns, std::cmp::Reverse(range.end_ns)));
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&i| (wanted[i].thread, wanted[i].time_ns));
    let mut room = 4096 + ranges.len().saturating_mul(MAX_FRAMES_PER_RANGE);
    let mut frames = Frames::default();
    let mut stacks = vec![StackId::MISSING; wanted.len()];
    let mut open: Vec<Range> = Vec::new();
    let mut next = ranges.iter().copied().peekable();
    let mut scratch = Vec::new();
    for i in order {
        let Wanted { thread, time_ns } = wanted[i];
        while let Some(range) = next.next_if(|range| (range.thread, range.start_ns) <= (thread, time_ns)) {
            let is_over = |top: &Range| top.thread != range.thread || top.end_ns < range.start_ns;
            while open.pop_if(|top| is_over(top)).is_some() {}
            open.push(range);
        }
        while open.pop_if(|top| top.thread != thread || top.end_ns < time_ns).is_some() {}
        scratch.clear();
        // Ranges that overlap without lying in each other may be over and still lie below the top.
        for range in
            open.iter().rev().take(MAX_FRAMES).filter(|range| range.thread == thread && range.end_ns >= time_ns)
        {
            scratch.push(frames.of(range.name, snapshot));
        }
        let outer = scratch.iter().position(|frame| !frame.allocates).unwrap_or(scratch.len());
        let innermost = if outer < scratch.len() && scratch[outer].is_operator { outer } else { 0 };
        let ids: Vec<FrameId> = scratch[innermost..].iter().map(|frame| frame.id).collect();
        let before = snapshot.stacks.len();
        if ids.is_empty() || ids.len() > room {
            continue;
        }
        stacks[i] = snapshot.stacks.intern(&ids);
        if snapshot.stacks.len() > before {
            room -= ids.len();
        }
        if snapshot.stacks.len() >= MAX_ROWS {
            return Err(ErrorKind::Limit { what: "the number of stacks", limit: MAX_ROWS as u64 });
        }
    }
    Ok(stacks)
}

/// The frame of a name.
#[derive(Clone, Copy, Debug)]
struct Named {
    id: FrameId,
    /// Whether it is an operator, not Python.
    is_operator: bool,
    allocates: bool,
}

/// Frames by the name of the range.
#[derive(Default)]
struct Frames(rustc_hash::FxHashMap<StringId, Named>);

impl Frames {
    fn of(&mut self, name: StringId, snapshot: &mut Snapshot) -> Named {
        *self.0.entry(name).or_insert_with(|| {
            let text = snapshot.text(name).to_owned();
            let (name, filename, line) = split(&text);
            let name = snapshot.strings.intern(name);
            let frame = Frame { name, filename: snapshot.strings.intern(filename), line };
            Named {
                id: snapshot.frames.intern(frame),
                is_operator: filename.is_empty() && text.contains("::"),
                allocates: ALLOCATING.contains(&text.as_str()),
            }
        })
    }
}

/// Name, file and line of a range: `train.py(12): step` is Python's; of an operator there is the name only.
fn split(text: &str) -> (&str, &str, u64) {
    let python = text.split_once("): ").and_then(|(place, name)| {
        let (filename, line) = place.rsplit_once('(')?;
        Some((name, filename, line.parse().ok()?))
    });
    python.unwrap_or_else(|| {
        // `<built-in method linear of type object at 0x7f12>`: the address tells nothing, and differs each time.
        let name = text.strip_prefix('<').and_then(|inner| inner.split_once(" at 0x")).map_or(text, |(name, _)| name);
        (name.trim_start_matches('<'), "", 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ranges_are_taken_apart() {
        for (text, want) in [
            ("train.py(12): step", ("step", "train.py", 12)),
            ("dir (old)/a.py(3): <lambda>", ("<lambda>", "dir (old)/a.py", 3)),
            ("aten::mm", ("aten::mm", "", 0)),
            ("nn.Module: Linear_0", ("nn.Module: Linear_0", "", 0)),
            ("<built-in method linear of type object at 0x7f12ab>", ("built-in method linear of type object", "", 0)),
            ("", ("", "", 0)),
            ("(x): y", ("(x): y", "", 0)),
        ] {
            assert_eq!(split(text), want, "{text}");
        }
    }

    /// The stacks, as names, of a snapshot with these ranges `(thread, start, end, name)`.
    fn stacks_of(ranges: &[(u32, i64, i64, &str)], wanted: &[(u32, i64)]) -> Vec<Vec<String>> {
        let mut snapshot = Snapshot::empty();
        let ranges = ranges.iter().map(|&(thread, start_ns, end_ns, name)| Range {
            thread,
            start_ns,
            end_ns,
            name: snapshot.strings.intern(name),
        });
        let ranges: Vec<_> = ranges.collect();
        let wanted: Vec<_> = wanted.iter().map(|&(thread, time_ns)| Wanted { thread, time_ns }).collect();
        let ids = stacks(ranges, &wanted, &mut snapshot).unwrap();
        let text = |&id: &StackId| snapshot.stack(id).map(|frame| snapshot.text(frame.name).to_owned()).collect();
        ids.iter().map(text).collect()
    }

    #[test]
    fn a_stack_is_what_runs_around_a_moment_on_its_thread() {
        let ranges = [
            (0, 0, 100, "a.py(1): main"),
            (0, 10, 20, "aten::mm"),
            (0, 12, 13, "aten::empty"),
            (0, 30, 40, "aten::add"),
            (1, 0, 50, "other"),
        ];
        let got = stacks_of(&ranges, &[(0, 12), (0, 25), (1, 12), (0, 35), (0, 101), (2, 5), (0, 20)]);
        let want: [&[&str]; 7] =
            [&["aten::mm", "main"], &["main"], &["other"], &["aten::add", "main"], &[], &[], &["aten::mm", "main"]];
        assert_eq!(got, want);
    }

    #[test]
    fn an_operator_that_only_allocates_stays_where_python_called_it() {
        let ranges = [(0, 0, 9, "a.py(1): main"), (0, 1, 8, "aten::empty")];
        assert_eq!(stacks_of(&ranges, &[(0, 5)]), [["aten::empty", "main"]]);
    }
}
