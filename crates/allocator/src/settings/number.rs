//! Numbers as C reads them: as much of the text as makes a number, whatever follows.

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not begin with one.
    NotANumber,
    /// The type cannot hold it.
    TooLarge,
}

/// As `std::stoi`, then converted to `size_t`: a negative number wraps.
pub(super) fn int(text: &str) -> Result<u64, Fault> {
    let (negative, magnitude) = magnitude(text)?;
    let signed = i64::try_from(magnitude).map_err(|_| Fault::TooLarge)?;
    let number = i32::try_from(if negative { -signed } else { signed }).map_err(|_| Fault::TooLarge)?;
    Ok(i64::from(number).cast_unsigned())
}

/// As `std::stoull`: a negative number wraps.
pub(super) fn unsigned(text: &str) -> Result<u64, Fault> {
    let (negative, magnitude) = magnitude(text)?;
    Ok(if negative { magnitude.wrapping_neg() } else { magnitude })
}

/// The sign and the digits at the beginning of `text`.
fn magnitude(text: &str) -> Result<(bool, u64), Fault> {
    let (negative, text) = sign(skip_space(text));
    let digits = &text[..text.bytes().take_while(u8::is_ascii_digit).count()];
    if digits.is_empty() {
        return Err(Fault::NotANumber);
    }
    digits.parse().map(|magnitude| (negative, magnitude)).map_err(|_| Fault::TooLarge)
}

/// As `std::stod`, which also refuses what only a subnormal number could hold. Hexadecimal numbers, infinities and NaN,
/// which C reads as well, are refused.
pub(super) fn decimal(text: &str) -> Result<f64, Fault> {
    let text = skip_space(text);
    let length = decimal_length(text);
    let digits = sign(&text[..length]).1;
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    if length == 0 || (digits == "0" && text[length..].starts_with(['x', 'X'])) {
        return Err(Fault::NotANumber);
    }
    let number: f64 = text[..length].parse().map_err(|_| Fault::NotANumber)?;
    let is_zero = !mantissa.contains(|digit| matches!(digit, '1'..='9'));
    if number.is_normal() || is_zero { Ok(number) } else { Err(Fault::TooLarge) }
}

/// As reading a `double` from a stream that must end with it.
pub(super) fn whole_decimal(text: &str) -> Option<f64> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.filter(|_| decimal_length(text) == text.len())
}

/// How many bytes at the beginning of `text` make a decimal number.
fn decimal_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let signed = |at: usize| at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let whole = signed(0);
    let mut end = whole + digits(whole);
    let mut count = end - whole;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        count += fraction;
        end += 1 + fraction;
    }
    if count == 0 {
        return 0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent = signed(end + 1);
        if digits(exponent) > 0 {
            end = exponent + digits(exponent);
        }
    }
    end
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// As `std::isspace` of the C locale.
pub(super) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_enough() {
        assert_eq!(unsigned("20.7"), Ok(20));
        assert_eq!(unsigned(" +20G"), Ok(20));
        assert_eq!(int("20e3"), Ok(20));
        assert_eq!(decimal("0.5.5"), Ok(0.5));
        assert_eq!(decimal(".5e"), Ok(0.5));
        assert_eq!(decimal("5.e-1x"), Ok(0.5));
    }

    #[test]
    fn negative_integers_wrap() {
        assert_eq!(unsigned("-5"), Ok(u64::MAX - 4));
        assert_eq!(unsigned("-18446744073709551615"), Ok(1));
        assert_eq!(int("-5"), Ok(u64::MAX - 4));
        assert_eq!(int("-2147483648"), Ok(0xffff_ffff_8000_0000));
    }

    #[test]
    fn what_the_type_cannot_hold_is_refused() {
        assert_eq!(int("2147483648"), Err(Fault::TooLarge));
        assert_eq!(int("-2147483649"), Err(Fault::TooLarge));
        assert_eq!(unsigned("18446744073709551616"), Err(Fault::TooLarge));
        for text in ["1e309", "-1e309", "1e-400", "1e-310"] {
            assert_eq!(decimal(text), Err(Fault::TooLarge), "{text}");
        }
        assert_eq!(decimal("0e-400"), Ok(0.0));
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in ["", "-", "+-5", "x5", "G", "[", "٣"] {
            assert_eq!(unsigned(text), Err(Fault::NotANumber), "{text}");
            assert_eq!(int(text), Err(Fault::NotANumber), "{text}");
        }
        for text in ["", "-", ".", "e5", "nan", "inf", "0x1p-1", "-0X1"] {
            assert_eq!(decimal(text), Err(Fault::NotANumber), "{text}");
        }
    }

    #[test]
    fn a_whole_decimal_has_nothing_after_it() {
        assert_eq!(whole_decimal("1.5e2"), Some(150.0));
        for text in ["", ".", "1e", "1x", "inf", "NaN", "infinity", "1e400"] {
            assert_eq!(whole_decimal(text), None, "{text}");
        }
    }
}
