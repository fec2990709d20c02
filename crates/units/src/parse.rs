//! Sizes as people write them.

use thiserror::Error;

/// The units that a size may have, in small letters, with their bytes. `G` counts as PyTorch and the tools of its users do:
/// as `GiB`.
const UNITS: [(&str, u128); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// A number without a unit that is below so many bytes is no amount of memory that anybody means.
const LEAST_BARE_BYTES: u64 = 1 << 20;

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SizeError {
    /// Its unit is none.
    #[error("expected a size such as `16GiB`, `16GB`, `512M` or plain bytes")]
    Unit,
    /// It has no number in front, or one with too many digits.
    #[error("expected a number, as in `1.5GiB`, `512MiB` or `4096B`")]
    Number,
    /// It does not fit into 64 bits.
    #[error("this is more than 16 EiB")]
    TooLarge,
    /// It is a few bytes, written without a unit.
    #[error(
        "a number without a unit counts bytes; did you mean `{number}{unit}`? {number} bytes are written `{number}B`"
    )]
    Bare {
        /// As it was written.
        number: String,
        /// The unit that was probably meant.
        unit: &'static str,
    },
}

/// An amount of memory: `16GiB`, `16G` and `16384MiB` are 2^34 bytes, `16GB` is 16·10^9; letters may be of either case.
///
/// A number without a unit counts bytes. If it is less than a mebibyte it is refused, as somebody who writes `24` means
/// gibibytes; 0 is 0 in any unit. Fractions are rounded to the nearest byte.
///
/// ```
/// use highwater_units::parse_size;
/// assert_eq!(parse_size("1.5GiB"), Ok(1_610_612_736));
/// assert!(parse_size("24").unwrap_err().to_string().contains("did you mean `24GiB`?"));
/// ```
///
/// # Errors
/// If the text is no size.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let (number, unit) = parts(text);
    let bytes = parse_bytes(text)?;
    if unit.is_empty() && bytes < LEAST_BARE_BYTES && number.contains(|digit| matches!(digit, '1'..='9')) {
        let unit = if bytes < 1024 { "GiB" } else { "MiB" };
        return Err(SizeError::Bare { number: number.to_owned(), unit });
    }
    Ok(bytes)
}

/// A size of which a few hundred bytes are as usual as gibibytes, such as a block's or a leak's: as [`parse_size`], but
/// `512` is 512 bytes.
///
/// # Errors
/// If the text is no size.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let (number, unit) = parts(text);
    let &(_, unit_bytes) = UNITS.iter().find(|(known, _)| unit.eq_ignore_ascii_case(known)).ok_or(SizeError::Unit)?;
    let bytes = scale(number, unit_bytes).ok_or(SizeError::Number)?;
    u64::try_from(bytes).map_err(|_| SizeError::TooLarge)
}

/// The number and the unit.
fn parts(text: &str) -> (&str, &str) {
    let text = text.trim();
    let is_of_number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '_' | ',');
    let split = text.find(|letter| !is_of_number(letter)).unwrap_or(text.len());
    (&text[..split], text[split..].trim_start())
}

/// The decimal `number` times `unit`, exactly, rounded half up; `None` if it is no number.
fn scale(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{}{}", without_groups(whole)?, fraction.replace('_', ""));
    let decimals = digits.len() - without_groups(whole)?.len();
    // 24 digits and the largest unit stay far below 2^128.
    if digits.is_empty() || digits.len() > 24 || decimals > 12 {
        return None;
    }
    let value: u128 = digits.parse().ok()?;
    let divisor = 10u128.pow(u32::try_from(decimals).ok()?);
    Some((value * unit + divisor / 2) / divisor)
}

/// A whole number without what parts its digits. A comma stands before three digits, as counts are printed here: `1,5` is
/// half of something in many countries, and refused.
fn without_groups(whole: &str) -> Option<String> {
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or("");
    let is_grouped = groups.all(|group| group.len() == 3) && (!whole.contains(',') || (1..=3).contains(&first.len()));
    is_grouped.then(|| whole.replace(['_', ','], ""))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The rows of a list of `testdata/units.json`: a text, and what comes of it.
    fn cases(list: &str) -> Vec<(String, Value)> {
        let table: Value = serde_json::from_str(include_str!("../../../testdata/units.json")).unwrap();
        let rows = table[list].as_array().unwrap().iter();
        rows.map(|row| (row[0].as_str().unwrap().to_owned(), row[1].clone())).collect()
    }

    #[test]
    fn sizes_parse_exactly() {
        for (text, bytes) in cases("sizes") {
            assert_eq!(parse_size(&text).ok(), bytes.as_u64(), "{text}");
            assert_eq!(parse_bytes(&text).ok(), bytes.as_u64(), "{text}");
        }
        // More than a number of JavaScript holds.
        assert_eq!(parse_size("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn a_few_bytes_without_a_unit_are_no_amount_of_memory() {
        for (text, bytes) in cases("bare") {
            assert_eq!(parse_bytes(&text).ok(), bytes.as_u64(), "{text}");
            assert!(matches!(parse_size(&text), Err(SizeError::Bare { .. })), "{text}");
        }
        let asked = |text: &str| parse_size(text).unwrap_err().to_string();
        assert!(asked("24").contains("did you mean `24GiB`? 24 bytes are written `24B`"), "{}", asked("24"));
        assert!(asked("16384").contains("did you mean `16384MiB`?"));
    }

    #[test]
    fn other_texts_are_refused_with_what_is_expected() {
        for (text, _) in cases("refused") {
            assert!(parse_size(&text).is_err(), "{text}");
            assert!(parse_bytes(&text).is_err(), "{text}");
        }
        assert_eq!(parse_size("16 GiBs"), Err(SizeError::Unit));
        assert_eq!(parse_size("1,5GiB"), Err(SizeError::Number));
        assert_eq!(parse_size("17000000TiB"), Err(SizeError::TooLarge));
    }
}
