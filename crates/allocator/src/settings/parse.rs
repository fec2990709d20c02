//! How a settings string is read.
//!
//! PyTorch had two readers. Up to 2.9 one pass takes all keys and insists on `:` and `,`. Since 2.10 one pass takes the
//! keys of every accelerator and another those of CUDA, each skipping the other's, and any token will do as a separator.

use super::error::{ConfError, ConfErrorKind};
use super::key::{self, Key, Meaning};
use super::number::{self, Fault};
use super::{Backend, MIB, Remark, Reserve, Settings};
use crate::sizes::MIN_LARGE_BYTES;
use crate::version::{Rules, TorchVersion};

/// Which keys a pass over the string reads; it skips the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    All,
    Common,
    Cuda,
}

/// A piece of the string: one of `,`, `:`, `[`, `]`, or what stands between them.
struct Token {
    text: String,
    /// The byte at which it begins.
    at: usize,
}

struct Reader<'a> {
    tokens: Vec<Token>,
    /// The token to be read next.
    next: usize,
    /// The length of the string.
    end: usize,
    rules: Rules,
    settings: &'a mut Settings,
}

/// Reads `conf` into `settings`, which are half changed after an error.
pub(super) fn read(settings: &mut Settings, conf: &str) -> Result<(), ConfError> {
    let rules = settings.version.rules();
    settings.max_split_bytes = super::UNLIMITED;
    settings.roundup_power2_divisions = [0; 16];
    settings.garbage_collection_threshold = 0.0;
    settings.remarks.clear();
    let mut reader = Reader { tokens: tokens(conf, rules), next: 0, end: conf.len(), rules, settings };
    if rules.strict_conf {
        return reader.pass(Pass::All);
    }
    reader.large_segments()?;
    if !rules.parse_keeps_non_split_rounding {
        reader.settings.max_non_split_rounding_bytes = reader.settings.large_segment_bytes;
    }
    reader.pass(Pass::Common)?;
    reader.pass(Pass::Cuda)
}

/// Cuts the string into tokens. Space is dropped even inside of one; up to 2.9 only blanks are.
fn tokens(conf: &str, rules: Rules) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut is_open = false;
    for (at, letter) in conf.char_indices() {
        if matches!(letter, ',' | ':' | '[' | ']') {
            is_open = false;
            tokens.push(Token { text: letter.into(), at });
        } else if !(if rules.strict_conf { letter == ' ' } else { number::is_space(letter) }) {
            match tokens.last_mut().filter(|_| is_open) {
                Some(token) => token.text.push(letter),
                None => tokens.push(Token { text: letter.into(), at }),
            }
            is_open = true;
        }
    }
    tokens
}

impl Reader<'_> {
    /// The segment size is read before all else, as the ranges of others follow it.
    fn large_segments(&mut self) -> Result<(), ConfError> {
        let Some(key) = key::named("large_segment_size_mb").filter(|key| key.since <= self.settings.version) else {
            return Ok(());
        };
        self.next = 0;
        while let Some(token) = self.tokens.get(self.next) {
            self.next += 1;
            if token.text == key.name {
                let bytes = self.mebibytes(key, MIN_LARGE_BYTES / MIB + 1, "at least 11, in MiB")?;
                self.settings.large_segment_bytes = bytes;
            }
        }
        Ok(())
    }

    fn pass(&mut self, pass: Pass) -> Result<(), ConfError> {
        self.next = 0;
        while let Some(token) = self.tokens.get(self.next) {
            let version = self.settings.version;
            let Some(key) = key::named(&token.text).filter(|key| key.since <= version) else {
                let kind = ConfErrorKind::UnknownKey { key: token.text.clone(), version };
                return Err(ConfError { at: token.at, kind });
            };
            self.next += 1;
            let mine = match pass {
                Pass::All => true,
                Pass::Common => key.meaning.is_common(key.name) && key.meaning != Meaning::LargeSegment,
                Pass::Cuda => !key.meaning.is_common(key.name),
            };
            if mine {
                self.value(key)?;
            } else {
                self.skip(key)?;
            }
            if self.next < self.tokens.len() {
                self.separator(key, ',')?;
            }
        }
        Ok(())
    }

    fn value(&mut self, key: &'static Key) -> Result<(), ConfError> {
        match key.meaning {
            Meaning::Backend => self.backend(key)?,
            Meaning::MaxSplit => self.settings.max_split_bytes = self.oversize(key)?,
            Meaning::MaxNonSplitRounding => self.settings.max_non_split_rounding_bytes = self.oversize(key)?,
            Meaning::LargeSegment => self.skip(key)?,
            Meaning::GarbageCollection => {
                let range = |value: f64| value > 0.0 && value < 1.0;
                self.settings.garbage_collection_threshold = self.fraction(key, range, "above 0 and below 1")?;
            }
            Meaning::Divisions => self.divisions(key)?,
            Meaning::Expandable => self.settings.expandable_segments = self.switch(key)?,
            Meaning::Reserve => {
                if let Some(reserve) = self.reserve(key)? {
                    self.settings.expandable_segments_reserve = Some(reserve);
                }
            }
            Meaning::ReserveByClass => self.reserve_by_class(key)?,
            Meaning::Fraction => {
                let range = |value: f64| (0.0..=1.0).contains(&value);
                self.settings.per_process_memory_fraction = Some(self.fraction(key, range, "from 0 to 1")?);
            }
            Meaning::ThrowOnOom => self.settings.throw_on_cudamalloc_oom = self.switch(key)?,
            Meaning::OtherSwitch => {
                self.switch(key)?;
                self.settings.remarks.push(Remark::NoEffect { key: key.name });
            }
            Meaning::RegisterThreads | Meaning::HostSegment | Meaning::HostLimit => {
                let value = self.number(key)?;
                match key.meaning {
                    Meaning::RegisterThreads if !value.is_power_of_two() || value > 128 => {
                        return Err(self.out_of_range(key, "a power of two up to 128"));
                    }
                    Meaning::HostSegment if value == 0 => return Err(self.out_of_range(key, "at least 1")),
                    _ => self.settings.remarks.push(Remark::NoEffect { key: key.name }),
                }
            }
        }
        Ok(())
    }

    fn backend(&mut self, key: &'static Key) -> Result<(), ConfError> {
        let value = self.text(key)?;
        let backend = match value.as_str() {
            "native" => Backend::Native,
            "cudaMallocAsync" => Backend::CudaMallocAsync,
            _ => return Err(self.at_last(ConfErrorKind::UnknownBackend { value })),
        };
        if self.settings.backend_is_fixed && backend != self.settings.backend {
            return Err(self.at_last(ConfErrorKind::OtherBackend { value }));
        }
        self.settings.backend = backend;
        self.settings.backend_is_fixed = true;
        Ok(())
    }

    /// The one number for all sizes, or `[MIB:DIVISIONS,…]`, where `>` stands for all sizes after the last named.
    fn divisions(&mut self, key: &'static Key) -> Result<(), ConfError> {
        self.separator(key, ':')?;
        if self.peek() != Some("[") {
            let value = self.bare_number(key)?;
            if !value.is_power_of_two() {
                return Err(self.out_of_range(key, "a power of two"));
            }
            self.settings.roundup_power2_divisions = [value; 16];
            return Ok(());
        }
        self.next += 1;
        let allowed =
            if self.settings.version >= TorchVersion::v2(4) { "0 or a power of two" } else { "a power of two" };
        let (mut last, mut is_first) = (0, true);
        loop {
            let interval_at = self.next;
            self.next += 1;
            let interval = match self.tokens.get(interval_at) {
                Some(token) if token.text == "]" => return Ok(()),
                Some(token) => token.text.clone(),
                None if self.rules.strict_conf => return Ok(()),
                None => return Err(self.at_last(ConfErrorKind::OpenList { key: key.name })),
            };
            let value = self.number(key)?;
            let is_off = value == 0 && self.settings.version >= TorchVersion::v2(4);
            if !is_off && !value.is_power_of_two() {
                return Err(self.out_of_range(key, allowed));
            }
            let entries = &mut self.settings.roundup_power2_divisions;
            if interval == ">" {
                let from = if self.rules.list_rest_overwrites_last { last } else { last + 1 };
                entries[from..].fill(value);
            } else {
                let mebibytes = number::unsigned(&interval);
                let Some(log2) = mebibytes.ok().filter(|mebibytes| mebibytes.is_power_of_two()).map(u64::ilog2) else {
                    self.next = interval_at + 1;
                    return Err(match mebibytes {
                        Ok(_) => self.out_of_range(key, "sizes are powers of two, in MiB, or `>`"),
                        Err(fault) => self.fault(key, fault),
                    });
                };
                last = (log2 as usize).min(15);
                if is_first {
                    entries[..last].fill(value);
                    is_first = false;
                }
                entries[last] = value;
            }
            match self.peek() {
                Some("]") => {}
                Some(_) => self.separator(key, ',')?,
                None => {
                    self.next += 1;
                    return Err(self.at_last(ConfErrorKind::OpenList { key: key.name }));
                }
            }
        }
    }

    /// A reservation, or `None` for a text that PyTorch warns of and ignores.
    fn reserve(&mut self, key: &'static Key) -> Result<Option<Reserve>, ConfError> {
        let value = self.text(key)?;
        let gib = value.strip_suffix(['G', 'g']);
        let number = number::whole_decimal(gib.unwrap_or(&value)).filter(|&number| number > 0.0);
        if number.is_none() {
            self.settings.remarks.push(Remark::ReserveIgnored { value: value.clone() });
        }
        Ok(number.map(if gib.is_some() { Reserve::Gib } else { Reserve::Fraction }))
    }

    /// Streams are of no class here, so only the form matters.
    fn reserve_by_class(&mut self, key: &'static Key) -> Result<(), ConfError> {
        let open = ConfErrorKind::OpenList { key: key.name };
        self.separator(key, ':')?;
        self.next += 1;
        loop {
            match self.peek() {
                None => {
                    self.next += 1;
                    return Err(self.at_last(open));
                }
                Some("]") => break,
                Some(_) => self.next += 1,
            }
            self.reserve(key)?;
            match self.peek() {
                Some(",") => self.next += 1,
                Some(_) => {}
                None => {
                    self.next += 1;
                    return Err(self.at_last(open));
                }
            }
        }
        self.next += 1;
        self.settings.remarks.push(Remark::NoEffect { key: key.name });
        Ok(())
    }

    /// Leaves out a value that another pass reads.
    fn skip(&mut self, key: &'static Key) -> Result<(), ConfError> {
        if self.text(key)? != "[" {
            return Ok(());
        }
        let open = ConfErrorKind::OpenList { key: key.name };
        while self.text_of_next(key).map_err(|missing| ConfError { kind: open.clone(), ..missing })? != "]" {}
        Ok(())
    }

    /// A size that `max_split_size_mb` or `max_non_split_rounding_mb` may have, in bytes.
    fn oversize(&mut self, key: &'static Key) -> Result<u64, ConfError> {
        let segment = self.settings.large_segment_bytes / MIB;
        let least = if self.rules.strict_conf { segment + 1 } else { segment };
        let than = if self.rules.strict_conf { "larger than a large segment" } else { "the size of a large segment" };
        self.mebibytes(key, least, &format!("at least {least}, {than} in MiB"))
    }

    /// A number of at least `least` MiB, in bytes; capped at the most that `u64` holds.
    fn mebibytes(&mut self, key: &'static Key, least: u64, allowed: &str) -> Result<u64, ConfError> {
        let value = self.number(key)?;
        if value < least {
            return Err(self.out_of_range(key, allowed));
        }
        Ok(value.min(u64::MAX / MIB) * MIB)
    }

    fn fraction(&mut self, key: &'static Key, range: impl Fn(f64) -> bool, allowed: &str) -> Result<f64, ConfError> {
        let value = number::decimal(&self.text(key)?).map_err(|fault| self.fault(key, fault))?;
        if range(value) { Ok(value) } else { Err(self.out_of_range(key, allowed)) }
    }

    fn switch(&mut self, key: &'static Key) -> Result<bool, ConfError> {
        let value = self.text(key)?;
        match value.as_str() {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err(self.at_last(ConfErrorKind::NotASwitch { key: key.name, value })),
        }
    }

    /// The number after a `:`.
    fn number(&mut self, key: &'static Key) -> Result<u64, ConfError> {
        self.separator(key, ':')?;
        self.bare_number(key)
    }

    fn bare_number(&mut self, key: &'static Key) -> Result<u64, ConfError> {
        let value = self.text_of_next(key)?;
        let read = if self.rules.strict_conf { number::int } else { number::unsigned };
        read(&value).map_err(|fault| self.fault(key, fault))
    }

    /// The text after a `:`.
    fn text(&mut self, key: &'static Key) -> Result<String, ConfError> {
        self.separator(key, ':')?;
        self.text_of_next(key)
    }

    fn text_of_next(&mut self, key: &'static Key) -> Result<String, ConfError> {
        self.next += 1;
        match self.tokens.get(self.next - 1) {
            Some(token) => Ok(token.text.clone()),
            None => Err(self.at_last(ConfErrorKind::MissingValue { key: key.name })),
        }
    }

    /// Steps over the separator; up to 2.9 it must be the right one.
    fn separator(&mut self, key: &'static Key, expected: char) -> Result<(), ConfError> {
        let found = self.text_of_next(key)?;
        if self.rules.strict_conf && !found.chars().eq([expected]) {
            return Err(self.at_last(ConfErrorKind::Separator { expected, found }));
        }
        Ok(())
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.next).map(|token| token.text.as_str())
    }

    fn out_of_range(&self, key: &'static Key, allowed: &str) -> ConfError {
        let value = self.last().map_or_else(String::new, |token| token.text.clone());
        self.at_last(ConfErrorKind::OutOfRange { key: key.name, value, allowed: allowed.to_owned() })
    }

    fn fault(&self, key: &'static Key, fault: Fault) -> ConfError {
        let value = self.last().map_or_else(String::new, |token| token.text.clone());
        self.at_last(match fault {
            Fault::NotANumber => ConfErrorKind::NotANumber { key: key.name, value },
            Fault::TooLarge => ConfErrorKind::Unreadable { key: key.name, value },
        })
    }

    /// The token read last, if the string had it.
    fn last(&self) -> Option<&Token> {
        self.tokens.get(self.next.wrapping_sub(1))
    }

    /// An error at the token read last.
    fn at_last(&self, kind: ConfErrorKind) -> ConfError {
        ConfError { at: self.last().map_or(self.end, |token| token.at), kind }
    }
}
