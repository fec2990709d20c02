//! The workspaces of cuFFT's plans.

use highwater_driver::context::Library;

use crate::answers::answers;
use crate::ffi::{In, Out};
use crate::handles;
use crate::status::{SUCCESS, Status};

/// A transform of complex numbers to complex ones, or from or to real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Complex,
    FromReal,
    ToReal,
}

fn is_complex(kind: i32) -> bool {
    matches!(kind, 4..=6)
}

/// Bytes of a complex number, by `cudaDataType_t`.
fn complex_size(kind: i32) -> u64 {
    match kind {
        1 | 5 => 16,
        2 | 6 => 4,
        _ => 8,
    }
}

fn largest_prime_factor(mut number: u64) -> u64 {
    let (mut largest, mut factor) = (1, 2);
    while factor * factor <= number {
        while number.is_multiple_of(factor) {
            number /= factor;
            largest = factor;
        }
        factor += 1;
    }
    largest.max(number)
}

/// Lengths up to this are transformed without a workspace, if they have small factors.
const SHORT: u64 = 1 << 14;
/// Primes up to this have transforms of their own.
const PRIME_MAX: u64 = 127;

/// The workspace for a line of a transform, as a share of its complex numbers, in halves.
///
/// # Source
/// Measured on an H200 with cuFFT 12.0 for 33 lengths from 2 to 524,288, one line and six: to the byte for lengths with
/// small factors from complex to complex and from real; larger primes want two to five times the line.
fn halves(form: Form, length: u64) -> u64 {
    let prime = largest_prime_factor(length);
    match form {
        Form::Complex if prime > PRIME_MAX && length > 2048 => 8,
        Form::Complex if length > SHORT => 2,
        Form::FromReal if prime > PRIME_MAX => {
            if length > 2048 {
                5
            } else {
                2
            }
        }
        Form::FromReal if length > SHORT => 1,
        Form::ToReal if prime > PRIME_MAX && length > 2048 => 5,
        Form::ToReal if length > SHORT || prime > 28 => 1,
        _ => 0,
    }
}

/// The workspace of a plan: as its longest line wants it.
fn workspace_bytes(form: Form, kind: i32, sizes: &[u64], batch: u64) -> u64 {
    let (Some((&last, others)), product) = (sizes.split_last(), sizes.iter().product::<u64>()) else { return 0 };
    let others = others.iter().map(|&length| halves(Form::Complex, length));
    let share = others.chain([halves(form, last)]).max().unwrap_or(0);
    product.saturating_mul(batch).saturating_mul(complex_size(kind) * share) / 2
}

/// No plan has more dimensions.
const RANK_MAX: usize = 3;

answers! {
    fn cufftXtMakePlanMany(
        _plan: i32, rank: i32, sizes: In, _input: usize, _input_stride: u64, _input_distance: u64, input_type: i32,
        _output: usize, _output_stride: u64, _output_distance: u64, output_type: i32, batch: u64, workspace: Out<u64>,
    ) -> Status {
        let rank = usize::try_from(rank).unwrap_or(0).min(RANK_MAX);
        let sizes: Vec<u64> = (0..rank).filter_map(|index| sizes.read_at::<u64>(index * 8)).collect();
        let form = match (is_complex(input_type), is_complex(output_type)) {
            (false, _) => Form::FromReal,
            (true, false) => Form::ToReal,
            (true, true) => Form::Complex,
        };
        handles::memory_for(Library::Cufft);
        workspace.put(workspace_bytes(form, input_type, &sizes, batch));
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::{input, out};

    #[test]
    fn workspaces_are_as_measured() {
        let bytes = |form, length, batch| workspace_bytes(form, 4, &[length], batch);
        assert_eq!(bytes(Form::Complex, 16_384, 1), 0);
        assert_eq!(bytes(Form::Complex, 48_000, 6), 6 * 48_000 * 8);
        assert_eq!(bytes(Form::FromReal, 131_072, 1), 131_072 * 4);
        assert_eq!(bytes(Form::Complex, 1021, 6), 0);
        let prime = bytes(Form::Complex, 65_521, 1);
        assert!(prime.abs_diff(2_096_672) < 4096, "{prime}");
    }

    #[test]
    fn a_plan_is_read_from_its_arguments() {
        let (sizes, mut bytes) = ([32_768_u64], 9_u64);
        assert_eq!(cufftXtMakePlanMany(1, 1, input(&sizes), 0, 1, 0, 5, 0, 1, 0, 5, 2, out(&mut bytes)), SUCCESS);
        assert_eq!(bytes, 2 * 32_768 * 16);
        assert_eq!(largest_prime_factor(8192), 2);
        assert_eq!(largest_prime_factor(65_521), 65_521);
        assert_eq!(largest_prime_factor(16_382), 8191);
    }
}
