//! Reads a message clause by clause, from as many pieces of text as it comes in.

use memchr::memmem;

use super::amount::{Read, amount, number};
use super::clause::{ANCHOR, Amount, BACKENDS, CLAUSES, Clause, Part, Says};
use super::{Kind, Message, Process};

/// Sentences that are not known are passed over up to this length, without blanks.
const UNKNOWN_BYTES: usize = 512;
/// The longest beginning of a clause that is kept for the next line: no clause is longer.
const KEPT_BYTES: usize = 512;
/// Processes that are listed: a device serves fewer.
const MAX_PROCESSES: usize = 4096;
/// No process has an exbibyte: the amount stands for "not available".
const NOT_AVAILABLE_BYTES: u64 = 1 << 60;
/// Of the words in which a text is cut, so much must be there.
const CUT_BYTES: usize = 2;
/// Words by which a clause is known in the middle of a text.
const DISTINCTIVE_BYTES: usize = 8;

/// Text without its blanks, and without the lines that draw a box around it.
pub(crate) fn without_blanks(text: &[u8]) -> Vec<u8> {
    let mut dense = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        match rest {
            // U+2502 and U+2503, the sides of a box.
            [0xe2, 0x94, 0x82 | 0x83, ..] => rest = &rest[3..],
            // U+00A0, a blank that does not break.
            [0xc2, 0xa0, ..] => rest = &rest[2..],
            _ => {
                // Nor control characters: torch 2.3 prints a device's number as one.
                if !byte.is_ascii_whitespace() && !byte.is_ascii_control() {
                    dense.push(byte);
                }
                rest = after;
            }
        }
    }
    dense
}

/// How far a message is after a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The text is used up, and the next line may go on with the message.
    Open,
    /// It ends after so many bytes of the text.
    Ended(usize),
}

/// A message that is being read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    message: Message,
    /// The beginning of a clause, whose end may come with the next line.
    rest: Vec<u8>,
    /// Nothing more needs to come.
    is_complete: bool,
    amounts: usize,
}

impl Reader {
    /// Begins at [`ANCHOR`], if a message does; gives how far it read.
    pub(crate) fn begin(text: &[u8], anchor: usize) -> Option<(Self, Progress)> {
        let (before, from) = text.split_at(anchor);
        let mut reader = Self::default();
        let mut is_short = false;
        let beginnings = CLAUSES.iter().filter_map(|clause| Some((clause, clause.begins_after?)));
        for (clause, after) in beginnings {
            let after: Vec<u8> = without_blanks(after.as_bytes());
            if !ends_with(before, &after) {
                continue;
            }
            match reader.try_clause(clause, from) {
                Read::Found((), length) => {
                    reader.look_back(clause, &before[..before.len() - after.len()]);
                    let progress = match reader.read(&from[length..]) {
                        Progress::Open => Progress::Open,
                        Progress::Ended(more) => Progress::Ended(anchor + length + more),
                    };
                    return Some((reader, progress));
                }
                Read::Short => is_short = true,
                Read::Absent => {}
            }
        }
        if !is_short || from.len() > KEPT_BYTES {
            return None;
        }
        reader.message.backend = backend(before);
        reader.rest = from.to_vec();
        Some((reader, Progress::Open))
    }

    /// Begins amid a message whose first half is missing, at the earliest clause of a text.
    pub(crate) fn begin_amid(text: &[u8]) -> Option<(Self, Progress)> {
        let lower = text.to_ascii_lowercase();
        let start =
            CLAUSES.iter().filter(|clause| clause.begins_after.is_none()).filter_map(|c| place(c, &lower)).min()?;
        let mut reader = Self::default();
        let progress = match reader.read(&text[start..]) {
            Progress::Open => Progress::Open,
            Progress::Ended(more) => Progress::Ended(start + more),
        };
        reader.message.is_cut = true;
        (reader.amounts >= 2).then_some((reader, progress))
    }

    /// Goes on with the next line of the same origin.
    pub(crate) fn go_on(&mut self, line: &[u8]) -> Progress {
        if self.rest.is_empty() {
            return self.read(line);
        }
        let kept = std::mem::take(&mut self.rest);
        let text = [&kept, line].concat();
        let progress = if self.amounts == 0 && text.starts_with(ANCHOR) {
            match Self::begin(&text, 0) {
                Some((begun, progress)) => {
                    let backend = self.message.backend;
                    *self = begun;
                    self.message.backend = self.message.backend.or(backend);
                    progress
                }
                None => Progress::Ended(0),
            }
        } else {
            self.read(&text)
        };
        match progress {
            Progress::Open => Progress::Open,
            Progress::Ended(used) => Progress::Ended(used.saturating_sub(kept.len())),
        }
    }

    /// Whether a device stands before the first words: `CUDA out of memory`.
    pub(crate) fn names_device(&self) -> bool {
        self.message.backend.is_some()
    }

    /// Whether a line goes on with the message.
    pub(crate) fn may_go_on(&self, line: &[u8]) -> bool {
        !matches!(self.clone().go_on(line), Progress::Ended(0))
    }

    /// The message; `None` if it says nothing.
    pub(crate) fn finish(mut self) -> Option<Message> {
        self.take_cut_clause();
        let mut message = self.message;
        let says_all = self.amounts > 0 || matches!(message.kind, Kind::MoreThanOneExabyte | Kind::Driver);
        message.is_cut |= !self.is_complete;
        if message.backend == Some("NPU") {
            // Its releases keep words that torch has given up.
            message.releases = None;
        }
        if message.kind == Kind::Asynchronous && self.amounts == 0 {
            // Some programs pass on only its first line.
            return Some(message);
        }
        says_all.then_some(message)
    }

    /// Takes the amounts of a clause in whose words the text ends, where only one clause begins so: titles of issues are cut anywhere.
    fn take_cut_clause(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        let cut = |clause: &Clause| clause.begins_after.is_none().then(|| cut_amounts(clause, &rest)).flatten();
        let mut found = CLAUSES.iter().filter_map(cut);
        if let (Some((what, bytes, pid)), None) = (found.next(), found.next())
            && !self.has(what)
        {
            self.amounts += 1;
            self.take(what, bytes, pid);
        }
    }

    /// Reads as many clauses as there are.
    fn read(&mut self, text: &[u8]) -> Progress {
        let mut at = 0;
        loop {
            let start = at + punctuation(&text[at..]);
            if start == text.len() {
                return Progress::Open;
            }
            let mut is_short = false;
            let mut found = None;
            for clause in CLAUSES.iter().filter(|clause| clause.begins_after.is_none()) {
                match self.try_clause(clause, &text[start..]) {
                    Read::Found((), length) => {
                        found = Some(length);
                        break;
                    }
                    Read::Short => is_short = true,
                    Read::Absent => {}
                }
            }
            match found {
                Some(0) => return Progress::Ended(at),
                Some(length) => at = start + length,
                None if is_short && text.len() - start <= KEPT_BYTES => {
                    self.rest = text[start..].to_vec();
                    return Progress::Open;
                }
                None => match self.past_unknown(&text[start..]) {
                    Some(length) => at = start + length,
                    None => {
                        let end = text.len() - text.iter().rev().take_while(|byte| byte.is_ascii_punctuation()).count();
                        self.rest =
                            text[start..].get(..end.saturating_sub(start).min(KEPT_BYTES)).unwrap_or_default().to_vec();
                        return Progress::Ended(at);
                    }
                },
            }
        }
    }

    /// Passes over a sentence that no release is known to have, if the message goes on behind it.
    fn past_unknown(&self, text: &[u8]) -> Option<usize> {
        if self.is_complete {
            return None;
        }
        let window = &text[..text.len().min(UNKNOWN_BYTES)];
        let window = memmem::find(window, ANCHOR).map_or(window, |next| &window[..next]);
        let window = window.to_ascii_lowercase();
        let clauses = CLAUSES.iter().filter(|clause| clause.begins_after.is_none());
        clauses.filter_map(|clause| place(clause, &window)).filter(|&place| place > 0).min()
    }

    /// Takes a clause if it stands here; a length of 0 says that it does, but belongs to another message.
    fn try_clause(&mut self, clause: &Clause, text: &[u8]) -> Read<()> {
        let mut at = 0;
        let mut amounts: [Option<(Amount, u64)>; 4] = [None; 4];
        let (mut count, mut device, mut pid) = (0, None, None);
        for part in clause.parts {
            let rest = &text[at..];
            let read = match *part {
                Part::Words(words) => words_at(words, rest),
                Part::Device => number(rest).map(|found| device = Some(found)),
                Part::Process => number(rest).map(|found| pid = Some(found)),
                Part::Bytes(what) | Part::BinaryBytes(what) => {
                    amount(rest, matches!(part, Part::BinaryBytes(_))).map(|bytes| {
                        amounts[count] = Some((what, bytes));
                        count += 1;
                    })
                }
            };
            match read {
                Read::Found((), length) => at += length,
                other => return other,
            }
        }
        let amounts = amounts.iter().flatten();
        if amounts.clone().any(|&(what, _)| self.has(what)) || (device.is_some() && self.message.device.is_some()) {
            return Read::Found((), 0);
        }
        for &(what, bytes) in amounts {
            self.amounts += 1;
            self.take(what, bytes, pid);
        }
        self.message.device = self.message.device.or(device);
        self.is_complete |= clause.is_last;
        self.heard(clause);
        Read::Found((), at)
    }

    fn heard(&mut self, clause: &Clause) {
        let message = &mut self.message;
        // What no release wrote is told without one.
        message.releases = match message.releases {
            None => Some(clause.releases),
            Some(releases) => Some(releases.and(clause.releases).unwrap_or(clause.releases)),
        };
        match clause.says {
            Says::Nothing => {}
            Says::ReservedIsCached => message.reserved_is_cached = true,
            Says::ExpandableSegments => message.has_expandable_segments = true,
            Says::CustomAllocator => message.kind = Kind::CustomAllocator,
            Says::MoreThanOneExabyte => message.kind = Kind::MoreThanOneExabyte,
            Says::Rejected => message.kind = Kind::Rejected,
            Says::DriverError => message.kind = Kind::Driver,
            Says::Asynchronous => message.kind = Kind::Asynchronous,
        }
    }

    /// What stands before the beginning.
    fn look_back(&mut self, clause: &Clause, before: &[u8]) {
        match clause.says {
            Says::Asynchronous => {
                let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
                let ordinal = std::str::from_utf8(&before[before.len() - digits..]).ok().and_then(|d| d.parse().ok());
                self.message.device = ordinal;
                self.message.backend = Some("CUDA");
            }
            Says::DriverError => self.message.backend = Some(if clause.name == "driver, HIP" { "HIP" } else { "CUDA" }),
            _ if clause.name.starts_with("MPS") => self.message.backend = Some("MPS"),
            _ => self.message.backend = backend(before),
        }
    }

    fn has(&self, what: Amount) -> bool {
        let message = &self.message;
        match what {
            Amount::OtherProcess => message.other_processes.len() >= MAX_PROCESSES,
            Amount::Reserve => message.reserve_bytes.is_some(),
            Amount::Tried => message.tried_bytes.is_some(),
            Amount::Capacity => message.capacity_bytes.is_some(),
            Amount::Free => message.free_bytes.is_some(),
            Amount::ThisProcess => message.process_bytes.is_some(),
            Amount::Limit => message.limit_bytes.is_some(),
            Amount::Allocated => message.allocated_bytes.is_some(),
            Amount::Private => message.private_bytes.is_some(),
            Amount::Reserved => message.reserved_bytes.is_some(),
            Amount::Unallocated => message.reserved_unallocated_bytes.is_some(),
            Amount::Others => message.others_bytes.is_some(),
            Amount::Active => false,
        }
    }

    fn take(&mut self, what: Amount, bytes: u64, pid: Option<u32>) {
        let message = &mut self.message;
        message.names_itself |= what == Amount::ThisProcess;
        let field = match what {
            Amount::OtherProcess => {
                // Listed, and not measured.
                let is_told = bytes < NOT_AVAILABLE_BYTES;
                message.has_unavailable |= !is_told;
                let bytes = if is_told { bytes } else { 0 };
                message.other_processes.extend(pid.map(|pid| Process { pid, bytes }));
                return;
            }
            // 2^64: `cudaMallocAsync` says so where no limit is set.
            Amount::Limit if bytes >= NOT_AVAILABLE_BYTES => return,
            // The driver did not tell, or a difference of unsigned numbers fell below zero.
            what if what != Amount::Tried && bytes >= NOT_AVAILABLE_BYTES => {
                message.has_unavailable = true;
                return;
            }
            Amount::Reserve => &mut message.reserve_bytes,
            Amount::Tried => &mut message.tried_bytes,
            Amount::Capacity => &mut message.capacity_bytes,
            Amount::Free => &mut message.free_bytes,
            Amount::ThisProcess => &mut message.process_bytes,
            Amount::Limit => &mut message.limit_bytes,
            Amount::Allocated => &mut message.allocated_bytes,
            Amount::Private => &mut message.private_bytes,
            Amount::Reserved => &mut message.reserved_bytes,
            Amount::Unallocated => &mut message.reserved_unallocated_bytes,
            Amount::Others => &mut message.others_bytes,
            Amount::Active => return,
        };
        *field = Some(bytes);
    }
}

impl<T> Read<T> {
    pub(crate) fn map<U>(self, with: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Self::Found(found, length) => Read::Found(with(found), length),
            Self::Absent => Read::Absent,
            Self::Short => Read::Short,
        }
    }
}

/// The amount of a clause whose words begin after it, and go on where the text ends.
fn cut_amounts(clause: &Clause, text: &[u8]) -> Option<(Amount, u64, Option<u32>)> {
    let mut at = 0;
    let (mut found, mut pid) = (None, None);
    for part in clause.parts {
        let rest = &text[at..];
        let read = match *part {
            Part::Words(words) => match words_at(words, rest) {
                Read::Short if rest.len() >= CUT_BYTES || rest.is_empty() && is_distinct(clause) => {
                    return found.map(|(what, bytes)| (what, bytes, pid));
                }
                read => read,
            },
            Part::Process => number(rest).map(|found| pid = Some(found)),
            Part::Device => number(rest).map(|_| ()),
            Part::Bytes(what) | Part::BinaryBytes(what) => {
                amount(rest, matches!(part, Part::BinaryBytes(_))).map(|bytes| found = Some((what, bytes)))
            }
        };
        let Read::Found((), length) = read else { return None };
        at += length;
    }
    None
}

/// Whether the words before a clause's amount are enough to know it by.
fn is_distinct(clause: &Clause) -> bool {
    let Some(Part::Words(words)) = clause.parts.first() else { return false };
    words.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() >= DISTINCTIVE_BYTES - 1
}

/// Bytes of what stands between clauses.
fn punctuation(text: &[u8]) -> usize {
    text.iter().take_while(|byte| b".,;:()".contains(byte)).count()
}

/// Compares words with a text without blanks; people and programs write them in another case, too.
fn words_at(words: &str, text: &[u8]) -> Read<()> {
    let mut at = 0;
    for byte in words.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        match text.get(at) {
            None => return Read::Short,
            Some(found) if found.eq_ignore_ascii_case(&byte) => at += 1,
            Some(_) => return Read::Absent,
        }
    }
    Read::Found((), at)
}

/// Where a clause may begin in a text in lower case without blanks, by words of it that stand nowhere else.
fn place(clause: &Clause, text: &[u8]) -> Option<usize> {
    let (first, words) = match clause.parts {
        [Part::Words(first), Part::Bytes(_), Part::Words(words)] if first.len() < DISTINCTIVE_BYTES => {
            (Some(*first), *words)
        }
        [Part::Words(words), ..] => (None, *words),
        [Part::Bytes(_), Part::Words(words)] => (Some(""), *words),
        _ => return None,
    };
    let words = without_blanks(words.as_bytes()).to_ascii_lowercase();
    if words.len() < DISTINCTIVE_BYTES {
        return None;
    }
    let at = memmem::find(text, &words)?;
    let Some(first) = first else { return Some(at) };
    // Back over the unit and the number.
    let unit = text[..at].iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).take(6).count();
    let number =
        text[..at - unit].iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').take(24).count();
    let start = at - unit - number;
    (unit > 0 && number > 0 && ends_with(&text[..start], first.as_bytes())).then(|| start - first.len())
}

/// Whether a text ends with these words, in any case.
fn ends_with(text: &[u8], words: &[u8]) -> bool {
    text.len() >= words.len() && text[text.len() - words.len()..].eq_ignore_ascii_case(words)
}

/// The kind of device that the text before "out of memory" names.
fn backend(before: &[u8]) -> Option<&'static str> {
    BACKENDS.into_iter().find(|name| ends_with(before, name.as_bytes()))
}

/// How much of the end of a text may be the beginning of a message that the next line goes on with, "out of memory"
/// itself broken in two; 0 if none.
pub(crate) fn broken_beginning(text: &[u8]) -> usize {
    let longest = |name: &str| {
        let whole = [name.as_bytes(), ANCHOR].concat();
        (name.len()..whole.len()).rev().find(|&length| text.ends_with(&whole[..length]))
    };
    BACKENDS.into_iter().chain(["MPSbackend"]).filter_map(longest).max().unwrap_or(0)
}
