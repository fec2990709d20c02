//! What is to be estimated: how a model is trained or run, and on what.

use crate::dtype::DType;
use crate::options::DEFAULT_CARD;

/// A release of PyTorch, as far as memory differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TorchRelease {
    /// 2.11 and the releases before 2.15: cuBLAS keeps its workspaces.
    V2_11,
    /// 2.15: grouped heads in the memory-efficient kernel, workspaces given back.
    V2_15,
}

/// What PyTorch runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// How the GPU is called on the command line.
    pub gpu: &'static str,
    /// The release of PyTorch.
    pub torch: TorchRelease,
    /// The compute capability of the card: major, minor.
    pub compute_capability: (u32, u32),
    /// Whether `scaled_dot_product_attention` may take cuDNN's kernel, which it then does first on Hopper and Blackwell:
    /// true for the builds of PyTorch with CUDA 13.
    pub has_cudnn_attention: bool,
    /// Streaming multiprocessors: sums are spread over them.
    pub multiprocessors: u64,
    /// Threads that one of them holds.
    pub threads_per_multiprocessor: u64,
}

/// Which implementation of attention a model is loaded with (`attn_implementation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// `scaled_dot_product_attention`.
    Sdpa,
    /// The model's own Python.
    Eager,
    /// The package `flash-attn`.
    Flash,
}

/// An optimizer. Those of `torch.optim` are as they are without options but the named ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Optimizer {
    /// `AdamW` or `Adam`; on CUDA the for-each implementation.
    AdamW,
    /// `AdamW(fused=True)`.
    AdamWFused,
    /// `AdamW(foreach=False)`: one parameter after the other.
    AdamWLoop,
    /// `AdamW(amsgrad=True)`.
    AdamWAmsgrad,
    /// `SGD` without momentum.
    Sgd,
    /// `SGD(momentum=0.9)`.
    SgdMomentum,
    /// `RMSprop`.
    RmsProp,
    /// `Adagrad`.
    Adagrad,
    /// `Adadelta`.
    Adadelta,
    /// `NAdam`.
    NAdam,
    /// `RAdam`.
    RAdam,
    /// `Adamax`.
    Adamax,
    /// `Adafactor`.
    Adafactor,
    /// `Muon` for the matrices of the layers, `AdamW` for the rest.
    Muon,
    /// Lion, as `lion-pytorch` has it.
    Lion,
    /// `bitsandbytes.optim.AdamW8bit`.
    AdamW8bit,
    /// `bitsandbytes.optim.PagedAdamW8bit`.
    PagedAdamW8bit,
    /// `bitsandbytes.optim.Lion8bit`.
    Lion8bit,
}

/// What the script computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Iterations of forward, backward and a step.
    Train,
    /// One forward pass in `no_grad` and evaluation mode.
    Forward,
    /// `generate`: the prompt, then so many new tokens.
    Generate {
        /// Tokens to generate.
        new_tokens: u64,
    },
}

/// What the loss is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// `model(**x, labels=…).loss`.
    Labels,
    /// `model(**x).logits.mean()`.
    MeanLogits,
}

/// What the script still holds while the backward pass and the next forward pass run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// `out = model(**x)`: logits and the KV cache, until the next forward pass is over.
    Outputs,
    /// `loss = model(**x).loss`: the loss only.
    Loss,
}

/// Low-rank adapters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lora {
    /// The rank.
    pub rank: u64,
    /// Dropout before the adapters.
    pub dropout: f64,
    /// Which layers have adapters.
    pub targets: LoraTargets,
    /// The type of the adapters: peft makes them float32 (`autocast_adapter_dtype`).
    pub dtype: DType,
}

/// Which linear layers get adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraTargets {
    /// Queries and values: peft's own choice for most models.
    QueryValue,
    /// All of attention.
    Attention,
    /// Every linear layer but the head (`target_modules="all-linear"`).
    AllLinear,
}

/// How the frozen weights of the layers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantisation {
    /// As they are.
    None,
    /// NF4 of bitsandbytes.
    Nf4,
    /// NF4 with its scales quantised again.
    Nf4Double,
}

/// How the KV cache is kept in `generate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// It grows by concatenation (`DynamicCache`).
    Dynamic,
    /// It is as long as it can get from the start (`StaticCache`).
    Static,
    /// Values of so many bits, with scales.
    Quantised {
        /// Bits of a value: 2, 4 or 8.
        bits: u64,
    },
}

/// Which weights of a pipeline wait in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// None.
    None,
    /// `enable_model_cpu_offload()`: those of models that do not run.
    Model,
    /// `enable_sequential_cpu_offload()`: those of modules that do not run.
    Sequential,
}

/// How a model is spread over cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallel {
    /// Data-parallel ranks.
    pub world_size: u64,
    /// How far model states are spread over them.
    pub sharding: Sharding,
    /// Tensor-parallel ranks.
    pub tensor: u64,
    /// Pipeline stages; the estimate is of the largest.
    pub pipeline: u64,
}

/// How far model states are spread over the data-parallel ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// Not at all: one card, or `DistributedDataParallel`.
    None,
    /// Optimizer state (`ZeRO` 1).
    Zero1,
    /// And gradients (`ZeRO` 2).
    Zero2,
    /// And parameters (`ZeRO` 3).
    Zero3,
    /// FSDP 2, `fully_shard` with resharding after the forward pass.
    Fsdp,
}

/// Everything about a run but the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Sequences, or images, in a micro-batch.
    pub batch: u64,
    /// Tokens of a sequence; of the prompt in `generate`; of the decoder where there is an encoder. Unused for images.
    pub seq: u64,
    /// The type of the weights.
    pub dtype: DType,
    /// The type of `torch.autocast`, if the forward pass runs inside it.
    pub autocast: Option<DType>,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The implementation of attention.
    pub attention: Attention,
    /// `gradient_checkpointing_enable()`.
    pub checkpointing: bool,
    /// What the loss is computed from.
    pub loss: Loss,
    /// What the script holds.
    pub keep: Keep,
    /// What it computes.
    pub mode: Mode,
    /// Micro-batches of an iteration.
    pub accumulation: u64,
    /// Adapters, with everything else frozen.
    pub lora: Option<Lora>,
    /// How frozen weights are kept.
    pub quantisation: Quantisation,
    /// The KV cache of `generate`.
    pub cache: CacheKind,
    /// Height of a generated image.
    pub height: Option<u64>,
    /// Its width.
    pub width: Option<u64>,
    /// Frames of a generated video.
    pub frames: Option<u64>,
    /// Which weights of a pipeline stay on the host.
    pub offload: Offload,
    /// Over how many cards.
    pub parallel: Parallel,
    /// What PyTorch runs on.
    pub platform: Platform,
}

impl Setup {
    /// A training run of a micro-batch in float32 with `AdamW`, as `torch` and `transformers` do it when nothing is said.
    pub fn training(batch: u64, seq: u64) -> Setup {
        Setup {
            batch,
            seq,
            dtype: DType::Float32,
            autocast: None,
            optimizer: Optimizer::AdamW,
            attention: Attention::Sdpa,
            checkpointing: false,
            loss: Loss::Labels,
            keep: Keep::Outputs,
            mode: Mode::Train,
            accumulation: 1,
            lora: None,
            quantisation: Quantisation::None,
            cache: CacheKind::Dynamic,
            height: None,
            width: None,
            frames: None,
            offload: Offload::None,
            parallel: Parallel { world_size: 1, sharding: Sharding::None, tensor: 1, pipeline: 1 },
            platform: Platform {
                gpu: DEFAULT_CARD,
                torch: TorchRelease::V2_11,
                compute_capability: (9, 0),
                has_cudnn_attention: true,
                multiprocessors: 132,
                threads_per_multiprocessor: 2048,
            },
        }
    }
}
