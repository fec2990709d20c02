//! Finds messages in logs: of any length, with the lines of several processes between each other.
//!
//! A log is read once, from front to back, in pieces of any size; what is kept is bounded, and time is linear in its
//! length, whatever it holds.

mod broken;
mod command;
mod context;
mod dimensions;
mod event;
mod found;
mod growth;
mod limits;
mod line;
mod origin;
mod prose;
mod purpose;
mod refusal;
mod skip;
mod summary;
mod table;
mod trace;

use std::collections::hash_map::Entry;

use broken::LastLine;
pub(crate) use command::is_same_flag;
pub use command::{Command, Flag};
pub use dimensions::Dimensions;
pub use event::Event;
use event::EventIndex;
pub use found::{Compiled, Found, Group, Mention, Surroundings, TableGpu};
use growth::GrowthReader;
pub use growth::{Figure, Growth, Settled};
use limits::LimitReader;
use line::{plain, unboxed, unescaped, unquoted, without_emphasis};
use memchr::memmem;
use origin::{Origin, named_rank, origin};
pub use prose::FrontEnd;
use prose::ProseReader;
pub use purpose::Purpose;
pub use refusal::Refusal;
pub(crate) use refusal::has_gone_on;
use rustc_hash::FxHashMap;
use skip::{FINDERS, PASTED_LINES};
pub use summary::MemorySummary;
use summary::SummaryReader;
use table::{Hit, Seen, TableReader};
pub use trace::{AskedAt, Side, TracebackFrame};
use trace::{TraceReader, engine_in};

use super::grammar::{self, Sentence};
use super::known::{ASYNCHRONOUS, Row, Value, Values, row};
use super::message::{ANCHOR, Message, Process, Progress, Reader, broken_beginning, without_blanks};

/// A longer line is read in pieces.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Processes whose messages may be open at once.
const MAX_OPEN: usize = 1024;
/// Different messages that are kept; more are only counted.
const MAX_GROUPS: usize = 10_000;
/// JSON in JSON in JSON is read no deeper.
const MAX_DEPTH: usize = 2;
/// Lines that a message may be broken into.
const MAX_LINES: usize = 256;
/// Lines of other processes that may stand between two lines of a message.
const PATIENCE_LINES: u64 = 10_000;

/// Lines after one that names a rank for which it holds: a traceback is shorter.
const CONTEXT_LINES: u64 = 500;

/// What a line must hold to be looked at.
const NEEDLES: [&[u8]; 2] = [b"out of memory", b"by PyTorch"];
/// How PyTorch's message goes on behind "out of memory", and behind the size, without blanks.
const TRIED: &[u8] = b"Triedtoallocate";
const CAPACITIES: [&[u8]; 2] = [b"hasatotalcapac", b"totalcapacity;"];
/// What "out of memory" may be broken behind, at the end of a line.
const DEVICES: [&[u8]; 4] = [b"CUDA", b"HIP", b"XPU", b"MPS"];
/// Lines are passed over in blocks of at most this size.
const BLOCK_BYTES: usize = 64 << 10;
/// PyTorch's message, cut before its first number.
static CUT: Row = row("bare", "PyTorch", "");

/// A figure of memory that grows in a log without a failure.
pub(super) static GROWTH: Row = row("growth", "the log", "");

/// How identifiers of engines' failures begin.
const ENGINES: [&str; 6] = ["vllm-", "sglang-", "tgi-", "trtllm-", "llama-", "ollama-"];

/// What notebooks write into tracebacks.
const NOTEBOOK: [&str; 3] = ["ipykernel", "<ipython-input-", "Cell In["];

/// Reads a log.
///
/// ```
/// use highwater_oom::LogReader;
///
/// let mut log = LogReader::new();
/// log.push(b"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a tot");
/// log.push(b"al capacity of 79.15 GiB of which 1.25 GiB is free.\n");
/// let found = log.finish();
/// assert_eq!((found.groups[0].message.rank, found.groups[0].message.free_bytes), (Some(1), Some(5 << 28)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LogReader {
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// A line was too long, and its pieces belong together.
    long: Option<Origin>,
    open: FxHashMap<Vec<u8>, Open>,
    groups: FxHashMap<Message, usize>,
    events: EventIndex,
    table: TableReader,
    summary: SummaryReader,
    trace: TraceReader,
    limits: LimitReader,
    growth: GrowthReader,
    prose: ProseReader,
    /// How far the next search for something of interest goes.
    block_bytes: usize,
    /// For a sentence that is broken into two lines.
    last: LastLine,
    /// The writer of the last line, and its rank.
    last_key: Vec<u8>,
    last_rank: Option<u32>,
    /// The rank that a line before a message names, and that line.
    context: Option<(u32, u64)>,
    /// The sentence of the line that is read now.
    sentence: Option<Sentence>,
    /// Where words of limits begin in what is passed over now.
    limit_words: Vec<usize>,
    #[cfg(test)]
    work: Work,
    found: Found,
}

/// What reading took.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Lines that were read by themselves.
    lines: u64,
    /// Bytes that were searched for a stretch to pass over.
    searched_bytes: u64,
}

/// A message whose next line may come.
#[derive(Clone, Debug)]
struct Open {
    begun: Begun,
    rank: Option<u32>,
    line: u64,
    lines: usize,
    asked: AskedAt,
    /// The sentence of its first line, if it is not a message.
    sentence: Option<Sentence>,
}

#[derive(Clone, Debug)]
enum Begun {
    /// "out of memory" itself is broken in two: its first half, without blanks.
    Words(Vec<u8>),
    /// A message.
    Message(Box<Reader>),
}

impl LogReader {
    /// A log without lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece of the log, of any size.
    pub fn push(&mut self, mut piece: &[u8]) {
        loop {
            let skipped = self.skipped_lines(piece);
            self.limits_in(skipped);
            self.found.lines += memchr::memchr_iter(b'\n', skipped).count() as u64;
            piece = &piece[skipped.len()..];
            if skipped.is_empty() && !self.push_some(&mut piece) {
                return;
            }
        }
    }

    /// Reads the next line of a piece, or its rest if no line ends in it. Returns whether more is left.
    fn push_some(&mut self, piece: &mut &[u8]) -> bool {
        let whole = *piece;
        let block = &whole[..whole.len().min(BLOCK_BYTES)];
        let taken = memchr::memchr2(b'\n', b'\r', block).map_or(block.len(), |end| end + 1);
        self.push_lines(&block[..taken]);
        *piece = &whole[taken..];
        !piece.is_empty()
    }

    fn push_lines(&mut self, mut piece: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            if self.line.is_empty() {
                self.end_of_line(&piece[..end]);
            } else {
                self.line.extend_from_slice(&piece[..end]);
                let line = std::mem::take(&mut self.line);
                self.end_of_line(&line);
                self.line = line;
                self.line.clear();
            }
            self.found.lines += u64::from(piece[end] == b'\n');
            self.expire();
            piece = &piece[end + 1..];
        }
        for part in piece.chunks(MAX_LINE_BYTES) {
            self.line.extend_from_slice(part);
            if self.line.len() >= MAX_LINE_BYTES {
                let line = std::mem::take(&mut self.line);
                self.piece_of_line(&line);
                self.line = line;
                self.line.clear();
            }
        }
    }

    /// How many different messages and other failures were found until here, those that may go on not counted.
    pub fn so_far(&self) -> (usize, usize) {
        (self.found.groups.len(), self.found.events.len())
    }

    /// Whether the next line may go on with a message.
    pub fn is_amid(&self) -> bool {
        !self.open.is_empty() || !self.line.is_empty() || self.table.is_open()
    }

    /// What was found.
    pub fn finish(mut self) -> Found {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.end_of_line(&line);
            self.found.lines += 1;
        }
        self.close_all();
        let named = self.found.engine.as_ref().and_then(|engine| engine.engine);
        self.found.surroundings.engine = named.or_else(|| self.trace.engine()).or_else(|| self.found.failed_engine());
        if let Some(engine) = &mut self.found.engine {
            self.found.surroundings.has_memory_pools |= engine.has_sleep_mode;
            engine.refusal = self
                .found
                .events
                .iter()
                .map(|event| event.id)
                .find(|id| id.contains('-') && ENGINES.iter().any(|engine| id.starts_with(engine)));
        }
        // A message may end after one that began later.
        self.found.groups.sort_by_key(|group| group.line);
        self.lend_purposes();
        self.found.drop_headline();
        let seen = &mut self.found.surroundings;
        seen.is_windows |= seen.names_windows && !seen.is_wsl && !seen.is_posix && !seen.is_contained;
        seen.lacks_expandable_segments |= seen.is_windows;
        self.found.settled = self.growth.settled();
        self.found.growths = self.growth.finish();
        self.found.tell_refusal();
        self.found.tell_growth();
        self.found
    }

    fn end_of_line(&mut self, line: &[u8]) {
        // A line may be as long as the pieces that it comes in.
        let mut pieces = line.chunks(MAX_LINE_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_some() || self.long.is_some() {
                self.piece_of_line(piece);
            } else {
                self.read_line(piece, None, 0);
            }
        }
        self.long = None;
    }

    fn piece_of_line(&mut self, piece: &[u8]) {
        let begun = self.long.take();
        let of_line = begun.unwrap_or_else(|| Origin { body: 0, ..origin(begin(piece)) });
        self.read_line(piece, Some(&of_line), 0);
        self.long = Some(of_line);
    }

    /// Reads a line; `given` is who wrote it if it is a part of another.
    fn read_line(&mut self, line: &[u8], given: Option<&Origin>, depth: usize) {
        #[cfg(test)]
        {
            self.work.lines += 1;
        }
        let line = plain(line);
        let line = unquoted(&line);
        let line = without_emphasis(&line);
        let seen = Seen::of(&line);
        if self.found.saving_line > 0 && memmem::find(&line, b"loss").is_some() {
            // Training goes on: the checkpoint is written.
            self.found.saving_line = 0;
        }
        if seen.has_anchor {
            self.look_around(&line, &seen);
        }
        if seen.has_any(&limits::ANCHORS) {
            self.limits.read(&line, self.found.lines + 1, &seen, &mut self.found.surroundings);
        }
        if seen.has_anchor || self.found.lines < PASTED_LINES {
            // Each rank's figures grow for themselves.
            let own = given.is_none().then(|| origin(begin(&line)));
            let key = given.or(own.as_ref()).map_or(&[][..], |origin| origin.key.as_slice());
            self.growth.read(&line, key, self.found.lines + 1);
        }
        if self.found.lines < PASTED_LINES {
            self.prose.read(&line, &mut self.found.command, &mut self.found.surroundings);
        }
        let is_of_interest = FINDERS[..NEEDLES.len()].iter().any(|finder| finder.find(&line).is_some());
        let is_known = seen.has_anchor || self.table.is_open() || self.trace.is_open(self.found.lines + 1);
        let joined = self.join(&line, &seen, given);
        // Escapes of JSON may break words, too.
        let may_hide = self.found.lines < PASTED_LINES && memmem::find(&line, b"\\n").is_some();
        if !is_of_interest && !is_known && joined.is_none() && !may_hide && self.open.is_empty() && !may_break(&line) {
            return;
        }
        if (is_of_interest || is_known || may_hide)
            && depth < MAX_DEPTH
            && let Some(text) = unescaped(&line)
            && text != *line
        {
            let mut of_line = given.cloned().unwrap_or_else(|| Origin { body: 0, ..origin(&line) });
            of_line.rank = of_line.rank.or_else(|| named_rank(&line));
            for part in text.split(|&byte| byte == b'\n' || byte == b'\r') {
                self.read_line(part, Some(&of_line), depth + 1);
            }
            // A record is whole.
            self.close(&of_line.key);
            return;
        }
        let mut of_line = origin(&line);
        if let Some(given) = given {
            of_line.rank = of_line.rank.or(given.rank);
            if of_line.key.is_empty() {
                of_line.key.clone_from(&given.key);
            }
        }
        let boxed = &line[of_line.body..];
        let body = unboxed(&line, boxed);
        if body.trim_ascii().is_empty() {
            return;
        }
        // A terminal breaks a line without its prefix.
        if of_line.key.is_empty() && !self.last_key.is_empty() && self.goes_on(body) {
            of_line.key.clone_from(&self.last_key);
            of_line.rank = of_line.rank.or(self.last_rank);
        } else {
            self.last_key.clone_from(&of_line.key);
            self.last_rank = of_line.rank;
        }
        let mut is_told = false;
        let mut first_lines = Vec::new();
        if is_known {
            self.trace.read(boxed, &of_line.key, self.found.lines + 1);
            if seen.has_any(&summary::ANCHORS) {
                self.summary.read(body, &of_line.key, of_line.rank, &mut self.found);
            }
            let number = self.found.lines + 1;
            let rank = of_line.rank;
            let hits = self.table.read(body, &of_line.key, rank, number, &mut self.found.engine);
            is_told = !hits.is_empty();
            let (first, mut hits): (Vec<Hit>, Vec<Hit>) = hits.into_iter().partition(|hit| hit.row.id == ASYNCHRONOUS);
            for hit in hits.iter_mut().filter(|hit| hit.row.id == "nccl") {
                hit.values.extend(device_of_nccl(&line).map(|gpu| ("gpu", Value::Number(gpu))));
            }
            first_lines = first;
            self.tell_all(hits, rank, number, &of_line.key);
        }
        let has_faulted = self.found.surroundings.has_faulted;
        let mut told_at = self.found.lines + 1;
        self.sentence = None;
        if let Some(joined) = joined.filter(|_| !has_faulted) {
            if let Some((begin, rows)) = joined.rows {
                let hits = self.table.read_joined(&joined.text[begin..], rows, &of_line.key, joined.line);
                is_told |= !hits.is_empty();
                self.tell_all(hits, of_line.rank, joined.line, &of_line.key);
            }
            if joined.may_tell && !is_told && !seen.has(refusal::ANCHOR) {
                self.sentence = grammar::read(&joined.text);
                told_at = joined.line;
            }
        }
        let is_refusal = seen.has(refusal::ANCHOR);
        if is_refusal {
            self.found.read_refusal(body, of_line.rank);
        }
        let may_tell = !is_told && self.sentence.is_none() && seen.may_tell() && !has_faulted && !is_refusal;
        if may_tell {
            self.sentence = grammar::read(unboxed(&line, &line));
            told_at = self.found.lines + 1;
        }
        let is_message = self.read_text(body, &of_line, is_of_interest);
        if !is_message {
            self.tell_all(first_lines, of_line.rank, self.found.lines + 1, &of_line.key);
        }
        if let Some(sentence) = self.sentence.take().filter(|_| !is_message) {
            self.tell(sentence, of_line.rank, told_at, &of_line.key);
        }
    }

    /// The line before and this one, if a sentence is broken between them.
    fn join(&mut self, line: &[u8], seen: &Seen, given: Option<&Origin>) -> Option<broken::Joined> {
        let mut of_line = origin(begin(line));
        if of_line.key.is_empty()
            && let Some(given) = given
        {
            of_line.key.clone_from(&given.key);
        }
        let number = self.found.lines + 1;
        let body = unboxed(line, &line[of_line.body..]);
        let is_pasted = number <= PASTED_LINES;
        let joined = self.last.join(body, &of_line.key, number).filter(|_| is_pasted || self.last.is_before(number));
        self.last.take(unboxed(line, line), &of_line.key, number, seen);
        // It may go on over a third line.
        if let Some(joined) = &joined {
            self.last.keep(joined);
        }
        joined
    }

    /// Counts failures of the table.
    fn tell_all(&mut self, hits: Vec<Hit>, rank: Option<u32>, line: u64, key: &[u8]) {
        // A launcher ends all processes after any failure: of memory only where the host was filled, and no error stands before.
        let fills_host = self.found.surroundings.is_loading_shards || self.found.surroundings.offloads_to_host;
        let is_of_memory = fills_host && !self.trace.has_seen_any();
        let is_of_limit = hits.iter().any(|hit| hit.row.id == "limit-kill");
        for hit in hits {
            if hit.row.id == "oom-kill" && is_of_limit {
                // The same words, without the limit.
                continue;
            }
            if hit.row.id == "launcher-kill" && !is_of_memory {
                continue;
            }
            let trace = &self.trace;
            self.found.add(hit, rank, line, &mut self.events, || trace.near(key, line));
        }
    }

    /// Counts a failure that only the grammar knows.
    fn tell(&mut self, sentence: Sentence, rank: Option<u32>, line: u64, key: &[u8]) {
        let (row, values) = sentence.hit();
        self.tell_all(vec![Hit { row, values }], rank, line, key);
    }

    /// Whether a line without a writer's name goes on with what the last writer has begun.
    fn goes_on(&self, body: &[u8]) -> bool {
        let is_message = match self.open.get(&self.last_key).map(|open| &open.begun) {
            Some(Begun::Message(reader)) => reader.may_go_on(&without_blanks(body)),
            Some(Begun::Words(words)) => memmem::find(&[words, &*without_blanks(body)].concat(), ANCHOR).is_some(),
            None => false,
        };
        is_message || self.table.may_go_on(&self.last_key, body)
    }

    /// Reads the text of a line; whether it is of a message.
    fn read_text(&mut self, body: &[u8], of_line: &Origin, is_of_interest: bool) -> bool {
        let mut text = without_blanks(body);
        // Marks of code in Markdown stand anywhere in a sentence.
        text.retain(|byte| *byte != b'`');
        if self.sentence.is_some() && memmem::find(&text, ANCHOR).is_none() && find(&text, ANCHOR).is_some() {
            // Written in capitals.
            text.make_ascii_lowercase();
        }
        let mut at = 0;
        let mut went_on = false;
        if let Some(mut open) = self.open.remove(&of_line.key) {
            open.lines += 1;
            match open.begun {
                Begun::Words(words) => text = [words, text].concat(),
                Begun::Message(ref mut reader) => match reader.go_on(&text) {
                    Progress::Open if open.lines < MAX_LINES => {
                        self.keep(of_line, open);
                        return true;
                    }
                    Progress::Open => {
                        self.end(open);
                        return true;
                    }
                    Progress::Ended(used) => {
                        self.end(open);
                        (at, went_on) = (used.min(text.len()), used > 0);
                    }
                },
            }
        }
        let mut rank = of_line.rank;
        // Looked for once: a line may hold thousands of messages.
        let mut is_rank_sought = rank.is_none();
        let mut has_begun = false;
        for anchor in memmem::find_iter(&text, ANCHOR) {
            if anchor < at {
                continue;
            }
            let Some((reader, progress)) = Reader::begin(&text, anchor) else {
                self.found.note_mention(self.found.lines + 1, body);
                continue;
            };
            if std::mem::take(&mut is_rank_sought) {
                rank = named_rank(body);
            }
            has_begun = true;
            at = self.begun(reader, progress, rank, of_line, (&text[at..anchor], text.len()));
        }
        // As people quote it, without its first words.
        let is_sought = !has_begun && !went_on;
        let tried = find(&text[at..], TRIED).filter(|_| is_sought).map(|tried| at + tried);
        let has_capacity = |tried: &usize| CAPACITIES.iter().any(|words| find(&text[*tried..], words).is_some());
        if let Some(tried) = tried.filter(has_capacity) {
            let whole = [ANCHOR, b".", &text[tried..]].concat();
            if let Some((reader, progress)) = Reader::begin(&whole, 0) {
                self.begun(reader, progress, rank, of_line, (&[], text.len()));
                return true;
            }
        }
        if is_of_interest
            && !has_begun
            && !went_on
            && memmem::find(&text, b"byPyTorch").is_some()
            && let Some((reader, progress)) = Reader::begin_amid(&text)
        {
            self.begun(reader, progress, rank, of_line, (&[], text.len()));
            return true;
        }
        let broken = broken_beginning(&text[at..]);
        if broken > 0 {
            let begun = Begun::Words(text[text.len() - broken..].to_vec());
            let (line, asked, sentence) = (self.found.lines + 1, AskedAt::default(), None);
            self.keep(of_line, Open { begun, rank, line, lines: 1, asked, sentence });
        }
        has_begun || went_on || broken > 0
    }

    /// Keeps a message for its next line, or counts it; gives where the text goes on.
    fn begun(
        &mut self,
        reader: Reader,
        progress: Progress,
        rank: Option<u32>,
        of_line: &Origin,
        (before, length): (&[u8], usize),
    ) -> usize {
        let lines = self.found.lines;
        let context = self.context.filter(|_| rank.is_none()).filter(|(_, line)| line + CONTEXT_LINES > lines);
        if context.is_some() {
            self.context = None;
        }
        let rank = rank.or(context.map(|(rank, _)| rank));
        let mut asked = self.trace.take(&of_line.key);
        asked.purpose = asked.purpose.or_else(|| purpose::purpose(&String::from_utf8_lossy(before)));
        asked.side = asked.side.or_else(|| engine_in(before).or_else(|| engine_in(&of_line.key)).map(Side::Engine));
        let (begun, line) = (Begun::Message(Box::new(reader)), self.found.lines + 1);
        let open = Open { begun, rank, line, lines: 1, asked, sentence: self.sentence.take() };
        match progress {
            Progress::Open => {
                self.keep(of_line, open);
                length
            }
            Progress::Ended(used) => {
                self.end(open);
                used
            }
        }
    }

    fn keep(&mut self, of_line: &Origin, open: Open) {
        if self.open.len() >= MAX_OPEN {
            self.close_all();
        }
        self.open.insert(of_line.key.clone(), open);
    }

    /// Ends messages that nobody went on with.
    fn expire(&mut self) {
        self.table.expire(self.found.lines);
        if self.open.is_empty() || !self.found.lines.is_multiple_of(1024) {
            return;
        }
        let lines = self.found.lines;
        let is_old = |open: &Open| open.line + PATIENCE_LINES < lines;
        let mut old: Vec<Open> = self.open.extract_if(|_, open| is_old(open)).map(|(_, open)| open).collect();
        old.sort_by_key(|open| (open.line, open.rank));
        for open in old {
            self.end(open);
        }
    }

    fn close(&mut self, key: &[u8]) {
        if let Some(open) = self.open.remove(key) {
            self.end(open);
        }
    }

    fn close_all(&mut self) {
        let mut open: Vec<Open> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_by_key(|open| (open.line, open.rank));
        for open in open {
            self.end(open);
        }
    }

    /// Counts a message.
    fn end(&mut self, open: Open) {
        let Begun::Message(reader) = open.begun else { return };
        // The name of a device stands before its first words, and a sentence around them tells a failure.
        let is_of_pytorch = reader.names_device() && open.sentence.is_some();
        let Some(mut message) = reader.finish() else {
            if let Some(sentence) = open.sentence.filter(|_| !is_of_pytorch) {
                self.tell(sentence, open.rank, open.line, b"");
            } else if is_of_pytorch {
                let hit = Hit { row: &CUT, values: Values::new() };
                self.found.add(hit, open.rank, open.line, &mut self.events, || open.asked);
            } else {
                self.found.note_mention(open.line, b"");
            }
            return;
        };
        message.rank = open.rank;
        self.found.count += 1;
        let is_full = self.found.groups.len() >= MAX_GROUPS;
        match self.groups.entry(message) {
            Entry::Occupied(group) => {
                let group = &mut self.found.groups[*group.get()];
                group.count += 1;
                // An editor shows the message before the traceback, which ends with it.
                // And a thread that only looks at the memory tells less than the one that failed.
                let is_told = open.asked.innermost.is_some() && !open.asked.only_looks();
                let lacks = group.asked.innermost.is_none() || group.asked.only_looks() && is_told;
                if lacks && group.line + CONTEXT_LINES > open.line {
                    group.asked = open.asked;
                }
            }
            Entry::Vacant(_) if is_full => self.found.left_out += 1,
            Entry::Vacant(group) => {
                let message = group.key().clone();
                group.insert(self.found.groups.len());
                self.found.groups.push(Group { message, count: 1, line: open.line, asked: open.asked });
            }
        }
    }

    /// The ranks of a job run one program: where the traceback of one is cut away, that of another tells what it was doing.
    fn lend_purposes(&mut self) {
        // A sentence tells it, and the traceback follows.
        let is_bare =
            |event: &&mut Event| [ASYNCHRONOUS, "general"].contains(&event.id) && event.asked.innermost.is_none();
        if self.found.groups.is_empty()
            && let Some(event) = self.found.events.iter_mut().find(is_bare)
        {
            event.asked = self.trace.only(event.line).unwrap_or_default();
        }
        let groups = &mut self.found.groups;
        let lacks = |group: &Group| group.message.rank.is_some() && group.asked.innermost.is_none();
        let of_rank = groups.iter().find(|group| group.message.rank.is_some() && group.asked.purpose.is_some());
        let lent = of_rank.map(|group| (group.asked.purpose, group.asked.side));
        let lent = lent.or_else(|| self.trace.rest().map(|asked| (asked.purpose, asked.side)));
        if let [group] = &mut groups[..]
            && group.asked.innermost.is_none()
            && let Some(asked) = self.trace.only(group.line)
        {
            group.asked = asked;
            return;
        }
        let Some((purpose, side)) = lent else { return };
        for group in groups.iter_mut().filter(|group| lacks(group)) {
            group.asked.purpose = group.asked.purpose.or(purpose);
            group.asked.side = group.asked.side.or(side);
        }
    }

    /// Notes what a line says beside messages.
    fn look_around(&mut self, line: &[u8], words: &Seen) {
        // PyTorch's advice may be broken into lines.
        let is_amid = !self.open.is_empty() || self.last.ends_with(b"setting");
        self.found.look_around(line, words, is_amid);
        // `-- Process 3 terminated with the following error:` of `torch.multiprocessing`.
        if let Some(rest) = line.strip_prefix(b"-- Process ") {
            self.context = leading_number(rest).map(|rank| (rank, self.found.lines)).or(self.context);
        }
        // `  rank      : 3 (local_rank: 3)` of torchrun's summary.
        if let Some(rest) = line.trim_ascii_start().strip_prefix(b"rank  ") {
            let rest = rest.trim_ascii_start();
            if let Some(number) = rest.strip_prefix(b":") {
                let rank = leading_number(number.trim_ascii_start());
                self.context = rank.map(|rank| (rank, self.found.lines)).or(self.context);
            }
        }
    }
}

/// The GPU of a line of NCCL's, which stands before its text: `node7:3063028:3066152 [3] include/alloc.h:178 NCCL WARN`.
fn device_of_nccl(line: &[u8]) -> Option<u64> {
    let before = &line[..memmem::find(line, b" NCCL ")?];
    let open = memchr::memrchr(b'[', before)?;
    let close = open + memchr::memchr(b']', &before[open..])?;
    std::str::from_utf8(&before[open + 1..close]).ok()?.parse().ok()
}

fn leading_number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// Where words stand in a text, in any case.
fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    let first = words.first()?;
    let begins = memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text);
    begins.into_iter().find(|&at| text[at..].get(..words.len()).is_some_and(|found| found.eq_ignore_ascii_case(words)))
}

/// Whether a line may end amid "CUDA out of memory".
fn may_break(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let end = &line[line.len().saturating_sub(28)..];
    DEVICES.iter().any(|name| memmem::find(end, name).is_some())
}

/// The part of a line in which its writer is named.
fn begin(line: &[u8]) -> &[u8] {
    &line[..line.len().min(1024)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The work for so many equal lines, behind the lines that are each read because a person may have pasted them.
    fn work(line: &str, count: usize) -> Work {
        let mut reader = LogReader::new();
        reader.push("step 7\n".repeat(usize::try_from(PASTED_LINES).unwrap()).as_bytes());
        let before = reader.work;
        reader.push(line.repeat(count).as_bytes());
        Work {
            lines: reader.work.lines - before.lines,
            searched_bytes: reader.work.searched_bytes - before.searched_bytes,
        }
    }

    #[test]
    fn lines_that_name_limits_are_passed_over_like_others() {
        let bytes = |line: &str| line.len() as u64 * 50_000;
        for line in ["    limits:\n", "request_memory: 4Gi, memory: 8Gi\n", "srun --mem=64G step 7 of 9\n"] {
            let work = work(line, 50_000);
            assert!(work.lines <= 2, "{line:?}: {work:?}");
            // Where a block ends amid a line, that line is searched again.
            assert!(work.searched_bytes <= 2 * bytes(line), "{line:?}: {work:?}");
        }
        // Twice the lines are twice the work.
        let (once, twice) = (work("    limits:\n", 50_000), work("    limits:\n", 100_000));
        assert!(twice.searched_bytes <= 2 * once.searched_bytes + BLOCK_BYTES as u64, "{once:?} {twice:?}");
    }

    #[test]
    fn a_limit_among_lines_that_are_passed_over_is_found() {
        let mut reader = LogReader::new();
        reader.push("step 7\n".repeat(usize::try_from(PASTED_LINES).unwrap()).as_bytes());
        reader.push("step 8\n".repeat(2_000).as_bytes());
        reader.push(b"    Limits:\n      cpu: 4\n      memory:  300Mi\n    Requests:\n      memory:  200Mi\nstep 9\n");
        let found = reader.finish();
        assert_eq!((found.surroundings.memory_limit_bytes, found.lines), (Some(300 << 20), PASTED_LINES + 2_006));
    }

    /// Whoever follows a log asks how much was found, and reads all of it once more when the count differs.
    #[test]
    fn a_launcher_s_words_count_only_where_they_are_told() {
        let killed = "[INFO] [launch.py:428:sigkill_handler] Killing subprocess 6293\n";
        let loads = "Loading checkpoint shards:   0%|          | 0/7 [00:00<?, ?it/s]\n";
        for (before, count) in [("", 0), (loads, 1)] {
            let mut reader = LogReader::new();
            reader.push(format!("{before}{killed}step 1\n").as_bytes());
            assert_eq!((reader.so_far().1, reader.finish().events.len()), (count, count), "{before:?}");
        }
    }
}
