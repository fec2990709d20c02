//! Flags of different engines that do the same.

use crate::flags::Flag;
use crate::version::Engine;

/// What people set first, by its name in vLLM, `SGLang` and llama.cpp: the fields of the calculator, and the flag that does the same in
/// another engine.
const SAME: &[(&str, [&str; 3])] = &[
    ("sequences", ["max-num-seqs", "max-running-requests", "parallel"]),
    ("length", ["max-model-len", "context-length", "ctx-size"]),
    ("share of memory", ["gpu-memory-utilization", "mem-fraction-static", ""]),
    ("tokens per batch", ["max-num-batched-tokens", "chunked-prefill-size", "ubatch-size"]),
    ("cache type", ["kv-cache-dtype", "kv-cache-dtype", "cache-type-k"]),
    ("type of values", ["", "", "cache-type-v"]),
    ("tensor-parallel GPUs", ["tensor-parallel-size", "tensor-parallel-size", ""]),
    ("pipeline stages", ["pipeline-parallel-size", "pipeline-parallel-size", ""]),
    ("quantisation on load", ["quantization", "quantization", ""]),
    ("layers on the GPU", ["", "", "n-gpu-layers"]),
    ("tokens per block", ["block-size", "page-size", ""]),
    ("no CUDA graphs", ["enforce-eager", "disable-cuda-graph", ""]),
];

/// The column of an engine in [`SAME`].
fn column(engine: Engine) -> usize {
    match engine {
        Engine::Vllm => 0,
        Engine::Sglang => 1,
        Engine::LlamaCpp => 2,
        Engine::Transformers => usize::MAX,
    }
}

/// What people set first of an engine: labels, and its flags.
pub fn first_flags(engine: Engine) -> impl Iterator<Item = (&'static str, &'static Flag)> {
    SAME.iter().filter_map(move |(label, names)| Some((*label, Flag::named(names.get(column(engine))?)?)))
}

/// The flag of another engine that does the same.
pub(crate) fn same_in(engine: Engine, name: &str) -> Option<&'static str> {
    let (_, names) = SAME.iter().find(|(_, names)| names.contains(&name))?;
    names.get(column(engine)).copied().filter(|name| !name.is_empty())
}
