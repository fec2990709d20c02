//! Amounts of memory as messages print them: `139.80 GiB`, `512 bytes`.

/// Units with their bytes, in lower case: messages of PyTorch are binary, other text may not be.
const UNITS: [(&[u8], u64); 16] = [
    (b"bytes", 1),
    (b"byte", 1),
    (b"kib", 1 << 10),
    (b"mib", 1 << 20),
    (b"gib", 1 << 30),
    (b"tib", 1 << 40),
    (b"pib", 1 << 50),
    (b"eib", 1 << 60),
    (b"kb", 1_000),
    (b"mb", 1_000_000),
    (b"gb", 1_000_000_000),
    (b"tb", 1_000_000_000_000),
    (b"pb", 1_000_000_000_000_000),
    (b"eb", 1_000_000_000_000_000_000),
    (b"b", 1),
    (b"gbytes", 1_000_000_000),
];

/// No amount has more digits on either side of the point: 2^64 has 20.
const MAX_DIGITS: usize = 20;

/// Digits behind a comma that stands for a point: all amounts are printed with two.
const COMMA_DECIMALS: usize = 2;

/// What stands at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read<T> {
    /// This, in so many bytes.
    Found(T, usize),
    /// Something else.
    Absent,
    /// The text ends before one can tell.
    Short,
}

/// An amount at the beginning of a text without blanks: value times unit, to the nearest byte.
///
/// `is_binary` reads `KB`, `MB` and `GB` as powers of 1024, as some messages mean them.
pub(crate) fn amount(text: &[u8], is_binary: bool) -> Read<u64> {
    let whole = digits(text);
    if whole == 0 || whole > MAX_DIGITS {
        return if text.is_empty() { Read::Short } else { Read::Absent };
    }
    let decimals = match text.get(whole) {
        Some(b'.') => digits(&text[whole + 1..]),
        // Many locales print a decimal comma; three digits after it would be thousands.
        Some(b',') => match digits(&text[whole + 1..]) {
            COMMA_DECIMALS => COMMA_DECIMALS,
            decimals if decimals < COMMA_DECIMALS && whole + 1 + decimals == text.len() => return Read::Short,
            _ => 0,
        },
        _ => 0,
    };
    if decimals > MAX_DIGITS {
        return Read::Absent;
    }
    let has_point = text.get(whole) == Some(&b'.') || decimals > 0;
    let number = if has_point { whole + 1 + decimals } else { whole };
    let rest = &text[number..];
    let is = |unit: &[u8]| rest.len() >= unit.len() && rest[..unit.len()].eq_ignore_ascii_case(unit);
    let unit = UNITS.iter().filter(|(unit, _)| is(unit)).max_by_key(|(unit, _)| unit.len());
    // `G` may become `GiB` with what follows, `B` and `byte` may become `bytes`.
    let may_grow =
        UNITS.iter().any(|(unit, _)| unit.len() > rest.len() && unit[..rest.len()].eq_ignore_ascii_case(rest));
    match unit {
        _ if may_grow && unit.is_none_or(|(unit, _)| matches!(*unit, b"b" | b"byte")) => Read::Short,
        None => Read::Absent,
        Some(&(name, bytes)) => {
            let bytes = if is_binary { binary(name, bytes) } else { bytes };
            let value = times(&text[..whole], &text[whole..number], bytes);
            Read::Found(value, number + name.len())
        }
    }
}

/// A whole number at the beginning of a text, at most `u32::MAX`.
pub(super) fn number(text: &[u8]) -> Read<u32> {
    let length = digits(text);
    if length == text.len() && length <= MAX_DIGITS {
        return Read::Short;
    }
    let parsed = std::str::from_utf8(&text[..length]).ok().and_then(|digits| digits.parse().ok());
    parsed.map_or(Read::Absent, |number| Read::Found(number, length))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn binary(unit: &[u8], bytes: u64) -> u64 {
    match unit {
        b"kb" => 1 << 10,
        b"mb" => 1 << 20,
        b"gb" => 1 << 30,
        b"tb" => 1 << 40,
        b"pb" => 1 << 50,
        b"eb" => 1 << 60,
        _ => bytes,
    }
}

/// Digits and decimals (with their point, if any) times a unit, rounded to the nearest; what is larger than 2^64 is 2^64 - 1.
fn times(whole: &[u8], decimals: &[u8], unit: u64) -> u64 {
    let value = |digits: &[u8]| digits.iter().fold(0_u128, |sum, digit| sum * 10 + u128::from(digit - b'0'));
    // Nine decimals of a TiB are a thousandth of a byte.
    let decimals = decimals.get(1..).unwrap_or_default();
    let decimals = &decimals[..decimals.len().min(15)];
    let scale = decimals.iter().fold(1_u128, |scale, _| scale * 10);
    let whole = value(whole).saturating_mul(u128::from(unit));
    let part = (value(decimals) * u128::from(unit) * 2 + scale) / (scale * 2);
    u64::try_from(whole.saturating_add(part)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_times_its_unit_is_rounded_to_the_nearest_byte() {
        for (text, bytes) in [
            ("139.80GiB", 150_109_106_995),
            ("1024.00MiB", 1 << 30),
            ("512bytes", 512),
            ("0bytesis", 0),
            ("17.20KiBcached", 17_613),
            ("2.00GB", 2_000_000_000),
            ("1.5TiB", 3 << 39),
            ("17179869184.00GiB", u64::MAX),
            ("99999999999999999999GiB", u64::MAX),
            ("1Bx", 1),
            ("1900,50MiBof", 3801 << 19),
        ] {
            assert!(matches!(amount(text.as_bytes(), false), Read::Found(found, _) if found == bytes), "{text}");
        }
        assert_eq!(amount(b"1.09GB)", true), Read::Found(1_170_378_588, 6));
    }

    #[test]
    fn an_amount_that_is_cut_is_no_amount() {
        for text in ["", "1", "13", "139.", "139.8", "139.80G", "139.80Gi", "5b", "5byt", "5byte"] {
            assert_eq!(amount(text.as_bytes(), false), Read::Short, "{text}");
        }
        for text in ["GiB", "1.2.3GiB", "1,024MiB", "1,5MiB", "12apples", "123456789012345678901GiB"] {
            assert_eq!(amount(text.as_bytes(), false), Read::Absent, "{text}");
        }
        assert_eq!(number(b"412"), Read::Short);
        assert_eq!(number(b"412has"), Read::Found(412, 3));
        assert_eq!(number(b"99999999999has"), Read::Absent);
    }
}
