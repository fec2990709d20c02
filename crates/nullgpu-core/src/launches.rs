//! Kernels: they are counted, and do not run. What is asked of a kernel before it is launched is answered from the card's
//! numbers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::answers::answers;
use crate::clock;
use crate::ffi::{In, Out, Text};
use crate::kernels;
use crate::settings;
use crate::status::{SUCCESS, Status};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// How many kernels have been launched, by any thread.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Counts a launch, or a library's work that amounts to one.
pub(crate) fn launch() -> Status {
    COUNT.fetch_add(1, Ordering::Relaxed);
    SUCCESS
}

/// Whether the kernel that was launched last tells whether all of something is true.
static LAST_WAS_ALL: AtomicBool = AtomicBool::new(false);

/// The byte that an unknown value is made of, when a program reads `size` bytes of it. Zero, but that all of what nobody
/// knows is taken for true: programs ask so whether their input is sound (`repeat_interleave`: no negative number).
pub(crate) fn unknown_byte(size: usize) -> u8 {
    u8::from(size == 1 && LAST_WAS_ALL.load(Ordering::Relaxed))
}

/// Counts the launch of a kernel that a function of the host stands for.
fn launch_of(function: usize) -> Status {
    LAST_WAS_ALL.store(kernels::launched(function).is_all, Ordering::Relaxed);
    launch()
}

/// `dim3`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Grid([u32; 3]);

impl Grid {
    fn count(self) -> u64 {
        self.0.iter().fold(1, |count: u64, &side| count.saturating_mul(side.into()))
    }
}

/// Work of a library, which runs kernels that nobody sees being launched.
extern "C" fn work() -> Status {
    launch()
}

/// What answers a function of a library that does work on the device: names with none of the words by which the others
/// create, set, ask and let go.
pub(crate) fn work_of(name: &str) -> Option<usize> {
    let asks = ["reate", "estroy", "Get", "Set", "Size", "Find", "Restore"].iter().any(|word| name.contains(word));
    let works = match name {
        "cublasLtMatmul" | "cusparseLtMatmul" | "cudnnCTCLoss" | "cudnnCTCLoss_v8" => true,
        _ if name.starts_with("cublasLt") || name.starts_with("cusparseLt") => false,
        _ if name.starts_with("cudnn") => name.contains("Forward") || name.contains("Backward"),
        _ => ["cublas", "cusparse", "cusolver", "cufftExec", "cufftXtExec", "curandGenerate"]
            .iter()
            .any(|prefix| name.starts_with(prefix)),
    };
    (works && !asks).then_some(work as *const () as usize)
}

/// How many blocks of so many threads a multiprocessor takes, if nothing but threads limits them.
fn occupancy(block_threads: i32) -> i32 {
    let limits = settings::get().card.limits();
    let warps = (i64::from(block_threads.max(1)) + 31) / 32;
    let blocks = i64::from(limits.threads) / (warps * 32);
    i32::try_from(blocks).unwrap_or(1).clamp(1, limits.blocks)
}

thread_local! {
    /// What stands between `<<<` and `>>>`, from there to the function that launches.
    static CONFIGURATIONS: RefCell<Vec<(Grid, Grid, usize, u64)>> = const { RefCell::new(Vec::new()) };
}

/// A kernel of the driver's interface is launched.
fn launch_at(stream: u64, grid: Grid, block: Grid) -> Status {
    clock::kernel(stream, grid.count().saturating_mul(block.count()));
    launch()
}

answers! {
    fn cudaLaunchKernel(function: usize, grid: Grid, block: Grid, _arguments: usize, _shared: usize, stream: u64) -> Status {
        clock::kernel(stream, grid.count().saturating_mul(block.count()));
        launch_of(function)
    }

    /// `cudaLaunchConfig_t`: grid, block, shared memory, stream.
    fn cudaLaunchKernelExC(configuration: In, function: usize) -> Status {
        let grid: Grid = configuration.read_at(0).unwrap_or_default();
        let block: Grid = configuration.read_at(12).unwrap_or_default();
        clock::kernel(configuration.read_at(32).unwrap_or(0), grid.count().saturating_mul(block.count()));
        launch_of(function)
    }

    fn __cudaLaunchKernel(function: usize, grid: Grid, block: Grid, _arguments: usize, _shared: usize, stream: u64) -> Status {
        cudaLaunchKernel(function, grid, block, _arguments, _shared, stream)
    }

    fn cudaLaunchCooperativeKernel(function: usize, grid: Grid, block: Grid, _arguments: usize, _shared: usize, stream: u64) -> Status {
        cudaLaunchKernel(function, grid, block, _arguments, _shared, stream)
    }

    /// Of what a graph does, nothing is known.
    fn cudaGraphLaunch(_graph: usize, stream: u64) -> Status {
        launch_at(stream, Grid([1; 3]), Grid([1; 3]))
    }

    fn cuLaunchKernel(_function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, _shared: u32, stream: u64) -> Status {
        launch_at(stream, Grid([grid_x, grid_y, grid_z]), Grid([block_x, block_y, block_z]))
    }

    /// `CUlaunchConfig`: grid, block, shared memory, stream.
    fn cuLaunchKernelEx(configuration: In) -> Status {
        let (grid, block) = (configuration.read_at(0).unwrap_or_default(), configuration.read_at(12).unwrap_or_default());
        launch_at(configuration.read_at(32).unwrap_or(0), grid, block)
    }

    fn cuLaunchCooperativeKernel(function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: u64) -> Status {
        cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream)
    }

    /// The handle of a module that a library brings with it: an address that may be looked at.
    fn __cudaRegisterFatBinary(_binary: usize) -> usize {
        crate::handles::new()
    }

    /// Kernels by the name that the compiler gave them.
    fn __cudaRegisterFunction(_module: usize, function: usize, _kernel: usize, name: Text) {
        kernels::register(function, name);
    }

    fn __cudaGetKernel(out: Out<usize>, function: usize) -> Status {
        out.put(function);
        SUCCESS
    }

    fn __cudaPushCallConfiguration(grid: Grid, block: Grid, shared: usize, stream: u64) -> u32 {
        CONFIGURATIONS.with_borrow_mut(|configurations| configurations.push((grid, block, shared, stream)));
        0
    }

    fn __cudaPopCallConfiguration(grid: Out<Grid>, block: Out<Grid>, shared: Out<usize>, stream: Out<u64>) -> Status {
        let last = CONFIGURATIONS.with_borrow_mut(Vec::pop);
        let (grid_of, block_of, shared_of, stream_of) = last.unwrap_or((Grid([1; 3]), Grid([1; 3]), 0, 0));
        grid.put(grid_of);
        block.put(block_of);
        shared.put(shared_of);
        stream.put(stream_of);
        SUCCESS
    }

    /// `cudaFuncAttributes`: no memory of its own, 32 registers, made for this compute capability.
    fn cudaFuncGetAttributes(out: Out<u8>, _function: usize) -> Status {
        let card = &settings::get().card;
        let capability = card.major * 10 + card.minor;
        out.fill(0, 52);
        for (at, value) in [(24, 1024), (28, 32), (32, capability), (36, capability), (44, 48 << 10)] {
            out.after(at).put_bytes(&i32::to_ne_bytes(value));
        }
        SUCCESS
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(out: Out<i32>, _function: usize, block_threads: i32, _shared: usize) -> Status {
        out.put(occupancy(block_threads));
        SUCCESS
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out: Out<i32>, _function: usize, block_threads: i32, _shared: usize, _flags: u32) -> Status {
        out.put(occupancy(block_threads));
        SUCCESS
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(out: Out<i32>, _function: usize, block_threads: i32, _shared: usize) -> Status {
        out.put(occupancy(block_threads));
        SUCCESS
    }

    fn cuOccupancyMaxActiveClusters(out: Out<i32>) -> Status {
        out.put(settings::get().card.multiprocessors / 2);
        SUCCESS
    }

    fn cudaOccupancyMaxActiveClusters(out: Out<i32>) -> Status {
        out.put(settings::get().card.multiprocessors / 2);
        SUCCESS
    }

    fn cuFuncGetAttribute(out: Out<i32>, which: i32, _function: usize) -> Status {
        out.put(match which {
            0 => 1024,
            4 => 32,
            _ => 0,
        });
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_from_what_leads_to_it() {
        for name in
            ["cublasSgemm_v2", "cublasLtMatmul", "cusolverDnSgeqrf", "cusparseSpMM", "cufftXtExec", "cudnnRNNForward"]
        {
            assert!(work_of(name).is_some(), "{name}");
        }
        for name in
            ["cublasSetStream_v2", "cublasLtMatmulDescInit_internal", "cusolverDnSgeqrf_bufferSize", "cudaMalloc"]
        {
            assert!(work_of(name).is_none(), "{name}");
        }
    }

    #[test]
    fn all_of_what_is_unknown_is_true_and_the_rest_is_zero() {
        let name = c"_ZN2at6native13reduce_kernelIZNS0_15and_kernel_cudaERNS_14TensorIteratorEE";
        __cudaRegisterFunction(0, 0x1234, 0, Text::of(name));
        __cudaRegisterFunction(0, 0x1238, 0, Text::of(c"another"));
        assert_eq!(launch_of(0x1234), SUCCESS);
        assert_eq!([unknown_byte(1), unknown_byte(8)], [1, 0]);
        assert_eq!(launch_of(0x1238), SUCCESS);
        assert_eq!(unknown_byte(1), 0);
    }

    #[test]
    fn as_many_blocks_fit_as_threads_and_blocks_allow() {
        assert_eq!([1, 32, 33, 1024, 1025, 0, i32::MAX].map(occupancy), [32, 32, 32, 2, 1, 32, 1]);
    }
}
