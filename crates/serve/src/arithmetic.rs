//! Sizes times shares, without surprises: a number of bytes is never negative, and never wraps.

/// The whole part of a size times a share.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes below 2^53, as Python computes them; a float's cast saturates"
)]
pub(crate) fn share(size: u64, share: f64) -> u64 {
    (size as f64 * share) as u64
}

/// How often a size holds another and a share of a third, as Python computes it: rounded only at the end.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "as in Python"
)]
pub(crate) fn quotient(size: u64, whole: u64, partial: u64, share: f64) -> u64 {
    (size as f64 / (whole as f64 + partial as f64 * share).max(1.0)) as u64
}

/// One size over another.
#[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
pub(crate) fn ratio(size: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { size as f64 / of as f64 }
}

/// A size as a signed number.
pub(crate) fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The product of sizes.
pub(crate) fn product<const N: usize>(sizes: [u64; N]) -> u64 {
    sizes.into_iter().fold(1, u64::saturating_mul)
}
