//! How work is divided among ranks, and which recording is of another program, by the lines of its frames.

use std::collections::BTreeMap;

use highwater_snapshot::Snapshot;

use crate::digest::{Digest, Site};
use crate::parts::{hold_the_same, lines};

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

/// A rank with a smaller share of its requested bytes per iteration at lines that most ranks have runs another program.
const SHARED_PERCENT: u128 = 10;
/// Where half of the ranks or fewer have this share, the job is not one program, and no rank is an exception.
const USUAL_PERCENT: u128 = 50;

/// Recordings of a program that the others do not run, by their place: they share neither lines nor parameters with the others. Stages of a
/// pipeline may have little in common, and so may ranks with roles of their own: such jobs have none.
pub(crate) fn alone(digests: &[Digest]) -> Vec<usize> {
    let has_roles =
        digests.iter().filter_map(|digest| digest.manifest.as_ref()).any(|manifest| manifest.role.is_some());
    if has_roles || digests.iter().any(|digest| digest.programs.iter().any(|way| way == "pipeline")) {
        return Vec::new();
    }
    let by_line: Vec<BTreeMap<&Site, u64>> = digests
        .iter()
        .map(|digest| {
            let mut all = BTreeMap::new();
            for (site, bytes) in digest.devices.iter().flat_map(|device| lines(&device.work)) {
                let sum: &mut u64 = all.entry(site).or_default();
                *sum = sum.saturating_add(bytes);
            }
            all
        })
        .collect();
    let mut ranks_at: BTreeMap<&Site, usize> = BTreeMap::new();
    for &site in by_line.iter().flat_map(BTreeMap::keys) {
        *ranks_at.entry(site).or_default() += 1;
    }
    let with_lines = by_line.iter().filter(|lines| !lines.is_empty()).count();
    let percent = |lines: &BTreeMap<&Site, u64>| -> Option<u128> {
        let sum = |is_counted: &dyn Fn(&Site) -> bool| -> u128 {
            lines.iter().filter(|(site, _)| is_counted(site)).map(|(_, bytes)| u128::from(*bytes)).sum()
        };
        let all = sum(&|_| true);
        (all > 0).then(|| sum(&|site| ranks_at.get(site).is_some_and(|&ranks| ranks * 2 > with_lines)) * 100 / all)
    };
    let shares: Vec<Option<u128>> = by_line.iter().map(percent).collect();
    let usual: Vec<usize> =
        (0..digests.len()).filter(|&at| shares[at].is_some_and(|share| share >= USUAL_PERCENT)).collect();
    if usual.len() * 2 <= with_lines {
        return Vec::new();
    }
    let holds_theirs = |at: usize| {
        let of = |at: usize| digests[at].devices.iter();
        usual.iter().any(|&other| of(at).any(|own| of(other).any(|theirs| hold_the_same(own, theirs))))
    };
    let is_alone = |&at: &usize| shares[at].is_some_and(|share| share < SHARED_PERCENT) && !holds_theirs(at);
    (0..digests.len()).filter(is_alone).collect()
}
