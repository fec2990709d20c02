//! Sizes, counts and times as people write them, and what only the command line takes and prints of them.

pub(crate) use highwater_units::{
    SizeError, count, counted, duration_us, parse_bytes, parse_size, percent, size, size_with_requested,
};

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
