//! What a device's context has of the device, and when it comes to it: bytes that the program cannot have, and addresses, which
//! decide where the program's memory comes to lie.
//!
//! # Source
//! An H200 (driver 580, CUDA 13.0) with torch 2.11: before and after each of 250 operations every free address was asked for, and
//! how much memory was free. When code is loaded was read off three programs. Taken to be the same on other cards.

use crate::address_space::DriverAddressSpace;

const MIB: u64 = 1 << 20;

/// Memory of a card that is gone when a process has begun to use it, before a kernel runs.
///
/// # Source
/// Six recordings of programs without kernels on an H200 (CUDA 13.0, driver 580): total less free less reserved. An H100: 526 MiB.
pub const BARE_BYTES: u64 = 527 * MIB;

/// [`BARE_BYTES`] on any card, at most: what `highwater top` takes for the context of a process that it did not see begin. Libraries
/// and kernels are counted apart.
///
/// # Source
/// A bound, not a measurement: 450 to 600 MiB on the cards of this decade, 526 on an H100 and 527 on an H200.
pub const BARE_AT_MOST_BYTES: u64 = 600 * MIB;

/// Memory of a card that PyTorch's allocator does not get, where it is not known which kernels a training program loads: the
/// context and these.
///
/// # Source
/// On an H200 (CUDA 13.0, driver 580), total less free less reserved: 595 MiB when a linear layer has run forward, 749
/// with its backward pass and `AdamW`, 751 and 753 for language models, 771 for `resnet50`; 733 to 742 MiB for those of
/// `spec/memory-formulas.md`, section 9. An H100: 594, 748, 766 with attention, 764 with a convolution.
pub const TRAINING_BYTES: u64 = 742 * MIB;

/// A process has this much of a card at most before PyTorch's allocator has anything: a bound for a process of which nothing is known
/// but an error's text. Context, kernels, libraries.
///
/// # Source
/// 527 to 771 MiB on an H200, see [`TRAINING_BYTES`]; other cards and NCCL's buffers take more: a round number above.
pub const AT_MOST_BYTES: u64 = 1 << 30;

/// Of its addresses: all but the local memory of the threads.
const FIRST_BYTES: u64 = 72 * MIB;
/// The threads' local memory to begin with, and that for kernels with a stack.
const FIRST_LOCAL_BYTES: u64 = 414 * MIB;
const LOCAL_BYTES: u64 = 504 * MIB;
/// Kernels are loaded into pieces of this size.
const CODE_BYTES: u64 = 2 * MIB;
/// A handle of cuBLAS.
const CUBLAS_BYTES: u64 = 64 * MIB;
/// A handle of cuSOLVER, beside the one of cuBLAS that it makes.
///
/// # Source
/// An H100: 33,554,432 bytes by `cusolverDnCreate`, right behind 67,108,864 by cuBLAS; together 96 MiB on an H200, too.
const CUSOLVER_BYTES: u64 = 32 * MIB;
/// The first plan of cuFFT.
///
/// # Source
/// An H100: 6,967,984 bytes, which take 8 MiB; an H200, too (docs/top-gpu.md).
const CUFFT_BYTES: u64 = 8 * MIB;
/// Small allocations share a piece of this size.
const PAGE_BYTES: u64 = 2 * MIB;
/// Streams come with pieces of this size.
const STREAMS_BYTES: u64 = 2 * MIB;
/// The streams of a handle of cuDNN.
///
/// # Source
/// cuDNN 9.19 on an H100: four calls that make streams bring 2 MiB each, within `cudnnCreate`.
const CUDNN_STREAMS_BYTES: u64 = 8 * MIB;
/// How many usual kernels the first piece holds, next to what libraries load, and how many the others.
const KERNELS_OF_FIRST_CODE: u32 = 22;
const KERNELS_OF_CODE: u32 = 68;
/// As how many kernels cuDNN's first ones count.
const KERNELS_OF_CUDNN: u32 = 25;
/// Memory of the host, for the messages of kernels when an assertion fails.
const MESSAGES_BYTES: u64 = 10 * MIB;
/// Small pieces of pinned memory are cut from this.
const PINNED_BYTES: u64 = 2 * MIB;

/// The memory that a kernel takes at its first launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// It keeps something on a stack.
    pub wants_stack: bool,
    /// It has assertions.
    pub may_fail: bool,
    /// As how many usual kernels its code counts.
    pub counts_as: u32,
}

impl Default for Kernel {
    /// A kernel of which nothing is known.
    fn default() -> Self {
        Kernel { wants_stack: false, may_fail: false, counts_as: 1 }
    }
}

/// Libraries whose handles bring memory with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// cuBLAS.
    Cublas,
    /// cuDNN.
    Cudnn,
    /// cuSOLVER.
    Cusolver,
    /// cuFFT, whose plans do.
    Cufft,
}

/// Memory that comes with a library's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Memory that a library allocates.
    Memory {
        /// The library: cuSOLVER makes a handle of cuBLAS of its own.
        library: Library,
        /// Where.
        address: u64,
        /// The bytes.
        bytes: u64,
    },
    /// Memory of streams that it makes.
    Streams(u64),
    /// Memory of code that the driver loads for it.
    Code(u64),
}

/// The memory of a device's context so far.
#[expect(clippy::struct_excessive_bools, reason = "each is a library or message that came")]
#[derive(Clone, Debug, Default)]
pub struct Context {
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
    has_cufft: bool,
    /// Streams that were made at most, and those of them that are destroyed.
    streams: u64,
    destroyed_streams: u64,
    /// Bytes that are left of the pinned memory for small pieces.
    pinned_left: u64,
}

impl Context {
    /// A new context takes its addresses.
    pub fn new(space: &mut DriverAddressSpace) -> Self {
        space.take(FIRST_BYTES);
        Context { bytes: BARE_BYTES, first_local: space.take(FIRST_LOCAL_BYTES), ..Context::default() }
    }

    /// Bytes of the device that the program cannot have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A kernel is launched for the first time.
    pub fn load(&mut self, kernel: Kernel, space: &mut DriverAddressSpace) {
        self.load_code(kernel.counts_as, space);
        if kernel.wants_stack
            && let Some(first_local) = self.first_local.take()
        {
            self.have(LOCAL_BYTES, space);
            space.take(PINNED_BYTES);
            space.give_back(first_local);
            self.bytes -= FIRST_LOCAL_BYTES;
        }
        if kernel.may_fail && !self.has_messages {
            self.has_messages = true;
            space.take(MESSAGES_BYTES);
        }
    }

    fn load_code(&mut self, kernels: u32, space: &mut DriverAddressSpace) {
        self.kernels += kernels;
        let pieces = 1 + self.kernels.saturating_sub(KERNELS_OF_FIRST_CODE).div_ceil(KERNELS_OF_CODE);
        for _ in self.pieces..pieces {
            self.have(CODE_BYTES, space);
        }
        self.pieces = pieces;
    }

    /// Takes memory, and says where.
    fn have(&mut self, size: u64, space: &mut DriverAddressSpace) -> u64 {
        self.bytes += size;
        space.take(size).unwrap_or(0)
    }

    /// A stream is made. Gives the bytes that come with it.
    ///
    /// # Source
    /// An H100 (driver 580, CUDA 13.0): 140 streams of one priority, as many of four and 40 of each of six, with and without
    /// `cudaStreamNonBlocking`, and the free memory after each. Every fourth brings 2 MiB, and every 45th 2 MiB more. Destroyed
    /// streams give nothing back, and the next ones take their place.
    pub fn make_stream(&mut self) -> u64 {
        if let Some(left) = self.destroyed_streams.checked_sub(1) {
            self.destroyed_streams = left;
            return 0;
        }
        let pieces = |streams: u64| (streams + 2) / 4 + (streams + 9) / 45;
        let bytes = (pieces(self.streams + 1) - pieces(self.streams)) * STREAMS_BYTES;
        self.streams += 1;
        self.bytes += bytes;
        bytes
    }

    /// A stream is destroyed.
    pub fn destroy_stream(&mut self) {
        self.destroyed_streams = self.streams.min(self.destroyed_streams + 1);
    }

    /// A library makes a handle. Gives the memory that comes with it.
    pub fn create(&mut self, library: Library, space: &mut DriverAddressSpace) -> Vec<Piece> {
        match library {
            Library::Cublas => {
                let address = self.have(CUBLAS_BYTES, space);
                let mut pieces = vec![Piece::Memory { library, address, bytes: CUBLAS_BYTES }];
                if !std::mem::replace(&mut self.has_cublas, true) {
                    // What is small of all its handles lies in one page.
                    let address = self.have(PAGE_BYTES, space);
                    pieces.push(Piece::Memory { library, address, bytes: PAGE_BYTES });
                }
                pieces
            }
            Library::Cudnn => {
                self.have(CUDNN_STREAMS_BYTES, space);
                let before = self.bytes;
                if !std::mem::replace(&mut self.has_cudnn, true) {
                    self.load_code(KERNELS_OF_CUDNN, space);
                }
                vec![Piece::Streams(CUDNN_STREAMS_BYTES), Piece::Code(self.bytes - before)]
            }
            Library::Cusolver => {
                let address = self.have(CUBLAS_BYTES + CUSOLVER_BYTES, space);
                let own = address.saturating_add(CUBLAS_BYTES);
                vec![
                    Piece::Memory { library: Library::Cublas, address, bytes: CUBLAS_BYTES },
                    Piece::Memory { library, address: own, bytes: CUSOLVER_BYTES },
                ]
            }
            Library::Cufft if std::mem::replace(&mut self.has_cufft, true) => Vec::new(),
            Library::Cufft => {
                let address = self.have(CUFFT_BYTES, space);
                vec![Piece::Memory { library, address, bytes: CUFFT_BYTES }]
            }
        }
    }

    /// Memory of the host is pinned: the device has it at addresses of its own. Says where, if they go with it.
    pub fn pin(&mut self, size: u64, space: &mut DriverAddressSpace) -> Option<u64> {
        if size > PINNED_BYTES / 2 {
            return space.take(size);
        }
        if self.pinned_left < size {
            self.pinned_left = PINNED_BYTES;
            space.take(PINNED_BYTES);
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
        space: DriverAddressSpace,
        context: Context,
    }

    impl Device {
        fn new() -> Self {
            let mut space = DriverAddressSpace::new(0, TOP);
            let context = Context::new(&mut space);
            Device { space, context }
        }

        /// Where so many MiB of the program come to lie, in MiB from the end of the first local memory.
        fn allocate(&mut self, mib: u64) -> i64 {
            let address = self.space.take(mib * MIB).unwrap();
            (address.cast_signed() - LOCAL_END.cast_signed()) / MIB.cast_signed()
        }
    }

    fn kernel(wants_stack: bool, may_fail: bool) -> Kernel {
        Kernel { wants_stack, may_fail, ..Kernel::default() }
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
                    let address = LOCAL_END.wrapping_add_signed(offset * MIB.cast_signed());
                    assert!(device.space.give_back(address).is_some());
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
        device.context.load(kernel(true, false), &mut device.space);
        device.context.create(Library::Cublas, &mut device.space);
        assert_eq!(device.allocate(32), -352, "behind the 64 MiB of cuBLAS, where the first local memory was");
        assert_eq!([device.allocate(2), device.allocate(126), device.allocate(2)], [-420, -320, -418]);
    }

    #[test]
    fn a_context_grows_as_on_an_h200() {
        let Device { mut space, mut context } = Device::new();
        assert_eq!(context.bytes() / MIB, 527);
        context.load(kernel(false, false), &mut space);
        context.create(Library::Cublas, &mut space);
        assert_eq!(context.bytes() / MIB, 595, "a linear layer has run forward");
        context.load(kernel(true, false), &mut space);
        context.create(Library::Cublas, &mut space);
        assert_eq!(context.bytes() / MIB, 749, "and backward, in a thread of its own");
        for _ in 0..KERNELS_OF_FIRST_CODE {
            context.load(kernel(true, true), &mut space);
        }
        assert_eq!(context.bytes() / MIB, 751, "a language model");
    }

    #[test]
    fn streams_come_as_on_an_h100() {
        let mut context = Device::new().context;
        let mib: Vec<u64> = (0..140).map(|_| context.make_stream() / MIB).collect();
        let expected = |at: usize| u64::from(at % 4 == 1) * 2 + u64::from(at % 45 == 35) * 2;
        assert_eq!(mib, (0..140).map(expected).collect::<Vec<_>>());
        assert_eq!(mib[..128].iter().sum::<u64>(), 70, "those that PyTorch makes for its pools");
        (0..10).for_each(|_| context.destroy_stream());
        assert_eq!((0..10).map(|_| context.make_stream()).sum::<u64>(), 0, "they take the place of others");
    }

    #[test]
    fn local_memory_and_messages_come_once() {
        let mut device = Device::new();
        device.context.load(kernel(false, false), &mut device.space);
        assert_eq!(device.allocate(16), 72, "the code lies in the 2 MiB behind the first local memory");
        device.context.load(kernel(true, true), &mut device.space);
        assert_eq!(device.allocate(20), -406, "the messages lie where the first local memory was");
        let chunks = device.allocate(600);
        device.context.load(kernel(true, true), &mut device.space);
        assert_eq!(device.allocate(600), chunks - 608);
    }

    #[test]
    fn pinned_memory_is_seen_by_the_device() {
        let mut device = Device::new();
        assert_eq!(device.context.pin(100, &mut device.space), None);
        assert_eq!(device.context.pin(MIB, &mut device.space), None);
        assert_eq!(device.allocate(2), 72, "one piece of 2 MiB for both");
        let held = device.context.pin(9 * MIB, &mut device.space);
        assert_eq!(device.allocate(2), 84);
        assert_eq!(device.space.give_back(held.unwrap()), Some(10 * MIB));
    }
}
