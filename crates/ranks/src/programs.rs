//! What divides work among ranks, by the files that its frames name.

use highwater_snapshot::Snapshot;

/// The ways to divide a job among ranks, in the order in which answers name them.
pub(crate) const WAYS: [&str; 5] = ["data", "sharded", "tensor", "pipeline", "expert"];

/// A part of a file's name, a part of a function's name, and the way that both together show.
///
/// # Source
/// The files of torch 2.11, `DeepSpeed` 0.18 and Megatron-Core 0.15. Megatron runs its layers of `tensor_parallel` on one rank, too, so
/// that they show nothing.
const MARKS: &[(&str, &str, &str)] = &[
    ("torch/nn/parallel/distributed.py", "", "data"),
    ("torch/nn/parallel/data_parallel.py", "", "data"),
    ("torch/distributed/_composable/replicate.py", "", "data"),
    ("megatron/core/distributed/distributed_data_parallel.py", "", "data"),
    ("torch/distributed/fsdp/", "", "sharded"),
    ("torch/distributed/_composable/fsdp/", "", "sharded"),
    ("torch/distributed/optim/zero_redundancy_optimizer.py", "", "sharded"),
    ("deepspeed/runtime/zero/", "", "sharded"),
    ("fairscale/nn/data_parallel/", "", "sharded"),
    ("megatron/core/optimizer/distrib_optimizer.py", "", "sharded"),
    ("torch/distributed/tensor/parallel/", "", "tensor"),
    ("torch/distributed/pipelining/", "", "pipeline"),
    ("torch/distributed/pipeline/", "", "pipeline"),
    ("deepspeed/runtime/pipe/", "", "pipeline"),
    ("megatron/core/pipeline_parallel/schedules.py", "forward_backward_pipelining", "pipeline"),
    ("deepspeed/moe/", "", "expert"),
    ("megatron/core/transformer/moe/token_dispatcher.py", "all_to_all", "expert"),
    ("torch/distributed/nn/functional.py", "all_to_all", "expert"),
    ("torch/distributed/_functional_collectives.py", "all_to_all", "expert"),
];

/// The ways that a snapshot's frames show, in the order of [`WAYS`].
pub(crate) fn found(snapshot: &Snapshot) -> Vec<String> {
    let mut found = [false; WAYS.len()];
    for (_, frame) in snapshot.frames.iter() {
        let (name, file) = (snapshot.text(frame.name), snapshot.text(frame.filename));
        if !file.contains("parallel")
            && !file.contains("distrib")
            && !file.contains("deepspeed")
            && !file.contains("moe")
        {
            continue;
        }
        let file = file.replace('\\', "/");
        let shows = |&&(part, function, _): &&(&str, &str, &str)| file.contains(part) && name.contains(function);
        for &(_, _, way) in MARKS.iter().filter(shows) {
            if let Some(at) = WAYS.iter().position(|known| *known == way) {
                found[at] = true;
            }
        }
    }
    WAYS.iter().zip(found).filter(|(_, found)| *found).map(|(way, _)| (*way).to_owned()).collect()
}
