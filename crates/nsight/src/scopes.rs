//! The program's named ranges (NVTX) around allocations.

use highwater_problem::Problem;
use highwater_sqlite::{Database, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::names::Names;
use crate::rows::columns_of;
use crate::{MAX_TEXT_BYTES, TEXTS, Warned};

const RANGES: &str = "NVTX_EVENTS";
/// `NvtxPushPopRange`, `NvtxStartEndRange`, and both as `NVTXT` has them.
const KINDS: [i64; 4] = [59, 60, 70, 71];
/// Ranges around allocations at most, counted for each allocation: more would fill memory.
const MAX_RANGES: usize = 4_000_000;
/// Of one allocation, the innermost are kept.
const MAX_DEPTH: usize = 12;

/// The ranges around some calls.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    /// Rows of the names, outermost first, by call.
    by_call: Vec<Vec<u32>>,
    names: Vec<String>,
    ranges: Vec<Range>,
}

/// A range that has calls in it; times as in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: i64,
    /// `None` if it was open when the profile ended.
    pub(crate) end: Option<i64>,
    /// A row of the names.
    pub(crate) name: u32,
    /// The first call in it.
    pub(crate) call: u32,
}

/// How a range is called: by a number of a text, or by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Number(i64),
    Text(String),
}

impl Scopes {
    /// Finds the ranges that a thread had open at a time, for calls given by both.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(database: &Database, calls: &[(i64, i64)], warned: &mut Warned) -> Result<Self, Problem> {
        let columns = columns_of(database, RANGES)?;
        if calls.is_empty() || ["start", "end", "globalTid"].iter().any(|name| !columns.contains(name)) {
            return Ok(Self::default());
        }
        let mut by_thread: FxHashMap<i64, Vec<(i64, u32)>> = FxHashMap::default();
        for (row, &(thread, time)) in (0..).zip(calls) {
            by_thread.entry(thread).or_default().push((time, row));
        }
        for calls in by_thread.values_mut() {
            calls.sort_unstable();
        }
        let optional = |name: &str, sql: String| if columns.contains(&name) { sql } else { "NULL".to_owned() };
        let sql = format!(
            "SELECT start, \"end\", globalTid, {}, {}, {} FROM \"{RANGES}\"",
            optional("eventType", "eventType".to_owned()),
            optional("textId", "textId".to_owned()),
            optional("text", format!("substr(text, 1, {MAX_TEXT_BYTES})")),
        );
        let mut found: Vec<Vec<(i64, u32)>> = vec![Vec::new(); calls.len()];
        let mut names: FxHashMap<Name, u32> = FxHashMap::default();
        let (mut count, mut left_out) = (0_usize, 0_u64);
        let mut ranges = Vec::new();
        database.ask::<Problem>(
            &sql,
            |_| Ok(()),
            |row| {
                let &[Value::Integer(start), end, Value::Integer(thread), kind, number, text] = row else {
                    return Ok(());
                };
                let is_range = if let Value::Integer(kind) = kind { KINDS.contains(&kind) } else { true };
                // One without an end was open when the profile ended.
                let ends = if let Value::Integer(end) = end { Some(end) } else { None };
                let end = ends.unwrap_or(i64::MAX);
                let Some(calls) = by_thread.get(&thread).filter(|_| is_range) else { return Ok(()) };
                let first = calls.partition_point(|&(time, _)| time < start);
                let within = calls[first..].iter().take_while(|&&(time, _)| time <= end);
                let name = match (number, text) {
                    (_, Value::Text(text)) => Name::Text(String::from_utf8_lossy(text).into_owned()),
                    (Value::Integer(number), _) => Name::Number(number),
                    _ => return Ok(()),
                };
                let mut name_row = None;
                for &(_, call) in within {
                    if count == MAX_RANGES {
                        left_out += 1;
                        continue;
                    }
                    count += 1;
                    let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
                    let name = *name_row.get_or_insert_with(|| {
                        let name = *names.entry(name.clone()).or_insert(next);
                        ranges.push(Range { start, end: ends, name, call });
                        name
                    });
                    found[call as usize].push((start, name));
                }
                Ok(())
            },
        )?;
        if left_out > 0 {
            warned.push((
                "too-many-ranges",
                format!("{left_out} named ranges around allocations are left out: there are too many"),
            ));
        }
        let numbers: FxHashSet<i64> = names
            .keys()
            .filter_map(|name| if let Name::Number(number) = name { Some(*number) } else { None })
            .collect();
        let texts = Names::read(database, TEXTS, &numbers, MAX_TEXT_BYTES)?;
        let mut by_row = vec![String::new(); names.len()];
        for (name, row) in names {
            by_row[row as usize] = match name {
                Name::Number(number) => texts.text(number),
                Name::Text(text) => text,
            };
        }
        let outermost_first = |mut ranges: Vec<(i64, u32)>| {
            ranges.sort_by_key(|&(start, _)| start);
            let skipped = ranges.len().saturating_sub(MAX_DEPTH);
            ranges.into_iter().skip(skipped).map(|(_, name)| name).collect()
        };
        Ok(Self { by_call: found.into_iter().map(outermost_first).collect(), names: by_row, ranges })
    }

    /// Rows of the names around a call, outermost first.
    pub(crate) fn of(&self, call: usize) -> &[u32] {
        self.by_call.get(call).map_or(&[], Vec::as_slice)
    }

    /// All of them.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Gives away the names.
    pub(crate) fn take_names(&mut self) -> Vec<String> {
        std::mem::take(&mut self.names)
    }
}
