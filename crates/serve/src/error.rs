//! What is wrong with a question.

use highwater_estimate::read::ConfigError;
use highwater_problem::Explained;
use thiserror::Error;

use crate::version::Engine;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// There is no such engine here.
    #[error("unknown engine `{0}`")]
    UnknownEngine(String),
    /// Its release is not a number.
    #[error("`{1}` is not a release of {0}")]
    BadVersion(Engine, String),
    /// A configuration lacks what the cache needs, or contradicts itself.
    #[error("{0}")]
    Config(String),
    /// There is no model of this name.
    #[error("unknown model `{0}`")]
    UnknownModel(String),
    /// There are weights alone.
    #[error("`{0}` has weights, but no configuration: the cache cannot be computed")]
    NoConfig(String),
    /// A configuration that is not read.
    #[error(transparent)]
    Model(ConfigError),
    /// The checkpoint is quantised otherwise than the flag says.
    #[error("`--quantization {0}` contradicts the checkpoint, which is quantised with {1}")]
    OtherQuantization(String, String),
    /// The checkpoint is not quantised, and the method does not quantise at load.
    #[error(
        "`--quantization {0}` needs a checkpoint quantised with it: the configuration has no `quantization_config`"
    )]
    NotQuantized(String),
    /// A flag has a value that it does not take.
    #[error("`--{name} {value}` is not {expected}")]
    BadValue {
        /// The flag.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// The engine has no such flag.
    #[error("{engine} does not have `--{name}`")]
    NotOfEngine {
        /// The engine.
        engine: Engine,
        /// The flag.
        name: &'static str,
        /// The flag that does the same there.
        instead: Option<&'static str>,
    },
    /// This release of the engine has no such flag.
    #[error("{engine} {version} does not have `--{name}`: {since} added it")]
    NotYet {
        /// The engine.
        engine: Engine,
        /// The release.
        version: String,
        /// The flag.
        name: &'static str,
        /// The release that brought it.
        since: String,
    },
    /// This release of vLLM has only the newer engine.
    #[error("vllm {0} does not have the older engine, V0: 0.10 was its last release")]
    NoV0(String),
    /// The engine does not serve this kind of model.
    #[error("{0} does not serve `{1}`: {2}")]
    Unserved(Engine, String, &'static str),
    /// Two flags contradict each other.
    #[error("`--{0}` and `--{1}` contradict each other")]
    Both(&'static str, &'static str),
    /// A pasted command line cannot be read.
    #[error("the command line behind `--` {0}")]
    Command(String),
    /// A need cannot be read.
    #[error("`--need {0}` does not give requests and their length")]
    BadNeed(String),
}

impl Explained for ServeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            ServeError::UnknownEngine(_) => {
                "give vllm, sglang, llama.cpp or transformers, such as `vllm@0.11.0`".into()
            }
            ServeError::BadVersion(engine, _) => format!("give numbers, such as `{engine}@{}`", engine.usual()),
            ServeError::NotOfEngine { instead: Some(instead), .. } => format!("use `--{instead}`"),
            ServeError::NotOfEngine { .. } => "leave it out, or choose another engine with `--serve`".into(),
            ServeError::NoV0(_) => "leave `+v0` or `VLLM_USE_V1=0` out, or give an older release, such as `vllm@0.8.5`".into(),
            ServeError::NotYet { .. } => "leave it out, or give a newer release".into(),
            ServeError::OtherQuantization(..) => "leave it out: engines read the method from the checkpoint".into(),
            ServeError::Unserved(..) => "choose another engine with `--serve`, such as vllm or transformers".into(),
            ServeError::NotQuantized(_) => {
                "give the quantised checkpoint's `config.json`; fp8 and bitsandbytes quantise at load".into()
            }
            ServeError::UnknownModel(_) => {
                "give a name that `highwater estimate --list` prints, or a `config.json`".into()
            }
            ServeError::NoConfig(_) => "put the model's `config.json` beside the weights".into(),
            ServeError::Both(..) => "give one of them".into(),
            ServeError::BadNeed(_) => {
                "write it as in `--need \"32 requests of 8192 tokens\"`, or `--need 32x8192`".into()
            }
            ServeError::Model(ConfigError::NotComputed { .. } | ConfigError::UnknownSize(_)) => {
                "engines' memory follows the layers: give the `config.json` of a family that `highwater estimate --list` names".into()
            }
            ServeError::Model(error) => return error.hint(),
            ServeError::Config(_) | ServeError::BadValue { .. } | ServeError::Command(_) => return None,
        })
    }
}
