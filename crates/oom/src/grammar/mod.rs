//! Failures that no table knows, by their grammar.
//!
//! ```text
//! lack of memory     out of | not enough | insufficient  …  memory | VRAM | resources
//! failed request     failed to | cannot | unable to …  alloc…  [size]
//! larger than a limit  allocate SIZE … greater | more … than … SIZE
//! code               CL_OUT_OF_RESOURCES, VK_ERROR_OUT_OF_DEVICE_MEMORY, std::bad_alloc
//! end by a signal    exit code 137, -9, SIGKILL
//! ```
//!
//! A sentence that only speaks of a failure (`to avoid`, `if`, `may`), source code, and lines that say that the program went on are
//! none. Whose memory it is follows from the names in the line.

mod words;

pub(crate) use words::TRIGGERS;
use words::{
    BACKENDS, BESIDE_MEMORY, CODES, ENDS, ERRORS, FAILING, HEDGES, HOST_RAM, MEMORY, NEAR_HEDGES, OF_GPU, OF_LACK,
    OPEN, OTHER_REASONS, OTHER_THINGS, PLACES, QUESTIONS, RECOVERIES, REQUESTS, SEEN, SENTENCES, SET_UP, SOURCE, UNITS,
    WANTED,
};

use crate::known::{Row, Value, Values, row, text_of};
use crate::message::{Read, amount};

/// Of a longer line only this much is read.
const LINE_BYTES: usize = 4096;
/// A lack and its memory, or a failure and its request, have no more words between them.
const APART: usize = 6;
/// What is said so many words before a failure may be about something else.
const NEAR_WORDS: usize = 8;
/// A number has no more words: `1`, `234`, `567MB`.
const NUMBER_WORDS: usize = 3;
/// A whole number without a unit is a size from here on.
const LEAST_SIZE: u64 = 1 << 16;

/// The failure that a sentence tells.
static FAILED: Row = row("general", "the program", "");
/// The same while a process was set up on a device.
static SET_UP_FAILED: Row = row("general-set-up", "the program", "");
/// The end that it tells.
static KILLED: Row = row("sigkill", "a log", "");

/// Whose memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A GPU's or another accelerator's.
    Device,
    /// The host's.
    Host,
    /// Page-locked memory of the host.
    Pinned,
    /// Memory that processes of the host share.
    Shared,
    /// The text does not say.
    Unknown,
}

impl Place {
    /// The word of an event.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Pinned => "pinned",
            Self::Shared => "shared",
            Self::Unknown => "unknown",
        }
    }
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sentence {
    /// Memory ran out.
    Failed {
        /// Whose.
        place: Place,
        /// The size of the request.
        requested: Option<u64>,
        /// The most that there may be of it at once.
        limit: Option<u64>,
        /// How much of it there was.
        free: Option<u64>,
        /// A process was set up on a device, and had requested nothing yet.
        is_set_up: bool,
        /// The runtime that the device is used by, and the program that lists who uses it.
        backend: Option<(&'static str, &'static str)>,
    },
    /// A process was ended by signal 9.
    Killed,
}

impl Sentence {
    /// As a row of the tables with its values.
    pub(crate) fn hit(self) -> (&'static Row, Values) {
        match self {
            Self::Killed => (&KILLED, Values::new()),
            Self::Failed { place, requested, limit, free, is_set_up, backend } => {
                let bytes = |bytes: u64| Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
                let mut values = vec![("place", Value::Text(place.name().to_owned()))];
                values.extend(requested.map(|requested| ("size", bytes(requested))));
                values.extend(limit.map(|limit| ("limit", bytes(limit))));
                values.extend(free.map(|free| ("free", bytes(free))));
                let text = |text: &str| Value::Text(text.to_owned());
                values.extend(backend.iter().flat_map(|(name, tool)| [("backend", text(name)), ("tool", text(tool))]));
                (if is_set_up { &SET_UP_FAILED } else { &FAILED }, values)
            }
        }
    }
}

/// Whether a line ends within a sentence.
pub(crate) fn is_open(line: &[u8]) -> bool {
    let end = text_of(&line[line.len().saturating_sub(32)..]).to_lowercase();
    let last = end.trim_end().rsplit(' ').next().unwrap_or_default();
    OPEN.contains(&last) || last.ends_with(['=', '('])
}

/// Reads a line that holds a trigger.
pub(crate) fn read(line: &[u8]) -> Option<Sentence> {
    let text = text_of(&line[..line.len().min(LINE_BYTES)]);
    let lower = text.to_lowercase();
    let begin = lower.trim_start_matches(['>', '-', ' ', '\t', '"', '|', '*']);
    if SOURCE.iter().any(|word| begin.starts_with(word)) && !begin.starts_with("return code") {
        return None;
    }
    if let Some((_, place)) = SENTENCES.iter().find(|(words, _)| lower.contains(words)) {
        // A machine translates PyTorch's message too, but neither its names nor its numbers.
        let is_name =
            |word: &str| word.starts_with("cuda") || word.starts_with("gpu") || ["hip", "vram"].contains(&word);
        let is_of_device = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_name);
        let place = if is_of_device { Place::Device } else { *place };
        // The request stands first in PyTorch's message; elsewhere the first size may be any.
        let requested = is_of_device.then(|| sizes(&lower).next()).flatten();
        let (limit, free) = (None, None);
        return Some(Sentence::Failed { place, requested, limit, free, is_set_up: false, backend: None });
    }
    if RECOVERIES.iter().chain(&OTHER_REASONS).any(|words| lower.contains(words)) {
        return None;
    }
    let is_error = ERRORS.iter().any(|word| lower.contains(word));
    let is_quiet = ["info", "debug"].iter().any(|level| begin_word(begin, level)) && !is_error;
    if is_quiet {
        return None;
    }
    let clauses = clauses(&lower);
    if is_killed_job(&text) || quotes_killed(&lower) {
        return Some(Sentence::Killed);
    }
    if clauses.iter().any(|clause| is_killed(clause)) {
        return Some(Sentence::Killed);
    }
    let code = || is_error && codes(&text);
    let is_beyond = clauses.iter().any(|clause| comparison(clause));
    let exceeds = !is_beyond && is_error && exceeds(&lower, &clauses);
    let short = || is_error && !lower.contains("warn") && clauses.iter().any(|clause| shortage(clause));
    let failed =
        is_beyond || exceeds || clauses.iter().any(|clause| lack(clause) || request(clause)) || code() || short();
    failed.then(|| {
        // A flag in the line's advice may name another place than the failure's.
        let named: Vec<&str> = lower.split(' ').filter(|word| !word.starts_with("--")).collect();
        let named = named.join(" ");
        let place = PLACES.iter().find(|(words, _)| names(&named, words)).map_or(Place::Unknown, |(_, place)| *place);
        let place = if place == Place::Device && is_of_host(&lower) { Place::Host } else { place };
        let mut all = sizes(&lower);
        let first = all.next();
        let second = all.next();
        let requested = if is_beyond || exceeds { first } else { nearest(&lower).or_else(|| requested(&lower)) };
        let (limit, free) = (second.filter(|_| is_beyond), second.filter(|_| exceeds));
        let is_set_up = SET_UP.iter().any(|words| lower.contains(words));
        let backend = BACKENDS.iter().find(|(words, ..)| names(&lower, words)).map(|&(_, name, tool)| (name, tool));
        Sentence::Failed { place, requested, limit, free, is_set_up, backend }
    })
}

/// Of several sizes before a line's last words `out of memory` the one that stands next to them, unless it may be what was free.
fn nearest(line: &str) -> Option<u64> {
    let before = line.trim_end_matches(|letter: char| !letter.is_alphanumeric()).strip_suffix("out of memory")?;
    let is_other =
        ["free", "avail", "total", "limit", "used", "in use", "capacity"].iter().any(|word| before.contains(word));
    sizes(before).last().filter(|_| !is_other)
}

/// Whether a line has these words; a short one has to begin a word of the line: `input` names no NPU, and `output` no TPU.
fn names(line: &str, words: &str) -> bool {
    let is_short = ["npu", "tpu", "hpu", "hip", "mtl", "heap"].contains(&words);
    let begins = |at: usize| line[..at].chars().next_back().is_none_or(|before| !before.is_alphabetic());
    line.match_indices(words).any(|(at, _)| !is_short || begins(at))
}

/// Whether a word stands among the first of a line, as a level of a logger does.
fn begin_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric()).take(14).any(|found| found == word)
}

/// The words of a line, sentence by sentence.
fn clauses(line: &str) -> Vec<Vec<&str>> {
    let bytes = line.as_bytes();
    let is_end = |at: usize| {
        matches!(bytes[at], b'.' | b';' | b'!' | b'?') && bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace)
    };
    // Behind its name an error's message is a sentence of its own, where somebody has seen it.
    let is_message = |at: usize| bytes[at] == b':' && line[..at].ends_with("error") && says_seen(&line[..at]);
    let ends = (0..bytes.len()).filter(|&at| is_end(at) || is_message(at)).chain([bytes.len()]);
    let mut begin = 0;
    let sentences = ends.map(|end| &line[std::mem::replace(&mut begin, (end + 1).min(bytes.len()))..end]);
    let words = |sentence| -> Vec<&str> {
        let is_of_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '\'' | '-');
        let words = str::split(sentence, |letter| !is_of_word(letter));
        // Of a quotation.
        words.map(|word| word.trim_matches('\'')).filter(|word| !word.is_empty()).collect()
    };
    sentences.map(words).filter(|words| !words.is_empty()).collect()
}

/// Whether the last words tell that something was seen: `I am seeing RuntimeError`.
fn says_seen(before: &str) -> bool {
    let words = before.rsplit(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    // No more are read: a hostile line has this ending everywhere.
    let mut last: Vec<&str> = words.take(APART).collect();
    last.reverse();
    last.iter().any(|word| SEEN.contains(word)) && !is_hedged(&last)
}

/// Whether the words nearest before a failure name the host's memory: `on 8 GPUs the system RAM grows, and it runs out of memory`.
fn is_of_host(line: &str) -> bool {
    // `room` and `bloom` hold the letters of `oom`.
    let begins = |at: &usize| !line[..*at].chars().next_back().is_some_and(char::is_alphanumeric);
    let last_of = |words: &&str| line.rmatch_indices(*words).map(|(at, _)| at).find(begins);
    let Some(at) = ["out of memory", "out-of-memory", "oom"].iter().filter_map(last_of).max() else {
        return false;
    };
    let last = |words: &[&str]| words.iter().filter_map(|words| line[..at].rfind(words)).max();
    last(&HOST_RAM).is_some_and(|host| Some(host) > last(&["gpu", "vram", "cuda", "device"]))
}

/// Whether the words before a failure take it back.
fn is_hedged(before: &[&str]) -> bool {
    // `could not` tells a failure.
    let is_near = |at: usize| at + NEAR_WORDS >= before.len();
    let is_hedge = |at: usize| {
        let hedges = HEDGES.contains(&before[at]) || NEAR_HEDGES.contains(&before[at]) && is_near(at);
        // `when saving the checkpoint it ends with` tells of one time; `when running out of memory` does not.
        let is_time = before[at] == "when"
            && before.get(at + 1).is_some_and(|next| next.ends_with("ing") && !OF_LACK.contains(next))
            && before[at..].iter().any(|word| ENDS.contains(word));
        hedges && !is_time && before.get(at + 1) != Some(&"not")
    };
    (0..before.len()).any(is_hedge)
        || QUESTIONS.iter().any(|asks| before.ends_with(asks))
        || before.last().is_some_and(|word| matches!(*word, "no" | "not"))
}

/// Whether the last words deny what follows.
fn is_denied(before: &[&str]) -> bool {
    let denies = |word: &&str| *word == "not" || word.ends_with("n't");
    before[before.len().saturating_sub(3)..].iter().any(denies)
}

/// `out of GPU memory`, `memory exhausted`, `exceeded memory limit`.
fn lack(clause: &[&str]) -> bool {
    (0..clause.len()).any(|at| {
        let rest = &clause[at..];
        let after = match rest {
            // Resources and space may belong to anything: GPUs of a cluster, a disk.
            ["not" | "no", "enough", after @ ..] | ["insufficient", after @ ..] if is_of_anything(after) => {
                return false;
            }
            ["out", "of", after @ ..] | ["not" | "no", "enough", after @ ..] | ["insufficient", after @ ..] => after,
            // `does not have sufficient memory`.
            ["sufficient" | "enough", after @ ..] if is_denied(&clause[..at]) => after,
            ["oom", after @ ..] => {
                let names = |words: &[&str], found: Option<&&str>| found.is_some_and(|found| words.contains(found));
                let is_event = names(&["cuda", "gpu", "got", "hit", "an", "host"], clause[..at].last())
                    || names(&["error", "killed", "occurred", "detected", "in", "during", "while"], after.first());
                return is_event && !is_hedged(&clause[..at]) && !is_subject(after);
            }
            ["out-of-memory", after @ ..] => {
                return !is_hedged(&clause[..at]) && !is_subject(after) && !before_noun(after);
            }
            _ => {
                let exhausted = matches!(rest, ["memory" | "vram" | "ram", "exhausted" | "exceeded", ..])
                    || matches!(rest, ["memory" | "vram" | "ram", "is", "exhausted", ..])
                    || matches!(rest, ["memory", "limit", "exceeded" | "reached", ..])
                    || matches!(rest, ["exceeded" | "exceeds", "memory", "limit", ..])
                    || matches!(rest, ["exceeded", "job" | "step", "memory", "limit", ..])
                    || matches!(rest, ["java", "heap", "space", ..]);
                return exhausted && !is_hedged(&clause[..at]);
            }
        };
        names_memory(after).is_some_and(|behind| !is_hedged(&clause[..at]) && !is_subject(behind))
    })
}

/// `does not fit in GPU memory`, `no more memory`: warnings and plans say so too.
fn shortage(clause: &[&str]) -> bool {
    (0..clause.len()).any(|at| {
        let before = &clause[..at];
        let is_short = match &clause[at..] {
            ["no", after @ ..] => none_left(after),
            ["fit", "in" | "into", after @ ..] => {
                let denies = |word: &&str| word.ends_with("not") || word.ends_with("n't") || *word == "too";
                names_memory(after).is_some() && before[before.len().saturating_sub(4)..].iter().any(denies)
            }
            ["too", "large", "for", after @ ..] => names_memory(after).is_some(),
            _ => false,
        };
        is_short && !before.iter().any(|word| HEDGES.contains(word) || NEAR_HEDGES.contains(word))
    })
}

/// `resources`, `free space`: no memory is named.
fn is_of_anything(words: &[&str]) -> bool {
    let named = words.iter().find(|word| !matches!(**word, "free" | "available" | "gpu" | "the" | "cluster"));
    let is_owned = words.first() == Some(&"gpu") && named == Some(&"space");
    matches!(named, Some(&"resources" | &"space")) && !is_owned
}

/// The words behind the memory that words begin with: `GPU memory for the model`.
fn names_memory<'a, 'b>(words: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let passed = words.iter().take(APART).take_while(|word| BESIDE_MEMORY.contains(word)).count();
    let is_memory = |word: &&str| MEMORY.contains(word) && (passed > 0 || *word != "space");
    words.get(passed).is_some_and(is_memory).then(|| &words[passed + 1..])
}

/// `no more memory`, `no memory is available`: without a word of being left, `no memory` may be of a setting.
fn none_left(after: &[&str]) -> bool {
    let is_more = matches!(after, ["more" | "free" | "available", ..]);
    let after = if is_more { &after[1..] } else { after };
    let is_left = |behind: &[&str]| matches!(behind, ["available" | "left", ..] | ["is", "available" | "left", ..]);
    names_memory(after).is_some_and(|behind| is_more || is_left(behind))
}

/// Whether the failure is the subject of a sentence: `out of memory errors are common`.
fn is_subject(after: &[&str]) -> bool {
    let errors = after.first().is_some_and(|word| {
        matches!(*word, "errors" | "issues" | "issue" | "situation" | "problems" | "handling" | "handler" | "killer")
    });
    // `CUDA out of memory error is quite common`.
    let is_told_of = matches!(after, ["error" | "exception", "is", ..])
        && after.iter().take(APART).any(|word| matches!(*word, "common" | "expected" | "usual" | "normal" | "typical"));
    errors
        || is_told_of
        || after
            .iter()
            .take(3)
            .any(|word| matches!(*word, "are" | "may" | "might" | "happens" | "occur" | "handler" | "killer"))
}

/// `out-of-memory error handling`.
fn before_noun(after: &[&str]) -> bool {
    after.first().is_some_and(|word| matches!(*word, "protection" | "prevention" | "monitor" | "detection"))
}

/// `failed to allocate`, `allocation failed`, `could not be allocated`.
fn request(clause: &[&str]) -> bool {
    let fails = |at: usize| {
        let word = clause[at];
        word.starts_with("fail") && word != "failures"
            || FAILING.contains(&word)
            || matches!(word, "could" | "can") && clause.get(at + 1) == Some(&"not")
    };
    let requests = |word: &str| {
        word.contains("alloc") && word != "allocator" && word != "allocated" && word != "allocators"
            || word == "reserve"
            || word == "malloc"
    };
    let errors = |at: usize| {
        requests(clause[at])
            && (clause.get(at + 1) == Some(&"error") || at > 0 && matches!(clause[at - 1], "error" | "failure"))
    };
    let memory = |near: &[&str]| near.iter().any(|word| MEMORY.contains(word) || is_size(word) || *word == "buffer");
    (0..clause.len()).any(|at| {
        let near = &clause[at.saturating_sub(APART)..clause.len().min(at + APART)];
        let by_failure = fails(at)
            && near.iter().any(|word| {
                let names = |word: &str| word.contains("malloc") || word.contains("alloc") && word != "alloc";
                requests(word) && (names(word) || memory(near))
                    || *word == "allocated" && !clause[at].starts_with("fail")
                    || *word == "create" && near.contains(&"buffer")
            });
        (by_failure || errors(at) && memory(near)) && !is_hedged(&clause[..at]) && !of_another_thing(near)
    })
}

/// `unable to allocate a distinct stream`: no memory is named, and another thing is.
fn of_another_thing(near: &[&str]) -> bool {
    let at = near.iter().position(|word| word.starts_with("alloc"));
    at.is_some_and(|at| {
        let object = &near[at + 1..near.len().min(at + 4)];
        let is_of = |words: &[&str]| object.iter().any(|word| words.contains(word));
        is_of(&OTHER_THINGS) && !object.iter().any(|word| MEMORY.contains(word) || is_size(word) || *word == "buffer")
    })
}

/// `allocate 48736917632 bytes which is greater than the maximum`, `need: 0.9GB free, have: 0.7GB free`.
fn comparison(clause: &[&str]) -> bool {
    let has = |words: &[&str]| clause.iter().any(|word| words.contains(word));
    let than = (0..clause.len()).find(|&at| {
        matches!(
            clause[at..],
            ["greater" | "larger" | "more" | "bigger", "than", ..] | ["more", "memory", "than", ..] | ["exceeds", ..]
        )
    });
    let limit = ["maximum", "max", "total", "limit", "available", "free", "allowed"];
    than.is_some_and(|at| {
        let asks =
            |word: &&str| word.contains("alloc") || word.starts_with("requir") || matches!(*word, "needs" | "need");
        clause[..at].iter().any(asks)
            && clause[at..].iter().any(|word| limit.contains(word))
            && has(&["bytes", "size", "mem", "memory"])
            && !is_hedged(&clause[..at.min(3)])
    })
}

/// `estimated memory 29.10 GiB exceeds the available 23.60 GiB`: two amounts, of which the first is larger.
fn exceeds(line: &str, clauses: &[Vec<&str>]) -> bool {
    let tells = |clause: &Vec<&str>| {
        let at = clause.iter().position(|word| word.starts_with("exceed"));
        at.is_some_and(|at| {
            let of_memory = |word: &&str| MEMORY.contains(word) || *word == "allocation";
            clause.iter().any(of_memory) && !is_hedged(&clause[..at])
        })
    };
    let mut sizes = sizes(line);
    clauses.iter().any(tells) && sizes.next().zip(sizes.next()).is_some_and(|(needed, limit)| needed > limit)
}

fn is_size(word: &str) -> bool {
    word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_digit())
        || matches!(word, "bytes" | "mib" | "gib" | "mb" | "gb")
}

/// Whether a name of the line stands for a failure.
fn codes(text: &str) -> bool {
    let is_code = |name: &str| !name.contains("Test") && CODES.iter().any(|code| name.contains(code));
    clauses(text).iter().any(|clause| {
        let at = clause.iter().position(|name| is_code(name));
        let before = at.map(|at| clause[..at].iter().map(|word| word.to_lowercase()).collect::<Vec<_>>());
        let is_wanted = |before: &[String]| before.last().is_some_and(|last| WANTED.contains(&last.as_str()));
        before.is_some_and(|before| {
            !is_wanted(&before) && !is_hedged(&before.iter().map(String::as_str).collect::<Vec<_>>())
        })
    })
}

/// `[1]    12345 killed     python train.py`, as zsh prints it.
fn is_killed_job(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let is_number = |word: Option<&str>| word.is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let job = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    is_number(job) && is_number(words.next()) && words.next() == Some("killed")
}

/// A sentence that quotes a shell's word: "and all it prints is `killed`".
fn quotes_killed(line: &str) -> bool {
    const TELLS: [&str; 10] =
        ["message", "error", "says", "said", "prints", "printed", "just", "only", "with", "output"];
    line.match_indices("killed").any(|(at, word)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let quote = before.chars().next_back().filter(|quote| after.starts_with(*quote));
        match quote {
            Some(mark @ ('`' | '"' | '\'')) => {
                let before = before.trim_end_matches(mark);
                before.ends_with(' ')
                    && before.rsplit(' ').filter(|word| !word.is_empty()).take(3).any(|word| TELLS.contains(&word))
            }
            _ => false,
        }
    })
}

/// `exit code 137`, `returncode=-9`, `received SIGKILL`.
fn is_killed(words: &[&str]) -> bool {
    (0..words.len()).any(|at| {
        let before = &words[at.saturating_sub(4)..at];
        let has = |names: &[&str]| before.iter().any(|word| names.contains(word));
        let is_code =
            || before.iter().any(|word| word.starts_with("exit") || ["code", "returncode", "rc"].contains(word));
        let is_end = match words[at] {
            "137" | "-9" => is_code() && !has(&["http", "line"]),
            "sigkill" => {
                has(&["received", "by", "sent", "with", "signal", "terminated", "got", "signals", "negsignal"])
                    && !has(&["via", "forcefully", "sending", "send", "stopping"])
            }
            "9" => {
                before.last() == Some(&"signal")
                    && (has(&["by", "with", "received", "terminated", "got", "killed"])
                        || words.get(at + 1) == Some(&"sigkill"))
            }
            "killed" => before.last() == Some(&"signal") || words.get(at + 1) == Some(&"signal"),
            "oom-killed" => true,
            _ => false,
        };
        is_end && !is_hedged(before)
    })
}

/// The first size of a line that its words call a request: other numbers are of a GPU, or of memory in use.
fn requested(line: &str) -> Option<u64> {
    placed_sizes(line).find(|&(at, _)| is_of_request(line, at)).map(|(_, size)| size)
}

/// Whether words before or behind a size, which begins here, speak of a request.
fn is_of_request(line: &str, at: usize) -> bool {
    let words =
        |text| str::split(text, |letter: char| !letter.is_alphanumeric()).filter(|word: &&str| !word.is_empty());
    let tells = |word: &str| REQUESTS.iter().any(|begin| word.starts_with(begin)) || word.ends_with("alloc");
    let (before, after) = line.split_at(at);
    let is_size = ["of size ", "size: ", "size:", "size = ", "size="].iter().any(|words| before.ends_with(words));
    let before: Vec<&str> = words(before).rev().take(APART + 2).collect();
    // The number and its unit come first.
    let is_digit = |letter: char| letter.is_ascii_digit();
    let after: Vec<&str> =
        words(after).take(APART + NUMBER_WORDS).skip_while(|word| word.starts_with(is_digit)).take(APART).collect();
    let is_unit = after.first().is_some_and(|word| UNITS.contains(word));
    let behind = &after[usize::from(is_unit)..];
    let is_of_gpu = behind.first().is_some_and(|word| OF_GPU.contains(word));
    !is_of_gpu
        && (before.first() == Some(&"for")
            || is_size
            || before.iter().any(|word| tells(word))
            || behind.iter().any(|word| tells(word)))
}

/// The amounts of memory of a line, in their order.
fn sizes(line: &str) -> impl Iterator<Item = u64> {
    placed_sizes(line).map(|(_, size)| size)
}

/// The same, each with its place.
fn placed_sizes(line: &str) -> impl Iterator<Item = (usize, u64)> {
    let bytes = line.as_bytes();
    let starts = (0..bytes.len()).filter(|&at| {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        bytes[at].is_ascii_digit()
            && before.is_none_or(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b',')))
    });
    starts.filter_map(|at| size(&bytes[at..], &bytes[..at]).map(|size| (at, size)))
}

/// `14796.44 MB`, `size: 302022656`.
fn size(text: &[u8], before: &[u8]) -> Option<u64> {
    // A digit behind a blank begins another number.
    let is_next = |two: &[u8]| two[0] == b' ' && two[1].is_ascii_digit();
    let end = text.windows(2).take(48).position(is_next).unwrap_or(48);
    let dense: Vec<u8> = text.iter().take(end).copied().filter(|byte| *byte != b' ').chain(*b"|").collect();
    if let Read::Found(bytes, length) = amount(&dense, true) {
        // `8 buffers` is not an amount of bytes.
        let follows = dense.get(length).is_some_and(u8::is_ascii_alphanumeric);
        let is_long_unit = length > 5;
        if !follows || is_long_unit {
            return Some(bytes);
        }
    }
    let hex =
        text.strip_prefix(b"0x").map(|hex| &hex[..hex.iter().take(16).take_while(|b| b.is_ascii_hexdigit()).count()]);
    let digits = text.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
    let is_whole = !matches!(text.get(digits), Some(b'.' | b':' | b'-'));
    let words = String::from_utf8_lossy(&before[before.len().saturating_sub(24)..]);
    let words = words.trim_end_matches([' ', ':', '=']);
    let follows_size = ["size", "of", "allocate", "alloc", "memory", "mem", "bytes", "raw"];
    let is_named = follows_size.iter().any(|word| words.ends_with(word));
    let number = match hex {
        Some(hex) => u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?,
        None => std::str::from_utf8(&text[..digits]).ok()?.parse().unwrap_or(u64::MAX),
    };
    (is_whole && is_named && number >= LEAST_SIZE).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(line: &str) -> Option<(Place, Option<u64>)> {
        match read(line.as_bytes()) {
            Some(Sentence::Failed { place, requested, .. }) => Some((place, requested)),
            Some(Sentence::Killed) | None => None,
        }
    }

    #[test]
    fn a_failed_request_has_its_place_and_its_size() {
        assert_eq!(
            failed("alloc_tensor_range: failed to allocate CPU buffer of size 15515189248"),
            Some((Place::Host, Some(15_515_189_248)))
        );
        assert_eq!(
            failed("TDRV:dmem_alloc_internal  Failed to alloc DEVICE memory: 10485760"),
            Some((Place::Device, Some(10_485_760)))
        );
        assert_eq!(failed("BACKEND REPORTED:  vkAllocateMemory failed -2"), Some((Place::Device, None)));
        assert_eq!(
            failed("On 4 GPUs with 24 GB each the host RAM grows, and it ends with out of memory"),
            Some((Place::Host, None))
        );
        assert_eq!(failed("RAM is fine, but on the GPU I get out of memory"), Some((Place::Device, None)));
        for line in [
            "I get CUDA out of memory although the system RAM has a lot of room",
            "CUDA out of memory while loading BLOOM, and the system memory is free, see zoom",
        ] {
            assert_eq!(failed(line), Some((Place::Device, None)), "{line}");
        }
        for line in [
            "CUDA out of memory error, batch size 8, RTX A5000 with 24 GB",
            "CUDA out of memory, batch size 8 (RTX 3090, 24 GB)",
            "CUDA out of memory with batch size 8 on an RTX 3090 24 GB",
            "CUDA out of memory: overfitting a model of 7 layers, 12 GB already allocated",
        ] {
            assert_eq!(failed(line), Some((Place::Device, None)), "{line}");
        }
        assert_eq!(failed("System is out of GPU and shared host memory"), Some((Place::Device, None)));
        assert_eq!(failed("RangeError: Array buffer allocation failed"), Some((Place::Host, None)));
        assert_eq!(failed("Error: the model does not fit in VRAM"), Some((Place::Device, None)));
        assert_eq!(
            failed("[bmlib_memory][error] bm_alloc_gmem failed, dev_id = 0, size = 0xc0fb4000"),
            Some((Place::Device, Some(0xc0fb_4000)))
        );
        assert_eq!(
            failed("ERROR: estimated GPU memory of 29.10 GiB exceeds the available 23.60 GiB"),
            Some((Place::Device, Some(31_245_887_078)))
        );
        assert_eq!(failed("error: failed to allocate the output buffer"), Some((Place::Unknown, None)));
        assert_eq!(failed("alloc for arrival ring failed (4194304 bytes)"), Some((Place::Unknown, Some(4_194_304))));
        assert_eq!(failed("RuntimeError: No enough gpu memory for runtime."), Some((Place::Device, None)));
        assert_eq!(
            failed("MemoryError: no memory is available for 4096 bytes on the GPU"),
            Some((Place::Device, Some(4096)))
        );
    }

    #[test]
    fn a_hostile_line_takes_no_longer_than_its_parts() {
        let least = |line: &str, times: usize| {
            let run = || {
                let begin = std::time::Instant::now();
                (0..times).for_each(|_| assert!(std::hint::black_box(read(line.as_bytes())) != Some(Sentence::Killed)));
                begin.elapsed()
            };
            (0..5).map(|_| run()).min().unwrap()
        };
        for (head, part) in [("out of memory ", "error:"), ("out of memory ", "65537 "), ("", "error: 1 MB ")] {
            let line = |bytes: usize| format!("{head}{}", part.repeat(bytes / part.len()));
            // Eight times as long; where each part reads the line, it takes 64 times as long.
            let (short, long) = (least(&line(500), 80), least(&line(4000), 10));
            assert!(long < 4 * short, "{part}: {long:?} for {short:?}");
        }
    }

    #[test]
    fn a_request_beyond_a_limit_has_both() {
        let line = b"[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum allowed buffer size of 30150672384 bytes.";
        assert_eq!(
            read(line),
            Some(Sentence::Failed {
                place: Place::Device,
                requested: Some(48_736_917_632),
                limit: Some(30_150_672_384),
                free: None,
                is_set_up: false,
                backend: Some(("Metal", "sudo footprint -a")),
            })
        );
    }

    #[test]
    fn ends_by_a_signal_are_told_from_numbers() {
        for line in ["[1]    12345 killed     python train.py", "  exitcode  : -9 (pid: 4217)"] {
            assert_eq!(read(line.as_bytes()), Some(Sentence::Killed), "{line}");
        }
        for line in ["container exited with code 137", "Worker (pid:25134) was sent SIGKILL!", "failed, returncode=-9"]
        {
            assert_eq!(read(line.as_bytes()), Some(Sentence::Killed), "{line}");
        }
        assert_eq!(read(b"it ends with message \"killed\" after `Loading weights`"), Some(Sentence::Killed));
        assert_eq!(read(b"all it says is `Killed`"), Some(Sentence::Killed));
        for line in [
            "{\"status\": \"killed\"}",
            "Set `killed` if the job was cancelled by the user",
            "sets the flag `killed` to true",
            "the states are \"running\" and \"killed\"",
            "step 137 of 9000",
            "forcefully exiting via SIGKILL",
            "SIGKILL when mem <= 5%",
        ] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn what_only_speaks_of_a_failure_is_none() {
        for line in [
            "How can I fix this CUDA out of memory?",
            "a simple test of out of memory",
            "If you run out of memory, lower the batch size",
            "When you get RuntimeError, and to avoid RuntimeError: CUDA out of memory, use less",
            "consider decreasing it to avoid out of memory",
            "except torch.cuda.OutOfMemoryError:",
            "INFO: memory limit of the pool is 4 GiB, allocation of 3 buffers",
            "Out of memory errors are common with large batches",
            "Training takes much memory, and `CUDA out of memory error` is quite common while you look for settings",
            "ran out of memory trying to allocate 16.07MiB. The caller indicates that this is not a failure",
            "not enough KV cache space",
            "Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.",
            "tests/test_alloc.py::test_out_of_memory PASSED",
            "WARNING: the data set does not fit in memory, and is read from the disk",
            "error: no memory limit is set",
            "ValueError: Not enough resources to allocate 4 placement groups, only created 2 placement groups.",
            "ERROR: insufficient free space: free=1048576, remaining=4194304",
            "VAE decode ran out of memory; decoding tiled",
            "Could not initialize NNPACK! Reason: Out of memory.",
            "RuntimeError: Unable to allocate a distinct stream",
            "retrieve declined for 7: a parallel rank cannot allocate 4096 GPU slots",
            "ptxas fatal   : (C7600) Register allocation failed with register count of '255'",
        ] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }
}
