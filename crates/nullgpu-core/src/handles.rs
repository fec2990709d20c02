//! Handles of libraries: addresses of zeros. What they stand for has no state that anybody asks for.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use highwater_driver::context::{Library, Piece};

use crate::devices;
use crate::ffi::Out;
use crate::ledger::{self, Event, Kind, Maker};
use crate::memory;
use crate::status::{SUCCESS, Status};

/// Some handles are looked into by code that was compiled into the caller: this much is there to be seen.
const ZEROS: usize = 1 << 16;
const VISIBLE: usize = 256;

#[repr(align(64))]
struct Zeros([u8; ZEROS]);

static AREA: Zeros = Zeros([0; ZEROS]);
static NEXT: AtomicUsize = AtomicUsize::new(0);
static NEXT_PLAN: AtomicI32 = AtomicI32::new(1);

/// A handle; after a thousand, they are given out again.
pub(crate) fn new() -> usize {
    let at = NEXT.fetch_add(64, Ordering::Relaxed) % (ZEROS - VISIBLE);
    AREA.0.as_ptr() as usize + at / 64 * 64
}

extern "C" fn create(out: Out<usize>) -> Status {
    out.put(new());
    SUCCESS
}

extern "C" fn create_cublas(out: Out<usize>) -> Status {
    create_with_memory(Library::Cublas, out)
}

extern "C" fn create_cudnn(out: Out<usize>) -> Status {
    create_with_memory(Library::Cudnn, out)
}

extern "C" fn create_cusolver(out: Out<usize>) -> Status {
    create_with_memory(Library::Cusolver, out)
}

/// The function in which a library takes its memory.
fn maker(library: Library) -> Maker {
    match library {
        Library::Cublas => ("libcublas.so", "cublasCreate_v2"),
        Library::Cudnn => ("libcudnn.so", "cudnnCreate"),
        Library::Cusolver => ("libcusolver.so", "cusolverDnCreate"),
        Library::Cufft => ("libcufft.so", "cufftXtMakePlanMany"),
    }
}

fn create_with_memory(library: Library, out: Out<usize>) -> Status {
    memory_for(library);
    create(out)
}

/// Takes the memory that comes with a library's handle or plan.
pub(crate) fn memory_for(library: Library) {
    let pieces =
        memory::in_context(|context, space| context.create(library, space)).map_or_else(Vec::new, |made| made.0);
    for piece in pieces.into_iter().filter(|_| memory::follows_context()) {
        let (whose, kind, address, bytes) = match piece {
            Piece::Memory { library, address, bytes } => (library, Kind::Device, address, bytes),
            Piece::Streams(bytes) => (library, Kind::Stream, 0, bytes),
            Piece::Code(bytes) => (library, Kind::Module, 0, bytes),
        };
        if bytes > 0 {
            ledger::made_by(maker(whose), Event::new(kind, devices::current(), address, bytes));
        }
    }
}

extern "C" fn create_plan(out: Out<i32>) -> Status {
    out.put(NEXT_PLAN.fetch_add(1, Ordering::Relaxed));
    SUCCESS
}

/// What answers a function that makes a handle and writes it through its first argument.
pub(crate) fn creator_of(name: &str) -> Option<usize> {
    match name {
        "cublasCreate_v2" => return Some(create_cublas as *const () as usize),
        "cudnnCreate" => return Some(create_cudnn as *const () as usize),
        "cusolverDnCreate" => return Some(create_cusolver as *const () as usize),
        "cufftCreate" => return Some(create_plan as *const () as usize),
        _ => {}
    }
    let makes =
        ["cublasCreate", "cublasLtCreate", "cudnnCreate", "nvrtcCreateProgram", "curandCreate", "cusparseLtInit"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || (name.starts_with("cublasLt") && name.ends_with("Create"))
            || ((name.starts_with("cusolver") || name.starts_with("cusparse"))
                && (name.contains("Create") || name.ends_with("_createDescr")))
            || name == "nvshmem_team_split_strided";
    // This one fills an array.
    (makes && name != "cusparseCreateIdentityPermutation").then_some(create as *const () as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_makers_are_known() {
        for name in
            ["cublasCreate_v2", "cublasLtMatmulDescCreate", "cusolverDnCreateGesvdjInfo", "cusparseSpSM_createDescr"]
        {
            assert!(creator_of(name).is_some(), "{name}");
        }
        for name in ["cublasDestroy_v2", "cusparseSpMM", "cudaMalloc", "cusparseCreateIdentityPermutation"] {
            assert!(creator_of(name).is_none(), "{name}");
        }
        assert_ne!(creator_of("cufftCreate"), creator_of("cublasCreate_v2"));
    }

    #[test]
    fn a_handle_is_not_null_and_the_next_is_another() {
        let (first, second) = (new(), new());
        assert!(first != 0 && first != second);
    }
}
