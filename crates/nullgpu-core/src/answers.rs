//! The list of what is answered: functions by the name that programs call them by.

use std::ffi::c_void;

/// A function of the C interface, and its name there.
pub(crate) struct Answer {
    pub(crate) name: &'static str,
    function: *const c_void,
}

#[expect(unsafe_code, reason = "a table of functions lies in a static")]
// SAFETY: the pointer is the address of a function, which any thread may call.
unsafe impl Sync for Answer {}

impl Answer {
    pub(crate) const fn new(name: &'static str, function: *const c_void) -> Self {
        Answer { name, function }
    }

    pub(crate) fn address(&self) -> usize {
        self.function as usize
    }
}

/// Functions of a C interface, and the table `ANSWERS` of them.
///
/// They may have fewer parameters than the interface says: in this calling convention, arguments that a function does not
/// look at do no harm.
macro_rules! answers {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {
        $(
            $(#[$attribute])*
            pub(crate) extern "C" fn $name($($argument: $kind),*) $(-> $result)? $body
        )*

        /// All of the above.
        pub(crate) static ANSWERS: &[$crate::answers::Answer] =
            &[$($crate::answers::Answer::new(stringify!($name), $name as *const std::ffi::c_void)),*];
    };
}
pub(crate) use answers;

/// Every table, in no order that matters: a name is in one of them once.
static TABLES: [&[Answer]; 18] = [
    crate::memory::ANSWERS,
    crate::clock::ANSWERS,
    crate::copies::ANSWERS,
    crate::devices::ANSWERS,
    crate::streams::ANSWERS,
    crate::launches::ANSWERS,
    crate::driver::ANSWERS,
    crate::math::ANSWERS,
    crate::fourier::ANSWERS,
    crate::compilers::ANSWERS,
    crate::cudnn::TABLES[0],
    crate::cudnn::TABLES[1],
    crate::cudnn::TABLES[2],
    crate::cudnn::TABLES[3],
    crate::cudnn::TABLES[4],
    crate::nccl::ANSWERS,
    crate::nvml::ANSWERS,
    crate::virtual_memory::ANSWERS,
];

/// Whether nothing hangs on a function that only says success: it lets something go, sets something that nobody asks
/// back, waits for work that is done, or registers what is not looked at.
pub(crate) fn is_harmless(name: &str) -> bool {
    let words =
        ["Destroy", "destroy", "Set", "Free", "Synchronize", "Unregister", "Deregister", "Reset", "Release", "Unload"];
    let exact = [
        "__cudaRegisterFatBinaryEnd",
        "__cudaRegisterManagedVar",
        "__cudaRegisterVar",
        "cudaDeviceEnablePeerAccess",
        "cudaGetLastError",
        "cudaPeekAtLastError",
        "cudaGraphDebugDotPrint",
        "cudaGraphUpload",
        "cudaProfilerStart",
        "cudaProfilerStop",
        "cudaThreadExchangeStreamCaptureMode",
        "cuEventQuery",
        "cuEventRecord",
        "cuInit",
        "cuMemAddressFree",
        "cuStreamWaitEvent",
        "cufftEstimateMany",
        "ncclCommRegister",
        "nvmlInit",
        "nvmlInit_v2",
        "nvmlInitWithFlags",
        "nvmlShutdown",
        "nvrtcAddNameExpression",
        "nvrtcCompileProgram",
    ];
    let quiet = ["cupti", "nvtx", "cublasLtLogger", "cublasLogger"].iter().any(|prefix| name.starts_with(prefix));
    quiet || words.iter().any(|word| name.contains(word)) || exact.contains(&name)
}

/// What is behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) address: usize,
    /// Its answer is a size that is not known: none.
    pub(crate) guessed: bool,
}

/// What answers a name, if something does.
pub(crate) fn find(name: &str) -> Option<Found> {
    let listed = TABLES.iter().copied().flatten().find(|answer| answer.name == name).map(Answer::address);
    let known = listed.or_else(|| crate::handles::creator_of(name));
    let size = || crate::sizes::answer_of(name).map(|(address, guessed)| Found { address, guessed });
    let work = || Some(Found { address: crate::launches::work_of(name)?, guessed: false });
    known.map(|address| Found { address, guessed: false }).or_else(size).or_else(work)
}

/// The address of what answers a name; of what says success, if nothing does.
pub(crate) fn address_of(name: &str) -> usize {
    find(name).map_or(success as *const () as usize, |found| found.address)
}

/// The same for a name as the driver is asked for it, where the newest of several is meant: `cuMemAlloc` is `cuMemAlloc_v2`.
pub(crate) fn newest_address_of(name: &str) -> usize {
    let newest = ["_v3", "_v2"].iter().find_map(|version| find(&format!("{name}{version}")));
    newest.map_or_else(|| address_of(name), |found| found.address)
}

/// What answers a name that nothing is known of: success.
extern "C" fn success() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_is_answered_in_one_place() {
        let mut names = BTreeSet::new();
        for answer in TABLES.iter().copied().flatten() {
            assert!(names.insert(answer.name), "{} is there twice", answer.name);
        }
        assert!(names.len() > 150);
    }

    #[test]
    fn what_lets_go_or_waits_is_harmless_and_what_asks_is_not() {
        for name in ["cudnnDestroy", "cublasSetStream_v2", "cuEventQuery", "nvmlShutdown"] {
            assert!(is_harmless(name), "{name}");
        }
        for name in ["cusparseSpMatGetSize", "cudaGraphKernelNodeGetParams", "cublasGetMatrix", "ncclCommGrow"] {
            assert!(!is_harmless(name), "{name}");
        }
    }

    #[test]
    fn the_newest_of_a_name_is_meant_where_the_driver_is_asked() {
        assert_eq!(newest_address_of("cuMemAlloc"), address_of("cuMemAlloc_v2"));
        assert_eq!(newest_address_of("cuMemMap"), address_of("cuMemMap"));
        assert_ne!(newest_address_of("cuMemMap"), address_of("neverHeardOf"));
    }

    #[test]
    fn names_that_programs_look_up_are_in_the_stubs_lists() {
        for answer in TABLES.iter().copied().flatten() {
            let Some((soname, _)) = highwater_nullgpu::looked_up::LISTS
                .iter()
                .find(|(_, belongs, _)| belongs(answer.name))
                .map(|(soname, _, names)| (soname, names))
            else {
                continue;
            };
            let listed = highwater_nullgpu::looked_up::names(soname);
            assert!(listed.contains(&answer.name), "{} is answered, but not in the list of {soname}", answer.name);
        }
    }
}
