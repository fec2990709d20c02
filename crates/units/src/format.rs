//! Bytes and counts as people read them.

/// Binary units with the power of two of each.
const BINARY: [(&str, u32); 6] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50), ("EiB", 60)];

/// Bytes in binary units with two decimals, rounded half up.
///
/// ```
/// use highwater_units::size;
/// assert_eq!(size(512), "512 B");
/// assert_eq!(size(1_610_612_736), "1.50 GiB");
/// ```
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let hundredths = |shift: u32| ((u128::from(bytes) * 100) + (1 << (shift - 1))) >> shift;
    // The unit is chosen after rounding, so that no `1024.00 KiB` appears.
    let (unit, value) = BINARY
        .iter()
        .map(|&(unit, shift)| (unit, hundredths(shift)))
        .find(|&(_, value)| value < 102_400)
        .expect("2^64 bytes are 16 EiB");
    format!("{}.{:02} {unit}", value / 100, value % 100)
}

/// The amount of PyTorch's message, which is a whole segment, with the program's own request if that prints differently.
///
/// ```
/// assert_eq!(highwater_units::size_with_requested(54 << 20, 55_050_240), "54.00 MiB (52.50 MiB requested)");
/// assert_eq!(highwater_units::size_with_requested(7 << 30, 7 << 30), "7.00 GiB");
/// ```
pub fn size_with_requested(segment_bytes: u64, requested_bytes: u64) -> String {
    let (segment, requested) = (size(segment_bytes), size(requested_bytes));
    if segment == requested { segment } else { format!("{segment} ({requested} requested)") }
}

/// An amount of which only bounds are known: "10.00 GiB to 12.00 GiB", "about 10.00 GiB", or "at least 10.00 GiB".
pub fn bounds(at_least_bytes: u64, at_most_bytes: Option<u64>) -> String {
    let least = size(at_least_bytes);
    match at_most_bytes.map(size) {
        Some(most) if most != least => format!("{least} to {most}"),
        Some(most) => format!("about {most}"),
        None => format!("at least {least}"),
    }
}

/// A count with a comma every three digits.
///
/// ```
/// assert_eq!(highwater_units::count(1_234_567_u64), "1,234,567");
/// ```
pub fn count(count: impl Into<Count>) -> String {
    let digits = count.into().0.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 entry`, `18,234 entries`.
pub fn counted(number: impl Into<Count>, one: &str, many: &str) -> String {
    let number = number.into();
    format!("{} {}", count(number), if number.0 == 1 { one } else { many })
}

/// A number of things, of whatever width it was counted in.
#[derive(Clone, Copy, Debug)]
pub struct Count(u64);

impl From<u64> for Count {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<u32> for Count {
    fn from(number: u32) -> Self {
        Self(u64::from(number))
    }
}

impl From<usize> for Count {
    fn from(number: usize) -> Self {
        Self(number as u64)
    }
}

/// A share of 1 in percent, with one decimal below ten.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A part of a whole as people read it: `12 %`; of nothing, nothing.
pub fn percent_of(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
    percent(part as f64 / whole.max(1) as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_they_should() {
        for (bytes, want) in [
            (0, "0 B"),
            (512, "512 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (1_234_567, "1.18 MiB"),
            (3 << 29, "1.50 GiB"),
            (150_754_820_096, "140.40 GiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(size(bytes), want);
        }
        assert_eq!([0_usize, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1_u32, "entry", "entries"), "1 entry");
        assert_eq!(counted(0_u32, "entry", "entries"), "0 entries");
        assert_eq!(percent(0.0312), "3.1 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(duration_us(-5), "-5 µs");
        assert_eq!(duration_us(1_500_000), "1.50 s");
    }
}
