//! What a request program is read from: its own CSV, the log of RAPIDS RMM, the script of its addresses.

use std::path::Path;

use highwater_allocator::program::{Program, RmmLog};
use highwater_allocator::{AddressPolicy, ScriptedRange};

use highwater_documents::requests::Warning;

use super::args::Va;
use crate::error::Problem;
use crate::input::{SizeArgs, name, read_text};

/// A program, and what there is to say of its file.
pub(super) struct ProgramFile {
    pub(super) program: Program,
    /// The log that it was made of.
    pub(super) log: Option<Log>,
}

/// What is known of a program that was made of a log.
pub(super) struct Log {
    /// The line of each row.
    pub(super) lines: Vec<u32>,
    /// What does not fit together in it.
    pub(super) warnings: Vec<Warning>,
}

impl ProgramFile {
    /// Reads a program or a log, whichever it is.
    ///
    /// # Errors
    /// If the file cannot be read or is neither.
    pub(super) fn read(file: &Path, size: SizeArgs) -> Result<Self, Problem> {
        let text = read_text(file, size)?;
        if !RmmLog::recognises(&text) {
            let program = Program::parse(&text).map_err(|error| {
                Problem::new(format!("{} is not a request program", name(file)))
                    .because(error)
                    .hint("a program has the columns `op,id,bytes,stream,pool,value`; RMM's log is read too")
            })?;
            return Ok(Self { program, log: None });
        }
        let RmmLog { program, lines, oddities, .. } = RmmLog::parse(&text)
            .map_err(|error| Problem::new(format!("{} is not a log of RMM", name(file))).because(error))?;
        let warnings = oddities.iter().map(|&(ref oddity, count, line)| Warning {
            id: oddity.id(),
            message: oddity.to_string(),
            count,
            line: Some(line),
        });
        let warnings = warnings.collect();
        Ok(Self { program, log: Some(Log { lines, warnings }) })
    }

    /// Where a row stands, as people count: in the log, or as the files that are written number it.
    pub(super) fn place(&self, op: usize) -> String {
        match self.line(op) {
            Some(line) => format!("line {line}"),
            None => format!("row {op}"),
        }
    }

    /// The line of the log that a row was made of.
    pub(super) fn line(&self, op: usize) -> Option<u32> {
        self.log.as_ref()?.lines.get(op).copied()
    }
}

/// The policy of `--va`, a script read.
///
/// # Errors
/// If the script cannot be read.
pub(super) fn address_policy(va: &Va) -> Result<AddressPolicy, Problem> {
    match va {
        Va::Rule(policy) => Ok(policy.clone()),
        Va::Script(file) => {
            parse_script(&read_text(file, SizeArgs::default())?).map(AddressPolicy::Script).map_err(|problem| {
                Problem::new(format!("{} is not a script of addresses", name(file))).because(problem).hint(
                    "write the header `bytes,addr`, then a line for each segment; 0 bytes stand for a reservation",
                )
            })
        }
    }
}

const SCRIPT_HEADER: &[u8] = b"bytes,addr";

/// Above every address of a device.
const MAX_ADDRESS: u64 = 1 << 62;

fn parse_script(text: &[u8]) -> Result<Vec<ScriptedRange>, String> {
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    if lines.next().is_none_or(|(header, _)| header != SCRIPT_HEADER) {
        return Err("line 1: expected the header `bytes,addr`".to_owned());
    }
    let rows = lines.filter(|(line, _)| !line.is_empty());
    rows.map(|(line, number)| range(line).ok_or_else(|| format!("line {number}: expected two numbers below 2^62")))
        .collect()
}

fn range(line: &[u8]) -> Option<ScriptedRange> {
    let (bytes, address) = str::from_utf8(line).ok()?.split_once(',')?;
    let number = |text: &str| text.trim().parse().ok().filter(|&number: &u64| number < MAX_ADDRESS);
    Some(ScriptedRange { bytes: number(bytes)?, address: number(address)? })
}
