//! Bytes and counts as people read them.

/// Bytes in binary units: exact below a KiB, two decimals above.
///
/// ```
/// use highwater_analysis::units::bytes;
/// assert_eq!(bytes(512), "512 B");
/// assert_eq!(bytes(1_610_612_736), "1.50 GiB");
/// ```
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.995 would print as 1024.00.
    while value >= 1023.995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

/// A count with a comma every three digits.
///
/// ```
/// assert_eq!(highwater_analysis::units::count(1_234_567), "1,234,567");
/// ```
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A share of 1 in percent, with one decimal below ten.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A time span in microseconds, in the unit that fits it.
pub fn duration_us(us: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let us_exact = us as f64;
    match us.unsigned_abs() {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.2} ms", us_exact / 1e3),
        1_000_000..120_000_000 => format!("{:.2} s", us_exact / 1e6),
        _ => format!("{:.1} min", us_exact / 6e7),
    }
}

/// `1 block`, `2 blocks`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_they_should() {
        for (n, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1_048_575, "1.00 MiB"),
            (1_048_576, "1.00 MiB"),
            (47_014_824_456, "43.79 GiB"),
            (u64::MAX, "16384.00 PiB"),
        ] {
            assert_eq!(bytes(n), want);
        }
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(percent(0.0312), "3.1 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(duration_us(-5), "-5 µs");
        assert_eq!(duration_us(1_500_000), "1.50 s");
        assert_eq!(counted(1, "block"), "1 block");
    }
}
