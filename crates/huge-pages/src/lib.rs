//! The system's allocator, which asks Linux for huge pages where an allocation is large.
//!
//! The columns of ten million entries take some 900 MB. By pages of 4 KiB the kernel is entered 350,000 times to hand them out, a
//! tenth of the time of a report; by pages of 2 MiB 44,000 times. Most distributions give huge pages only to memory that a program
//! names (`madvise` in `/sys/kernel/mm/transparent_hugepage/enabled`).
//!
//! ```
//! use highwater_huge_pages::HugePages;
//!
//! #[global_allocator]
//! static ALLOCATOR: HugePages = HugePages;
//!
//! let column = vec![0_u64; 1 << 20];
//! assert_eq!(column.iter().sum::<u64>(), 0);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};

/// Smaller allocations are too few pages to matter.
#[cfg(target_os = "linux")]
const LARGE_BYTES: usize = 4 << 20;

/// [`System`], with huge pages for large allocations on Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

#[expect(unsafe_code, reason = "is an allocator")]
// SAFETY: every call goes to `System` with the caller's arguments, and what it returns is returned; advice changes no byte.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that `System` wants.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.realloc(pointer, layout, size) }, size)
    }
}

/// Advises the kernel, if these bytes are many, before they are touched. That it cannot or will not is no error.
#[cfg(target_os = "linux")]
#[inline]
fn advised(pointer: *mut u8, bytes: usize) -> *mut u8 {
    #[cold]
    #[expect(unsafe_code, reason = "advises on memory by its address")]
    fn advise(pointer: *mut u8, bytes: usize) {
        // The pages in which it begins and ends as well: advice on a part would split the C library's mapping in two, and the kernel
        // moves only whole ones (`mremap`), so that each growth of a column would copy it.
        let page = rustix::param::page_size();
        let before = pointer.addr() % page;
        let pages = (before + bytes).next_multiple_of(page);
        // SAFETY: these pages hold an allocation that was just made, and `LinuxHugepage` changes how they are backed, not their bytes.
        let _ = unsafe {
            rustix::mm::madvise(pointer.wrapping_sub(before).cast(), pages, rustix::mm::Advice::LinuxHugepage)
        };
    }
    if bytes >= LARGE_BYTES && !pointer.is_null() {
        advise(pointer, bytes);
    }
    pointer
}

#[cfg(not(target_os = "linux"))]
fn advised(pointer: *mut u8, _: usize) -> *mut u8 {
    pointer
}
