//! Memory beside weights, profile run and cache: what is not PyTorch's, and CUDA graphs.
//!
//! # Source
//! vLLM, `vllm/utils/mem_utils.py`, `memory_profiling`, and `determine_available_memory` of `vllm/v1/worker/gpu_worker.py`, of 0.6.6 to
//! 0.33.0: which memory counts. How much each takes is in no source, and fitted.

use highwater_driver::context::BARE_BYTES;

use super::{Filled, Runner};
use crate::arithmetic::product;
use crate::flags::Drafter;
use crate::question::Question;
use crate::version::Version;

const MIB: u64 = 1 << 20;

/// Since when memory is measured per instance, from a snapshot before the start: V0, and V1.
const PER_INSTANCE_V0: Version = Version::new(0, 6, 5);
const PER_INSTANCE_V1: Version = Version::new(0, 9, 1);
/// Since when graphs are captured for a look at their size, within the profile run: what they load stays.
const GRAPHS_TRIED_SINCE: Version = Version::new(0, 18, 0);
/// Since when their estimate counts. Logs of 0.20.0 call it "default since v0.21.0", and subtract it.
const GRAPHS_COUNT_SINCE: Version = Version::new(0, 20, 0);
/// Since when the second runner estimates them, too.
const GRAPHS_COUNT_V2: Version = Version::new(0, 30, 0);
/// Since when all that the driver has given counts, and with it PyTorch's buffers beside the weights.
const ALL_CONSUMED_SINCE: Version = Version::new(0, 27, 0);

/// Memory that is not PyTorch's for each multiprocessor: kernels loaded lazily, and their local memory.
///
/// # Source
/// Printed with one rank: H100 (132 multiprocessors) 0.13 to 0.14 GiB, A100 (108) 0.09, RTX 4090 (128) 0.08, T4 (40) 0.03 to 0.05. With
/// graphs that were tried 0.25 on an H100. The second runner tries none: 0.06 GiB in 0.26 on an RTX 4080 (76), 0.07 on another of 16 GiB.
const PER_MULTIPROCESSOR: u64 = MIB;
/// The multiprocessors of a GPU of which only the memory is known.
const MULTIPROCESSORS: u64 = 128;
/// What several ranks add: NCCL's buffers between GPUs with `NVLink`, and without.
///
/// # Source
/// H100: 0.54 and 0.55 GiB with two ranks against 0.13 with one; RTX 4090: 0.25 against 0.08.
const NCCL_LINKED: u64 = 420 * MIB;
const NCCL_PLAIN: u64 = 175 * MIB;
/// The same when graphs were tried between GPUs with `NVLink`.
///
/// # Source
/// Twelve H100 rows of 0.19 (llm-d-planner, accuracy report): 2.06 to 2.10 GiB with two ranks, 2.13 to 2.21 with four, 0.25 with one.
const NCCL_LINKED_GRAPHS: u64 = 1870 * MIB;
/// The context of a process, which counts in V0 before 0.6.5.
///
/// # Source
/// 0.35 GiB on an RTX 3090.
const CONTEXT: u64 = 360 * MIB;
/// PyTorch's buffers beside the weights: inputs, workspaces of attention, and what its allocator cannot release.
///
/// # Source
/// Logs of 0.27 to 0.28: consumed less loaded is 0.47 GiB on an RTX 3090, 0.56 on an A100, 0.75 with two RTX 5090. With the second
/// runner 0.26 on an H100 and 0.30 on an RTX 4090, which leaves nothing.
const BUFFERS: u64 = 300 * MIB;

/// The first release that, on a GPU with the machine's memory, counts all used memory except the part that the system can take back:
/// `MemorySnapshot.measure` in `vllm/utils/mem_utils.py` of 0.11.2. Earlier releases also count the system's cache of files.
const HOST_COUNTS_SINCE: Version = Version::new(0, 11, 2);
/// The host's memory that a start takes, for the engine's objects and its compilation.
///
/// # Source
/// Gemma 4 on a GB10, 0.20.0 and a build of 0.21: what weights, peak and graphs leave is 1.6 and 1.9 GiB. The same flags ten minutes before
/// the first of them left 5.0 GiB: that process had downloaded the weights.
const OF_HOST: u64 = 2048 * MIB;

/// Whether a start is measured by the machine's memory.
pub(super) fn host_counts(question: &Question<'_>, runner: Runner) -> bool {
    question.shares_memory() && runner != Runner::V0 && question.release.version >= HOST_COUNTS_SINCE
}

/// Memory that is not PyTorch's, as the release measures it.
pub(super) fn non_torch(question: &Question<'_>, runner: Runner) -> u64 {
    let version = question.release.version;
    let card = question.card();
    let tried_since = if runner == Runner::V2 { ALL_CONSUMED_SINCE } else { GRAPHS_TRIED_SINCE };
    let has_graphs = runner != Runner::V0 && version >= tried_since && !question.settings.eager;
    let multiprocessors = card.map_or(MULTIPROCESSORS, |card| u64::from(card.multiprocessors));
    let own = multiprocessors * PER_MULTIPROCESSOR * if has_graphs { 2 } else { 1 };
    let own = match runner {
        Runner::V0 if version < PER_INSTANCE_V0 => CONTEXT,
        Runner::V1 if version < PER_INSTANCE_V1 => own + BARE_BYTES,
        Runner::V1 if version >= ALL_CONSUMED_SINCE => own + BUFFERS,
        _ => own,
    };
    let is_linked = card.is_some_and(|card| card.bus_bits >= 4096);
    let between = match question.settings.tp() {
        1 => 0,
        _ if is_linked && has_graphs => NCCL_LINKED_GRAPHS,
        _ if is_linked => NCCL_LINKED,
        _ => NCCL_PLAIN,
    };
    let host = if host_counts(question, runner) { OF_HOST } else { 0 };
    own + between + host
}

/// What the first capture of a kind takes, and each further one for a layer's hidden state.
///
/// # Source
/// Estimates in logs of 0.19 to 0.24, by pieces and whole: 0.26 GiB with 3 and 2 graphs, 0.35 with 5 and 4; with 51 and 35 Qwen2.5 7B 0.53
/// and 0.63, Qwen3.5 9B 0.78, Gemma 4 26B 0.83, Qwen3.8 27B 1.55; with 51 and 51 Llama 3.1 8B 0.84, `SmolLM` 135M 0.33.
const FIRST_GRAPH: u64 = 200 * MIB;
const GRAPH_OF_HIDDEN: u64 = 48;

/// CUDA graphs that count against the budget: the engine's estimate, from two captures of each kind.
pub(super) fn graphs(question: &Question<'_>, filled: &Filled, layers: usize) -> u64 {
    let version = question.release.version;
    let counts = match filled.runner {
        Runner::V0 => false,
        Runner::V1 => version >= GRAPHS_COUNT_SINCE,
        Runner::V2 => version >= GRAPHS_COUNT_V2,
    };
    if question.settings.eager || !counts {
        return 0;
    }
    // A sequence that drafts has several tokens of a batch.
    let drafts = question.settings.drafter != Drafter::Nothing;
    let of_sequence = 1 + if drafts { question.settings.speculative.unwrap_or(0) } else { 0 };
    let whole = filled.sequences.saturating_mul(of_sequence);
    let pieces = whole.saturating_mul(2).min(512);
    let count = captures(pieces).saturating_add(captures(whole.min(pieces)) / of_sequence);
    let hidden = question.model.hidden / question.settings.tp();
    let each = product([layers as u64, hidden, GRAPH_OF_HIDDEN]).max(MIB);
    FIRST_GRAPH.saturating_add(product([count, each]))
}

/// Sizes of batches up to this one that are captured: 1, 2, 4, then every eighth, from 256 on every sixteenth.
///
/// # Source
/// vLLM, `vllm/config/vllm.py`, `_set_cudagraph_sizes`.
fn captures(most: u64) -> u64 {
    let small = [1, 2, 4].into_iter().filter(|size| *size <= most).count() as u64;
    small + most.min(255) / 8 + if most < 256 { 0 } else { (most - 256) / 16 + 1 }
}

#[cfg(test)]
mod tests {
    use super::captures;

    /// vLLM prints `PIECEWISE=51 (largest=512), FULL=35 (largest=256)`, and `PIECEWISE=3 (largest=4), FULL=2 (largest=2)`.
    #[test]
    fn captures_are_as_many_as_the_engine_prints() {
        assert_eq!([512, 256, 4, 2, 16, 8].map(captures), [51, 35, 3, 2, 5, 4]);
    }
}
