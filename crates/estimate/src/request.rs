//! What is asked: a model's run in the words of the command line, as values or as JSON.

use highwater_driver::Card;
use highwater_problem::Explained;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::architecture::Architecture;
use crate::choices::Choice as _;
use crate::dtype::DType;
use crate::options::{OPTIONS, Opt, Request};
use crate::setup::{Lora, Mode, Parallel, Platform, Quantisation, Setup, Sharding, TorchRelease};

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
        most: String,
    },
    /// A word is none of those that are known.
    #[error("`--{name} {value}` is not one of {known}")]
    Unknown {
        /// The option.
        name: &'static str,
        /// What it was given.
        value: String,
        /// What it takes.
        known: String,
    },
    /// There is no such option.
    #[error("unknown option `--{0}`")]
    NoOption(String),
    /// Two options exclude each other.
    #[error("`--{0}` and `--{1}` cannot be used together")]
    Both(&'static str, &'static str),
    /// An option means nothing without another.
    #[error("`--{0}` needs `--{1}`")]
    Needs(&'static str, &'static str),
    /// Weights that are quantised are not quantised again.
    #[error("`--quantise` needs weights that are not quantised yet: the checkpoint is {0}")]
    QuantisedAlready(String),
    /// The answer is more than any machine has.
    #[error("the result exceeds an exbibyte")]
    TooMuch,
}

impl Explained for RequestError {
    fn hint(&self) -> Option<String> {
        match self {
            RequestError::TooMuch => Some("check `--batch` and `--seq`".to_owned()),
            RequestError::QuantisedAlready(_) => Some(
                "leave out `--quantise`, or give the configuration of the model before it was quantised".to_owned(),
            ),
            RequestError::Unknown { name: "gpu", .. } => Some(
                "give any other GPU by its memory: `--fit 16GiB`, or `--gpu-memory 16GiB` with `--serve`".to_owned(),
            ),
            _ => None,
        }
    }
}

impl Request {
    /// Reads a request from JSON: the options by their names, numbers and flags as such or as text, as somebody typed
    /// them. What is not there, or null, is as on the command line.
    ///
    /// # Errors
    /// If there is no such option, or its value is of the wrong kind.
    pub fn from_json(options: &Map<String, Value>) -> Result<Request, RequestError> {
        let mut request = Request::default();
        for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
            let option = Opt::named(name).ok_or_else(|| RequestError::NoOption(name.chars().take(40).collect()))?;
            option.set(&mut request, value)?;
        }
        Ok(request)
    }

    /// The options that are not as when nothing is said, in the words of the command line; a flag is `true`.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let words = OPTIONS.iter().map(|option| (option, option.word(self)));
        words.filter(|(option, word)| *word != option.usual()).map(|(option, word)| (option.name, word)).collect()
    }

    /// Checks what the options say of each other, and again that each says what it may: fields are set without asking.
    fn check(&self) -> Result<(), RequestError> {
        let said = self.words();
        let is_said = |name: &str| said.iter().any(|&(one, _)| one == name);
        for (name, word) in &said {
            let Some(option) = Opt::named(name) else { continue };
            if !word.is_empty() {
                option.set(&mut Request::default(), &Value::from(word.as_str()))?;
            }
            if let Some(other) = option.excludes.filter(|other| is_said(other)) {
                return Err(RequestError::Both(other, option.name));
            }
            if let Some(other) = option.needs.filter(|other| !is_said(other)) {
                return Err(RequestError::Needs(option.name, other));
            }
        }
        Ok(())
    }

    /// The type of the weights: as said, else as the model's publisher has it. Under autocast they are float32, or
    /// there would be nothing to cast.
    fn dtype_of(&self, architecture: &Architecture) -> DType {
        let configured = architecture
            .dtype
            .filter(|dtype| self.autocast.is_none() && DType::ALL.iter().any(|(_, one, _)| one == dtype));
        self.dtype.or(configured).unwrap_or(DType::Float32)
    }

    /// The set-up of a model.
    ///
    /// # Errors
    /// If a number is 0 or beyond reason, or options exclude each other.
    pub fn setup(&self, architecture: &Architecture) -> Result<Setup, RequestError> {
        self.check()?;
        if let (Some(_), Some(quantization)) = (self.quantise, &architecture.quantization) {
            return Err(RequestError::QuantisedAlready(quantization.label.clone()));
        }
        let seq = self.seq.unwrap_or_else(|| architecture.max_positions.map_or(512, |limit| limit.min(512)));
        let lora = self.lora_rank.map(|rank| Lora {
            rank,
            dropout: self.lora_dropout,
            targets: self.lora_targets,
            dtype: DType::Float32,
        });
        Ok(Setup {
            batch: self.batch,
            seq,
            dtype: self.dtype_of(architecture),
            autocast: self.autocast.filter(|lower| lower.is_half()),
            optimizer: self.optimizer,
            attention: self.attention,
            checkpointing: self.checkpointing,
            loss: self.loss,
            keep: self.keep,
            mode: match self.mode {
                Mode::Generate { .. } => Mode::Generate { new_tokens: self.new_tokens },
                mode => mode,
            },
            accumulation: self.accumulation,
            lora,
            quantisation: self.quantise.unwrap_or(Quantisation::None),
            cache: self.cache,
            height: self.height,
            width: self.width,
            frames: self.frames,
            offload: self.offload,
            parallel: Parallel {
                world_size: self.world_size,
                sharding: if self.fsdp { Sharding::Fsdp } else { self.zero.sharding() },
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
        gpu: card.key,
        torch,
        compute_capability: card.compute_capability,
        has_cudnn_attention: true,
        multiprocessors: u64::from(card.multiprocessors),
        threads_per_multiprocessor: u64::from(card.multiprocessor().threads.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: &Value) -> Result<Request, RequestError> {
        Request::from_json(options.as_object().unwrap())
    }

    #[test]
    fn options_that_are_null_or_left_out_are_the_defaults() {
        assert_eq!(read(&json!({"seq": null})), Ok(Request::default()));
        let setup = Request::default().setup(&crate::read::named("gpt2").unwrap()).unwrap();
        assert_eq!(setup, Setup::training(1, 512));
    }

    #[test]
    fn words_of_a_request_are_its_options_that_differ_from_the_defaults() {
        assert_eq!(Request::default().words(), []);
        let said = json!({"batch": "4", "checkpointing": "true", "mode": "generate", "gpu": "A100-80"});
        let request = read(&said).unwrap();
        let words = [("batch", "4"), ("checkpointing", "true"), ("mode", "generate"), ("gpu", "a100")];
        assert_eq!(request.words(), words.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn what_was_set_without_asking_is_checked_as_well() {
        let gpt2 = crate::read::named("gpt2").unwrap();
        let refused = |request: Request| request.setup(&gpt2).unwrap_err().to_string();
        let batch = Request { batch: 0, ..Request::default() };
        assert_eq!(refused(batch), "`--batch 0` is not between 1 and 4,294,967,296");
        let dropout = Request { lora_rank: Some(8), lora_dropout: f64::NAN, ..Request::default() };
        assert_eq!(refused(dropout), "`--lora-dropout NaN` is not between 0 and 1");
    }

    #[test]
    fn a_refused_request_names_the_option_and_its_value() {
        let said = |options: &Value| {
            let setup = read(options).and_then(|request| request.setup(&crate::read::named("gpt2").unwrap()));
            setup.unwrap_err().to_string()
        };
        assert_eq!(said(&json!({"batch": 0})), "`--batch 0` is not between 1 and 4,294,967,296");
        assert_eq!(said(&json!({"seq": 1.5})), "`--seq 1.5` is not between 1 and 4,294,967,296");
        assert_eq!(said(&json!({"zero": 4})), "`--zero 4` is not one of 0, 1, 2, 3");
        assert_eq!(said(&json!({"attention": "fast"})), "`--attention fast` is not one of sdpa, eager, flash");
        assert_eq!(said(&json!({"checkpointing": "yes"})), "`--checkpointing yes` is not one of true, false");
        assert_eq!(said(&json!({"fsdp": true, "zero": 1})), "`--fsdp` and `--zero` cannot be used together");
        assert_eq!(said(&json!({"quantise": "nf4"})), "`--quantise` needs `--lora-rank`");
        assert_eq!(said(&json!({"lora-dropout": 0.1})), "`--lora-dropout` needs `--lora-rank`");
        assert_eq!(said(&json!({"lora-rank": 8, "lora-dropout": 2})), "`--lora-dropout 2` is not between 0 and 1");
        assert_eq!(said(&json!({"colour": 1})), "unknown option `--colour`");
    }
}
