//! What a device's context has of the device, and when it comes to it: bytes that the program cannot have, and addresses, which
//! decide where the program's memory comes to lie.
//!
//! # Source
//! An H200 (driver 580, CUDA 13.0) with torch 2.11: before and after each of 250 operations every free address was asked for, and
//! how much memory was free. When code is loaded was read off three programs. Taken to be the same on other cards.

use crate::books::Books;
use crate::kernels::Kind;

const MIB: u64 = 1 << 20;
/// What a context has before a kernel runs.
pub(crate) const BARE_BYTES: u64 = 527 * MIB;
/// Of its addresses: all but the local memory of the threads.
const FIRST_BYTES: u64 = 72 * MIB;
/// The threads' local memory to begin with, and that for kernels with a stack.
const FIRST_LOCAL_BYTES: u64 = 414 * MIB;
const LOCAL_BYTES: u64 = 504 * MIB;
/// Kernels are loaded into pieces of this size.
const CODE_BYTES: u64 = 2 * MIB;
/// How many usual kernels the first piece holds, next to what libraries load, and how many the others.
const KERNELS_OF_FIRST_CODE: u32 = 22;
const KERNELS_OF_CODE: u32 = 68;
/// As how many kernels cuDNN's first ones count.
const KERNELS_OF_CUDNN: u32 = 25;
/// Memory of the host, for what kernels have to say when an assertion fails.
const MESSAGES_BYTES: u64 = 10 * MIB;
/// Small pieces of pinned memory are cut from this.
const PINNED_BYTES: u64 = 2 * MIB;

/// Libraries whose handles bring memory with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Cublas,
    Cudnn,
    Cusolver,
}

/// What a device's context has had so far.
#[derive(Default)]
pub(crate) struct Context {
    /// Bytes of the device.
    bytes: u64,
    /// Where the first local memory lies, until a kernel wants more.
    first_local: Option<u64>,
    /// How many kernels have been loaded, and into how many pieces of code.
    kernels: u32,
    pieces: u32,
    has_messages: bool,
    has_cublas: bool,
    has_cudnn: bool,
    /// Bytes that are left of the pinned memory for small pieces.
    pinned_left: u64,
}

impl Context {
    /// A new context, in the books of its device.
    pub(crate) fn new(books: &mut Books) -> Self {
        books.hold(FIRST_BYTES);
        Context { bytes: BARE_BYTES, first_local: books.hold(FIRST_LOCAL_BYTES), ..Context::default() }
    }

    /// Bytes of the device that the program cannot have.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A kernel is launched for the first time.
    pub(crate) fn load(&mut self, kind: Kind, books: &mut Books) {
        self.load_code(kind.kernels, books);
        if kind.wants_stack
            && let Some(first_local) = self.first_local.take()
        {
            self.have(LOCAL_BYTES, books);
            books.hold(PINNED_BYTES);
            books.let_go(first_local);
            self.bytes -= FIRST_LOCAL_BYTES;
        }
        if kind.may_fail && !self.has_messages {
            self.has_messages = true;
            books.hold(MESSAGES_BYTES);
        }
    }

    fn load_code(&mut self, kernels: u32, books: &mut Books) {
        self.kernels += kernels;
        let pieces = 1 + self.kernels.saturating_sub(KERNELS_OF_FIRST_CODE).div_ceil(KERNELS_OF_CODE);
        for _ in self.pieces..pieces {
            self.have(CODE_BYTES, books);
        }
        self.pieces = pieces;
    }

    fn have(&mut self, size: u64, books: &mut Books) {
        self.bytes += size;
        books.hold(size);
    }

    /// A library makes a handle.
    pub(crate) fn create(&mut self, library: Library, books: &mut Books) {
        match library {
            Library::Cublas => {
                self.have(64 * MIB, books);
                if !std::mem::replace(&mut self.has_cublas, true) {
                    self.have(CODE_BYTES, books);
                }
            }
            Library::Cudnn => {
                self.have(8 * MIB, books);
                if !std::mem::replace(&mut self.has_cudnn, true) {
                    self.load_code(KERNELS_OF_CUDNN, books);
                }
            }
            Library::Cusolver => self.have(96 * MIB, books),
        }
    }

    /// Memory of the host is pinned: the device has it at addresses of its own. Says where, if they go with it.
    pub(crate) fn pin(&mut self, size: u64, books: &mut Books) -> Option<u64> {
        if size > PINNED_BYTES / 2 {
            return books.hold(size);
        }
        if self.pinned_left < size {
            self.pinned_left = PINNED_BYTES;
            books.hold(PINNED_BYTES);
        }
        self.pinned_left -= size;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = 1 << 40;
    /// Where the first local memory ends: offsets of the recordings are counted from here.
    const LOCAL_END: u64 = TOP - 96 * MIB;

    struct Device {
        books: Books,
        context: Context,
    }

    impl Device {
        fn new() -> Self {
            let mut books = Books::new(0, TOP);
            let context = Context::new(&mut books);
            Device { books, context }
        }

        /// Where so many MiB of the program come to lie, in MiB from the end of the first local memory.
        fn allocate(&mut self, mib: u64) -> i64 {
            let address = self.books.allocate(mib * MIB, u64::MAX).unwrap();
            (address.cast_signed() - LOCAL_END.cast_signed()) / MIB.cast_signed()
        }
    }

    fn kind(wants_stack: bool, may_fail: bool) -> Kind {
        Kind { wants_stack, may_fail, ..Kind::default() }
    }

    #[test]
    fn the_driver_answers_as_it_did_on_an_h200() {
        let recorded = include_str!("../../../testdata/driver/addresses.txt");
        let mut checked = 0;
        let mut device = Device::new();
        for line in recorded.lines().filter(|line| !line.starts_with('#')) {
            let (call, numbers) = line.split_at(1);
            let numbers: Vec<i64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
            match (call, numbers.as_slice()) {
                ("=", []) => device = Device::new(),
                ("+", &[mib, offset]) => assert_eq!(device.allocate(mib.unsigned_abs()), offset, "call {checked}"),
                ("-", &[offset]) => {
                    assert!(device.books.free(LOCAL_END.wrapping_add_signed(offset * MIB.cast_signed())));
                }
                _ => panic!("{line}"),
            }
            checked += 1;
        }
        assert_eq!(checked, 4002);
    }

    #[test]
    fn a_program_that_multiplies_gets_the_addresses_of_an_h200() {
        let mut device = Device::new();
        assert_eq!(device.allocate(2), -2, "the rest of the first local memory's chunk");
        device.context.load(kind(true, false), &mut device.books);
        device.context.create(Library::Cublas, &mut device.books);
        assert_eq!(device.allocate(32), -352, "behind the 64 MiB of cuBLAS, where the first local memory was");
        assert_eq!([device.allocate(2), device.allocate(126), device.allocate(2)], [-420, -320, -418]);
    }

    #[test]
    fn a_context_grows_as_on_an_h200() {
        let Device { mut books, mut context } = Device::new();
        assert_eq!(context.bytes() / MIB, 527);
        context.load(kind(false, false), &mut books);
        context.create(Library::Cublas, &mut books);
        assert_eq!(context.bytes() / MIB, 595, "a linear layer has run forward");
        context.load(kind(true, false), &mut books);
        context.create(Library::Cublas, &mut books);
        assert_eq!(context.bytes() / MIB, 749, "and backward, in a thread of its own");
        for _ in 0..KERNELS_OF_FIRST_CODE {
            context.load(kind(true, true), &mut books);
        }
        assert_eq!(context.bytes() / MIB, 751, "a language model");
    }

    #[test]
    fn local_memory_and_messages_come_once() {
        let mut device = Device::new();
        device.context.load(kind(false, false), &mut device.books);
        assert_eq!(device.allocate(16), 72, "the code lies in the 2 MiB behind the first local memory");
        device.context.load(kind(true, true), &mut device.books);
        assert_eq!(device.allocate(20), -406, "the messages lie where the first local memory was");
        let chunks = device.allocate(600);
        device.context.load(kind(true, true), &mut device.books);
        assert_eq!(device.allocate(600), chunks - 608);
    }

    #[test]
    fn pinned_memory_is_seen_by_the_device() {
        let mut device = Device::new();
        assert_eq!(device.context.pin(100, &mut device.books), None);
        assert_eq!(device.context.pin(MIB, &mut device.books), None);
        assert_eq!(device.allocate(2), 72, "one piece of 2 MiB for both");
        let held = device.context.pin(9 * MIB, &mut device.books);
        assert_eq!(device.allocate(2), 84);
        assert_eq!(device.books.let_go(held.unwrap()), Some(10 * MIB));
    }
}
