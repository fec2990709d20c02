//! Reading what describes a model: configurations, headers of files of weights, names. Everything works on bytes that somebody
//! else has read; nothing here opens a file.

mod catalogue;
mod config;
mod fields;

pub use catalogue::{catalogue_names, named};
pub use config::{from_config, from_config_value};
pub use fields::ConfigError;
