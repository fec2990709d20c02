//! Reading the log of RAPIDS RMM as a request program.
//!
//! RMM's logging adaptor (`rmm.enable_logging`, `rmm.mr.LoggingResourceAdaptor`, Spark RAPIDS) writes a line for each
//! allocation, each one that failed, and each free, in the order in which they happened:
//!
//! ```text
//! Thread,Time,Action,Pointer,Size,Stream
//! 1979932,14:21:19.998533,allocate,0x30a000000,256,0x2
//! 1979932,14:21:20.101002,allocate failure,(nil),34359738368,0x2
//! 1980043,14:21:32.661875,free,0x30a000000,256,0x2
//! ```
//!
//! # Source
//! RMM, `logging_resource_adaptor` and `format_stream`: versions print a null pointer as `0x0`, `(nil)` or `0`, and the
//! seconds of the time with `.` or `:`; its guide calls a free `deallocate`.

use std::fmt;

use rustc_hash::FxHashMap;

use super::Op;
use super::parse::{Program, ProgramError};

const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// The default stream's handles: CUDA's null stream, and its name for it.
const DEFAULT_STREAM: [u64; 2] = [0, 1];
/// The handle that every thread has for a default stream of its own.
const PER_THREAD_STREAM: u64 = 2;

/// A log, as a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RmmLog {
    /// The requests. Streams are numbered as they come, from 0, the default stream.
    pub program: Program,
    /// The line of each row of the program, from 1.
    pub lines: Vec<u32>,
    /// How many streams the program names.
    pub streams: usize,
    /// What does not fit together: each kind once, with how often and the first line.
    pub oddities: Vec<(Oddity, u64, u32)>,
}

/// What can be odd in a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oddity {
    /// A pointer is freed that no line before allocated: the log began later than the program.
    UnknownFree,
    /// A pointer is allocated again with no free between.
    NotFreed,
    /// An action with no meaning here.
    UnknownAction,
    /// A line without the fields of the header.
    Unreadable,
}

impl Oddity {
    /// A stable word for it.
    pub fn id(&self) -> &'static str {
        match self {
            Self::UnknownFree => "unknown-free",
            Self::NotFreed => "not-freed",
            Self::UnknownAction => "unknown-action",
            Self::Unreadable => "unreadable-line",
        }
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownFree => "a pointer is freed that no earlier line allocated; the free is ignored",
            Self::NotFreed => "a pointer is allocated again without a free in between; it counts as freed before",
            Self::UnknownAction => {
                "an action is neither `allocate`, `allocate failure` nor `free`; the line is left out"
            }
            Self::Unreadable => "a line cannot be read; it is left out",
        })
    }
}

impl RmmLog {
    /// Whether a text has the header of a log.
    pub fn recognises(text: &[u8]) -> bool {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        first.get(..HEADER.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEADER.as_bytes()))
    }

    /// Reads the text of a log.
    ///
    /// An allocation that failed in the logged program is asked for, and given back at once if it succeeds: what the
    /// program did then is not in the log. Allocations of 0 bytes are left out.
    ///
    /// # Errors
    /// If it has no such header, or not one line that can be read.
    pub fn parse(text: &[u8]) -> Result<Self, ProgramError> {
        if !Self::recognises(text) {
            return Err(ProgramError::new(1, format!("expected the header `{HEADER}`")));
        }
        let mut reader = Reader::default();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate().skip(1) {
            if !line.trim_ascii().is_empty() {
                reader.line(line, u32::try_from(index + 1).unwrap_or(u32::MAX));
            }
        }
        match reader.log.oddities.first() {
            Some(&(Oddity::Unreadable, _, line)) if reader.read == 0 => {
                let problem = "expected a thread, a time, an action, a pointer, a size and a stream".to_owned();
                Err(ProgramError::new(line as usize, problem))
            }
            _ => Ok(reader.finish()),
        }
    }
}

/// The fields of a line that matter.
struct Line<'a> {
    thread: &'a str,
    action: &'a str,
    pointer: u64,
    bytes: u64,
    stream: u64,
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = str::from_utf8(line).ok()?.trim().split(',').map(str::trim);
        let (thread, _time, action) = (fields.next()?, fields.next()?, fields.next()?);
        let (pointer, bytes, stream) = (handle(fields.next()?)?, fields.next()?.parse().ok()?, handle(fields.next()?)?);
        Some(Self { thread, action, pointer, bytes, stream })
    }
}

/// A pointer or stream: hexadecimal with `0x` or without, or one of the ways to print a null pointer.
fn handle(text: &str) -> Option<u64> {
    match text {
        "(nil)" | "nullptr" => Some(0),
        _ => u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok(),
    }
}

#[derive(Default)]
struct Reader<'a> {
    log: RmmLog,
    /// Slots of what is allocated, by pointer.
    held: FxHashMap<u64, usize>,
    /// Slots that are free again.
    vacant: Vec<usize>,
    /// Numbers of the streams, by handle and, where it matters, by thread.
    streams: FxHashMap<(u64, &'a str), u64>,
    /// Lines that could be read.
    read: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self, text: &'a [u8], number: u32) {
        let Some(Line { thread, action, pointer, bytes, stream }) = Line::parse(text) else {
            return self.odd(Oddity::Unreadable, number);
        };
        self.read += 1;
        match action {
            "allocate" | "allocate failure" if bytes == 0 => {}
            "allocate" => {
                if let Some(slot) = self.held.remove(&pointer) {
                    self.odd(Oddity::NotFreed, number);
                    self.free(slot, number);
                }
                let slot = self.allocate(thread, bytes, stream, number);
                self.held.insert(pointer, slot);
            }
            "allocate failure" => {
                let slot = self.allocate(thread, bytes, stream, number);
                self.free(slot, number);
            }
            "free" | "deallocate" => match self.held.remove(&pointer) {
                Some(slot) => self.free(slot, number),
                None if bytes == 0 => {}
                None => self.odd(Oddity::UnknownFree, number),
            },
            _ => self.odd(Oddity::UnknownAction, number),
        }
    }

    fn allocate(&mut self, thread: &'a str, bytes: u64, stream: u64, number: u32) -> usize {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.log.program.slots += 1;
            self.log.program.slots - 1
        });
        let stream = self.stream(stream, thread);
        self.add(Op::Alloc { slot, bytes, stream }, number);
        slot
    }

    fn free(&mut self, slot: usize, number: u32) {
        self.vacant.push(slot);
        self.add(Op::Free { slot }, number);
    }

    fn add(&mut self, op: Op, number: u32) {
        self.log.program.ops.push(op);
        self.log.lines.push(number);
    }

    fn stream(&mut self, handle: u64, thread: &'a str) -> u64 {
        if DEFAULT_STREAM.contains(&handle) {
            return 0;
        }
        let thread = if handle == PER_THREAD_STREAM { thread } else { "" };
        let next = self.streams.len() as u64 + 1;
        *self.streams.entry((handle, thread)).or_insert(next)
    }

    #[cold]
    fn odd(&mut self, oddity: Oddity, line: u32) {
        match self.log.oddities.iter_mut().find(|(known, ..)| *known == oddity) {
            Some((_, count, _)) => *count += 1,
            None => self.log.oddities.push((oddity, 1, line)),
        }
    }

    fn finish(self) -> RmmLog {
        let uses_default = self.log.program.ops.iter().any(|op| matches!(op, Op::Alloc { stream: 0, .. }));
        RmmLog { streams: self.streams.len() + usize::from(uses_default), ..self.log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rows: &str) -> RmmLog {
        RmmLog::parse(format!("{HEADER}\n{rows}").as_bytes()).unwrap()
    }

    #[test]
    fn pointers_become_slots_and_streams_become_numbers() {
        let log = parse(
            "1979932,14:21:19.998533,allocate,0x30a000000,256,0x2\r\n\
             1979932,14:21:19:998533,allocate,0x30a000100,512,0x55d8c0\n\
             1980043,14:21:20.000001,allocate,0x30a000300,1024,0x2\n\
             1980043,14:21:32.661875,free,0x30a000000,256,0x2\n\
             1980043,14:21:32.661875,allocate,0x30a000000,128,0x0\n\
             1980043,14:21:32.661875,deallocate,0x30a000100,512,0x55d8c0\n",
        );
        let alloc = |slot, bytes, stream| Op::Alloc { slot, bytes, stream };
        // The handle of the per-thread default stream is another stream in each thread.
        let expected = [
            alloc(0, 256, 1),
            alloc(1, 512, 2),
            alloc(2, 1024, 3),
            Op::Free { slot: 0 },
            alloc(0, 128, 0),
            Op::Free { slot: 1 },
        ];
        assert_eq!(log.program.ops, expected);
        assert_eq!((log.program.slots, log.streams, log.oddities.len()), (3, 4, 0));
        assert_eq!(log.lines, [2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_failed_allocation_is_asked_for_and_given_back() {
        let log = parse("1,0:0:0.0,allocate failure,(nil),4096,0\n1,0:0:0.1,allocate,0x10,8,0\n");
        let expected = [
            Op::Alloc { slot: 0, bytes: 4096, stream: 0 },
            Op::Free { slot: 0 },
            Op::Alloc { slot: 0, bytes: 8, stream: 0 },
        ];
        assert_eq!(log.program.ops, expected);
        assert_eq!((log.lines, log.streams), (vec![2, 2, 3], 1));
    }

    #[test]
    fn what_does_not_fit_together_is_counted() {
        let log = parse(
            "1,t,free,0x7,64,0x0\n1,t,free,0x8,64,0x0\n1,t,allocate,0x9,64,0x0\n1,t,allocate,0x9,32,0x0\n\
             1,t,allocate,0x0,0,0x0\n1,t,free,0x0,0,0x0\n1,t,resize,0x9,1,0x0\n1,t,alloc",
        );
        assert_eq!(log.program.ops.len(), 3, "the second allocation frees the first: {:?}", log.program.ops);
        let found: Vec<_> = log.oddities.iter().map(|(kind, count, line)| (kind.id(), *count, *line)).collect();
        assert_eq!(
            found,
            [("unknown-free", 2, 2), ("not-freed", 1, 5), ("unknown-action", 1, 8), ("unreadable-line", 1, 9)]
        );
    }

    #[test]
    fn any_number_of_streams_is_taken() {
        let rows: Vec<_> = (0..1000).map(|i| format!("1,t,allocate,{i:#x},512,{:#x}", 0x1000 + i * 16)).collect();
        let log = parse(&rows.join("\n"));
        assert_eq!(log.streams, 1000);
        assert_eq!(log.program.ops[999], Op::Alloc { slot: 999, bytes: 512, stream: 1000 });
    }

    #[test]
    fn only_the_header_makes_a_log() {
        assert!(RmmLog::recognises(b"\xef\xbb\xbfThread,Time,Action,Pointer,Size,Stream\r\n"));
        assert!(!RmmLog::recognises(b"op,id,bytes,stream,pool,value\n"));
        assert!(!RmmLog::recognises(b"Thread,Time"));
        assert_eq!(RmmLog::parse(HEADER.as_bytes()), Ok(RmmLog::default()));
        let text = format!("{HEADER}\n\nno such line\n");
        insta::assert_snapshot!(RmmLog::parse(text.as_bytes()).unwrap_err(), @"line 3: expected a thread, a time, an action, a pointer, a size and a stream");
    }
}
