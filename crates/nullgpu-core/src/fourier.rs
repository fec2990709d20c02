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

/// `cudaDataType_t`
mod data_type {
    pub(super) const DOUBLE: i32 = 1;
    pub(super) const HALF: i32 = 2;
    pub(super) const COMPLEX_SINGLE: i32 = 4;
    pub(super) const COMPLEX_DOUBLE: i32 = 5;
    pub(super) const COMPLEX_HALF: i32 = 6;
}

fn is_complex(kind: i32) -> bool {
    matches!(kind, data_type::COMPLEX_SINGLE | data_type::COMPLEX_DOUBLE | data_type::COMPLEX_HALF)
}

/// Bytes of a complex number in the precision of a data type.
fn complex_size(kind: i32) -> u64 {
    match kind {
        data_type::DOUBLE | data_type::COMPLEX_DOUBLE => 16,
        data_type::HALF | data_type::COMPLEX_HALF => 4,
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

/// Complex lines up to this are transformed without a workspace, if they have small factors.
const COMPLEX_LENGTH_MAX: u64 = 9600;
/// The same of factors 2, 3 and 5.
const SMOOTH_LENGTH_MAX: u64 = 1 << 14;
/// Primes up to this have transforms of their own.
const PRIME_FACTOR_MAX: u64 = 127;
const PRIME_FACTOR_BEYOND: u64 = PRIME_FACTOR_MAX + 1;
/// Longer lines with a larger prime are transformed as a convolution with longer ones.
const DIRECT_LENGTH_MAX: u64 = 2048;
/// More lines than these of a long power of two are transformed without a workspace.
const FEW_LINES_MAX: u64 = 64;
/// Longer lines of 2, 3 and 5 that have a transform of their own, from complex to complex.
const COMPLEX_KERNELS: [u64; 8] = [18_000, 19_200, 20_000, 21_600, 22_500, 24_000, 27_000, 28_800];
/// Lines that need a workspace only where they lie across others.
const NO_KERNELS_ACROSS: [u64; 3] = [85, 375, 1080];
/// Real lines of 2, 3 and 5 up to this have a transform of their own, but for [`NO_REAL_KERNELS`].
const REAL_LENGTH_MAX: u64 = 1080;
const NO_REAL_KERNELS: [u64; 3] = [375, 675, 900];
/// Other lines that have one.
const REAL_KERNELS: [u64; 14] = [121, 169, 224, 252, 264, 297, 368, 588, 594, 660, 1296, 1728, 1920, 3072];

/// Whether real lines of a length are transformed in place, by a kernel of their own.
fn has_real_kernel(length: u64, is_double: bool) -> bool {
    let prime = largest_prime_factor(length);
    if REAL_KERNELS.contains(&length) {
        return true;
    }
    match prime {
        ..=2 => length <= if is_double { 1 << 12 } else { SMOOTH_LENGTH_MAX },
        3 | 5 => length <= REAL_LENGTH_MAX && !NO_REAL_KERNELS.contains(&length),
        _ if prime == length => length <= 31,
        _ if length % 2 == 1 && length > 31 && prime >= 13 => false,
        _ => length <= 100,
    }
}

/// The complex numbers that `lines` real lines need in each of `plans` plans: lines of even length as complex ones of half their length,
/// lines of odd length two at a time.
fn real_workspace_elements(length: u64, lines: u64, plans: u64, is_double: bool) -> u64 {
    let prime = largest_prime_factor(length);
    let has_many_lines = prime == 2 && length <= 1 << 16 && lines.saturating_mul(plans) > FEW_LINES_MAX;
    if has_real_kernel(length, is_double) || has_many_lines {
        return 0;
    }
    let is_even = length.is_multiple_of(2);
    let pairs = if is_even { plans } else { plans.div_ceil(2).saturating_mul(2) };
    let numbers = length.saturating_mul(lines).saturating_mul(pairs);
    match (prime > PRIME_FACTOR_MAX && length > DIRECT_LENGTH_MAX, is_even) {
        (true, _) => numbers.saturating_mul(5) / 2,
        (false, true) => numbers / 2,
        (false, false) => numbers,
    }
}

/// The complex numbers that complex lines need.
fn complex_workspace_elements(length: u64, lines: u64, lies_across: bool) -> u64 {
    let numbers = length.saturating_mul(lines);
    match largest_prime_factor(length) {
        PRIME_FACTOR_BEYOND.. if length > DIRECT_LENGTH_MAX => numbers.saturating_mul(4),
        PRIME_FACTOR_BEYOND.. => 0,
        41.. => numbers,
        _ if lies_across && NO_KERNELS_ACROSS.contains(&length) => numbers,
        _ if length <= COMPLEX_LENGTH_MAX || COMPLEX_KERNELS.contains(&length) => 0,
        2 if length <= 1 << 15 && lines > FEW_LINES_MAX => 0,
        ..=5 if length <= SMOOTH_LENGTH_MAX => 0,
        _ => numbers,
    }
}

/// The workspace of a plan: as large as the dimension that needs most.
///
/// # Source
/// cuFFT 12.0 on an H100, 9,273 plans of one to three dimensions, 340 lengths from 2 to 524,288 and one to 8,192 transforms at once
/// (`recipes/fourier.py`): within 2 % or 2,000 bytes for all but 52, which are complex lines of about ten thousand, and plans in double
/// precision.
fn workspace_bytes(form: Form, kind: i32, sizes: &[u64], batch: u64) -> u64 {
    let Some((&last, others)) = sizes.split_last() else { return 0 };
    let rows = others.iter().fold(1, |rows: u64, &length| rows.saturating_mul(length));
    // The transform of real numbers is symmetric: half of it is stored.
    let columns = if form == Form::Complex { last } else { last / 2 + 1 };
    let of_last = match form {
        Form::Complex => complex_workspace_elements(last, rows.saturating_mul(batch), false),
        Form::FromReal | Form::ToReal => real_workspace_elements(last, rows, batch, complex_size(kind) == 16),
    };
    let across = others.iter().map(|&length| {
        let lines = (rows / length.max(1)).saturating_mul(columns).saturating_mul(batch);
        complex_workspace_elements(length, lines, true)
    });
    across.chain([of_last]).max().unwrap_or(0).saturating_mul(complex_size(kind))
}

/// No plan has more dimensions.
const DIMENSIONS_MAX: usize = 3;

answers! {
    fn cufftXtMakePlanMany(
        _plan: i32, rank: i32, sizes: In, _input: usize, _input_stride: u64, _input_distance: u64, input_type: i32,
        _output: usize, _output_stride: u64, _output_distance: u64, output_type: i32, batch: u64, workspace: Out<u64>,
    ) -> Status {
        let rank = usize::try_from(rank).unwrap_or(0).min(DIMENSIONS_MAX);
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
        let bytes = |form, length, batch| workspace_bytes(form, data_type::COMPLEX_SINGLE, &[length], batch);
        assert_eq!(bytes(Form::Complex, 16_384, 1), 0);
        assert_eq!(bytes(Form::Complex, 48_000, 6), 6 * 48_000 * 8);
        assert_eq!(bytes(Form::FromReal, 131_072, 1), 131_072 * 4);
        // A convolution by transforms: `torch.fft.rfft` of twice the length, and back.
        assert_eq!(bytes(Form::FromReal, 4000, 1024), 16_384_000);
        assert_eq!(bytes(Form::ToReal, 4000, 128), 2_048_000);
        assert_eq!([1000, 1024, 8192, 224].map(|length| bytes(Form::FromReal, length, 8)), [0; 4]);
        assert_eq!(bytes(Form::FromReal, 2205, 1), 2205 * 16);
        assert_eq!((bytes(Form::FromReal, 65_536, 6), bytes(Form::FromReal, 65_536, 128)), (6 * 65_536 * 4, 0));
        assert_eq!(workspace_bytes(Form::FromReal, data_type::COMPLEX_SINGLE, &[640, 421], 1), 640 * 421 * 16);
        assert_eq!(workspace_bytes(Form::Complex, data_type::COMPLEX_SINGLE, &[85, 64], 192), 85 * 64 * 192 * 8);
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
