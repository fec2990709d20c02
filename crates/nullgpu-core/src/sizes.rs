//! Questions for the size of a workspace. Those of dense linear algebra have rules that were read off measurements; where no
//! rule is known the answer is none at all, which the functions that get the workspace, doing nothing, are content with: it
//! is a guess all the same, and a trace says so.

/// The integer and pointer arguments of a call: six in registers, the rest on the stack.
///
/// A function of the interface has fewer. What is then looked at beyond them is the caller's own stack, and not used.
type Arguments = [usize; 20];

/// A function that asks for a size: its name, `?` for the letter of a number type, and what answers.
struct Question {
    pattern: &'static str,
    function: *const (),
    guessed: bool,
}

#[expect(unsafe_code, reason = "a table of functions lies in a static")]
// SAFETY: the pointer is the address of a function, which any thread may call.
unsafe impl Sync for Question {}

/// A function that writes what a rule says to so many arguments from the first one, as numbers of a type.
macro_rules! writer {
    ($first:literal, $count:literal, $kind:ty, $rule:expr) => {{
        extern "C" fn write(
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
            g: usize,
            h: usize,
            i: usize,
            j: usize,
            k: usize,
            l: usize,
            m: usize,
            n: usize,
            o: usize,
            p: usize,
            q: usize,
            r: usize,
            s: usize,
            t: usize,
        ) -> crate::status::Status {
            let arguments: Arguments = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t];
            let rule: fn(&Arguments) -> u64 = $rule;
            // The size on the device; the second, where there is one, is that on the host, of which nobody needs any.
            let sizes = [rule(&arguments), 0];
            for (&argument, size) in arguments[$first..$first + $count].iter().zip(sizes) {
                crate::ffi::Out::<$kind>::of_argument(argument).put(<$kind>::try_from(size).unwrap_or(<$kind>::MAX));
            }
            crate::status::SUCCESS
        }
        write as *const ()
    }};
}

macro_rules! questions {
    (@function int $first:literal $rule:expr) => { writer!($first, 1, i32, $rule) };
    (@function size $first:literal $rule:expr) => { writer!($first, 1, u64, $rule) };
    (@function sizes $first:literal $rule:expr) => { writer!($first, 2, u64, $rule) };
    ($guessed:literal: $($kind:ident $first:literal $rule:expr => $($name:literal)*;)*) => {
        &[$($(Question { pattern: $name, function: questions!(@function $kind $first $rule), guessed: $guessed }),*),*]
    };
}

/// A number among the arguments: 32 bits, of which the rest of the register says nothing; not negative, not absurd.
fn number(arguments: &Arguments, index: usize) -> u64 {
    let low = arguments[index].to_le_bytes();
    let value = i32::from_le_bytes([low[0], low[1], low[2], low[3]]);
    u64::try_from(value).unwrap_or(0).min(1 << 20)
}

/// Bytes of a number by `cudaDataType_t`.
fn type_size(kind: u64) -> u64 {
    match kind {
        1 | 4 => 8,
        5 => 16,
        _ => 4,
    }
}

/// Sizes of workspaces by the sizes of matrices, in numbers, where not said otherwise.
///
/// # Source
/// Fitted to what cuSOLVER 12.0 (CUDA 13.0) asks for on an H200: 33,668 questions for matrices of 1 to 8192 rows and numbers of four types.
/// Exact for Cholesky (lower, in bytes), QR, the product of its reflectors and, but for 32 numbers now and then, its multiplication,
/// eigenvalues and singular values; those by Jacobi's method of up to 3000 rows. LU's are some kilobytes, and less exact.
mod rules {
    const fn warps(numbers: u64) -> u64 {
        numbers.next_multiple_of(32)
    }

    /// In bytes.
    pub(super) fn cholesky(rows: u64) -> u64 {
        let tiles = rows.div_ceil(32);
        128 + (4 * tiles * tiles).next_multiple_of(32)
    }

    /// In bytes.
    pub(super) fn lu(rows: u64) -> u64 {
        256 + 512 * rows.div_ceil(32)
    }

    /// Behind it, in bytes, 128 more.
    pub(super) fn qr(columns: u64) -> u64 {
        (512 << 10) + 1024 * columns.max(256)
    }

    pub(super) fn qr_product(rows: u64, columns: u64, reflectors: u64) -> u64 {
        let block = reflectors.min(128);
        let reflected = warps(rows * block);
        (16_640 + reflected + warps(2 * columns * block)).max(33_024 + reflected)
    }

    /// `rows` and `columns` are those of the matrix that the reflectors multiply, from the left or from the right.
    pub(super) fn qr_multiply(from_left: bool, rows: u64, columns: u64, reflectors: u64) -> u64 {
        let own = if from_left { 256 * rows + 513 * columns } else { 257 * rows };
        65_792 + warps(own) + warps((rows.max(columns) + reflectors) * reflectors)
    }

    pub(super) fn ldl(rows: u64) -> u64 {
        (64 * rows + 64).max(24_608)
    }

    pub(super) fn eigen_divide(rows: u64) -> u64 {
        let squares = rows * rows;
        let merged = (2 * squares).saturating_sub(2 * rows).max((3 * squares).saturating_sub(643 * rows + 32_640));
        let merged = (merged + 16) / 32 * 32;
        let less = if rows <= 32 { 32 } else { 0 };
        squares + 770 * rows + 65_603 + merged - less
    }

    pub(super) fn eigen_jacobi(rows: u64) -> u64 {
        let more_tiles = rows.div_ceil(32).saturating_sub(1);
        rows * rows + rows + 2053 + 1029 * more_tiles + 4 * more_tiles * (more_tiles + 1)
    }

    /// `all` if the vectors of all rows and columns are asked for, and not as many as there are values.
    pub(super) fn singular(all: bool, rows: u64, columns: u64) -> u64 {
        let square = |rows: u64| warps(eigen_jacobi(rows) + warps(rows * rows) + 32 * warps(rows));
        if rows == columns {
            return square(rows);
        }
        let (less, more) = (rows.min(columns), rows.max(columns));
        // The triangle of the longer side's QR is decomposed, and the result multiplied by its reflectors.
        let multiplied = qr_multiply(true, more, if all { more } else { less }, less);
        let reduced = ((qr(less) + 32).max(multiplied) + warps(less)).max(square(less) + warps(less * less));
        if rows < columns { reduced + warps(rows * columns) } else { reduced }
    }

    /// For many small matrices.
    pub(super) fn singular_many() -> u64 {
        992
    }
}

/// Which argument, counted from 0, the size goes to, and what it is.
///
/// # Source
/// The arguments: the public references of cuSOLVER and cuBLAS.
static KNOWN: &[Question] = questions! { false:
    // Whether an argument was wrong: none was.
    int 6 |_| 0 => "cublas?geqrfBatched";
    int 9 |_| 0 => "cublas?gelsBatched" "cublas?getrsBatched";
    int 4 |a| rules::ldl(number(a, 1)) => "cusolverDn?sytrf_bufferSize";
    int 3 |a| rules::singular(false, number(a, 1), number(a, 2)) => "cusolverDn?gesvd_bufferSize";
    int 5 |a| rules::qr(number(a, 2)) => "cusolverDn?geqrf_bufferSize";
    int 5 |a| rules::lu(number(a, 1)) / 4 => "cusolverDn?getrf_bufferSize";
    int 5 |a| rules::cholesky(number(a, 2)) / 4 => "cusolverDn?potrf_bufferSize";
    int 7 |a| rules::eigen_divide(number(a, 3)) => "cusolverDn?heevd_bufferSize" "cusolverDn?syevd_bufferSize";
    int 7 |a| rules::eigen_jacobi(number(a, 3)) => "cusolverDn?heevj_bufferSize" "cusolverDn?syevj_bufferSize";
    int 7 |a| rules::eigen_jacobi(number(a, 3)) * number(a, 9).max(1) =>
        "cusolverDn?heevjBatched_bufferSize" "cusolverDn?syevjBatched_bufferSize";
    int 7 |a| rules::qr_product(number(a, 1), number(a, 2), number(a, 3)) =>
        "cusolverDn?ungqr_bufferSize" "cusolverDn?orgqr_bufferSize";
    int 11 |a| rules::qr_multiply(number(a, 1) == 0, number(a, 3), number(a, 4), number(a, 5)) =>
        "cusolverDn?unmqr_bufferSize" "cusolverDn?ormqr_bufferSize";
    int 11 |_| rules::singular_many() => "cusolverDn?gesvdjBatched_bufferSize";
    int 12 |a| rules::singular(number(a, 2) == 0, number(a, 3), number(a, 4)) => "cusolverDn?gesvdj_bufferSize";
    sizes 8 |a| rules::cholesky(number(a, 3)) => "cusolverDnXpotrf_bufferSize";
    sizes 10 |a| rules::qr(number(a, 3)) * type_size(number(a, 4)) + 128 => "cusolverDnXgeqrf_bufferSize";
    sizes 11 |a| rules::eigen_divide(number(a, 4)) * type_size(number(a, 5)) + 128 => "cusolverDnXsyevd_bufferSize";
    sizes 11 |a| rules::eigen_divide(number(a, 4)) * type_size(number(a, 5)) * number(a, 13).max(1) =>
        "cusolverDnXsyevBatched_bufferSize";
};

/// # Source
/// The public references of cuSOLVER, cuSPARSE, cuSPARSELt and cuDNN.
static UNKNOWN: &[Question] = questions! { true:
    int 11 |_| 0 => "cusparse?bsrsv2_bufferSize";
    int 13 |_| 0 => "cusparse?bsrsm2_bufferSize" "cusparseXcsrgeam2Nnz";
    int 16 |_| 0 => "cusolverDn?gesvdaStridedBatched_bufferSize";
    sizes 11 |_| 0 => "cusolverDnXsytrs_bufferSize";
    sizes 17 |_| 0 => "cusolverDnXgeev_bufferSize";
    size 2 |_| 0 => "cusparseLtMatmulGetWorkspace";
    sizes 2 |_| 0 => "cusparseLtSpMMACompressedSize2";
    size 5 |_| 0 => "cudnnGetCTCLossWorkspaceSize_v8";
    size 6 |_| 0 => "cusparseXcoosort_bufferSizeExt" "cusparseXcsrsort_bufferSizeExt"
        "cudnnGetConvolutionForwardWorkspaceSize" "cudnnGetConvolutionBackwardDataWorkspaceSize"
        "cudnnGetConvolutionBackwardFilterWorkspaceSize";
    size 8 |_| 0 => "cudnnGetCTCLossWorkspaceSize";
    size 9 |_| 0 => "cusparseSpMV_bufferSize" "cusparseSpSV_bufferSize";
    size 10 |_| 0 => "cusparseSpMM_bufferSize" "cusparseSDDMM_bufferSize" "cusparseSpSM_bufferSize";
    size 11 |_| 0 => "cusparseSpGEMM_workEstimation" "cusparseSpGEMM_compute";
    size 19 |_| 0 => "cusparse?csrgeam2_bufferSizeExt";
};

/// What answers a question for a size, and whether it is a guess.
pub(crate) fn answer_of(name: &str) -> Option<(usize, bool)> {
    let question = KNOWN.iter().chain(UNKNOWN).find(|question| matches(question.pattern, name))?;
    Some((question.function as usize, question.guessed))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('?') {
        Some((before, after)) => name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_prefix(['S', 'D', 'C', 'Z']))
            .is_some_and(|rest| rest == after),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_stands_for_four_types() {
        assert!(answer_of("cusolverDnSgeqrf_bufferSize").is_some());
        assert_eq!(answer_of("cusolverDnSgeqrf_bufferSize"), answer_of("cusolverDnZgeqrf_bufferSize"));
        assert_ne!(answer_of("cusolverDnSgeqrf_bufferSize"), answer_of("cusolverDnXgeqrf_bufferSize"));
        assert_eq!(answer_of("cusolverDnSgeqrf"), None);
        assert_eq!(answer_of("cusparseSpMM_bufferSize").map(|(_, guessed)| guessed), Some(true));
    }

    #[test]
    fn sizes_are_as_measured() {
        for (rows, bytes) in [(4, 160), (100, 192), (300, 544), (700, 2080), (1500, 8992), (2048, 16_512)] {
            assert_eq!(rules::cholesky(rows), bytes, "{rows}");
        }
        for (columns, bytes) in [(7, 3_145_856), (300, 3_326_080), (1500, 8_241_280)] {
            assert_eq!(rules::qr(columns) * 4 + 128, bytes, "{columns}");
        }
        for (rows, bytes) in [(7, 98_432), (512, 131_328), (1000, 256_256)] {
            assert_eq!(rules::ldl(rows) * 4, bytes, "{rows}");
        }
        for (rows, numbers) in [(17, 79_494), (129, 214_598), (700, 2_081_867), (1023, 4_348_994), (8192, 269_508_803)]
        {
            assert_eq!(rules::eigen_divide(rows), numbers, "{rows}");
        }
        for (rows, numbers) in [(2, 2059), (64, 7250), (65, 8425), (3000, 9_135_718)] {
            assert_eq!(rules::eigen_jacobi(rows), numbers, "{rows}");
        }
        for (rows, columns, reflectors, numbers) in
            [(2048, 512, 512, 409_856), (8192, 31, 31, 286_976), (127, 127, 127, 65_088), (5000, 5000, 96, 1_456_640)]
        {
            assert_eq!(rules::qr_product(rows, columns, reflectors), numbers, "{rows} {columns}");
        }
        for (rows, columns, reflectors, from_left, from_right) in
            [(65, 700, 31, 464_224, 105_216), (8192, 8192, 2048, 27_336_960, 23_142_656)]
        {
            assert_eq!(rules::qr_multiply(true, rows, columns, reflectors), from_left, "{rows}");
            assert_eq!(rules::qr_multiply(false, rows, columns, reflectors), from_right, "{rows}");
        }
        for (rows, columns, all, reduced) in [
            (1024, 1024, 2_168_864, 2_168_864),
            (4096, 256, 4_329_984, 2_360_064),
            (255, 4096, 5_369_888, 3_399_456),
            (129, 384, 836_160, 836_160),
            (4096, 3000, 27_232_000, 27_232_000),
        ] {
            assert_eq!(rules::singular(true, rows, columns), all, "{rows} {columns}");
            assert_eq!(rules::singular(false, rows, columns), reduced, "{rows} {columns}");
        }
    }

    type Ask = extern "C" fn(
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
        usize,
    ) -> crate::status::Status;

    #[test]
    #[expect(unsafe_code, reason = "calls a function by its address, as a stub does")]
    fn the_arguments_that_are_asked_for_are_written_and_no_others() {
        let (address, guessed) = answer_of("cusolverDnXgeqrf_bufferSize").unwrap();
        assert!(!guessed);
        // SAFETY: the functions of the tables have this type.
        let ask = unsafe { std::mem::transmute::<usize, Ask>(address) };
        let mut places = [7_u64; 20];
        let base = places.as_mut_ptr() as usize;
        let at = |index: usize| base + index * 8;
        ask(
            0,
            0,
            1500,
            1500,
            1,
            0,
            1500,
            1,
            0,
            1,
            at(10),
            at(11),
            at(12),
            at(13),
            at(14),
            at(15),
            at(16),
            at(17),
            at(18),
            at(19),
        );
        let changed: Vec<usize> = (0..20).filter(|&index| places[index] != 7).collect();
        assert_eq!(changed, [10, 11]);
        assert_eq!(places[10..12], [16_482_432, 0], "a matrix of 64 bits");
    }
}
