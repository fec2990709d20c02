//! Sizes, counts and times as people write them: those that are printed everywhere come from the analysis.

pub(crate) use highwater_units::{count, counted, size};

/// Units that [`parse_size`] accepts, with their bytes.
const ACCEPTED: [(&str, u128); 9] = [
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// A size given on the command line: `16GiB`, `16GB`, `16384MiB`, `1.5 gib`, `17179869184`.
///
/// `GB` is 1000³ bytes and `GiB` 1024³; what is not whole is rounded to the nearest byte.
///
/// # Errors
/// A message that says what is accepted.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim().to_ascii_lowercase());
    let unit_bytes = match ACCEPTED.iter().find(|(name, _)| *name == unit) {
        Some(&(_, bytes)) => bytes,
        None if unit.is_empty() => 1,
        None => return Err("expected a size such as `16GiB`, `16GB`, `16384MiB` or plain bytes".to_owned()),
    };
    let bytes = scale(number, unit_bytes).ok_or("expected a number, as in `1.5GiB`, `512MiB` or `4096`")?;
    u64::try_from(bytes).map_err(|_| "this is more than 16 EiB".to_owned())
}

/// The decimal `number` times `unit`, exactly, rounded half up; `None` if it is no number.
fn scale(number: &str, unit: u128) -> Option<u128> {
    let digits = number.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let joined = format!("{whole}{fraction}");
    // 18 digits and the largest unit stay far below 2^128.
    let too_long = joined.len() > 24 || fraction.len() > 12;
    if joined.is_empty() || too_long {
        return None;
    }
    let value: u128 = joined.parse().ok()?;
    let divisor = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    Some((value * unit + divisor / 2) / divisor)
}

/// An address or another whole number given on the command line: `0x7f8b40000000` or decimal.
///
/// # Errors
/// A message that says what is accepted.
pub(crate) fn parse_address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a number such as `0x7f8b40000000`, or decimal".to_owned())
}

/// Microseconds as seconds with all six decimals: `-0.000012`.
pub(crate) fn seconds(time_us: i64) -> String {
    let sign = if time_us < 0 { "-" } else { "" };
    let us = time_us.unsigned_abs();
    format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_exactly() {
        for (text, want) in [
            ("16GiB", 16 << 30),
            ("16GB", 16_000_000_000),
            ("16384MiB", 16 << 30),
            ("1.5GiB", 3 << 29),
            ("1.50 gib", 3 << 29),
            ("4096", 4096),
            ("4_096 B", 4096),
            ("0.1KiB", 102),
            ("20kb", 20_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_says_what_is_one() {
        for text in ["", "GiB", ".", "1.2.3GiB", "-5", "16G", "16 GiBs", "1e9", "99999999999999999999999999"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(parse_size("17000000TiB").unwrap_err(), "this is more than 16 EiB");
    }

    #[test]
    fn addresses_are_hexadecimal_or_decimal() {
        assert_eq!(parse_address("0x7f8B"), Ok(0x7f8b));
        assert_eq!(parse_address("12"), Ok(12));
        assert!(parse_address("7f8b").is_err());
        assert!(parse_address("0x").is_err());
    }

    #[test]
    fn seconds_have_six_decimals() {
        assert_eq!([0, 1_500_000, -12, i64::MIN].map(seconds)[..3], ["0.000000", "1.500000", "-0.000012"]);
    }
}
