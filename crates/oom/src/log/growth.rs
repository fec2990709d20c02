//! Figures that a log prints again and again: memory, and the number of elements that a program adds while it runs.
//!
//! A figure is a number behind the same words. Of each one only some readings are kept, so memory is bounded.

use crate::known::text_of;
use crate::message::{Read, amount};

/// Of a longer line only this much is read.
const LINE_BYTES: usize = 1024;
/// Numbers of a line that are read.
const MAX_NUMBERS: usize = 24;
/// Different figures that are followed.
const MAX_SERIES: usize = 96;
/// Readings that are kept of each: then every other one goes.
const MAX_READINGS: usize = 64;
/// Fewer readings show no trend.
const LEAST_READINGS: u64 = 4;
/// Fewer readings do not show that it stays.
const LEAST_SETTLED: u64 = 6;
/// Words before a number that name it.
const LABEL_WORDS: usize = 4;
/// Less growth is noise.
const LEAST_BYTES: u64 = 64 << 20;

/// Parts of the words that name memory, in lower case.
const MEMORY: [&str; 10] = ["mem", "alloc", "reserv", "rss", "vram", "ram ", "ram:", "ram=", "used", "nvidia"];
/// Those of the host's memory.
const HOST: [&str; 6] = ["rss", "cpu", "host", "ram", "virtual", "process"];
/// Those of the GPU's.
const GPU: [&str; 6] = ["gpu", "cuda", "vram", "alloc", "reserv", "mib"];
/// Names of memory whose unit stands elsewhere.
const WITHOUT_UNIT: [&str; 5] = ["mem", "rss", "vram", "allocated", "reserved"];
/// Names of free memory.
const LEFT: [&str; 3] = ["free", "avail", "left"];
/// Names of elements that are counted.
const COUNTED: [&str; 14] = [
    "points",
    "gaussians",
    "gaussian",
    "num_gs",
    "splats",
    "replay",
    "buffer_size",
    "buffer size",
    "replay_size",
    "instances",
    "particles",
    "keyframes",
    "landmarks",
    "memory size",
];
/// Lines with amounts of something else.
const OTHERS: [&str; 15] = [
    "batch size",
    "batch_size",
    "processed",
    "download",
    "upload",
    "b/s",
    "checkpoint",
    "shards",
    "disk",
    "written",
    "limit",
    "loading",
    "param",
    "tried to allocate",
    "capacity",
];

/// A figure that grew, or whose rest shrank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The words before the number; empty for a column without any.
    pub label: String,
    /// The kind of figure.
    pub of: Figure,
    /// Whether the words name free memory, which fell, rather than memory in use.
    pub is_rest: bool,
    /// The first reading: bytes, a count, or thousandths of a figure without a unit.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// Both as printed, with their unit.
    pub printed: (String, String),
    /// How many there are.
    pub readings: u64,
    /// Their first and last line, from 1 on.
    pub lines: (u64, u64),
    /// Each reading is as much more than the one before, within a fifth.
    pub is_even: bool,
}

/// A figure of memory that rose at first and has stayed since then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The words before the number; empty for a column without any.
    pub label: String,
    /// The first reading and the last, as printed.
    pub printed: (String, String),
    /// How many there are.
    pub readings: u64,
    /// Their first and last line, from 1 on.
    pub lines: (u64, u64),
}

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A GPU's memory, in bytes.
    Gpu,
    /// The host's.
    Host,
    /// Memory of either.
    Memory,
    /// Memory in a unit that the text does not name.
    WithoutUnit,
    /// A number of elements.
    Count,
}

impl Growth {
    /// How much it changed.
    pub fn by(&self) -> u64 {
        self.first.abs_diff(self.last)
    }

    /// How much from one reading to the next, on average.
    pub fn each(&self) -> u64 {
        self.by() / (self.readings - 1).max(1)
    }

    /// Whether it is of the host's memory.
    pub(crate) fn is_of_host(&self) -> bool {
        let has = |words: &[&str]| self.label.split(' ').any(|word| words.contains(&word));
        self.of == Figure::Host
            || self.of == Figure::WithoutUnit && has(&["rss", "ram", "(free)"]) && !has(&["gpu", "cuda"])
    }

    /// Whether it is of memory, rather than a count.
    pub fn is_of_memory(&self) -> bool {
        self.of != Figure::Count
    }

    /// Whether it is more than a quarter of the larger reading, which no start-up explains.
    pub(crate) fn is_large(&self) -> bool {
        let last = if self.is_rest { self.first } else { self.last };
        self.by() > last / 4
    }
}

/// Follows figures.
#[derive(Clone, Debug, Default)]
pub(super) struct GrowthReader {
    series: Vec<Series>,
}

#[derive(Clone, Debug)]
struct Series {
    key: Vec<u8>,
    label: String,
    /// Which of the numbers of its line that have no label.
    column: usize,
    of: Figure,
    is_rest: bool,
    printed: (String, String),
    readings: u64,
    rises: u64,
    falls: u64,
    last: u64,
    lines: (u64, u64),
    /// Every so many readings one is kept.
    stride: u64,
    kept: Vec<u64>,
}

/// A number of a line.
struct Number {
    label: String,
    column: usize,
    of: Figure,
    is_rest: bool,
    value: u64,
    printed: String,
}

impl GrowthReader {
    /// Takes the figures of a line.
    pub(super) fn read(&mut self, line: &[u8], key: &[u8], number: u64) {
        for figure in figures(&line[..line.len().min(LINE_BYTES)]) {
            let same = |series: &&mut Series| {
                series.label == figure.label
                    && series.column == figure.column
                    && series.of == figure.of
                    && series.key == key
            };
            if let Some(series) = self.series.iter_mut().find(same) {
                series.take(figure.value, figure.printed, number);
            } else if self.series.len() < MAX_SERIES {
                self.series.push(Series::new(figure, key, number));
            }
        }
    }

    /// Memory that rose at first and has stayed since then, which is no leak.
    pub(super) fn settled(&self) -> Option<Settled> {
        let rose = self.series.iter().filter_map(Series::settled);
        rose.max_by_key(|settled| settled.readings)
    }

    /// Those that grew all along, the clearest first: memory before counts.
    pub(super) fn finish(self) -> Vec<Growth> {
        let mut grown: Vec<Growth> = self.series.into_iter().filter_map(Series::growth).collect();
        let order = |growth: &Growth| (growth.of == Figure::Count, growth.of == Figure::WithoutUnit, growth.is_rest);
        grown.sort_by_key(|growth| (order(growth), std::cmp::Reverse(growth.by())));
        grown.truncate(8);
        grown
    }
}

impl Series {
    fn new(figure: Number, key: &[u8], line: u64) -> Self {
        let Number { label, column, of, is_rest, value, printed } = figure;
        Self {
            key: key.to_vec(),
            label,
            column,
            of,
            is_rest,
            printed: (printed.clone(), printed),
            readings: 1,
            rises: 0,
            falls: 0,
            last: value,
            lines: (line, line),
            stride: 1,
            kept: vec![value],
        }
    }

    fn take(&mut self, value: u64, printed: String, line: u64) {
        self.printed.1 = printed;
        self.rises += u64::from(value > self.last);
        self.falls += u64::from(value < self.last);
        self.last = value;
        self.lines.1 = line;
        if self.readings.is_multiple_of(self.stride) {
            if self.kept.len() >= MAX_READINGS {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
            }
            if self.readings.is_multiple_of(self.stride) {
                self.kept.push(value);
            }
        }
        self.readings += 1;
    }

    /// Whether it rose, and its last half has stayed within a hundredth.
    fn settled(&self) -> Option<Settled> {
        let (&first, last) = (self.kept.first()?, self.last);
        let half = self.kept.get(self.kept.len() / 2..)?;
        let is_of_memory = matches!(self.of, Figure::Gpu | Figure::Host | Figure::Memory) && !self.is_rest;
        let stays = half.iter().all(|reading| reading.abs_diff(last) <= last / 100);
        let rose = last > first.saturating_add(first / 10) && last - first >= LEAST_BYTES;
        (is_of_memory && self.readings >= LEAST_SETTLED && stays && rose).then(|| Settled {
            label: self.label.clone(),
            printed: self.printed.clone(),
            readings: self.readings,
            lines: self.lines,
        })
    }

    /// The growth, if there is one: in both halves, and without many steps back.
    fn growth(self) -> Option<Growth> {
        let (&first, last) = (self.kept.first()?, self.last);
        let (up, down) = if self.is_rest { (self.falls, self.rises) } else { (self.rises, self.falls) };
        let grows = if self.is_rest { last < first } else { last > first };
        let by = first.abs_diff(last);
        let middle = self.kept.get(self.kept.len() / 2).copied().unwrap_or(last);
        let steps = self.readings - 1;
        let is_enough = match self.of {
            Figure::Count => by >= first / 5,
            // Small steps count where they go on without one back.
            _ if self.readings >= 8 && down == 0 => by > first.max(last) / 50,
            Figure::WithoutUnit => by > first / 10,
            _ => by >= LEAST_BYTES && by > first.max(last) / 20,
        };
        let is_steady = up >= 2 && up * 10 >= steps * 3 && down * 10 <= steps && middle.abs_diff(last) >= by / 5;
        (self.readings >= LEAST_READINGS && grows && is_enough && is_steady).then_some(Growth {
            label: self.label,
            of: self.of,
            is_rest: self.is_rest,
            first,
            last,
            printed: self.printed,
            readings: self.readings,
            lines: self.lines,
            is_even: is_even(&self.kept),
        })
    }
}

/// Whether readings rise by the same amount each time, within a fifth.
fn is_even(readings: &[u64]) -> bool {
    let steps = readings.windows(2).map(|pair| pair[1].checked_sub(pair[0]));
    let Some(steps) = steps.collect::<Option<Vec<u64>>>() else { return false };
    let least = steps.iter().min().zip(steps.iter().max());
    least.is_some_and(|(least, most)| *least > 0 && most - least <= most / 5)
}

/// The figures of memory and the counts of a line.
fn figures(line: &[u8]) -> Vec<Number> {
    if !line.iter().any(u8::is_ascii_digit) {
        return Vec::new();
    }
    let lower = line.to_ascii_lowercase();
    let text = String::from_utf8_lossy(&lower);
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let counts = has(&COUNTED);
    if !(has(&MEMORY) || counts || text.contains("mib")) || has(&OTHERS) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut column = 0;
    let mut at = 0;
    // A row of `free`: total, used, free.
    let is_table = text.trim_start().starts_with("mem: ");
    for _ in 0..MAX_NUMBERS {
        let Some(begin) = lower[at..].iter().position(u8::is_ascii_digit).map(|begin| at + begin) else { break };
        let length =
            lower[begin..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.' || **byte == b',').count();
        at = begin + length;
        // A part of a name, a version or a date.
        let is_part = begin > 0
            && (lower[begin - 1].is_ascii_alphanumeric()
                || b"_./".contains(&lower[begin - 1]) && label(&lower[..begin]).is_empty());
        if is_part {
            continue;
        }
        let number: Vec<u8> = lower[begin..at].iter().copied().filter(|byte| *byte != b',').collect();
        let number = number.strip_suffix(b".").unwrap_or(&number);
        let rest: Vec<u8> = lower[at..].iter().take(8).copied().skip_while(|byte| *byte == b' ').collect();
        let unit = unit(&rest);
        let mut words = label(&lower[..begin]);
        if is_table {
            column += 1;
            if column != 2 {
                continue;
            }
            "used (free)".clone_into(&mut words);
        }
        let names = |names: &[&str]| names.iter().any(|name| words.contains(name));
        let of = if unit.is_some() {
            let is_of = |names: &[&str]| names.iter().any(|name| text.contains(name));
            match (is_of(&HOST), is_of(&GPU)) {
                _ if is_table => Figure::Host,
                (true, false) => Figure::Host,
                (false, true) => Figure::Gpu,
                _ => Figure::Memory,
            }
        } else if counts && names(&COUNTED) && number.iter().all(u8::is_ascii_digit) {
            Figure::Count
        } else if is_table
            || !rest.starts_with(b"%") && (names(&WITHOUT_UNIT) || words.split(' ').any(|word| word == "ram"))
        {
            Figure::WithoutUnit
        } else {
            continue;
        };
        if words.is_empty() {
            column += 1;
        }
        let value = match unit {
            Some(unit) => match amount(&[number, unit.as_bytes()].concat(), true) {
                Read::Found(bytes, _) => bytes,
                _ => continue,
            },
            None => match amount(&[number, b"kb"].concat(), false) {
                Read::Found(thousandths, _) if of == Figure::WithoutUnit => thousandths,
                Read::Found(thousandths, _) => thousandths / 1000,
                _ => continue,
            },
        };
        let is_rest = names(&LEFT) && !is_table;
        let column = if words.is_empty() { column } else { 0 };
        let digits = text_of(&line[begin..at]);
        let printed = format!("{} {}", digits.trim_end_matches(['.', ',']), printed_unit(&line[at..], unit.is_some()));
        found.push(Number { label: words, column, of, is_rest, value, printed: printed.trim_end().to_owned() });
    }
    found
}

/// The unit behind a number, whole.
fn unit(rest: &[u8]) -> Option<&'static str> {
    const UNITS: [(&[u8], &str); 14] = [
        (b"kib", "kib"),
        (b"mib", "mib"),
        (b"gib", "gib"),
        (b"ki", "kib"),
        (b"mi", "mib"),
        (b"gi", "gib"),
        (b"kb", "kb"),
        (b"mb", "mb"),
        (b"gb", "gb"),
        (b"bytes", "bytes"),
        (b"tb", "tb"),
        (b"g", "gb"),
        (b"m", "mb"),
        (b"k", "kb"),
    ];
    let is_whole = |name: &[u8]| {
        rest.starts_with(name) && rest.get(name.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'/')
    };
    UNITS.iter().find(|(name, _)| is_whole(name)).map(|(_, unit)| *unit)
}

/// The unit as written.
fn printed_unit(after: &[u8], has_unit: bool) -> String {
    let after = after.trim_ascii_start();
    let length = after.iter().take(5).take_while(|byte| byte.is_ascii_alphabetic()).count();
    if has_unit { text_of(&after[..length]) } else { String::new() }
}

/// The words right before a number.
fn label(before: &[u8]) -> String {
    let is_mark = |byte: u8| b" :=\t('\"[{>|-~".contains(&byte);
    let mut text = &before[before.len().saturating_sub(64)..];
    while let Some((&last, rest)) = text.split_last() {
        if !is_mark(last) {
            break;
        }
        text = rest;
    }
    let is_word = |byte: &u8| byte.is_ascii_alphabetic() || b"_ ".contains(byte) || *byte >= 0x80;
    let length = text.iter().rev().take_while(|byte| is_word(byte)).count();
    let words = text_of(&text[text.len() - length..]);
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words[words.len().saturating_sub(LABEL_WORDS)..].join(" ");
    // A letter is the unit of the number before.
    if words.len() < 2 { String::new() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(log: &str) -> Vec<Growth> {
        let mut reader = GrowthReader::default();
        for (at, line) in log.lines().enumerate() {
            reader.read(line.as_bytes(), b"", at as u64 + 1);
        }
        reader.finish()
    }

    fn lines(line: impl Fn(u64) -> String) -> String {
        (0..12).map(|step| line(step) + "\n").collect()
    }

    #[test]
    fn figures_that_rise_with_the_steps_are_found() {
        let growth =
            &grown(&lines(|step| format!("step {} loss 2.31 memory allocated: {}.50 GB", step * 100, step + 2)))[0];
        assert_eq!((growth.label.as_str(), growth.of, growth.readings), ("memory allocated", Figure::Gpu, 12));
        assert_eq!((growth.first, growth.each()), (5 << 29, 1 << 30));
        let growth = &grown(&lines(|step| format!("epoch {step} RSS: {}.4 MB", 3123 + 1057 * step)))[0];
        assert_eq!((growth.of, growth.label.as_str()), (Figure::Host, "rss"));
        let growth = &grown(&lines(|step| format!("2025-05-01 10:{step}:00, {} MiB, 24576 MiB", 8123 + 300 * step)))[0];
        assert_eq!((growth.first, growth.each()), (8123 << 20, 300 << 20));
        let growth = &grown(&lines(|step| format!("DEBUG Free GPU ram: {}.5 MB", 13722 - 400 * step)))[0];
        assert!(growth.is_rest && growth.each() == 400 << 20, "{growth:?}");
        let splats = lines(|step| {
            format!("{step}%|#   | {}/30000 [10.59it/s, Loss=0.07, Points={}]", step * 300, 1000 * (step + 9))
        });
        assert_eq!(grown(&splats)[0].of, Figure::Count);
    }

    #[test]
    fn what_rises_and_stays_has_settled() {
        let settled = |log: &str| {
            let mut reader = GrowthReader::default();
            for (at, line) in log.lines().enumerate() {
                reader.read(line.as_bytes(), b"", at as u64 + 1);
            }
            reader.settled()
        };
        let found = settled(&lines(|step| format!("epoch {step} gpu mem {}.10 GiB", step.min(3) + 3))).unwrap();
        assert_eq!((found.label.as_str(), found.readings, found.lines), ("gpu mem", 12, (1, 12)));
        assert_eq!(found.printed, ("3.10 GiB".to_owned(), "6.10 GiB".to_owned()));
        for log in [
            lines(|step| format!("epoch {step} gpu mem {}.10 GiB", step + 3)),
            lines(|step| format!("epoch {step} gpu mem {}.10 GiB", step % 3 + 3)),
            lines(|step| format!("epoch {step} gpu mem 3.10 GiB")),
        ] {
            assert_eq!(settled(&log), None, "{log}");
        }
    }

    #[test]
    fn growth_is_even_where_each_reading_is_as_much_more() {
        let even = |amounts: [&str; 4]| {
            let log: Vec<String> = amounts.iter().map(|amount| format!("epoch 1 alloc {amount} GiB")).collect();
            grown(&log.join("\n")).first().is_some_and(|growth| growth.is_even)
        };
        assert!(even(["3.98", "6.79", "9.60", "12.41"]) && even(["2.0", "4.0", "6.1", "8.2"]));
        assert!(!even(["3.98", "9.10", "11.20", "12.41"]) && !even(["3.0", "4.0", "6.0", "9.0"]));
    }

    #[test]
    fn what_only_starts_or_moves_up_and_down_does_not_grow() {
        for log in [
            lines(|step| format!("step {step} memory allocated: {}.50 GB", step.min(3) + 2)),
            lines(|step| format!("step {step} memory allocated: {}.50 GB", step % 3 + 2)),
            lines(|step| format!("step {step} memory allocated: 7.50 GB, tokens {}", step * 1000)),
            lines(|step| format!("Downloading model: {step}.1G/9.90G [00:10<00:20, 90MB/s]")),
            lines(|step| format!("Loading weights, GPU memory used {step}.00 GiB")),
            lines(|step| format!("epoch {step}: loss {}.5, {} images", 20 - step, step * 64)),
        ] {
            assert_eq!(grown(&log), [], "{log}");
        }
    }
}
