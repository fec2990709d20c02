//! Models over several cards: what each holds of the states, and what it gathers.
//!
//! # Source
//! `spec/memory-formulas.md` section 11: FSDP 2 as measured, `ZeRO` as `DeepSpeed` has it, tensor parallelism as Megatron cuts.

use crate::architecture::{Architecture, Body};
use crate::setup::{Mode, Setup, Sharding};
use crate::shape::{Shape, dim};
use crate::tape::{Allocation, Books, Category, Event, Moment, What};

/// The architecture of the largest pipeline stage: layers are cut, both ends are counted to it.
pub(crate) fn stage(architecture: &Architecture, stages: u64) -> Architecture {
    let mut stage = architecture.clone();
    if stages > 1 {
        let cut = |layers: &mut u64| *layers = layers.div_ceil(stages);
        match &mut stage.body {
            Body::Decoder(body) => cut(&mut body.layers),
            Body::Gpt2(body) => cut(&mut body.layers),
            Body::Bert(body) => cut(&mut body.layers),
            Body::ModernBert(body) => cut(&mut body.layers),
            Body::Vit(body) => cut(&mut body.layers),
            Body::Clip(body) => {
                cut(&mut body.layers);
                cut(&mut body.vision.layers);
            }
            Body::T5(body) => {
                cut(&mut body.layers);
                cut(&mut body.decoder_layers);
            }
            Body::Whisper(body) => {
                cut(&mut body.layers);
                cut(&mut body.decoder_layers);
            }
            Body::Network(body) => {
                for (count, _) in body.stages.iter_mut().flat_map(|stage| &mut stage.layers) {
                    cut(count);
                }
            }
            Body::Chain(_) | Body::Pipeline(_) => {}
            Body::Unknown(body) => body.parameters = body.parameters.div_ceil(stages),
        }
    }
    stage
}

/// Makes the books of one card those of one rank.
pub(crate) fn shard(books: &mut Books, setup: &Setup, architecture: &Architecture) {
    let parallel = setup.parallel;
    let parameters = parameter_bytes(books);
    let layers = architecture.layers();
    let is_cut_already = matches!(architecture.body, Body::Decoder(_));
    if parallel.tensor > 1 && !is_cut_already {
        for allocation in &mut books.allocations {
            if is_cut_by_tensor(&allocation.what) {
                allocation.bytes = allocation.bytes.div_ceil(parallel.tensor);
            }
        }
    }
    if parallel.world_size <= 1 || parallel.sharding != Sharding::Zero3 {
        return;
    }
    let ranks = parallel.world_size;
    for allocation in &mut books.allocations {
        let what = &allocation.what;
        let is_state = what.category == Category::OptimizerState || what.part == "optimizer";
        if is_state || matches!(what.category, Category::Gradient | Category::Parameter) {
            allocation.bytes = allocation.bytes.div_ceil(ranks);
        }
    }
    if setup.mode == Mode::Train {
        add_blocks(books, setup, &parameters, layers);
    }
}

fn bucket(name: &'static str, bytes: u64) -> What {
    What {
        part: "sharding",
        name,
        category: Category::Workspace,
        shape: Shape::of(&[dim("bytes", bytes)]),
        element_bytes: 1,
    }
}

/// Whether it is of a layer; the rest are embeddings and the head, with which the last norm goes.
fn is_of_layer(what: &What) -> bool {
    matches!(what.part, "attention" | "mlp" | "experts" | "router" | "norm" | "adapters")
}

/// A name, and bytes.
type Bucket = (&'static str, u64);

struct ParameterBytes {
    in_layers: u64,
}

fn parameter_bytes(books: &Books) -> ParameterBytes {
    let of = |keep: fn(&What) -> bool| {
        let kept = books.allocations.iter().filter(|own| own.what.category == Category::Parameter && keep(&own.what));
        kept.fold(0_u64, |sum, own| sum.saturating_add(own.bytes))
    };
    ParameterBytes { in_layers: of(is_of_layer) }
}

/// Column- and row-parallel products cut the inside of attention and MLP, and the vocabulary; the residual stream stays whole.
fn is_cut_by_tensor(what: &What) -> bool {
    matches!(what.part, "attention" | "mlp" | "experts" | "head" | "loss" | "embedding")
        && !matches!(what.name, "residual" | "token embeddings" | "attention: projection" | "mlp: down")
        || what.part == "optimizer"
}

/// What `ZeRO` 3 gathers of the layers, and the gradients of one.
fn add_blocks(books: &mut Books, setup: &Setup, parameters: &ParameterBytes, layers: u64) {
    let element = setup.dtype.bytes();
    let layer = parameters.in_layers / layers.max(1);
    let compute = setup.autocast.map_or(layer, |lower| layer / element * lower.bytes());
    let forward: &[Bucket] = &[("gathered blocks: this and the next", compute.saturating_mul(2))];
    let backward: &[Bucket] = &[
        ("gathered blocks: this and the next", compute.saturating_mul(2)),
        ("gradients of a block", compute),
        ("gradients to reduce and scatter", layer),
    ];
    let mut events = Vec::with_capacity(books.events.len() + 16);
    let mut open: Vec<u32> = Vec::new();
    for &event in &books.events {
        if let Event::Begin(moment) = event {
            events.extend(open.drain(..).map(Event::Free));
            events.push(event);
            let extra = match moment {
                Moment::Forward => forward,
                Moment::Backward => backward,
                _ => &[],
            };
            for &(name, bytes) in extra {
                let id = u32::try_from(books.allocations.len()).unwrap_or(u32::MAX);
                books.allocations.push(Allocation { bytes, what: bucket(name, bytes), is_saved: false, stream: 0 });
                events.push(Event::Alloc(id));
                open.push(id);
            }
        } else {
            events.push(event);
        }
    }
    books.events = events;
}
