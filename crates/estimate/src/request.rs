//! What is asked: a model's run in the words of the command line, as values or as JSON.

use highwater_driver::Card;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::architecture::Architecture;
use crate::choices::{Choice, NEW_TOKENS};
use crate::dtype::DType;
use crate::setup::{
    Attention, CacheKind, Keep, Lora, LoraTargets, Loss, Mode, Optimizer, Parallel, Platform, Quantisation, Setup,
    Sharding, TorchRelease,
};

/// What makes no sense in a request. `--name` is the option of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A number is 0, beyond reason, or none.
    #[error("`--{name} {value}` is not between {least} and {most}")]
    OutOfRange {
        /// The option.
        name: &'static str,
        /// What it was given.
        value: String,
        /// The least that it takes.
        least: u64,
        /// The most, with separators.
        most: &'static str,
    },
    /// A word is none of those that are known.
    #[error("`--{name} {value}` is none of {known}")]
    Unknown {
        /// The option.
        name: &'static str,
        /// What it was given.
        value: String,
        /// What it takes.
        known: String,
    },
    /// There is no such option.
    #[error("`--{0}` is no option of an estimate")]
    NoOption(String),
    /// Two options exclude each other.
    #[error("`--{0}` and `--{1}` exclude each other")]
    Both(&'static str, &'static str),
    /// An option means nothing without another.
    #[error("`--{0}` needs `--{1}`")]
    Needs(&'static str, &'static str),
    /// The answer is more than any machine has.
    #[error("this needs more than an exbibyte")]
    TooMuch,
}

impl RequestError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RequestError::TooMuch => Some("look at `--batch` and `--seq`"),
            _ => None,
        }
    }
}

/// How a model is run, before anything is known of the model. Each field is the option of that name.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the options of `highwater estimate`, which its help explains; see also `Setup`")]
pub struct Request {
    pub batch: u64,
    /// 512 or the model's limit, if it is not said.
    pub seq: Option<u64>,
    pub dtype: DType,
    pub autocast: Option<DType>,
    pub optimizer: Optimizer,
    pub attention: Attention,
    pub checkpointing: bool,
    pub loss: Loss,
    pub keep: Keep,
    /// How many tokens are generated is said by `new_tokens`.
    pub mode: Mode,
    pub new_tokens: u64,
    pub cache: CacheKind,
    pub accumulation: u64,
    pub lora_rank: Option<u64>,
    pub lora_targets: LoraTargets,
    pub lora_dropout: f64,
    pub quantise: Option<Quantisation>,
    pub zero: Option<u8>,
    pub fsdp: bool,
    pub world_size: u64,
    pub tensor_parallel: u64,
    pub pipeline_parallel: u64,
    pub gpu: &'static Card,
    pub torch: TorchRelease,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            batch: 1,
            seq: None,
            dtype: DType::Float32,
            autocast: None,
            optimizer: Optimizer::first(),
            attention: Attention::first(),
            checkpointing: false,
            loss: Loss::first(),
            keep: Keep::first(),
            mode: Mode::first(),
            new_tokens: NEW_TOKENS,
            cache: CacheKind::first(),
            accumulation: 1,
            lora_rank: None,
            lora_targets: LoraTargets::first(),
            lora_dropout: 0.0,
            quantise: None,
            zero: None,
            fsdp: false,
            world_size: 1,
            tensor_parallel: 1,
            pipeline_parallel: 1,
            gpu: Card::named(DEFAULT_CARD).unwrap_or(&highwater_driver::CARDS[0]),
            torch: TorchRelease::first(),
        }
    }
}

/// The card that is meant if nobody names one: the one whose measurements stand behind the estimates.
pub const DEFAULT_CARD: &str = "h200";

/// No count is larger.
const MOST: u64 = 1 << 32;
const MOST_IN_WORDS: &str = "4,294,967,296";

impl Request {
    /// Reads a request from JSON: the options by their names, numbers and flags as such or as text, as somebody typed them. What
    /// is not there, or null, is as on the command line.
    ///
    /// # Errors
    /// If there is no such option, or its value is of the wrong kind.
    pub fn from_json(options: &Map<String, Value>) -> Result<Request, RequestError> {
        let mut request = Request::default();
        for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "batch" => request.batch = count("batch", value)?,
                "seq" => request.seq = Some(count("seq", value)?),
                "dtype" => request.dtype = dtype("dtype", value)?,
                "autocast" => request.autocast = Some(dtype("autocast", value)?),
                "optimizer" => request.optimizer = choice("optimizer", value)?,
                "attention" => request.attention = choice("attention", value)?,
                "checkpointing" => request.checkpointing = flag("checkpointing", value)?,
                "loss" => request.loss = choice("loss", value)?,
                "keep" => request.keep = choice("keep", value)?,
                "mode" => request.mode = choice("mode", value)?,
                "new-tokens" => request.new_tokens = count("new-tokens", value)?,
                "cache" => request.cache = choice("cache", value)?,
                "accumulation" => request.accumulation = count("accumulation", value)?,
                "lora-rank" => request.lora_rank = Some(count("lora-rank", value)?),
                "lora-targets" => request.lora_targets = choice("lora-targets", value)?,
                "lora-dropout" => request.lora_dropout = share("lora-dropout", value)?,
                "quantise" => request.quantise = Some(choice("quantise", value)?),
                "zero" => request.zero = Some(u8::try_from(count("zero", value)?).unwrap_or(u8::MAX)),
                "fsdp" => request.fsdp = flag("fsdp", value)?,
                "world-size" => request.world_size = count("world-size", value)?,
                "tensor-parallel" => request.tensor_parallel = count("tensor-parallel", value)?,
                "pipeline-parallel" => request.pipeline_parallel = count("pipeline-parallel", value)?,
                "gpu" => request.gpu = card("gpu", value)?,
                "torch" => request.torch = choice("torch", value)?,
                _ => return Err(RequestError::NoOption(name.chars().take(40).collect())),
            }
        }
        Ok(request)
    }

    /// The options that are not as when nothing is said, in the words of the command line; a flag is `true`.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let (own, usual) = (self.all_words(), Request::default().all_words());
        own.into_iter().zip(usual).filter(|(own, usual)| own != usual).map(|(own, _)| own).collect()
    }

    /// Every option; what is not said is empty.
    pub fn all_words(&self) -> Vec<(&'static str, String)> {
        fn said(value: Option<impl ToString>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        vec![
            ("batch", self.batch.to_string()),
            ("seq", said(self.seq)),
            ("dtype", self.dtype.to_string()),
            ("autocast", said(self.autocast)),
            ("optimizer", self.optimizer.name().to_owned()),
            ("attention", self.attention.name().to_owned()),
            ("checkpointing", self.checkpointing.to_string()),
            ("loss", self.loss.name().to_owned()),
            ("keep", self.keep.name().to_owned()),
            ("mode", self.mode.name().to_owned()),
            ("new-tokens", self.new_tokens.to_string()),
            ("cache", self.cache.name().to_owned()),
            ("accumulation", self.accumulation.to_string()),
            ("lora-rank", said(self.lora_rank)),
            ("lora-targets", self.lora_targets.name().to_owned()),
            ("lora-dropout", self.lora_dropout.to_string()),
            ("quantise", said(self.quantise.map(Choice::name))),
            ("zero", said(self.zero)),
            ("fsdp", self.fsdp.to_string()),
            ("world-size", self.world_size.to_string()),
            ("tensor-parallel", self.tensor_parallel.to_string()),
            ("pipeline-parallel", self.pipeline_parallel.to_string()),
            ("gpu", self.gpu.key.to_owned()),
            ("torch", self.torch.name().to_owned()),
        ]
    }

    /// The set-up of a model.
    ///
    /// # Errors
    /// If a number is 0 or beyond reason, or options exclude each other.
    pub fn setup(&self, architecture: &Architecture) -> Result<Setup, RequestError> {
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
            if !(1..=MOST).contains(&value) {
                return Err(out_of_range(name, &value));
            }
        }
        if !(0.0..=1.0).contains(&self.lora_dropout) {
            return Err(no_share("lora-dropout", &self.lora_dropout));
        }
        if let Some(stage @ 4..) = self.zero {
            return Err(RequestError::OutOfRange { name: "zero", value: stage.to_string(), least: 0, most: "3" });
        }
        if self.fsdp && self.zero.is_some() {
            return Err(RequestError::Both("fsdp", "zero"));
        }
        if self.quantise.is_some() && self.lora_rank.is_none() {
            return Err(RequestError::Needs("quantise", "lora-rank"));
        }
        let lora = self.lora_rank.map(|rank| Lora {
            rank,
            dropout: self.lora_dropout,
            targets: self.lora_targets,
            dtype: DType::Float32,
        });
        Ok(Setup {
            batch: self.batch,
            seq,
            dtype: self.dtype,
            autocast: self.autocast.filter(|lower| lower.is_half()),
            optimizer: self.optimizer,
            attention: self.attention,
            checkpointing: self.checkpointing,
            loss: self.loss,
            keep: self.keep,
            mode: match self.mode {
                Mode::Generate { .. } => Mode::Generate { new_tokens: self.new_tokens.min(MOST) },
                mode => mode,
            },
            accumulation: self.accumulation,
            lora,
            quantisation: self.quantise.unwrap_or(Quantisation::None),
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

/// What a card decides.
fn platform(card: &Card, torch: TorchRelease) -> Platform {
    Platform {
        torch,
        compute_capability: card.compute_capability,
        has_cudnn_attention: true,
        multiprocessors: u64::from(card.multiprocessors),
        threads_per_multiprocessor: u64::from(card.multiprocessor().threads.unsigned_abs()),
    }
}

fn out_of_range(name: &'static str, value: &impl ToString) -> RequestError {
    RequestError::OutOfRange { name, value: value.to_string(), least: 1, most: MOST_IN_WORDS }
}

fn no_share(name: &'static str, value: &impl ToString) -> RequestError {
    RequestError::OutOfRange { name, value: value.to_string(), least: 0, most: "1" }
}

fn count(name: &'static str, value: &Value) -> Result<u64, RequestError> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    number.ok_or_else(|| out_of_range(name, &shown(value)))
}

fn share(name: &'static str, value: &Value) -> Result<f64, RequestError> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.ok_or_else(|| no_share(name, &shown(value)))
}

fn flag(name: &'static str, value: &Value) -> Result<bool, RequestError> {
    let flag = value.as_bool().or_else(|| value.as_str()?.parse().ok());
    flag.ok_or_else(|| unknown(name, value, ["true", "false"]))
}

fn dtype(name: &'static str, value: &Value) -> Result<DType, RequestError> {
    let named = value.as_str().and_then(DType::named);
    named.ok_or_else(|| unknown(name, value, ["float32", "bfloat16", "float16"]))
}

fn choice<T: Choice>(name: &'static str, value: &Value) -> Result<T, RequestError> {
    value.as_str().and_then(T::named).ok_or_else(|| unknown(name, value, T::ALL.iter().map(|(known, ..)| *known)))
}

pub(crate) fn card(name: &'static str, value: &Value) -> Result<&'static Card, RequestError> {
    let named = value.as_str().and_then(Card::named);
    named.ok_or_else(|| unknown(name, value, Card::keys()))
}

fn unknown(name: &'static str, value: &Value, known: impl IntoIterator<Item = &'static str>) -> RequestError {
    let known: Vec<&str> = known.into_iter().collect();
    RequestError::Unknown { name, value: shown(value), known: known.join(", ") }
}

/// A value as it was written, as far as one wants to read it.
fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().filter(|letter| !letter.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: &Value) -> Result<Request, RequestError> {
        Request::from_json(options.as_object().unwrap())
    }

    #[test]
    fn what_is_not_said_is_as_on_the_command_line() {
        assert_eq!(read(&json!({"seq": null})), Ok(Request::default()));
        let setup = Request::default().setup(&crate::read::named("gpt2").unwrap()).unwrap();
        assert_eq!(setup, Setup::training(1, 512));
    }

    #[test]
    fn its_words_are_what_was_said() {
        assert_eq!(Request::default().words(), []);
        let said = json!({"batch": "4", "checkpointing": "true", "mode": "generate", "gpu": "A100-80"});
        let request = read(&said).unwrap();
        let words = [("batch", "4"), ("checkpointing", "true"), ("mode", "generate"), ("gpu", "a100")];
        assert_eq!(request.words(), words.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let said = |options: &Value| {
            let setup = read(options).and_then(|request| request.setup(&crate::read::named("gpt2").unwrap()));
            setup.unwrap_err().to_string()
        };
        assert_eq!(said(&json!({"batch": 0})), "`--batch 0` is not between 1 and 4,294,967,296");
        assert_eq!(said(&json!({"seq": 1.5})), "`--seq 1.5` is not between 1 and 4,294,967,296");
        assert_eq!(said(&json!({"zero": 4})), "`--zero 4` is not between 0 and 3");
        assert_eq!(said(&json!({"attention": "fast"})), "`--attention fast` is none of sdpa, eager, flash");
        assert_eq!(said(&json!({"checkpointing": "yes"})), "`--checkpointing yes` is none of true, false");
        assert_eq!(said(&json!({"fsdp": true, "zero": 1})), "`--fsdp` and `--zero` exclude each other");
        assert_eq!(said(&json!({"quantise": "nf4"})), "`--quantise` needs `--lora-rank`");
        assert_eq!(said(&json!({"colour": 1})), "`--colour` is no option of an estimate");
    }
}
