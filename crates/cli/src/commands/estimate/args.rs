//! The options of `highwater estimate`.

use std::path::PathBuf;

use clap::ValueEnum;
use highwater_analysis::whatif::cards::{CARDS, Card};
use highwater_estimate::{
    Architecture, Attention, CacheKind, DType, Keep, Lora, LoraTargets, Loss, Mode, Optimizer, Parallel, Platform,
    Quantisation, Setup, Sharding, TorchRelease,
};

use crate::args::Format;
use crate::error::Problem;
use crate::units::parse_size;

/// Options of `highwater estimate`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater estimate qwen2.5-1.5b --batch 16 --seq 256 --dtype float32 --loss mean-logits --keep loss
  highwater estimate ./my-model --batch 4 --seq 2048 --dtype bfloat16 --checkpointing --gpu a100
  highwater estimate llama3.1-8b --seq 4096 --dtype bfloat16 --lora-rank 16 --fit 24GiB
  highwater estimate gpt2 --batch 8 --seq 512 --sweep batch=1..64
  highwater estimate llama3.2-1b --mode generate --batch 16 --seq 512 --new-tokens 256 --dtype bfloat16
  highwater estimate gpt2 --batch 8 --seq 512 --against run.pickle")]
pub(crate) struct Args {
    /// The model: a name such as `qwen2.5-1.5b`, a directory, a `config.json`, a `.safetensors` or `.gguf` file, a model of the hub cache
    #[arg(value_name = "MODEL", required_unless_present = "list")]
    pub(super) model: Option<String>,
    /// List the models that are known by name
    #[arg(long)]
    pub(super) list: bool,
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Say what to change so that it fits a card of this memory, such as `24GiB`, or name
    #[arg(long, value_name = "SIZE|CARD")]
    pub(super) fit: Option<String>,
    /// Estimate each value of a range: `batch=1..64` or `seq=128..8192`, doubling, or a list as in `batch=1,2,4`
    #[arg(long, value_name = "NAME=RANGE")]
    pub(super) sweep: Option<String>,
    /// `simple`: also the well-known formula, in its two variants, for comparison
    #[arg(long, value_enum, default_value_t)]
    pub(super) method: Method,
    /// Show a recording beside the estimate, by category
    #[arg(long, value_name = "SNAPSHOT")]
    pub(super) against: Option<PathBuf>,
    /// How many terms to show, 0 for all
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(super) terms: usize,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// How the model is run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Sequences, or images, in a micro-batch
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) batch: u64,
    /// Tokens of a sequence, of the prompt with `--mode generate` [default: 512, or the model's limit]
    #[arg(long, value_name = "N")]
    pub(crate) seq: Option<u64>,
    /// Type of the weights: `float32`, `bfloat16`, `float16` [default: float32]
    #[arg(long, value_name = "TYPE", value_parser = dtype)]
    pub(crate) dtype: Option<DType>,
    /// Run the forward pass in `torch.autocast` with this type
    #[arg(long, value_name = "TYPE", value_parser = dtype)]
    pub(crate) autocast: Option<DType>,
    /// The optimizer
    #[arg(long, value_enum, default_value_t)]
    pub(crate) optimizer: OptimizerName,
    /// The implementation of attention
    #[arg(long, value_enum, default_value_t)]
    pub(crate) attention: AttentionName,
    /// Gradient checkpointing
    #[arg(long)]
    pub(crate) checkpointing: bool,
    /// What the loss is computed from
    #[arg(long, value_enum, default_value_t)]
    pub(crate) loss: LossName,
    /// What the script holds until the next forward pass is over: the model's output, or the loss only
    #[arg(long, value_enum, default_value_t)]
    pub(crate) keep: KeepName,
    /// What the script does
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ModeName,
    /// Tokens to generate
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) new_tokens: u64,
    /// The KV cache of `generate`: `dynamic`, `static`, or its bits: `8`, `4`, `2`
    #[arg(long, value_name = "KIND", default_value = "dynamic", value_parser = cache)]
    pub(crate) cache: CacheKind,
    /// Micro-batches of a step
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) accumulation: u64,
    /// Train adapters of this rank (`LoRA`), the model itself frozen
    #[arg(long, value_name = "N")]
    pub(crate) lora_rank: Option<u64>,
    /// Which layers have adapters
    #[arg(long, value_enum, default_value_t, requires = "lora_rank")]
    pub(crate) lora_targets: TargetsName,
    /// Dropout before the adapters
    #[arg(long, value_name = "P", default_value_t = 0.0, requires = "lora_rank")]
    pub(crate) lora_dropout: f64,
    /// Keep the frozen weights in 4 bits (`QLoRA`): `nf4`, or `nf4-double`
    #[arg(long, value_enum, requires = "lora_rank")]
    pub(crate) quantise: Option<QuantiseName>,
    /// Stage of `ZeRO` over the ranks of `--world-size`
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3), conflicts_with = "fsdp")]
    pub(crate) zero: Option<u8>,
    /// FSDP 2 over the ranks of `--world-size`
    #[arg(long)]
    pub(crate) fsdp: bool,
    /// Data-parallel ranks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) world_size: u64,
    /// Tensor-parallel ranks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tensor_parallel: u64,
    /// Pipeline stages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) pipeline_parallel: u64,
    /// The card, which decides kernels and workspaces
    #[arg(long, value_name = "CARD", default_value = "h200", value_parser = card)]
    pub(crate) gpu: &'static Card,
    /// The release of PyTorch whose rules hold
    #[arg(long, value_name = "VERSION", default_value = "2.11", value_parser = release)]
    pub(crate) torch: TorchRelease,
}

macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
        pub(crate) enum $name { $($(#[$doc])* $variant),* }
    };
}

names!(
    /// Ways of estimating.
    Method {
        /// Operator by operator
        #[default]
        Exact,
        /// And the well-known formula
        Simple,
    }
);

names!(
    /// Optimizers by name.
    OptimizerName {
        #[default]
        Adamw,
        AdamwFused,
        AdamwForeachOff,
        AdamwAmsgrad,
        Adam,
        Sgd,
        SgdMomentum,
        Rmsprop,
        Adagrad,
        Adadelta,
        Nadam,
        Radam,
        Adamax,
        Adafactor,
        Muon,
        Lion,
        Adamw8bit,
        PagedAdamw8bit,
        Lion8bit,
    }
);

names!(
    /// Implementations of attention by name.
    AttentionName {
        #[default]
        Sdpa,
        Eager,
        Flash,
    }
);

names!(
    /// Losses by name.
    LossName {
        /// `model(**x, labels=…).loss`
        #[default]
        Labels,
        /// `model(**x).logits.mean()`
        MeanLogits,
    }
);

names!(
    /// What is held, by name.
    KeepName {
        /// `out = model(**x)`
        #[default]
        Outputs,
        /// `loss = model(**x).loss`
        Loss,
    }
);

names!(
    /// Modes by name.
    ModeName {
        /// Forward, backward, step
        #[default]
        Train,
        /// One forward pass without gradients
        Forward,
        /// The prompt and new tokens
        Generate,
    }
);

names!(
    /// Layers with adapters, by name.
    TargetsName {
        /// Queries and values, as peft chooses
        #[default]
        QueryValue,
        /// All of attention
        Attention,
        /// Every linear layer but the head
        AllLinear,
    }
);

names!(
    /// Kinds of quantised weights by name.
    QuantiseName {
        #[default]
        Nf4,
        Nf4Double,
    }
);

fn dtype(text: &str) -> Result<DType, String> {
    DType::named(text).ok_or_else(|| "expected `float32`, `bfloat16` or `float16`".to_owned())
}

fn cache(text: &str) -> Result<CacheKind, String> {
    match text {
        "dynamic" => Ok(CacheKind::Dynamic),
        "static" => Ok(CacheKind::Static),
        _ => match text.trim_end_matches("bit").trim_end_matches('-').parse() {
            Ok(bits @ (2 | 4 | 8)) => Ok(CacheKind::Quantised { bits }),
            _ => Err("expected `dynamic`, `static`, `8`, `4` or `2`".to_owned()),
        },
    }
}

/// A card by its name.
pub(super) fn card(text: &str) -> Result<&'static Card, String> {
    CARDS.iter().find(|card| card.name.eq_ignore_ascii_case(text)).ok_or_else(|| {
        let names: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
        format!("known cards: {}", names.join(", "))
    })
}

/// What PyTorch may take of a card, by its name or its memory.
pub(super) fn card_bytes(text: &str) -> Result<u64, Problem> {
    if let Ok(card) = card(text) {
        return Ok(card.total_bytes());
    }
    parse_size(text)
        .map_err(|why| Problem::new(format!("`{text}` is neither a size nor a card that is known")).because(why))
}

fn release(text: &str) -> Result<TorchRelease, String> {
    let mut parts = text.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(2)), Some(Ok(minor))) if minor >= 15 => Ok(TorchRelease::V2_15),
        (Some(Ok(2)), Some(Ok(_))) => Ok(TorchRelease::V2_11),
        _ => Err("expected a release such as `2.11` or `2.15`".to_owned()),
    }
}

impl RunArgs {
    /// The set-up of a model.
    ///
    /// # Errors
    /// If a number is 0 or beyond reason.
    pub(crate) fn setup(&self, architecture: &Architecture) -> Result<Setup, Problem> {
        let seq = self.seq.unwrap_or_else(|| architecture.max_positions.map_or(512, |limit| limit.min(512)));
        for (name, value) in [
            ("batch", self.batch),
            ("seq", seq),
            ("accumulation", self.accumulation),
            ("world-size", self.world_size),
            ("tensor-parallel", self.tensor_parallel),
            ("pipeline-parallel", self.pipeline_parallel),
            ("lora-rank", self.lora_rank.unwrap_or(1)),
        ] {
            if !(1..=1 << 32).contains(&value) {
                return Err(Problem::new(format!("`--{name} {value}` is not between 1 and 4,294,967,296")));
            }
        }
        if !(0.0..=1.0).contains(&self.lora_dropout) {
            return Err(Problem::new(format!("`--lora-dropout {}` is not between 0 and 1", self.lora_dropout)));
        }
        let lora = self.lora_rank.map(|rank| Lora {
            rank,
            dropout: self.lora_dropout,
            targets: match self.lora_targets {
                TargetsName::QueryValue => LoraTargets::QueryValue,
                TargetsName::Attention => LoraTargets::Attention,
                TargetsName::AllLinear => LoraTargets::AllLinear,
            },
            dtype: DType::Float32,
        });
        Ok(Setup {
            batch: self.batch,
            seq,
            dtype: self.dtype.unwrap_or(DType::Float32),
            autocast: self.autocast.filter(|lower| lower.is_half()),
            optimizer: self.optimizer.into(),
            attention: match self.attention {
                AttentionName::Sdpa => Attention::Sdpa,
                AttentionName::Eager => Attention::Eager,
                AttentionName::Flash => Attention::Flash,
            },
            checkpointing: self.checkpointing,
            loss: if self.loss == LossName::Labels { Loss::Labels } else { Loss::MeanLogits },
            keep: if self.keep == KeepName::Outputs { Keep::Outputs } else { Keep::Loss },
            mode: match self.mode {
                ModeName::Train => Mode::Train,
                ModeName::Forward => Mode::Forward,
                ModeName::Generate => Mode::Generate { new_tokens: self.new_tokens.min(1 << 32) },
            },
            accumulation: self.accumulation,
            lora,
            quantisation: match self.quantise {
                None => Quantisation::None,
                Some(QuantiseName::Nf4) => Quantisation::Nf4,
                Some(QuantiseName::Nf4Double) => Quantisation::Nf4Double,
            },
            cache: self.cache,
            parallel: Parallel {
                world_size: self.world_size,
                sharding: match (self.fsdp, self.zero) {
                    (true, _) => Sharding::Fsdp,
                    (false, Some(1)) => Sharding::Zero1,
                    (false, Some(2)) => Sharding::Zero2,
                    (false, Some(3)) => Sharding::Zero3,
                    _ => Sharding::None,
                },
                tensor: self.tensor_parallel,
                pipeline: self.pipeline_parallel,
            },
            platform: platform(self.gpu, self.torch),
        })
    }
}

fn platform(card: &Card, torch: TorchRelease) -> Platform {
    let threads_per_multiprocessor = match card.compute_capability {
        (7, 5) => 1024,
        (8, 6 | 9) | (12, _) => 1536,
        _ => 2048,
    };
    Platform {
        torch,
        compute_capability: card.compute_capability,
        has_cudnn_attention: true,
        multiprocessors: u64::from(card.multiprocessors),
        threads_per_multiprocessor,
    }
}

impl From<OptimizerName> for Optimizer {
    fn from(name: OptimizerName) -> Optimizer {
        match name {
            OptimizerName::Adamw | OptimizerName::Adam => Optimizer::AdamW,
            OptimizerName::AdamwFused => Optimizer::AdamWFused,
            OptimizerName::AdamwForeachOff => Optimizer::AdamWLoop,
            OptimizerName::AdamwAmsgrad => Optimizer::AdamWAmsgrad,
            OptimizerName::Sgd => Optimizer::Sgd,
            OptimizerName::SgdMomentum => Optimizer::SgdMomentum,
            OptimizerName::Rmsprop => Optimizer::RmsProp,
            OptimizerName::Adagrad => Optimizer::Adagrad,
            OptimizerName::Adadelta => Optimizer::Adadelta,
            OptimizerName::Nadam => Optimizer::NAdam,
            OptimizerName::Radam => Optimizer::RAdam,
            OptimizerName::Adamax => Optimizer::Adamax,
            OptimizerName::Adafactor => Optimizer::Adafactor,
            OptimizerName::Muon => Optimizer::Muon,
            OptimizerName::Lion => Optimizer::Lion,
            OptimizerName::Adamw8bit => Optimizer::AdamW8bit,
            OptimizerName::PagedAdamw8bit => Optimizer::PagedAdamW8bit,
            OptimizerName::Lion8bit => Optimizer::Lion8bit,
        }
    }
}
