//! The native stacks of calls that allocated.

use highwater_outside::NO_STACK;
use highwater_problem::Problem;
use highwater_sqlite::Database;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::names::Names;
use crate::rows::{Table, columns_of};
use crate::{CALLS, MAX_TEXT_BYTES, TEXTS, THREAD_BITS, THREAD_MASK, Warned};

/// Their stacks.
const CHAINS: &str = "CUDA_CALLCHAINS";
/// Frames of a stack at most.
const MAX_FRAMES: usize = 96;
/// Frames of all stacks together at most: programs ask for memory from some thousands of places, of some tens of frames each.
const MAX_ALL_FRAMES: usize = 1_000_000;
/// Calls whose names are held against their stacks.
const COMPARED: usize = 1000;

/// A frame: the numbers of the texts of its module and its function.
type Frame = (i64, i64);

/// A call of the API that allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// A row of the stacks, or none.
    pub(crate) stack: u32,
    pub(crate) thread: u32,
    /// With its process, as the file has both in one number.
    pub(crate) global_thread: i64,
}

/// The calls that allocated, and their stacks.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    /// By process and correlation.
    pub(crate) by_call: FxHashMap<(i64, i64), Found>,
    /// Innermost first. Each stack is there once: the file has one for each call.
    frames: Vec<Box<[Frame]>>,
    names: Names,
}

/// A call as its table has it.
struct Call {
    key: (i64, i64),
    global_thread: i64,
    chain: Option<i64>,
    name: i64,
}

impl Stacks {
    /// Reads those of some calls, given by process and correlation.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(
        database: &Database,
        wanted: &FxHashSet<(i64, i64)>,
        warned: &mut Warned,
    ) -> Result<Self, Problem> {
        let mut stacks = Self::default();
        let columns = columns_of(database, CALLS)?;
        if !columns.contains(&"correlationId") || !columns.contains(&"globalTid") {
            return Ok(stacks);
        }
        let mut calls = Vec::new();
        let names = ["correlationId", "globalTid", "callchainId", "nameId"];
        Table::new(database, CALLS, &columns).read(&names, |row| {
            let global_thread = row[1].unwrap_or(0);
            let key = (global_thread >> THREAD_BITS, row[0].unwrap_or(-1));
            if wanted.contains(&key) {
                calls.push(Call { key, global_thread, chain: row[2], name: row[3].unwrap_or(-1) });
            }
        })?;
        let chains = stacks.chains(database, &calls, warned)?;
        let texts = stacks.frames.iter().flatten().flat_map(|&(module, symbol)| [module, symbol]);
        let texts = texts.chain(calls.iter().filter(|call| call.chain.is_some()).map(|call| call.name)).collect();
        stacks.names = Names::read(database, TEXTS, &texts, MAX_TEXT_BYTES)?;
        let first = stacks.first_chain(&calls, &chains);
        for call in calls {
            let stack =
                call.chain.and_then(|chain| chains.get(&chain.checked_add(first)?).copied()).unwrap_or(NO_STACK);
            let thread = u32::try_from(call.global_thread & THREAD_MASK).unwrap_or(0);
            // The call of the runtime and that of the driver inside it have one number; the outer comes with the stack.
            let found = Found { stack, thread, global_thread: call.global_thread };
            let found = stacks.by_call.entry(call.key).or_insert(found);
            if found.stack == NO_STACK {
                found.stack = stack;
            }
        }
        Ok(stacks)
    }

    /// The frames of a stack, innermost first: module and function.
    pub(crate) fn frames(&self, stack: u32) -> Option<Vec<(String, String)>> {
        let frames = self.frames.get(stack as usize)?;
        Some(frames.iter().map(|&(module, symbol)| (self.names.text(module), self.names.text(symbol))).collect())
    }

    /// Reads the stacks that calls may have: their rows, by number in the file.
    fn chains(
        &mut self,
        database: &Database,
        calls: &[Call],
        warned: &mut Warned,
    ) -> Result<FxHashMap<i64, u32>, Problem> {
        let mut chains: FxHashMap<i64, u32> = FxHashMap::default();
        let columns = columns_of(database, CHAINS)?;
        let numbers = calls.iter().filter_map(|call| call.chain);
        // See `first_chain`.
        let wanted: FxHashSet<i64> = numbers.flat_map(|chain| [chain, chain.saturating_add(1)]).collect();
        if wanted.is_empty() || !columns.contains(&"id") {
            return Ok(chains);
        }
        let mut rows: FxHashMap<Box<[Frame]>, u32> = FxHashMap::default();
        let (mut kept, mut left_out) = (0, 0_u64);
        let mut open = (-1, Vec::new());
        let mut finish = |(chain, frames): &mut (i64, Vec<(i64, Frame)>)| {
            if frames.is_empty() {
                return;
            }
            frames.sort_unstable_by_key(|&(depth, _)| depth);
            let of: Box<[Frame]> = frames.iter().map(|&(_, frame)| frame).collect();
            frames.clear();
            let next = u32::try_from(rows.len()).unwrap_or(NO_STACK);
            let row = match rows.get(&of) {
                Some(&row) => row,
                None if kept + of.len() > MAX_ALL_FRAMES => {
                    left_out += 1;
                    NO_STACK
                }
                None => {
                    kept += of.len();
                    rows.insert(of, next);
                    next
                }
            };
            // The rows of a stack follow one another. Of one that comes again, the parts are not known to be one.
            chains.entry(*chain).and_modify(|row| *row = NO_STACK).or_insert(row);
        };
        let names = ["id", "stackDepth", "module", "symbol", "unresolved"];
        Table::new(database, CHAINS, &columns).read(&names, |row| {
            let Some(chain) = row[0].filter(|chain| wanted.contains(chain)) else { return };
            if chain != open.0 {
                finish(&mut open);
                open.0 = chain;
            }
            if open.1.len() < MAX_FRAMES {
                // Where a frame is not resolved, its symbol is an address.
                let symbol = row[3].filter(|_| row[4].unwrap_or(0) == 0);
                open.1.push((row[1].unwrap_or(0), (row[2].unwrap_or(-1), symbol.unwrap_or(-1))));
            }
        })?;
        finish(&mut open);
        if left_out > 0 {
            warned.push((
                "too-many-backtraces",
                format!("{left_out} backtraces are left out: together they have more than {MAX_ALL_FRAMES} frames"),
            ));
        }
        let mut frames: Vec<Box<[Frame]>> = vec![Box::default(); rows.len()];
        for (of, row) in rows {
            frames[row as usize] = of;
        }
        self.frames = frames;
        Ok(chains)
    }

    /// What is to be added to the numbers that calls have for their stacks: some releases (2023.4) number stacks from 1, and in calls from 0.
    ///
    /// A stack has the function that was called. If no name tells, the number 0 does, which then has no stack.
    fn first_chain(&self, calls: &[Call], chains: &FxHashMap<i64, u32>) -> i64 {
        let matches = |first: i64| {
            let with_stack = calls.iter().filter(|call| call.chain.is_some()).take(COMPARED);
            let agrees = |call: &&Call| {
                let stack = call.chain.and_then(|chain| chains.get(&chain.checked_add(first)?));
                let name = self.names.text(call.name);
                let frames = stack.and_then(|&row| self.frames.get(row as usize)).map_or(&[][..], |frames| frames);
                !name.is_empty()
                    && frames.iter().any(|&(_, symbol)| unversioned(&self.names.text(symbol)) == unversioned(&name))
            };
            with_stack.filter(agrees).count()
        };
        let (same, next) = (matches(0), matches(1));
        let has_first = chains.contains_key(&0) || calls.iter().all(|call| call.chain != Some(0));
        i64::from(next > same || (next == same && !has_first))
    }
}

/// A function without the version at its end: `cudaMalloc_v3020`, `cuMemAlloc_v2`.
fn unversioned(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((stem, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}
