//! The program that is estimated: a training loop, a forward pass, or a generation.

use std::cell::RefCell;

use crate::architecture::{Architecture, Body};
use crate::dtype::DType;
use crate::models::{self, Call, Model, Outputs};
use crate::optimizer::OptimizerState;
use crate::quantization::Weight;
use crate::setup::{CacheKind, Keep, Loss, Mode, Setup, Sharding};
use crate::shape::{Shape, dim};
use crate::stage::Stage;
use crate::tape::{Books, Category, Moment, Tape, Tensor};

/// `DistributedDataParallel`'s first bucket, and the others: a bucket is closed when it has as much.
const FIRST_BUCKET_BYTES: u64 = 1 << 20;
const BUCKET_BYTES: u64 = 25 << 20;

/// What a run leaves behind.
pub(crate) struct Run {
    pub(crate) books: Books,
    /// Parameters of the model, and those that are trained: its own, or its adapters.
    pub(crate) parameters: u64,
    pub(crate) trained: u64,
    /// Numbers in the outputs of all modules of one forward pass.
    pub(crate) module_outputs: u64,
    /// Iterations of a training loop.
    pub(crate) is_training: bool,
}

/// Runs the program of a set-up on a tape; `None` for a model of which only the size is known.
///
/// Training runs for two iterations: the first makes the optimizer's state, the second is like all later ones.
pub(crate) fn run(architecture: &Architecture, setup: &Setup) -> Option<Run> {
    run_stage(architecture, setup, None)
}

/// Runs the program of a stage of a pipeline.
pub(crate) fn run_stage(architecture: &Architecture, setup: &Setup, stage: Option<Stage>) -> Option<Run> {
    let mut tape = Tape::new(setup.platform);
    if let Some(stage) = stage {
        tape.ends = stage.ends;
    }
    tape.begin(Moment::Load);
    let parallel = setup.parallel;
    if matches!(architecture.body, Body::Decoder(_)) {
        tape.tensor_ranks = parallel.tensor;
    }
    if parallel.sharding == Sharding::Fsdp && parallel.world_size > 1 {
        tape.share_out(parallel.world_size, setup.autocast);
    }
    if parallel.sharding == Sharding::Zero3 && parallel.world_size > 1 {
        tape.share_out_as_zero(parallel.world_size);
    }
    let (model, weights) = models::build(architecture, setup, &mut tape)?;
    tape.part("model");
    let buffers = Shape::of(&[dim("bytes", model.buffer_bytes())]);
    let buffers = tape.alloc_as(Category::Parameter, "buffers", buffers, DType::Byte);
    let (parameters, trained) = counted(&tape, &weights);
    if parallel.tensor <= 1 && tape.is_alone() && stage.is_none() {
        load(&mut tape, architecture);
    }
    let mut program = Program { tape, model, setup: *setup };
    let module_outputs = match setup.mode {
        Mode::Train => match stage {
            Some(stage) => program.train_stage(stage),
            None => program.train(),
        },
        Mode::Forward => program.forward_only(),
        Mode::Generate { new_tokens } => program.generate(new_tokens),
    };
    drop(buffers);
    let Program { tape, model, .. } = program;
    drop(model);
    let is_training = setup.mode == Mode::Train;
    Some(Run { books: tape.finish(), parameters, trained, module_outputs, is_training })
}

/// The number of a model's parameters, and of those that are trained.
pub(crate) fn parameters(architecture: &Architecture, setup: &Setup) -> Option<(u64, u64)> {
    let mut tape = Tape::new(setup.platform);
    let (_, weights) = models::build(architecture, setup, &mut tape)?;
    Some(counted(&tape, &weights))
}

fn counted(tape: &Tape, weights: &[Weight]) -> (u64, u64) {
    let own = weights.iter().filter(|weight| !weight.is_tied);
    let parameters = own.fold(0_u64, |sum, weight| sum.saturating_add(weight.parameters()));
    let trainable = tape.parameters.iter().filter(|parameter| parameter.is_trainable());
    (parameters, trainable.fold(0_u64, |sum, parameter| sum.saturating_add(parameter.numel())))
}

/// A tied head is made with a weight of its own, which goes when both are tied.
///
/// # Source
/// transformers 5.17, `modeling_utils.py`, `post_init` and `tie_weights`; recordings of models made on the card.
fn load(tape: &mut Tape, architecture: &Architecture) {
    if let Some((vocab, hidden)) = architecture.tied_head() {
        let shape = Shape::of(&[dim("V", vocab), dim("h", hidden)]);
        let dtype = tape.parameters.first().map_or(DType::Float32, |parameter| parameter.tensor.dtype);
        // T5 makes a table for the encoder and one for the decoder, too.
        let copies = if matches!(architecture.body, Body::T5(_)) { 3 } else { 1 };
        let copies: Vec<Tensor> = (0..copies).map(|_| tape.alloc("head before it is tied", shape, dtype)).collect();
        drop(copies);
    }
}

pub(crate) struct Program {
    pub(crate) tape: Tape,
    pub(crate) model: Box<dyn Model>,
    pub(crate) setup: Setup,
}

impl Program {
    fn train(&mut self) -> u64 {
        let mut optimizer = OptimizerState::new(self.setup.optimizer, self.setup.parallel.tensor > 1);
        let mut held: Option<(Outputs, Tensor)> = None;
        let mut inputs = Vec::new();
        let mut module_outputs = 0;
        let mut buckets = self.buckets(false);
        let master = self.master_weights();
        for iteration in 0..2 {
            if iteration == 1 && !buckets.is_empty() {
                buckets.clear();
                buckets = self.buckets(true);
            }
            let count = self.setup.accumulation.clamp(1, 3);
            for index in 0..count {
                module_outputs = self.forward_and_backward(&mut inputs, &mut held);
                self.tape.end_of_backward(index + 1 == count);
            }
            self.tape.begin(if iteration == 0 { Moment::FirstStep } else { Moment::Step });
            match &master {
                Some(master) => {
                    let gradients = self.tape.own_gradients();
                    optimizer.step_flat(&mut self.tape, master.shape.numel());
                    drop(gradients);
                }
                None => optimizer.step(&mut self.tape),
            }
            self.tape.zero_grad();
        }
        drop((buckets, master));
        module_outputs
    }

    /// `DeepSpeed`'s share of the weights in float32, where ranks share the optimizer's states. Before, the weights are copied into one
    /// piece, and states are made once for gradients of zeros.
    ///
    /// # Source
    /// `DeepSpeed` 0.19, `deepspeed/runtime/zero/stage_1_and_2.py`, `DeepSpeedZeroOptimizer.__init__`, `initialize_optimizer_states`.
    fn master_weights(&mut self) -> Option<Tensor> {
        let parallel = self.setup.parallel;
        let at_once = match parallel.sharding {
            Sharding::Zero1 => false,
            Sharding::Zero2 | Sharding::Zero3 => true,
            Sharding::None | Sharding::Fsdp => return None,
        };
        if parallel.world_size <= 1 {
            return None;
        }
        let (numel, dtype) = self.tape.trained();
        let part = self.tape.part("optimizer");
        let own = Shape::of(&[dim("N/ranks", numel.div_ceil(parallel.world_size))]);
        if self.tape.is_alone() {
            drop(self.tape.alloc("weights, made flat", Shape::of(&[dim("N", numel)]), dtype));
        }
        let copy = (dtype != DType::Float32).then(|| self.tape.alloc("share of the weights", own, dtype));
        let master =
            self.tape.alloc_as(Category::OptimizerState, "share of the weights in float32", own, DType::Float32);
        drop(copy);
        drop(self.tape.alloc("gradients of zeros", own, DType::Float32));
        self.tape.part(part);
        self.tape.share_gradients(parallel.world_size, at_once);
        Some(master)
    }

    /// Buckets of `DistributedDataParallel`: gradients are copied into them, to be summed over the ranks. First there is one; after the
    /// first step there are smaller ones, in the order in which gradients came.
    ///
    /// # Source
    /// PyTorch v2.11, `torch/nn/parallel/distributed.py`, `_ddp_init_helper`; `torch/csrc/distributed/c10d/reducer.cpp`,
    /// `compute_bucket_assignment_by_size`, `rebuild_buckets`.
    pub(crate) fn buckets(&mut self, is_rebuilt: bool) -> Vec<Tensor> {
        let parallel = self.setup.parallel;
        let mut buckets = Vec::new();
        if parallel.world_size <= 1 || parallel.sharding != Sharding::None {
            return buckets;
        }
        let part = self.tape.part("sharding");
        let mut limit = if is_rebuilt { FIRST_BUCKET_BYTES } else { u64::MAX };
        let trained = self.tape.parameters.iter().rev().filter(|parameter| parameter.is_trainable());
        let sizes: Vec<u64> =
            trained.map(|own| own.tensor.shape.numel().saturating_mul(own.tensor.dtype.bytes())).collect();
        let mut open = 0_u64;
        for (at, size) in sizes.iter().enumerate() {
            open = open.saturating_add(*size);
            if open >= limit || at + 1 == sizes.len() {
                let bytes = Shape::of(&[dim("bytes", std::mem::take(&mut open))]);
                buckets.push(self.tape.alloc_as(Category::Workspace, "buckets of gradients", bytes, DType::Byte));
                limit = BUCKET_BYTES;
            }
        }
        self.tape.part(part);
        buckets
    }

    fn forward_and_backward(&mut self, inputs: &mut Vec<Tensor>, held: &mut Option<(Outputs, Tensor)>) -> u64 {
        let setup = self.setup;
        let tape = &mut self.tape;
        tape.begin(Moment::Forward);
        *inputs = self.model.inputs(tape, &setup);
        tape.enter_autocast(setup.autocast);
        tape.module_outputs = 0;
        let with_labels = setup.loss == Loss::Labels && self.model.loss_style().is_some();
        let call = Call::plain(with_labels);
        tape.before_model();
        let mut outputs = self.model.forward(tape, &setup, inputs, &call);
        tape.after_model();
        let module_outputs = tape.module_outputs;
        let loss = match outputs.loss.take() {
            Some(loss) => loss,
            None => {
                if setup.keep == Keep::Loss {
                    outputs.cache = models::Cache::default();
                }
                // The loop's own name still holds the last iteration's outputs until it is bound anew.
                *held = None;
                tape.mean(&outputs.logits)
            }
        };
        tape.leave_autocast();
        let from = loss.edge;
        *held = None;
        *held = (setup.keep == Keep::Outputs).then_some((outputs, loss.detached()));
        tape.begin(Moment::Backward);
        let part = tape.part("loss");
        let grad = tape.alloc("gradient of the loss", loss.shape, loss.dtype);
        tape.part(part);
        tape.before_backward_of_model();
        tape.run_backward(from, grad, 0);
        tape.after_backward_of_model();
        drop(loss);
        tape.drop_graph();
        module_outputs
    }

    fn forward_only(&mut self) -> u64 {
        let setup = self.setup;
        let tape = &mut self.tape;
        (tape.training, tape.grad_enabled) = (false, false);
        tape.begin(Moment::Forward);
        let inputs = self.model.inputs(tape, &setup);
        tape.enter_autocast(setup.autocast);
        let call = Call::plain(false);
        tape.before_model();
        let outputs = self.model.forward(tape, &setup, &inputs, &call);
        tape.after_model();
        drop(outputs);
        tape.module_outputs
    }

    /// The prompt, the first new token and the last: in between the cache only grows. Where an encoder has the prompt, the decoder
    /// begins with one token.
    ///
    /// # Source
    /// transformers 5.17, `generation/utils.py`, `_sample`: the scores of the last position are copied to float32;
    /// `prepare_inputs_for_generation`: the ids are copied, and each sequence has its mask and its positions.
    fn generate(&mut self, new_tokens: u64) -> u64 {
        let setup = self.setup;
        let tape = &mut self.tape;
        (tape.training, tape.grad_enabled) = (false, false);
        tape.begin(Moment::Prefill);
        let mut prompt = self.model.inputs(tape, &setup);
        let ids = prompt.last().map_or(Shape::of(&[dim("B", setup.batch)]), |ids| ids.shape);
        let beside = ["attention mask", "positions", "ids of the step"].map(|name| tape.input(name, ids, DType::Int64));
        tape.enter_autocast(setup.autocast);
        tape.before_model();
        let encoded = self.model.encode(tape, &setup, &prompt);
        let mut seq = setup.seq;
        if encoded.is_some() && prompt.len() == 1 {
            seq = 1;
            prompt = self.model.inputs(tape, &Setup { seq, ..setup });
        }
        let grows = setup.cache == CacheKind::Dynamic;
        let total = seq.saturating_add(new_tokens).saturating_sub(1);
        let call = |past: Vec<models::Past>, past_tokens| Call {
            use_cache: true,
            past: RefCell::new(past),
            past_tokens,
            by_generate: true,
            encoded: encoded.clone(),
            capacity: (setup.cache == CacheKind::Static).then_some(total),
            ..Call::plain(false)
        };
        let mut outputs = self.model.forward(tape, &setup, &prompt, &call(Vec::new(), 0));
        tape.after_model();
        let module_outputs = tape.module_outputs;
        scores(tape, &outputs.logits);
        tape.begin(Moment::Decode);
        let one = Setup { seq: 1, ..setup };
        for past in [seq, total.saturating_sub(1).max(seq)] {
            if new_tokens <= 1 {
                break;
            }
            let mut cache = std::mem::take(&mut outputs.cache);
            if (grows && past > seq) || matches!(setup.cache, CacheKind::Quantised { .. }) {
                cache = resized(tape, cache, &setup, |layer| {
                    self.model.cached_tokens(layer, if grows { past } else { total })
                });
            }
            let next = match prompt.len() {
                1 => self.model.inputs(tape, &one),
                _ => vec![
                    prompt[0].clone(),
                    tape.input("token ids", Shape::of(&[dim("B", setup.batch), dim("S", 1)]), DType::Int64),
                ],
            };
            let mut step = call(if grows { cache.take_all() } else { Vec::new() }, past);
            step.of_encoder.clone_from(&cache.of_encoder);
            step.use_cache = grows;
            let mut now = self.model.forward(tape, &one, &next, &step);
            if !grows {
                now.cache = cache;
            }
            scores(tape, &now.logits);
            outputs = now;
        }
        drop((outputs, prompt, beside));
        tape.leave_autocast();
        module_outputs
    }
}

/// The scores of the next token: float32, once more after the processors.
fn scores(tape: &mut Tape, logits: &Tensor) {
    let part = tape.part("sampling");
    let shape = logits.shape;
    let wide = tape.alloc("scores in float32", shape, DType::Float32);
    let processed = tape.alloc("scores, processed", shape, DType::Float32);
    drop((wide, processed));
    tape.part(part);
}

/// A cache of so many tokens in place of the one that is there, layer by layer. What came from an encoder stays as it is.
fn resized(tape: &mut Tape, cache: models::Cache, setup: &Setup, tokens: impl Fn(usize) -> u64) -> models::Cache {
    let part = tape.part("attention");
    let mut layers = Vec::new();
    for (index, (keys, values)) in cache.layers.into_iter().enumerate() {
        let mut like = |name, tensor: &Tensor| {
            let old = tensor.shape.dims();
            let mut sizes = old.to_vec();
            if let Some(size) = sizes.get_mut(1) {
                size.size = tokens(index);
            }
            let shape = Shape::of(&sizes);
            match setup.cache {
                CacheKind::Quantised { bits } => {
                    // Values in few bits, and for each 64 of them a scale and a zero point of 16 bits.
                    let values = shape.numel();
                    let bytes =
                        values.saturating_mul(bits).div_ceil(8).saturating_add(values.div_ceil(64).saturating_mul(4));
                    let packed = tape.alloc(name, Shape::of(&[dim("values·bits/8 + scales", bytes)]), DType::Byte);
                    Tensor { shape, dtype: tensor.dtype, ..packed }
                }
                CacheKind::Dynamic | CacheKind::Static => tape.alloc(name, shape, tensor.dtype),
            }
        };
        let new_keys = like("keys in the cache", &keys);
        drop(keys);
        let pair = (new_keys, like("values in the cache", &values));
        layers.push(pair);
    }
    tape.part(part);
    models::Cache { layers, of_encoder: cache.of_encoder, of_states: cache.of_states }
}
