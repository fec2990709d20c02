//! The options of `highwater estimate`.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use highwater_driver::Card;
use highwater_estimate::{
    Attention, CacheKind, Choice, DType, Keep, LoraTargets, Loss, Mode, Optimizer, Quantisation, Request, TorchRelease,
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
  highwater estimate gpt2 --batch 8 --seq 512 --against run.pickle
  highwater estimate --web                      the same in the browser, with sliders
  highwater estimate gpt2 --batch 8 --web -o page.html")]
pub(crate) struct Args {
    /// The model: a name such as `qwen2.5-1.5b`, a directory, a `config.json`, a `.safetensors` or `.gguf` file, a model of the hub cache
    #[arg(value_name = "MODEL", required_unless_present_any = ["list", "web"])]
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
    #[command(flatten)]
    pub(super) size: crate::input::SizeArgs,
    /// How many terms to show, 0 for all
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(super) terms: usize,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Open the calculator in the browser, or write it as one page with `-o FILE`
    #[arg(long, conflicts_with_all = ["list", "fit", "sweep", "method", "against", "terms", "format"])]
    pub(super) web: bool,
    #[command(flatten)]
    pub(super) page: PageArgs,
}

/// Where the calculator goes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// With `--web`: write the page to this file, which needs no server and no network, rather than serve it
    #[arg(short, long, value_name = "FILE", requires = "web")]
    pub(super) output: Option<PathBuf>,
    /// With `-o`: overwrite the file if it exists
    #[arg(long, requires = "output")]
    pub(super) force: bool,
    /// With `--web`: the port to listen on [default: one that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, requires = "web")]
    pub(super) port: u16,
    /// With `--web`: only print the address, as over SSH
    #[arg(long, requires = "web")]
    pub(super) no_open: bool,
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
    #[arg(long, default_value = "adamw", value_parser = choice::<Optimizer>())]
    pub(crate) optimizer: Optimizer,
    /// The implementation of attention
    #[arg(long, default_value = "sdpa", value_parser = choice::<Attention>())]
    pub(crate) attention: Attention,
    /// Gradient checkpointing
    #[arg(long)]
    pub(crate) checkpointing: bool,
    /// What the loss is computed from
    #[arg(long, default_value = "labels", value_parser = choice::<Loss>())]
    pub(crate) loss: Loss,
    /// What the script holds until the next forward pass is over: the model's output, or the loss only
    #[arg(long, default_value = "outputs", value_parser = choice::<Keep>())]
    pub(crate) keep: Keep,
    /// What the script does
    #[arg(long, default_value = "train", value_parser = choice::<Mode>())]
    pub(crate) mode: Mode,
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
    #[arg(long, default_value = "query-value", value_parser = choice::<LoraTargets>(), requires = "lora_rank")]
    pub(crate) lora_targets: LoraTargets,
    /// Dropout before the adapters
    #[arg(long, value_name = "P", default_value_t = 0.0, requires = "lora_rank")]
    pub(crate) lora_dropout: f64,
    /// Keep the frozen weights in 4 bits (`QLoRA`): `nf4`, or `nf4-double`
    #[arg(long, value_parser = choice::<Quantisation>(), requires = "lora_rank")]
    pub(crate) quantise: Option<Quantisation>,
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
    #[arg(long, value_name = "CARD", default_value = highwater_estimate::DEFAULT_CARD, value_parser = card)]
    pub(crate) gpu: &'static Card,
    /// The release of PyTorch whose rules hold
    #[arg(long, value_name = "VERSION", default_value = "2.11", value_parser = release)]
    pub(crate) torch: TorchRelease,
}

/// Ways of estimating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Operator by operator
    #[default]
    Exact,
    /// And the well-known formula
    Simple,
}

/// Takes the names of a choice, and lists them in the help.
fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let listed = T::ALL.iter().map(|&(name, _, help)| {
        let value = PossibleValue::new(name);
        if help.is_empty() { value } else { value.help(help) }
    });
    PossibleValuesParser::new(listed).map(|name| T::named(&name).unwrap_or_else(T::first))
}

fn dtype(text: &str) -> Result<DType, String> {
    DType::named(text).ok_or_else(|| "expected `float32`, `bfloat16` or `float16`".to_owned())
}

fn cache(text: &str) -> Result<CacheKind, String> {
    CacheKind::named(text).ok_or_else(|| "expected `dynamic`, `static`, `8`, `4` or `2`".to_owned())
}

/// A card by its name.
pub(super) fn card(text: &str) -> Result<&'static Card, String> {
    Card::named(text).ok_or_else(|| {
        let names: Vec<&str> = Card::keys().collect();
        format!("known cards: {}", names.join(", "))
    })
}

/// What PyTorch may take of a card, by its name or its memory.
pub(super) fn card_bytes(text: &str) -> Result<u64, Problem> {
    if let Ok(card) = card(text) {
        return Ok(card.memory_bytes);
    }
    parse_size(text)
        .map_err(|why| Problem::new(format!("`{text}` is neither a size nor a card that is known")).because(why))
}

fn release(text: &str) -> Result<TorchRelease, String> {
    TorchRelease::named(text).ok_or_else(|| "expected a release such as `2.11` or `2.15`".to_owned())
}

impl RunArgs {
    /// What is asked of an estimate.
    pub(crate) fn request(&self) -> Request {
        Request {
            batch: self.batch,
            seq: self.seq,
            dtype: self.dtype.unwrap_or(DType::Float32),
            autocast: self.autocast,
            optimizer: self.optimizer,
            attention: self.attention,
            checkpointing: self.checkpointing,
            loss: self.loss,
            keep: self.keep,
            mode: self.mode,
            new_tokens: self.new_tokens,
            cache: self.cache,
            accumulation: self.accumulation,
            lora_rank: self.lora_rank,
            lora_targets: self.lora_targets,
            lora_dropout: self.lora_dropout,
            quantise: self.quantise,
            zero: self.zero,
            fsdp: self.fsdp,
            world_size: self.world_size,
            tensor_parallel: self.tensor_parallel,
            pipeline_parallel: self.pipeline_parallel,
            gpu: self.gpu,
            torch: self.torch,
        }
    }
}
