//! A request's size as a shape, where it is the product of sizes that the log names.

use highwater_units::size;

use crate::log::Dimensions;

/// Smaller requests are products of many sizes.
const LEAST_BYTES: u64 = 256 << 20;
/// Large requests are rounded up to this.
const SEGMENT_BYTES: u64 = 2 << 20;
/// Bytes of a number: half and single precision.
const ELEMENTS: [u64; 2] = [2, 4];

/// The tensor that was requested, in a sentence; `None` unless exactly one shape has its size.
///
/// `tried_bytes` is printed, so off by `error_bytes` at most.
pub(super) fn shape(tried_bytes: u64, error_bytes: u64, dimensions: &Dimensions) -> Option<String> {
    if tried_bytes < LEAST_BYTES {
        return None;
    }
    let of = Dimensions::of;
    let mut found: Option<String> = None;
    let mut consider = |sides: &[u64], element: u64, names: &str| {
        // Losses shift the sequence by one: the last side but one may be a token shorter.
        let tokens = sides[1];
        let is_it = [tokens, tokens.saturating_sub(1)].into_iter().any(|tokens| {
            let others = sides.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, side)| *side);
            let bytes = others.chain([tokens, element]).try_fold(1_u64, u64::checked_mul);
            let segment = bytes.and_then(|bytes| bytes.checked_next_multiple_of(SEGMENT_BYTES));
            segment.is_some_and(|segment| segment.abs_diff(tried_bytes) <= error_bytes)
        });
        if !is_it {
            return true;
        }
        let sides: Vec<String> = sides.iter().map(u64::to_string).collect();
        let text = format!(
            "{} is the size of a tensor of {} numbers of {element} bytes: {names}, as the log names them",
            size(tried_bytes),
            sides.join(" × ")
        );
        found.replace(text).is_none()
    };
    for &batch in of(&dimensions.batches) {
        for &sequence in of(&dimensions.sequences) {
            for element in ELEMENTS {
                for &vocabulary in of(&dimensions.vocabularies) {
                    if !consider(&[batch, sequence, vocabulary], element, "batch × sequence × vocabulary") {
                        return None;
                    }
                }
                for &heads in of(&dimensions.heads) {
                    let sides = [batch, sequence, sequence, heads];
                    if !consider(&sides, element, "batch × sequence × sequence × heads") {
                        return None;
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimensions() -> Dimensions {
        Dimensions { batches: vec![4], sequences: vec![8192], vocabularies: vec![151_936], heads: vec![32] }
    }

    #[test]
    fn a_size_is_a_shape_if_it_is_the_only_one() {
        let logits = 4 * 8192 * 151_936 * 4;
        let text = shape(logits, 5 << 20, &dimensions()).unwrap();
        assert!(text.contains("4 × 8192 × 151936 numbers of 4 bytes: batch × sequence × vocabulary"), "{text}");
        // One token less, as the loss shifts them.
        assert!(shape(4 * 8191 * 151_936 * 4, 5 << 20, &dimensions()).is_some());
        let scores = shape(4 * 8192 * 8192 * 32 * 2, 5 << 20, &dimensions()).unwrap();
        assert!(scores.contains("heads"), "{scores}");
        assert_eq!(shape(logits + (64 << 20), 5 << 20, &dimensions()), None);
        // Two batches with two types have the same product.
        let two = Dimensions { batches: vec![4, 8], ..dimensions() };
        assert_eq!(shape(logits, 5 << 20, &two), None);
        assert_eq!(shape(100 << 20, 5 << 20, &dimensions()), None);
    }
}
