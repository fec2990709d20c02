//! Compares lines with the tables of known texts.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use rustc_hash::FxHashMap;

use crate::engine::{EngineLog, LINES, SETTINGS};
use crate::grammar::TRIGGERS;
use crate::known::{FAILURES, Row, Values, find};
use crate::message::{Read, without_blanks};

/// A text that is broken into lines is kept up to this length, without blanks.
const KEPT_BYTES: usize = 2048;
/// And for so many lines, those of others included.
const KEPT_LINES: u64 = 64;
/// Processes whose texts may be open at once.
const MAX_OPEN: usize = 256;
/// Of a longer line only this much is compared.
const LINE_BYTES: usize = 64 << 10;

/// What an anchor belongs to.
#[derive(Clone, Copy, Debug)]
enum Of {
    Line(usize),
    Failure(usize),
    Settings,
    Around(&'static str),
    /// A word of [`super::limits`]: it alone makes no line worth reading on.
    Limit(&'static str),
    Trigger,
}

/// All anchors, as one automaton.
struct Anchors {
    /// `None` could only come of a table that is too large.
    automaton: Option<AhoCorasick>,
    of: Vec<Of>,
}

static ANCHORS: LazyLock<Anchors> = LazyLock::new(|| {
    let lines = LINES.iter().enumerate().map(|(at, row)| (row.anchor(), Of::Line(at)));
    let failures = FAILURES.iter().enumerate().map(|(at, row)| (row.anchor(), Of::Failure(at)));
    let settings = SETTINGS.iter().map(|words| (*words, Of::Settings));
    let around = super::context::around().map(|words| (words, Of::Around(words)));
    let limits = super::limits::ANCHORS.iter().map(|words| (*words, Of::Limit(words)));
    let triggers = TRIGGERS.iter().map(|words| (*words, Of::Trigger));
    let (words, of): (Vec<&str>, Vec<Of>) =
        lines.chain(failures).chain(settings).chain(around).chain(limits).chain(triggers).unzip();
    let automaton = AhoCorasick::new(&words).ok();
    Anchors { automaton, of }
});

/// How far a text holds no anchor but words of limits, and where those begin that end before.
pub(super) fn before_anchor(text: &[u8], limits: &mut Vec<usize>) -> usize {
    for found in ANCHORS.automaton.iter().flat_map(|anchors| anchors.find_overlapping_iter(text)) {
        match ANCHORS.of.get(found.pattern().as_usize()) {
            Some(Of::Limit(_)) => limits.push(found.start()),
            _ => return found.start(),
        }
    }
    text.len()
}

/// What a line holds of the words that are looked for.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Any of them but a word of a limit.
    pub(super) has_anchor: bool,
    /// A word that a failure may be told with.
    has_trigger: bool,
    /// Those of [`super::context::around`] and of [`super::limits`].
    around: Vec<&'static str>,
}

impl Seen {
    /// Looks for all of them at once.
    pub(super) fn of(line: &[u8]) -> Self {
        let mut seen = Self::default();
        for found in ANCHORS.automaton.iter().flat_map(|anchors| anchors.find_overlapping_iter(line)) {
            let of = ANCHORS.of.get(found.pattern().as_usize());
            seen.has_anchor |= !matches!(of, Some(Of::Limit(_)));
            match of {
                Some(Of::Around(words) | Of::Limit(words)) if !seen.around.contains(words) => seen.around.push(words),
                Some(Of::Trigger) => seen.has_trigger = true,
                _ => {}
            }
        }
        seen
    }

    /// What stands over a place where a line is broken: rows of the table of failures, and whether there is a word that a failure may
    /// be told with.
    pub(super) fn over(text: &[u8], broken: usize) -> Option<(Vec<usize>, bool)> {
        let mut rows = Vec::new();
        let mut has_trigger = false;
        for found in ANCHORS.automaton.iter().flat_map(|anchors| anchors.find_overlapping_iter(text)) {
            if found.start() >= broken || found.end() <= broken {
                continue;
            }
            match ANCHORS.of.get(found.pattern().as_usize()) {
                Some(Of::Failure(at)) => rows.push(*at),
                Some(Of::Trigger) => has_trigger = true,
                Some(Of::Around(words)) => has_trigger |= super::context::NEAR.contains(words),
                _ => {}
            }
        }
        rows.sort_unstable();
        rows.dedup();
        (has_trigger || !rows.is_empty()).then_some((rows, has_trigger))
    }

    /// Whether the line may tell a failure that no table knows.
    pub(super) fn may_tell(&self) -> bool {
        self.has_trigger || self.has_any(&super::context::NEAR)
    }

    /// Whether the line holds these words, which are among [`super::context::around`] and [`super::limits`]'s.
    pub(super) fn has(&self, words: &str) -> bool {
        self.around.contains(&words)
    }

    /// Whether it holds any of these.
    pub(super) fn has_any(&self, words: &[&str]) -> bool {
        self.around.iter().any(|seen| words.contains(seen))
    }
}

/// A text of the table of failures that was found.
pub(super) struct Hit {
    pub(super) row: &'static Row,
    pub(super) values: Values,
}

/// Texts whose end may come with the next line, by who writes them.
#[derive(Clone, Debug, Default)]
pub(super) struct TableReader {
    open: FxHashMap<Vec<u8>, Kept>,
    /// Who writes a command that goes on in the next line, and the last line that may be of it.
    command: Option<(Vec<u8>, u64)>,
}

#[derive(Clone, Debug)]
struct Kept {
    text: Vec<u8>,
    rows: Vec<usize>,
    until: u64,
}

impl TableReader {
    /// Whether the next line may go on with a text.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty() || self.command.is_some()
    }

    /// Whether a line may go on with the text of a writer, who did not put a name before it.
    pub(super) fn may_go_on(&self, key: &[u8], body: &[u8]) -> bool {
        let Some(kept) = self.open.get(key) else { return false };
        let text = [kept.text.as_slice(), &without_blanks(&body[..body.len().min(LINE_BYTES)])].concat();
        let mut rows = kept.rows.iter().filter_map(|&at| FAILURES.get(at));
        rows.any(|row| !matches!(find(row.pattern, &text), Read::Absent))
    }

    /// Ends texts that nobody went on with.
    pub(super) fn expire(&mut self, line: u64) {
        self.command.take_if(|(_, until)| *until <= line);
        if !self.open.is_empty() {
            self.open.retain(|_, kept| kept.until > line);
        }
    }

    /// Compares a text whose first words a line break had hidden with these rows.
    pub(super) fn read_joined(&mut self, text: &[u8], rows: Vec<usize>, key: &[u8], line: u64) -> Vec<Hit> {
        let mut hits = Vec::new();
        self.failures(&without_blanks(text), rows, key, line + KEPT_LINES, &mut hits);
        hits
    }

    /// Compares a line: numbers of an engine go to `engine`, failures come back.
    pub(super) fn read(
        &mut self,
        body: &[u8],
        key: &[u8],
        rank: Option<u32>,
        line: u64,
        engine: &mut Option<EngineLog>,
    ) -> Vec<Hit> {
        let body = &body[..body.len().min(LINE_BYTES)];
        let mut lines = Vec::new();
        let mut failures = Vec::new();
        let mut has_settings = false;
        for found in ANCHORS.automaton.iter().flat_map(|anchors| anchors.find_overlapping_iter(body)) {
            match ANCHORS.of.get(found.pattern().as_usize()) {
                Some(Of::Line(at)) => lines.push(*at),
                Some(Of::Failure(at)) => failures.push(*at),
                Some(Of::Settings) => has_settings = true,
                Some(Of::Around(_) | Of::Limit(_) | Of::Trigger) | None => {}
            }
        }
        let kept = self.open.remove(key);
        // A command may have an option in each line.
        let begun = self.command.take_if(|(writer, _)| writer == key);
        has_settings |= begun.is_some();
        if lines.is_empty() && failures.is_empty() && !has_settings && kept.is_none() {
            return Vec::new();
        }
        if has_settings {
            engine.get_or_insert_default().take_settings(body);
            if body.trim_ascii_end().ends_with(b"\\") {
                let until = begun.map_or(line + KEPT_LINES, |(_, until)| until);
                self.command = Some((key.to_vec(), until));
            }
        }
        let dense = without_blanks(body);
        lines.sort_unstable();
        lines.dedup();
        for row in lines.into_iter().filter_map(|at| LINES.get(at)) {
            if let Read::Found((values, ..), _) = find(row.pattern, &dense) {
                engine.get_or_insert_default().take(row.id, values, rank);
            }
        }
        let mut hits = Vec::new();
        if let Some(kept) = kept {
            let text = [kept.text.as_slice(), &dense].concat();
            if !self.failures(&text, kept.rows, key, kept.until, &mut hits) && hits.is_empty() && failures.is_empty() {
                return hits;
            }
        }
        failures.sort_unstable();
        failures.dedup();
        if !failures.is_empty() {
            self.failures(&dense, failures, key, line + KEPT_LINES, &mut hits);
        }
        hits
    }

    /// Compares a text with rows of the table of failures, and keeps it if it may go on; whether it is kept.
    fn failures(&mut self, text: &[u8], rows: Vec<usize>, key: &[u8], until: u64, hits: &mut Vec<Hit>) -> bool {
        let mut short = Vec::new();
        for at in rows {
            let Some(row) = FAILURES.get(at) else { continue };
            // The first of several rows of one text counts.
            if hits.iter().any(|hit: &Hit| hit.row.id == row.id) {
                continue;
            }
            match find(row.pattern, text) {
                // A row before it has more numbers: these may come with the next line.
                Read::Found((values, ..), _) => hits.push(Hit { row, values }),
                Read::Short => short.push(at),
                Read::Absent => {}
            }
        }
        let is_kept = !short.is_empty() && text.len() < KEPT_BYTES && self.open.len() < MAX_OPEN;
        if is_kept {
            self.open.insert(key.to_vec(), Kept { text: text.to_vec(), rows: short, until });
        }
        is_kept
    }
}
