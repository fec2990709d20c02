//! Numbers of several ranks made into one, as NCCL's reductions do.

/// What `ncclRedOp_t` calls sum, product, maximum, minimum and average.
const SUM: i32 = 0;
const PRODUCT: i32 = 1;
const MAXIMUM: i32 = 2;
const MINIMUM: i32 = 3;
const AVERAGE: i32 = 4;

/// Bytes of an element, by `ncclDataType_t`.
pub(crate) fn element_size(kind: i32) -> usize {
    match kind {
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        6 | 9 => 2,
        _ => 1,
    }
}

/// PyTorch's name of a type, by `ncclDataType_t`.
pub(crate) fn element_name(kind: i32) -> &'static str {
    const NAMES: [&str; 12] = [
        "int8",
        "uint8",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
    ];
    usize::try_from(kind).ok().and_then(|kind| NAMES.get(kind)).copied().unwrap_or("an unknown type")
}

/// The elements of all ranks made into one; nothing if type or operation are not known, as those that a program makes itself.
pub(crate) fn reduce(kind: i32, operation: i32, ranks: &[&[u8]]) -> Option<Vec<u8>> {
    if !(SUM..=AVERAGE).contains(&operation) {
        return None;
    }
    let size = element_size(kind);
    let (first, others) = ranks.split_first()?;
    if others.iter().any(|other| other.len() != first.len()) || !first.len().is_multiple_of(size) {
        return None;
    }
    let mut result = Vec::with_capacity(first.len());
    for at in (0..first.len()).step_by(size) {
        let elements = ranks.iter().map(|rank| &rank[at..at + size]);
        match kind {
            0..=5 => result.extend_from_slice(&whole(kind, operation, elements)?.to_le_bytes()[..size]),
            6..=9 => {
                let value = fraction(operation, elements.map(|element| read_fraction(kind, element)))?;
                write_fraction(kind, value, &mut result);
            }
            _ => return None,
        }
    }
    Some(result)
}

fn whole<'a>(kind: i32, operation: i32, elements: impl Iterator<Item = &'a [u8]>) -> Option<i128> {
    let signed = matches!(kind, 0 | 2 | 4);
    let read = |element: &[u8]| {
        let negative = signed && element.last().is_some_and(|&byte| byte >= 0x80);
        let mut bytes = [if negative { 0xff } else { 0 }; 16];
        bytes[..element.len()].copy_from_slice(element);
        i128::from_le_bytes(bytes)
    };
    let values: Vec<i128> = elements.map(read).collect();
    let count = i128::try_from(values.len()).ok()?;
    match operation {
        SUM => Some(values.iter().fold(0, |sum, value| sum.wrapping_add(*value))),
        PRODUCT => Some(values.iter().fold(1, |product: i128, value| product.wrapping_mul(*value))),
        MAXIMUM => values.iter().copied().max(),
        MINIMUM => values.iter().copied().min(),
        _ => values.iter().sum::<i128>().checked_div(count),
    }
}

fn fraction(operation: i32, values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    match operation {
        SUM => Some(values.sum()),
        PRODUCT => Some(values.product()),
        MAXIMUM => values.reduce(f64::max),
        MINIMUM => values.reduce(f64::min),
        _ => {
            let count = u32::try_from(values.clone().count()).ok()?;
            Some(values.sum::<f64>() / f64::from(count))
        }
    }
}

fn read_fraction(kind: i32, bytes: &[u8]) -> f64 {
    match (kind, bytes) {
        (6, &[low, high]) => half(u16::from_le_bytes([low, high])),
        (9, &[low, high]) => f64::from(f32::from_le_bytes([0, 0, low, high])),
        (7, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => bytes.try_into().map_or(0.0, f64::from_le_bytes),
    }
}

/// The value of an IEEE number of 16 bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    sign * magnitude
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to the type that the elements have")]
fn write_fraction(kind: i32, value: f64, to: &mut Vec<u8>) {
    match kind {
        6 => to.extend_from_slice(&to_half(value).to_le_bytes()),
        7 => to.extend_from_slice(&(value as f32).to_le_bytes()),
        9 => {
            let bits = (value as f32).to_bits();
            // To the nearest, and to the even one of two.
            let rounded = if value.is_nan() { bits } else { bits + 0x7fff + (bits >> 16 & 1) };
            to.extend_from_slice(&rounded.to_le_bytes()[2..]);
        }
        _ => to.extend_from_slice(&value.to_le_bytes()),
    }
}

/// The nearest IEEE number of 16 bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the branches bound the values")]
fn to_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    sign | if magnitude.is_nan() {
        0x7e00
    } else if magnitude >= 65_520.0 {
        0x7c00
    } else if magnitude < 2f64.powi(-14) {
        (magnitude * 2f64.powi(24)).round_ties_even() as u16
    } else {
        let exponent = magnitude.log2().floor().clamp(-14.0, 15.0) as i32;
        let fraction = ((magnitude / 2f64.powi(exponent) - 1.0) * 1024.0).round_ties_even() as u16;
        (((exponent + 15) as u16) << 10) + fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_keep_their_sign_and_width() {
        let (first, second) = ((-3_i32).to_le_bytes(), 5_i32.to_le_bytes());
        let of = |operation| {
            let bytes = reduce(2, operation, &[&first, &second]).unwrap();
            i32::from_le_bytes(bytes.try_into().unwrap())
        };
        assert_eq!([SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE].map(of), [2, -15, 5, -3, 1]);
        assert_eq!(reduce(1, SUM, &[&[200, 1], &[100, 2]]), Some(vec![44, 3]), "as wide as the elements are");
    }

    #[test]
    fn fractions_of_every_width() {
        let of = |kind: i32, first: &[u8], second: &[u8]| reduce(kind, AVERAGE, &[first, second]).unwrap();
        assert_eq!(of(7, &1_f32.to_le_bytes(), &2_f32.to_le_bytes()), 1.5_f32.to_le_bytes());
        assert_eq!(of(8, &1_f64.to_le_bytes(), &2_f64.to_le_bytes()), 1.5_f64.to_le_bytes());
        assert_eq!(of(9, &[0x80, 0x3f], &[0, 0x40]), [0xc0, 0x3f], "1 and 2 as bfloat16");
        assert_eq!(of(6, &[0, 0x3c], &[0, 0x40]), [0, 0x3e], "1 and 2 as float16");
    }

    #[test]
    fn a_half_comes_back_as_it_was() {
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7c00 != 0x7c00) {
            assert_eq!(to_half(half(bits)), bits);
        }
        assert_eq!(to_half(1e9), 0x7c00);
    }

    #[test]
    fn what_is_not_known_is_not_reduced() {
        assert_eq!(reduce(7, 5, &[&[0; 4]]), None, "an operation of the program's own");
        assert_eq!(reduce(10, SUM, &[&[0; 4]]), None, "8 bits");
        assert_eq!(reduce(7, SUM, &[&[0; 4], &[0; 8]]), None, "not the same size");
        assert_eq!(reduce(7, SUM, &[]), None);
    }
}
