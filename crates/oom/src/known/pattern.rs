//! Patterns of printed texts: words, with holes for what differs.
//!
//! Text is compared without its blanks, because logs break lines where they like. A hole is written `{name:kind}`:
//!
//! | kind | takes |
//! | --- | --- |
//! | `b` | an amount with its unit; `GB` is GiB, as the engines mean it |
//! | `s` | the same with a sign |
//! | `t` | an amount whose `GB` is a thousand million bytes |
//! | `g` | a number of GiB without its unit |
//! | `h` | a number with `B`, `K`, `M`, `G` or `T`, powers of 1024, as XLA prints sizes |
//! | `x` | an amount of bytes as `0x` and hexadecimal digits |
//! | `d` | whole numbers with commas between them |
//! | `n` | a whole number, with or without separators |
//! | `f` | a decimal number |
//! | `w` | a word, to the next punctuation; `::` is part of one |
//! | `q` | a word in quotes |
//!
//! `{*}` passes over at most 200 bytes, to the words behind it. `{<name}` at the beginning takes the word before; `{^}` there, and `{$}`
//! at the end, stand for the beginning and the end of the text. `{!words}` stands where these words do not follow.

use memchr::memmem;

use crate::message::{Read, amount};

/// What `{*}` passes over at most.
const PASSED_BYTES: usize = 200;
/// The longest word.
const WORD_BYTES: usize = 200;
/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// What stands in a hole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// An amount of memory, to the nearest byte; below zero where an engine prints a deficit.
    Bytes(i64),
    /// A whole number.
    Number(u64),
    /// A decimal number.
    Decimal(Decimal),
    /// Words.
    Text(String),
}

/// A decimal number as printed, to a millionth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    /// How many millionths.
    pub millionths: u64,
}

impl Decimal {
    /// The nearest number.
    #[expect(clippy::cast_precision_loss, reason = "six decimals of a printed number")]
    pub fn value(self) -> f64 {
        self.millionths as f64 / MILLION as f64
    }

    /// `0.95` at the beginning of a text, with its length.
    fn read(text: &[u8]) -> Option<(Self, usize)> {
        let digits = |text: &[u8]| text.iter().take(12).take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(text);
        if whole == 0 {
            return None;
        }
        let mut millionths = number_of(&text[..whole]).saturating_mul(MILLION);
        let mut length = whole;
        if text.get(whole) == Some(&b'.') {
            let decimals = text[whole + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let mut unit = MILLION / 10;
            for digit in text[whole + 1..].iter().take(decimals.min(6)) {
                millionths += u64::from(digit - b'0') * unit;
                unit /= 10;
            }
            length = whole + 1 + decimals;
        }
        Some((Self { millionths }, length))
    }

    /// The same from a text that holds nothing else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::read(text.as_bytes()).filter(|&(_, length)| length == text.len()).map(|(decimal, _)| decimal)
    }
}

/// The values of a text, in the order of its holes.
pub(crate) type Values = Vec<(&'static str, Value)>;

/// The end of a match: how many bytes it took.
pub(crate) fn find(pattern: &'static str, text: &[u8]) -> Read<(Values, usize, usize)> {
    let (before, pattern) = match pattern.strip_prefix("{<").and_then(|rest| rest.split_once('}')) {
        Some((name, rest)) => (Some(name), rest),
        None => (None, pattern),
    };
    if let Some(pattern) = pattern.strip_prefix("{^}") {
        let mut values = Values::new();
        return match read(pattern, text, &mut values) {
            Read::Found((), length) => Read::Found((values, 0, length), length),
            Read::Short => Read::Short,
            Read::Absent => Read::Absent,
        };
    }
    let first = first_words(pattern);
    let mut is_short = None;
    for start in memmem::find_iter(text, &first) {
        let mut values = Values::new();
        if let Some(name) = before {
            let length = text[..start].iter().rev().take(WORD_BYTES).take_while(|byte| is_of_name(**byte)).count();
            values.push((name, Value::Text(text_of(&text[start - length..start]))));
        }
        match read(pattern, &text[start..], &mut values) {
            Read::Found((), length) => return Read::Found((values, start, start + length), start + length),
            Read::Short => is_short = Some(start),
            Read::Absent => {}
        }
    }
    // The beginning of the words may stand at the end of a line.
    let is_begun = is_short.is_some()
        || (first.len() / 2..first.len()).any(|length| length > 7 && text.ends_with(&first[..length]));
    if is_begun { Read::Short } else { Read::Absent }
}

/// The words before the first hole, without blanks.
fn first_words(pattern: &str) -> Vec<u8> {
    let words = pattern.split('{').next().unwrap_or_default();
    words.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect()
}

/// Reads a pattern at the beginning of a text.
fn read(mut pattern: &'static str, text: &[u8], values: &mut Values) -> Read<()> {
    let mut at = 0;
    loop {
        let (words, rest) = pattern.split_once('{').unwrap_or((pattern, ""));
        for byte in words.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
            match text.get(at) {
                None => return Read::Short,
                Some(&found) if found == byte => at += 1,
                Some(_) => return Read::Absent,
            }
        }
        let Some((hole, rest)) = rest.split_once('}') else { return Read::Found((), at) };
        pattern = rest;
        let here = &text[at..];
        if hole == "$" {
            return if here.is_empty() { Read::Found((), at) } else { Read::Absent };
        }
        if let Some(words) = hole.strip_prefix('!') {
            if here.starts_with(words.as_bytes()) {
                return Read::Absent;
            }
            continue;
        }
        if hole == "*" {
            let next = first_words(rest);
            let window = &here[..here.len().min(PASSED_BYTES + next.len())];
            match memmem::find(window, &next) {
                Some(passed) => at += passed,
                None if window.len() == here.len() => return Read::Short,
                None => return Read::Absent,
            }
            continue;
        }
        let Some((name, kind)) = hole.split_once(':') else { return Read::Absent };
        match value(kind, here) {
            Read::Found(value, length) => {
                values.push((name, value));
                at += length;
            }
            Read::Short => return Read::Short,
            Read::Absent => return Read::Absent,
        }
    }
}

fn value(kind: &str, text: &[u8]) -> Read<Value> {
    let found = |found: Option<(Value, usize)>| match found {
        Some((value, length)) => Read::Found(value, length),
        None if text.is_empty() => Read::Short,
        None => Read::Absent,
    };
    match kind {
        "b" => amount(text, true).map(|bytes| Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX))),
        "t" => amount(text, false).map(|bytes| Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX))),
        "s" => {
            let is_negative = text.first() == Some(&b'-');
            let read = amount(&text[usize::from(is_negative)..], true);
            let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX) * if is_negative { -1 } else { 1 };
            match read {
                Read::Found(bytes, length) => {
                    Read::Found(Value::Bytes(signed(bytes)), length + usize::from(is_negative))
                }
                Read::Short => Read::Short,
                Read::Absent => Read::Absent,
            }
        }
        "g" => found(Decimal::read(text).map(|(decimal, length)| {
            let bytes = (u128::from(decimal.millionths) * (1 << 30) + u128::from(MILLION / 2)) / u128::from(MILLION);
            (Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX)), length)
        })),
        "h" => found(Decimal::read(text).and_then(|(decimal, length)| {
            let power = b"BKMGT".iter().position(|unit| text.get(length) == Some(unit))?;
            let bytes =
                ((u128::from(decimal.millionths) << (10 * power)) + u128::from(MILLION / 2)) / u128::from(MILLION);
            Some((Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX)), length + 1))
        })),
        "x" => found(text.strip_prefix(b"0x").and_then(|text| {
            let digits = text.iter().take(16).take_while(|byte| byte.is_ascii_hexdigit()).count();
            let bytes = u64::from_str_radix(std::str::from_utf8(&text[..digits]).ok()?, 16).ok()?;
            Some((Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX)), 2 + digits))
        })),
        "d" => {
            let length =
                text.iter().take(WORD_BYTES).take_while(|byte| byte.is_ascii_digit() || **byte == b',').count();
            found((length > 0).then(|| (Value::Text(text_of(&text[..length])), length)))
        }
        "f" => found(Decimal::read(text).map(|(decimal, length)| (Value::Decimal(decimal), length))),
        "n" => {
            let length = text.iter().take(24).take_while(|byte| byte.is_ascii_digit() || **byte == b',').count();
            let length = length - text[..length].iter().rev().take_while(|byte| **byte == b',').count();
            found((length > 0).then(|| (Value::Number(number_of(&text[..length])), length)))
        }
        "w" => {
            let ends = |byte: u8| b",;:()[]{}'\"`".contains(&byte);
            // `ray::IDLE`, `VLLM::Worker_TP`.
            let is_inner =
                |at: usize| text[at] == b':' && (text.get(at + 1) == Some(&b':') || at > 0 && text[at - 1] == b':');
            let length = (0..text.len().min(WORD_BYTES)).take_while(|&at| !ends(text[at]) || is_inner(at)).count();
            found((length > 0).then(|| (Value::Text(text_of(&text[..length])), length)))
        }
        "q" => {
            let quote = text.first().filter(|byte| b"'\"".contains(byte));
            let length = quote.and_then(|quote| text[1..].iter().take(WORD_BYTES).position(|byte| byte == quote));
            found(length.map(|length| (Value::Text(text_of(&text[1..=length])), length + 2)))
        }
        _ => Read::Absent,
    }
}

fn number_of(digits: &[u8]) -> u64 {
    let digits = digits.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Text of a log for showing: what is no printable character becomes `?`.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|letter| if letter.is_control() || letter == '\u{fffd}' { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::without_blanks;

    fn values(pattern: &'static str, text: &str) -> Option<Values> {
        match find(pattern, &without_blanks(text.as_bytes())) {
            Read::Found((values, ..), _) => Some(values),
            _ => None,
        }
    }

    #[test]
    fn holes_take_amounts_numbers_and_words() {
        assert_eq!(
            values(
                "weights take {weights:b}; took {seconds:f} s at {rank:n}",
                "x weights take 1.50GiB; took 2.25 s at 7"
            ),
            Some(vec![
                ("weights", Value::Bytes(3 << 29)),
                ("seconds", Value::Decimal(Decimal { millionths: 2_250_000 })),
                ("rank", Value::Number(7)),
            ])
        );
        assert_eq!(values("requesting {n:t}", "requesting 1.50 GB"), Some(vec![("n", Value::Bytes(1_500_000_000))]));
        assert_eq!(values("memory: {kv:s}", "memory: -0.50 GB"), Some(vec![("kv", Value::Bytes(-(1 << 29)))]));
        assert_eq!(values("size={n:x} in", "size=0x2000 in"), Some(vec![("n", Value::Bytes(8192))]));
        assert_eq!(values("size: {n:n} tokens", "size: 1,178,880 tokens"), Some(vec![("n", Value::Number(1_178_880))]));
        assert_eq!(values("({free:g}/{total:b})", "(1.5/2.0 GiB)").map(|values| values.len()), Some(2));
        assert_eq!(
            values("{<device} buffer size = {size:b}", "llama: CUDA0 buffer size = 4.00 MiB"),
            Some(vec![("device", Value::Text("CUDA0".to_owned())), ("size", Value::Bytes(4 << 20))])
        );
        assert_eq!(
            values("Used {used:h} of", "Used 18.50G of 15.48G hbm"),
            Some(vec![("used", Value::Bytes(37 << 29))])
        );
        assert_eq!(
            values("shape[{shape:d}] and", "shape[64,2016,9,9] and type float"),
            Some(vec![("shape", Value::Text("64,2016,9,9".to_owned()))])
        );
        assert_eq!(
            values("end. {*} mem usage={m:b}", "end. type=A, mem usage=1.00 GB"),
            Some(vec![("m", Value::Bytes(1 << 30))])
        );
    }

    #[test]
    fn a_pattern_may_ask_for_the_ends_of_a_text_and_for_what_does_not_follow() {
        assert!(values("{^}Killed{$}", "Killed").is_some());
        assert!(values("{^}Killed{$}", "Killed process 7").is_none());
        assert!(values("{^}Killed{$}", "it was Killed").is_none());
        assert!(values("OOMKilled{!\":false}", "reason: OOMKilled").is_some());
        assert!(values("OOMKilled{!\":false}", "\"OOMKilled\": false").is_none());
    }

    #[test]
    fn a_text_that_ends_amid_its_words_is_short() {
        let text = |text: &str| find("Not enough memory. Please try {n:n}", &without_blanks(text.as_bytes()));
        assert_eq!(text("Not enough memory. Plea"), Read::Short);
        assert_eq!(text("Not enough mem"), Read::Short);
        assert_eq!(text("Not enough money"), Read::Absent);
    }
}
