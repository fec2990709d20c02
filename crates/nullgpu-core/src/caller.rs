//! Which library calls. Two allocators of PyTorch ask whether events are done, and only one of them has the GPU's memory: that of
//! `libc10_cuda.so`. The other, in `libtorch_cuda.so`, has pinned memory of the host.

/// Whether the function of CUDA's that is being answered was called by the allocator of the GPU's memory.
pub(crate) fn is_allocator() -> bool {
    let caller = highwater_callers::first_beyond(is_allocator as *const () as usize);
    caller.is_some_and(|file| file.ends_with(ALLOCATOR))
}

/// The file of that allocator. This library depends on nothing that a process would have to load, so it has the name once more.
const ALLOCATOR: &str = "/libc10_cuda.so";

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_allocator_of_recordings() {
        assert!(highwater_outside::is_pytorchs_allocator(super::ALLOCATOR));
    }
}
