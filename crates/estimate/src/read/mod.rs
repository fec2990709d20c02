//! Reading what describes a model: configurations, headers of files of weights, names. Everything works on bytes that somebody
//! else has read; nothing here opens a file.

mod catalogue;
mod catalogue_pipelines;
mod catalogue_published;
mod catalogue_today;
mod config;
mod convolutions;
mod description;
mod diffusion;
mod families;
mod families_today;
mod fields;
mod gguf_config;
mod hybrids;
mod networks;
mod pipeline;
mod quantization;
mod unet;
mod video;
mod weights;

pub use catalogue::{catalogue_names, configuration, named};
pub use config::{from_config, from_config_value};
pub use description::{Description, DescriptionError, Model, describe, wanted_bytes};
pub use fields::ConfigError;
pub(crate) use pipeline::{component_at, parameters_of};
pub(crate) use quantization::bits4;
pub use quantization::quantization;
pub use weights::{
    Counted, GGUF_HEADER_LIMIT, HeaderError, SAFETENSORS_HEADER_LIMIT, gguf_header, safetensors_header,
    safetensors_header_length, safetensors_index,
};
