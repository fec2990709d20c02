//! Reading a request program.

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::{MAX_STREAMS, Op};
use crate::private::PoolFlags;

const HEADER: &str = "op,id,bytes,stream,pool,value";

/// A request program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its rows, in order.
    pub ops: Vec<Op>,
    /// How many slots they name.
    pub slots: usize,
}

/// A text that is not a request program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct ProgramError {
    /// The line, from 1.
    pub line: usize,
    problem: String,
}

impl ProgramError {
    pub(super) fn new(line: usize, problem: String) -> Self {
        Self { line, problem }
    }
}

impl Program {
    /// Reads the text of a program.
    ///
    /// # Errors
    /// The first line that is not as `docs/request-programs.md` has it.
    pub fn parse(text: &[u8]) -> Result<Self, ProgramError> {
        let mut lines = text.split(|&byte| byte == b'\n').enumerate();
        let header = lines.next().map(|(_, line)| line).unwrap_or_default();
        if !header.starts_with(HEADER.as_bytes()) {
            return Err(ProgramError::new(1, format!("expected the header `{HEADER}`")));
        }
        let mut program = Self::default();
        let mut slots = FxHashMap::default();
        for (index, line) in lines {
            let error = |problem| ProgramError::new(index + 1, problem);
            let line = str::from_utf8(line).map_err(|_| error("not text (UTF-8)".to_owned()))?;
            let line = line.trim_end_matches('\r');
            if !line.is_empty() {
                let op = Row::new(line).op(&mut slots).map_err(error)?;
                program.ops.push(op);
            }
        }
        program.slots = slots.len();
        Ok(program)
    }
}

/// A row's fields; the last one runs to the end of the line.
struct Row<'a> {
    fields: [&'a str; 6],
}

impl<'a> Row<'a> {
    fn new(line: &'a str) -> Self {
        let mut parts = line.splitn(6, ',');
        Self { fields: std::array::from_fn(|_| parts.next().unwrap_or_default().trim()) }
    }

    fn op(&self, slots: &mut FxHashMap<u64, usize>) -> Result<Op, String> {
        let value = self.fields[5];
        let mut slot = || -> Result<usize, String> {
            let count = slots.len();
            Ok(*slots.entry(self.needed(1, "id")?).or_insert(count))
        };
        Ok(match self.fields[0] {
            "alloc" => {
                Op::Alloc { slot: slot()?, bytes: self.needed(2, "bytes")?, stream: self.stream()?.unwrap_or(0) }
            }
            "free" => Op::Free { slot: slot()? },
            "record_stream" => Op::RecordStream { slot: slot()?, stream: self.stream()?.unwrap_or(0) },
            "events_ready" => Op::EventsReady { stream: self.stream()?, ready: value != "0" },
            "empty_cache" => Op::EmptyCache { pool: self.pool()? },
            "pool_create" => Op::PoolCreate {
                pool: self.pool()?,
                flags: PoolFlags { use_on_oom: value.contains("use_on_oom"), no_split: value.contains("no_split") },
            },
            "pool_begin" => Op::PoolBegin { pool: self.pool()?, stream: self.stream()? },
            "pool_end" => Op::PoolEnd { pool: self.pool()? },
            "pool_release" => Op::PoolRelease { pool: self.pool()? },
            "memory_fraction" => match value.parse() {
                Ok(fraction) if (0.0..=1.0).contains(&fraction) => Op::MemoryFraction(fraction),
                _ => return Err(format!("`value` is `{value}`, expected a fraction from 0 to 1")),
            },
            "set_config" => Op::SetConfig(value.to_owned()),
            "reset_peak" => Op::ResetPeak,
            "snapshot" => Op::Snapshot,
            other => return Err(format!("unknown op `{other}`")),
        })
    }

    fn number(&self, field: usize, name: &str) -> Result<Option<u64>, String> {
        let text = self.fields[field];
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| format!("`{name}` is `{text}`, expected a whole number"))
    }

    fn needed(&self, field: usize, name: &str) -> Result<u64, String> {
        self.number(field, name)?.ok_or_else(|| format!("`{}` needs `{name}`", self.fields[0]))
    }

    fn stream(&self) -> Result<Option<u64>, String> {
        match self.number(3, "stream")? {
            Some(stream) if stream >= MAX_STREAMS => {
                Err(format!("`stream` is {stream}, expected less than {MAX_STREAMS}"))
            }
            stream => Ok(stream),
        }
    }

    fn pool(&self) -> Result<u64, String> {
        Ok(self.number(4, "pool")?.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rows: &str) -> Result<Program, ProgramError> {
        Program::parse(format!("{HEADER}\n{rows}").as_bytes())
    }

    #[test]
    fn fields_may_be_left_out_and_the_last_has_commas() {
        let program =
            parse("alloc,7,100\r\nfree,7,,,,\n\nset_config,,,,,max_split_size_mb:64,expandable_segments:True").unwrap();
        let conf = "max_split_size_mb:64,expandable_segments:True".to_owned();
        let expected = [Op::Alloc { slot: 0, bytes: 100, stream: 0 }, Op::Free { slot: 0 }, Op::SetConfig(conf)];
        assert_eq!(program.ops, expected);
        assert_eq!(program.slots, 1);
    }

    #[test]
    fn an_error_names_the_line_and_the_field() {
        let message = |rows| parse(rows).unwrap_err().to_string();
        insta::assert_snapshot!(message("snapshot\nmalloc,1,2"), @"line 3: unknown op `malloc`");
        insta::assert_snapshot!(message("alloc,,5"), @"line 2: `alloc` needs `id`");
        insta::assert_snapshot!(message("alloc,1,-5"), @"line 2: `bytes` is `-5`, expected a whole number");
        insta::assert_snapshot!(message("alloc,1,5,64"), @"line 2: `stream` is 64, expected less than 64");
        insta::assert_snapshot!(message("memory_fraction,,,,,2"), @"line 2: `value` is `2`, expected a fraction from 0 to 1");
        insta::assert_snapshot!(Program::parse(b"id,bytes").unwrap_err(), @"line 1: expected the header `op,id,bytes,stream,pool,value`");
    }
}
