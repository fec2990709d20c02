//! Questions for the size of a workspace. The answer is none at all, which the functions that get the workspace, doing
//! nothing, are content with; it is a guess all the same, and a trace says so.

/// The integer and pointer arguments of a call: six in registers, the rest on the stack.
///
/// A function of the interface has fewer. What is then looked at beyond them is the caller's own stack, and not used.
macro_rules! writers {
    ($($name:ident($count:literal, $kind:ty);)*) => {
        $(
            /// Writes 0 to so many arguments from the `AT`th.
            extern "C" fn $name<const AT: usize>(
                a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize, i: usize, j: usize,
                k: usize, l: usize, m: usize, n: usize, o: usize, p: usize, q: usize, r: usize, s: usize, t: usize,
            ) -> crate::status::Status {
                let arguments = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t];
                for &argument in &arguments[AT..AT + $count] {
                    crate::ffi::Out::<$kind>::of_argument(argument).put(0);
                }
                crate::status::SUCCESS
            }
        )*
    };
}

writers! {
    int(1, i32);
    size(1, u64);
    sizes(2, u64);
}

/// A function that asks for a size: its name, `?` for the letter of a number type, and what answers.
struct Question(&'static str, *const ());

#[expect(unsafe_code, reason = "a table of functions lies in a static")]
// SAFETY: the pointer is the address of a function, which any thread may call.
unsafe impl Sync for Question {}

macro_rules! questions {
    ($($kind:ident $at:literal: $($name:literal)*;)*) => {
        &[$($(Question($name, $kind::<$at> as *const ())),*),*]
    };
}

/// Which argument, counted from 0, the size goes to.
///
/// # Source
/// The public references of cuSOLVER, cuSPARSE, cuSPARSELt and cuDNN.
static QUESTIONS: &[Question] = questions! {
    int 3: "cusolverDn?gesvd_bufferSize";
    int 4: "cusolverDn?sytrf_bufferSize";
    int 5: "cusolverDn?geqrf_bufferSize" "cusolverDn?getrf_bufferSize" "cusolverDn?potrf_bufferSize";
    int 7: "cusolverDn?heevd_bufferSize" "cusolverDn?syevd_bufferSize" "cusolverDn?heevj_bufferSize"
        "cusolverDn?syevj_bufferSize" "cusolverDn?heevjBatched_bufferSize" "cusolverDn?syevjBatched_bufferSize"
        "cusolverDn?ungqr_bufferSize" "cusolverDn?orgqr_bufferSize";
    int 11: "cusolverDn?unmqr_bufferSize" "cusolverDn?ormqr_bufferSize" "cusolverDn?gesvdjBatched_bufferSize"
        "cusparse?bsrsv2_bufferSize";
    int 12: "cusolverDn?gesvdj_bufferSize";
    int 13: "cusparse?bsrsm2_bufferSize" "cusparseXcsrgeam2Nnz";
    int 16: "cusolverDn?gesvdaStridedBatched_bufferSize";
    sizes 8: "cusolverDnXpotrf_bufferSize";
    sizes 10: "cusolverDnXgeqrf_bufferSize";
    sizes 11: "cusolverDnXsyevd_bufferSize" "cusolverDnXsyevBatched_bufferSize" "cusolverDnXsytrs_bufferSize";
    sizes 17: "cusolverDnXgeev_bufferSize";
    size 2: "cusparseLtMatmulGetWorkspace";
    sizes 2: "cusparseLtSpMMACompressedSize2";
    size 5: "cudnnGetCTCLossWorkspaceSize_v8";
    size 6: "cusparseXcoosort_bufferSizeExt" "cusparseXcsrsort_bufferSizeExt" "cudnnGetConvolutionForwardWorkspaceSize"
        "cudnnGetConvolutionBackwardDataWorkspaceSize" "cudnnGetConvolutionBackwardFilterWorkspaceSize";
    size 8: "cudnnGetCTCLossWorkspaceSize";
    size 9: "cusparseSpMV_bufferSize" "cusparseSpSV_bufferSize";
    size 10: "cusparseSpMM_bufferSize" "cusparseSDDMM_bufferSize" "cusparseSpSM_bufferSize";
    size 11: "cusparseSpGEMM_workEstimation" "cusparseSpGEMM_compute";
    size 19: "cusparse?csrgeam2_bufferSizeExt";
};

/// What answers a question for a size.
pub(crate) fn answer_of(name: &str) -> Option<usize> {
    QUESTIONS.iter().find(|question| matches(question.0, name)).map(|question| question.1 as usize)
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
    }

    #[test]
    fn the_argument_that_is_asked_for_is_written_and_no_other() {
        let mut places = [7_u64; 20];
        let base = places.as_mut_ptr() as usize;
        let at = |index: usize| base + index * 8;
        sizes::<17>(
            at(0),
            at(1),
            at(2),
            at(3),
            at(4),
            at(5),
            at(6),
            at(7),
            at(8),
            at(9),
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
        let zeros: Vec<usize> = (0..20).filter(|&index| places[index] == 0).collect();
        assert_eq!(zeros, [17, 18]);
    }
}
