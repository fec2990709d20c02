//! How PyTorch uses the memory that the driver reports for a process.
//!
//! ```text
//! the driver's figure = allocated + cached    what PyTorch's allocator reserved
//!                     + context               what CUDA takes in each process, before anything else
//!                     + libraries             what libraries take, and kernels as they are first used
//!                     + unexplained           none of these: another allocator in the process, such as `CuPy`'s
//! ```

use std::collections::BTreeSet;

use highwater_driver::context::BARE_AT_MOST_BYTES;

use crate::sample::{TorchDevice, TorchSplit};

/// A library that takes memory beside PyTorch's allocator.
struct Library {
    /// As [`highwater_outside::known_name`] has it.
    name: &'static str,
    /// Its upper limit.
    most_bytes: u64,
    /// It is loaded with torch, and takes memory only where there are several ranks.
    is_for_ranks: bool,
}

const fn library(name: &'static str, most_mib: u64) -> Library {
    Library { name, most_bytes: most_mib << 20, is_for_ranks: false }
}

/// Libraries with memory outside PyTorch's allocator, with their upper limit.
///
/// # Source
/// Measured on an H200 with torch 2.11 (CUDA 13.0), `docs/top-gpu.md`, and doubled, for several streams: cuBLAS 66 MiB,
/// cuDNN 18 MiB, cuSOLVER 96 MiB, cuFFT 8 MiB. Those for ranks were not measured.
const LIBRARIES: [Library; 8] = [
    library("cuBLAS", 128),
    library("cuDNN", 64),
    library("cuSOLVER", 192),
    library("cuSPARSE", 64),
    library("cuFFT", 32),
    library("Triton", 64),
    Library { is_for_ranks: true, ..library("NCCL", 2048) },
    Library { is_for_ranks: true, ..library("NVSHMEM", 1024) },
];

/// Kernels of PyTorch's own, which CUDA loads as they are first used. Source: 92 MiB for the first, as above.
const KERNELS_BYTES: u64 = 256 << 20;

/// The names of the libraries among a process's mapped files.
pub fn libraries(maps: &str) -> Vec<&'static str> {
    let mapped = names(maps);
    LIBRARIES.iter().map(|library| library.name).filter(|name| mapped.contains(name)).collect()
}

/// The names of all libraries among mapped files that are known to use GPUs.
pub(crate) fn names(maps: &str) -> BTreeSet<&'static str> {
    let files: BTreeSet<&str> = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).collect();
    files.into_iter().filter_map(highwater_outside::known_name).collect()
}

/// Splits the driver's figure of a process. The parts add up to it, unless the process holds more than the driver says.
pub fn split(told: &TorchDevice, driver_bytes: u64, libraries: &[&str]) -> TorchSplit {
    let allocated_bytes = told.allocated_bytes.min(told.reserved_bytes);
    let beside = driver_bytes.saturating_sub(told.reserved_bytes);
    let context_bytes = told.context_bytes.unwrap_or(BARE_AT_MOST_BYTES).min(beside);
    let later = beside - context_bytes;
    let is_in_use =
        |library: &&Library| libraries.contains(&library.name) && (told.is_distributed || !library.is_for_ranks);
    let in_use: Vec<_> = LIBRARIES.iter().filter(is_in_use).collect();
    let most = in_use.iter().fold(KERNELS_BYTES, |sum, library| sum + library.most_bytes);
    let libraries_bytes = later.min(most);
    TorchSplit {
        device: told.device,
        allocated_bytes,
        cached_bytes: told.reserved_bytes - allocated_bytes,
        context_bytes,
        libraries_bytes,
        unexplained_bytes: later - libraries_bytes,
        peak_allocated_bytes: told.peak_allocated_bytes,
        peak_reserved_bytes: told.peak_reserved_bytes,
        libraries: in_use.iter().map(|library| library.name.to_owned()).collect(),
        note: note(told, driver_bytes),
    }
}

fn note(told: &TorchDevice, driver_bytes: u64) -> Option<String> {
    if told.reserved_bytes > driver_bytes {
        return Some(
            "PyTorch's figure is newer than the driver's, so the parts add up to more than the whole".to_owned(),
        );
    }
    told.context_bytes.is_none().then(|| {
        "sampling began after the process had started CUDA: the split between context and libraries is an estimate \
         from typical values"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn told(allocated: u64, reserved: u64, context: Option<u64>) -> TorchDevice {
        TorchDevice {
            allocated_bytes: allocated * MIB,
            reserved_bytes: reserved * MIB,
            context_bytes: context.map(|context| context * MIB),
            ..TorchDevice::default()
        }
    }

    fn parts(split: &TorchSplit) -> [u64; 5] {
        [split.allocated_bytes, split.cached_bytes, split.context_bytes, split.libraries_bytes, split.unexplained_bytes]
            .map(|bytes| bytes / MIB)
    }

    #[test]
    fn the_parts_add_up_to_the_drivers_figure() {
        assert_eq!(parts(&split(&told(700, 1000, Some(500)), 1600 * MIB, &["cuBLAS"])), [700, 300, 500, 100, 0]);
        // More than libraries take.
        assert_eq!(parts(&split(&told(700, 1000, Some(500)), 5000 * MIB, &["cuBLAS"])), [700, 300, 500, 384, 3116]);
        assert_eq!(parts(&split(&told(0, 0, None), 400 * MIB, &[])), [0, 0, 400, 0, 0]);
    }

    #[test]
    fn nccl_takes_memory_only_where_there_are_ranks() {
        let alone = told(0, 0, Some(500));
        let rank = TorchDevice { is_distributed: true, ..alone.clone() };
        assert_eq!(split(&alone, 5000 * MIB, &["NCCL"]).libraries, [""; 0]);
        assert_eq!(parts(&split(&alone, 5000 * MIB, &["NCCL"])), [0, 0, 500, 256, 4244]);
        assert_eq!(parts(&split(&rank, 5000 * MIB, &["NCCL"])), [0, 0, 500, 2304, 2196]);
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        let late = split(&told(700, 1000, None), 1700 * MIB, &[]);
        assert!(late.note.is_some_and(|note| note.contains("typical")));
        let newer = split(&told(700, 1000, Some(500)), 900 * MIB, &[]);
        assert_eq!(parts(&newer), [700, 300, 0, 0, 0]);
        assert!(newer.note.is_some_and(|note| note.contains("newer")));
        // A process may say anything.
        let odd = split(&told(2000, 1000, Some(u64::MAX / MIB)), 1200 * MIB, &[]);
        assert_eq!(parts(&odd), [1000, 0, 200, 0, 0]);
    }

    #[test]
    fn libraries_are_known_by_their_files() {
        let maps = "7f00-7f01 r-xp 0 0:0 1 /a/libcublas.so.13\n7f00-7f01 r-xp 0 0:0 1 /a b/libnccl.so.2\n7f00 r 0 0 /a/libm.so";
        assert_eq!(libraries(maps), ["cuBLAS", "NCCL"]);
        let files = ["cublas", "cudnn", "cusolver", "cusparse", "cufft", "triton", "nccl", "nvshmem_host"];
        let maps: Vec<String> = files.iter().map(|file| format!("7f00-7f01 r-xp 0 0:0 1 /a/lib{file}.so")).collect();
        let names: Vec<_> = LIBRARIES.iter().map(|library| library.name).collect();
        assert_eq!(libraries(&maps.join("\n")), names, "each row has a name that is known");
    }
}
