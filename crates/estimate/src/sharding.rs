//! Models over several cards, where their layers are not shared out one by one: a stage with both ends, and sizes that tensor parallelism
//! cuts as Megatron does.

use crate::architecture::{Architecture, Body};
use crate::setup::Setup;
use crate::tape::{Books, What};

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
    let is_cut_already = matches!(architecture.body, Body::Decoder(_));
    if parallel.tensor > 1 && !is_cut_already {
        for allocation in &mut books.allocations {
            if is_cut_by_tensor(&allocation.what) {
                allocation.bytes = allocation.bytes.div_ceil(parallel.tensor);
            }
        }
    }
}

/// Column- and row-parallel products cut the inside of attention and MLP, and the vocabulary; the residual stream stays whole.
fn is_cut_by_tensor(what: &What) -> bool {
    matches!(what.part, "attention" | "mlp" | "experts" | "head" | "loss" | "embedding")
        && !matches!(what.name, "residual" | "token embeddings" | "attention: projection" | "mlp: down")
        || what.part == "optimizer"
}
