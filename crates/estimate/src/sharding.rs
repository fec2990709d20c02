//! Models over several cards: what each holds of the states, and what it gathers.
//!
//! # Source
//! `spec/memory-formulas.md` section 11: FSDP 2 as measured, `ZeRO` as `DeepSpeed` has it, tensor parallelism as Megatron cuts.

use crate::architecture::{Architecture, Body};
use crate::setup::{Mode, Setup, Sharding};
use crate::shape::{Shape, dim};
use crate::tape::{Allocation, Books, Category, Event, Moment, What};

/// `DeepSpeed`'s buckets: `allgather_bucket_size` and `reduce_bucket_size`, in numbers.
const ZERO_BUCKET: u64 = 500_000_000;

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
pub(crate) fn shard(books: &mut Books, setup: &Setup, layers: u64) {
    let parallel = setup.parallel;
    let parameters = parameter_bytes(books);
    if parallel.tensor > 1 {
        for allocation in &mut books.allocations {
            if is_cut_by_tensor(&allocation.what) {
                allocation.bytes = allocation.bytes.div_ceil(parallel.tensor);
            }
        }
    }
    if parallel.world_size <= 1 {
        return;
    }
    let ranks = parallel.world_size;
    for allocation in &mut books.allocations {
        if is_sharded(&allocation.what, parallel.sharding) {
            allocation.bytes = allocation.bytes.div_ceil(ranks);
        }
    }
    if parallel.sharding == Sharding::Fsdp {
        add_groups(books, setup, &parameters, layers);
    } else if setup.mode == Mode::Train {
        add_buckets(books, setup, &parameters, layers);
    }
}

/// What FSDP 2 has whole, with a group for each layer and one for the rest.
///
/// The rest is gathered from the forward pass to the end of the backward pass, and its gradients are whole until then; of the layers
/// one is gathered while the one before it runs. In the backward pass a layer also has its gradients, and what they are reduced from.
///
/// # Source
/// PyTorch v2.11, `torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py`: `reshard_after_forward` is off for the root;
/// `_fsdp_collectives.py`, `foreach_reduce`.
fn add_groups(books: &mut Books, setup: &Setup, parameters: &ParameterBytes, layers: u64) {
    let element = setup.dtype.bytes();
    let layer = parameters.in_layers / layers.max(1);
    let of_compute = |bytes: u64| setup.autocast.map_or(bytes, |lower| bytes / element * lower.bytes());
    let rest = parameters.all.saturating_sub(parameters.in_layers);
    let ranks = setup.parallel.world_size;
    let mut groups = Groups { books, events: Vec::new(), open: Vec::new() };
    let mut moment = Moment::Load;
    let mut is_in_layers = false;
    for event in std::mem::take(&mut groups.books.events) {
        if let Event::Begin(next) = event {
            if moment == Moment::Backward {
                groups.close(None);
                // Its gradients are whole once more, where they are reduced from.
                groups.open("gradients to reduce and scatter: the rest", rest);
                groups.open("gradients of the rest, whole", rest);
            }
            if next != Moment::Backward {
                groups.close(None);
            }
            groups.events.push(event);
            (moment, is_in_layers) = (next, false);
            match next {
                Moment::Forward | Moment::Prefill => {
                    groups.open("gathered: the rest", of_compute(rest));
                    groups.open("gathered: a layer", of_compute(layer));
                    groups.open("gathered: a layer", of_compute(layer));
                }
                Moment::Backward => {
                    groups.close(Some("gathered: a layer"));
                    groups.open("gathered: a layer", of_compute(layer));
                }
                _ => {}
            }
            continue;
        }
        groups.events.push(event);
        let Event::Alloc(id) = event else { continue };
        let Allocation { bytes, what, .. } = groups.books.allocations[id as usize];
        if moment == Moment::Forward && what.part == "head" {
            groups.close(Some("gathered: a layer"));
        }
        if moment == Moment::Backward && what.category == Category::Gradient {
            if !is_of_layer(&what) {
                groups.open("gradients of the rest, whole", bytes.saturating_mul(ranks - 1));
            } else if !is_in_layers {
                is_in_layers = true;
                groups.open("gathered: a layer", of_compute(layer));
                groups.open("gradients of a layer, whole", of_compute(layer));
                groups.open("gradients to reduce and scatter: a layer", layer);
            }
        }
    }
    groups.books.events = groups.events;
}

/// Books with what is opened and closed beside them.
struct Groups<'a> {
    books: &'a mut Books,
    events: Vec<Event>,
    open: Vec<(&'static str, u32)>,
}

impl Groups<'_> {
    fn open(&mut self, name: &'static str, bytes: u64) {
        let id = u32::try_from(self.books.allocations.len()).unwrap_or(u32::MAX);
        self.books.allocations.push(Allocation { bytes, what: bucket(name, bytes), is_saved: false });
        self.events.push(Event::Alloc(id));
        self.open.push((name, id));
    }

    /// Closes those of a name, or all.
    fn close(&mut self, name: Option<&str>) {
        let (closed, open): (Vec<_>, Vec<_>) =
            self.open.drain(..).partition(|(opened, _)| name.is_none_or(|name| name == *opened));
        self.open = open;
        self.events.extend(closed.into_iter().map(|(_, id)| Event::Free(id)));
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
    all: u64,
    in_layers: u64,
}

fn parameter_bytes(books: &Books) -> ParameterBytes {
    let of = |keep: fn(&What) -> bool| {
        let kept = books.allocations.iter().filter(|own| own.what.category == Category::Parameter && keep(&own.what));
        kept.fold(0_u64, |sum, own| sum.saturating_add(own.bytes))
    };
    ParameterBytes { all: of(|_| true), in_layers: of(is_of_layer) }
}

fn is_sharded(what: &What, sharding: Sharding) -> bool {
    let is_state = what.category == Category::OptimizerState || what.part == "optimizer";
    match sharding {
        Sharding::None => false,
        Sharding::Zero1 => is_state,
        Sharding::Zero2 => is_state || what.category == Category::Gradient,
        Sharding::Zero3 | Sharding::Fsdp => {
            is_state || matches!(what.category, Category::Gradient | Category::Parameter)
        }
    }
}

/// Column- and row-parallel products cut the inside of attention and MLP, and the vocabulary; the residual stream stays whole.
fn is_cut_by_tensor(what: &What) -> bool {
    matches!(what.part, "attention" | "mlp" | "experts" | "head" | "loss" | "embedding")
        && !matches!(what.name, "residual" | "token embeddings" | "attention: projection" | "mlp: down")
        || what.part == "optimizer"
}

fn add_buckets(books: &mut Books, setup: &Setup, parameters: &ParameterBytes, layers: u64) {
    let element = setup.dtype.bytes();
    let zero = ZERO_BUCKET.saturating_mul(element).min(parameters.all);
    let layer = parameters.in_layers / layers.max(1);
    let compute = setup.autocast.map_or(layer, |lower| layer / element * lower.bytes());
    let (forward, backward): (&[Bucket], &[Bucket]) = match setup.parallel.sharding {
        Sharding::None => (&[("buckets of gradients", parameters.all)], &[("buckets of gradients", parameters.all)]),
        Sharding::Zero1 | Sharding::Zero2 => (&[("bucket to gather", zero)], &[("bucket to reduce", zero)]),
        Sharding::Fsdp => return,
        Sharding::Zero3 => (
            &[("gathered blocks: this and the next", compute.saturating_mul(2))],
            &[
                ("gathered blocks: this and the next", compute.saturating_mul(2)),
                ("gradients of a block", compute),
                ("gradients to reduce and scatter", layer),
            ],
        ),
    };
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
                books.allocations.push(Allocation { bytes, what: bucket(name, bytes), is_saved: false });
                events.push(Event::Alloc(id));
                open.push(id);
            }
        } else {
            events.push(event);
        }
    }
    books.events = events;
}
