//! Whether a model can be served: the memory of vLLM, `SGLang`, llama.cpp and transformers, computed from a model's configuration, a GPU
//! and the engine's own flags.
//!
//! The arithmetic after the budget is the engines' own: pages, groups, blocks. The terms that are subtracted before are computed where
//! there is a rule, and fitted where there is none; a fitted number says on which rows.
//!
//! Pure: nothing is opened, printed or measured here.

mod answer;
mod arithmetic;
mod cache;
mod cache_type;
mod changes;
mod command;
mod error;
mod flags;
mod llama_cpp;
mod model;
mod question;
mod same;
mod sglang;
mod transformers;
mod version;
mod vllm;
mod weights;

pub use answer::*;
pub use cache_type::CacheType;
pub use command::Command;
pub use error::ServeError;
pub use flags::{Drafter, FLAGS, Flag, Settings};
pub use model::{Loading, Model};
pub use question::Question;
pub use same::first_flags;
pub use version::{Engine, Release, Version};
pub use weights::{Part, Split, Weight, WeightList};
