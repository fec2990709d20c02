//! The driver's calls that are recorded, and how their arguments are read.
//!
//! # Source
//! `cupti_driver_cbid.h` and `generated_cuda_meta.h` of CUPTI 11.8, 12.8, 13.0 and 13.5: numbers and structures are the same in all that have
//! the call. Every argument takes eight bytes.

use highwater_outside::Kind;

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// CUPTI's number of it.
    pub(crate) number: u32,
    pub(crate) what: What,
}

/// What a call does, by the places of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Makes memory: where its address or handle is written to, and its bytes.
    Allocates { kind: Kind, address_to: usize, bytes: usize },
    /// `cuMemAllocPitch`: the bytes are a pitch, which it writes, times a height.
    AllocatesPitch,
    /// Stream-ordered: the pool, if it is an argument, and the stream.
    AllocatesOrdered { pool: Option<usize>, stream: usize },
    /// `cuMemCreate`: where the memory is to lie is in a structure.
    Creates,
    /// An array: its description, and whether it has a depth.
    AllocatesArray { has_depth: bool },
    /// Gives memory back: its address or handle, and its bytes if it says so.
    Frees { kind: Kind, address: usize, bytes: Option<usize> },
    /// `cuMemMap`.
    Maps,
    /// `cuMemRetainAllocationHandle`.
    Retains,
    /// Lets pools give memory back.
    Waits,
    /// Changes the free memory by an amount that has to be measured.
    Changes(Kind),
    /// The first launch of a function changes it, which may need more local memory: the place of the function among the arguments.
    Launches { function: usize },
    /// Such a launch: the function.
    FirstLaunch { function: u64 },
}

impl What {
    /// Whether it is noted before the driver does it: the address may be another's right after.
    pub(crate) fn is_noted_before(self) -> bool {
        matches!(self, Self::Frees { .. })
    }
}

const fn call(number: u32, what: What) -> Call {
    Call { number, what }
}

const fn frees(kind: Kind) -> What {
    What::Frees { kind, address: 0, bytes: None }
}

const fn allocates(kind: Kind) -> What {
    What::Allocates { kind, address_to: 0, bytes: 1 }
}

/// All of them.
pub(crate) const CALLS: [Call; 64] = [
    // cuMemAlloc_v2, cuMemAllocPitch_v2, cuMemAllocManaged, cuMemFree_v2
    call(243, allocates(Kind::Device)),
    call(244, What::AllocatesPitch),
    call(371, allocates(Kind::Managed)),
    call(245, frees(Kind::Free)),
    // cuMemAllocHost, cuMemAllocHost_v2, cuMemHostAlloc, cuMemHostAlloc_v2, cuMemFreeHost
    call(37, allocates(Kind::Host)),
    call(294, allocates(Kind::Host)),
    call(39, allocates(Kind::Host)),
    call(271, allocates(Kind::Host)),
    call(38, frees(Kind::HostFree)),
    // cuMemHostRegister, cuMemHostRegister_v2, cuMemHostUnregister
    call(301, What::Allocates { kind: Kind::Register, address_to: usize::MAX, bytes: 1 }),
    call(379, What::Allocates { kind: Kind::Register, address_to: usize::MAX, bytes: 1 }),
    call(302, frees(Kind::Unregister)),
    // cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync, and the same for a thread's own default stream
    call(598, What::AllocatesOrdered { pool: None, stream: 2 }),
    call(599, What::AllocatesOrdered { pool: None, stream: 2 }),
    call(611, What::AllocatesOrdered { pool: Some(2), stream: 3 }),
    call(612, What::AllocatesOrdered { pool: Some(2), stream: 3 }),
    call(600, frees(Kind::StreamOrderedFree)),
    call(601, frees(Kind::StreamOrderedFree)),
    // cuMemPoolDestroy, cuMemPoolTrimTo; cuCtxSynchronize, cuCtxSynchronize_v2, cuStreamSynchronize, cuEventSynchronize
    call(608, frees(Kind::PoolDestroy)),
    call(602, What::Waits),
    call(17, What::Waits),
    call(800, What::Waits),
    call(126, What::Waits),
    call(440, What::Waits),
    call(121, What::Waits),
    // cuMemCreate, cuMemRetainAllocationHandle, cuMemRelease, cuMemMap, cuMemUnmap
    call(549, What::Creates),
    call(565, What::Retains),
    call(550, frees(Kind::Release)),
    call(551, What::Maps),
    call(552, What::Frees { kind: Kind::Unmap, address: 0, bytes: Some(1) }),
    // cuArrayCreate_v2, cuArray3DCreate_v2, cuMipmappedArrayCreate, cuArrayDestroy, cuMipmappedArrayDestroy
    call(272, What::AllocatesArray { has_depth: false }),
    call(274, What::AllocatesArray { has_depth: true }),
    call(347, What::AllocatesArray { has_depth: true }),
    call(89, frees(Kind::ArrayDestroy)),
    call(349, frees(Kind::ArrayDestroy)),
    // cuModuleLoad, …Data, …DataEx, …FatBinary, cuModuleUnload, cuModuleGetFunction, cuModuleGetGlobal_v2
    call(18, What::Changes(Kind::Module)),
    call(19, What::Changes(Kind::Module)),
    call(20, What::Changes(Kind::Module)),
    call(21, What::Changes(Kind::Module)),
    call(22, What::Changes(Kind::Module)),
    call(23, What::Changes(Kind::Module)),
    call(241, What::Changes(Kind::Module)),
    // cuLibraryLoadData, cuLibraryLoadFromFile, cuLibraryUnload, cuLibraryGetModule, cuKernelGetFunction, cuLibraryGetGlobal
    call(678, What::Changes(Kind::Module)),
    call(679, What::Changes(Kind::Module)),
    call(680, What::Changes(Kind::Module)),
    call(682, What::Changes(Kind::Module)),
    call(683, What::Changes(Kind::Module)),
    call(684, What::Changes(Kind::Module)),
    // cuLinkComplete, cuCtxSetLimit
    call(365, What::Changes(Kind::Module)),
    call(136, What::Changes(Kind::Launch)),
    // cuLaunchKernelEx, also for a thread's own default stream: Triton, NCCL and others load a kernel long
    // before they launch it. cuLaunchKernel, called thousands of times a second, is left out: its kernels are loaded at their first launch.
    call(652, What::Launches { function: 1 }),
    call(653, What::Launches { function: 1 }),
    // cuStreamCreate, cuStreamCreateWithPriority, cuStreamDestroy, cuStreamDestroy_v2, cuGreenCtxStreamCreate
    call(124, What::Changes(Kind::Stream)),
    call(367, What::Changes(Kind::Stream)),
    call(127, What::Changes(Kind::Stream)),
    call(326, What::Changes(Kind::Stream)),
    call(758, What::Changes(Kind::Stream)),
    // cuGraphInstantiate, …_v2, …WithFlags, …WithParams, …WithParams_ptsz, cuGraphUpload, cuGraphExecDestroy
    call(513, What::Changes(Kind::Graph)),
    call(578, What::Changes(Kind::Graph)),
    call(643, What::Changes(Kind::Graph)),
    call(656, What::Changes(Kind::Graph)),
    call(657, What::Changes(Kind::Graph)),
    call(580, What::Changes(Kind::Graph)),
    call(516, What::Changes(Kind::Graph)),
];

/// The call of a number.
pub(crate) fn of_number(number: u32) -> Option<What> {
    CALLS.iter().find(|call| call.number == number).map(|call| call.what)
}

/// Bytes of an element of an array, by the driver's number of its format.
///
/// # Source
/// `CUarray_format` of `cuda.h`, 13.0. Compressed formats, which graphics has, count as one byte.
pub(crate) fn element_bytes(format: u32) -> u64 {
    match format {
        0x02 | 0x09 | 0x10 | 0xc3 | 0xc4 | 0xc5 | 0xc9 | 0xca | 0xcb => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_stands_once() {
        for (at, call) in CALLS.iter().enumerate() {
            assert!(CALLS[..at].iter().all(|other| other.number != call.number), "{}", call.number);
        }
    }
}
