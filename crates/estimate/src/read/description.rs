//! What describes a model, taken out of its files: small enough to be sent along, enough to work out its architecture.

use std::path::Path;

use highwater_problem::Explained;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::catalogue::named;
use super::config::from_config_value;
use super::fields::ConfigError;
use super::weights::{
    Counted, GGUF_HEADER_LIMIT, HeaderError, gguf_header, safetensors_header, safetensors_header_length,
};
use crate::architecture::Architecture;

/// The longest `config.json` that is read.
const CONFIG_LIMIT: u64 = 64 << 20;

/// A model, as a request has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Model {
    /// By its name in the catalogue.
    Named(String),
    /// By what its files say.
    Described(Box<Description>),
}

impl Model {
    /// The architecture.
    ///
    /// # Errors
    /// [`DescriptionError`]: the name is not known, or the description is of no model.
    pub fn architecture(&self) -> Result<Architecture, DescriptionError> {
        match self {
            Model::Named(name) => named(name).ok_or_else(|| DescriptionError::Name(name.chars().take(80).collect())),
            Model::Described(description) => description.architecture().map_err(|source| {
                let name = description.name.clone().unwrap_or_else(|| "config.json".to_owned());
                DescriptionError::Config { name, source }
            }),
        }
    }
}

/// What the files of a model say of it. As JSON it can stand in an address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Description {
    /// What to call it where the configuration does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// What the headers of its weights list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// Whether both were read from a GGUF file, whose names and weights are not those of transformers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_gguf: bool,
}

impl Description {
    /// The architecture.
    ///
    /// # Errors
    /// [`ConfigError`]: of the configuration; that of a GGUF file is only believed where it makes sense.
    pub fn architecture(&self) -> Result<Architecture, ConfigError> {
        let name = self.name.as_deref().unwrap_or("model");
        let mut architecture = match (&self.config, &self.counted) {
            (Some(config), Some(counted)) if self.is_gguf => from_config_value(config).unwrap_or_else(|_| {
                counted.architecture(config.get("model_type").and_then(Value::as_str).unwrap_or(name))
            }),
            (Some(config), Some(counted)) => match from_config_value(config) {
                Err(ConfigError::NotComputed { name, reason }) => {
                    let mut architecture = counted.architecture(&name);
                    architecture.assumptions =
                        vec![format!("`{name}` is known by the size of its weights alone: {reason}")];
                    architecture
                }
                read => read?,
            },
            (Some(config), None) => from_config_value(config)?,
            (None, Some(counted)) => counted.architecture(name),
            (None, None) => return Err(ConfigError::UnknownSize(name.to_owned())),
        };
        architecture.counted_parameters = self.counted.as_ref().map(|counted| counted.parameters);
        if self.is_gguf {
            architecture.assumptions.push(
                "read from a GGUF header: weights are estimated in the type of `--dtype`, not quantised".to_owned(),
            );
        }
        Ok(architecture)
    }
}

/// Why a file describes no model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// There is no model of this name in the catalogue.
    #[error("unknown model `{0}`")]
    Name(String),
    /// It is a configuration, but not of a model.
    #[error("`{name}` does not describe a model that can be estimated")]
    Config {
        /// The file.
        name: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// It is a file of weights whose header cannot be read.
    #[error("`{name}` is not a readable {format} file")]
    Weights {
        /// The file.
        name: String,
        /// What it should be.
        format: &'static str,
        /// What is wrong.
        source: HeaderError,
    },
    /// It is longer than any configuration.
    #[error("`{name}` is not a `config.json`")]
    TooLong {
        /// The file.
        name: String,
        /// How long it is.
        source: TooLong,
    },
    /// It names other files, which have to be read beside it.
    #[error("`{name}` only lists the files of the weights")]
    Index {
        /// The file.
        name: String,
    },
}

/// How long a file is that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it has {0} bytes")]
pub struct TooLong(u64);

impl Explained for DescriptionError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            DescriptionError::Config { source, .. } => return source.hint(),
            DescriptionError::Weights { .. } => "download it again, or give the model's `config.json`",
            DescriptionError::Name(_) => "`highwater estimate --list` prints the known ones",
            DescriptionError::TooLong { .. } => return None,
            DescriptionError::Index { .. } => "give the model's `config.json`, or its directory",
        };
        Some(hint.to_owned())
    }
}

enum Kind {
    Config,
    Safetensors,
    Index,
    Gguf,
}

/// What a file is, by its name and its first bytes.
fn kind(name: &str, start: &[u8]) -> Kind {
    let name = name.to_ascii_lowercase();
    let is = |ending: &str| name.ends_with(ending);
    match () {
        () if is(".safetensors") => Kind::Safetensors,
        () if is(".safetensors.index.json") => Kind::Index,
        () if start.starts_with(b"GGUF") || is(".gguf") => Kind::Gguf,
        () => Kind::Config,
    }
}

/// How many bytes of a file [`describe`] wants, by the first eight of them: of weights only the header.
pub fn wanted_bytes(name: &str, start: &[u8], file_bytes: u64) -> u64 {
    let wanted = match kind(name, start) {
        // What is wrong with it says `describe`, for which eight bytes are enough.
        Kind::Safetensors => safetensors_header_length(start, file_bytes).map_or(8, |length| length.saturating_add(8)),
        Kind::Gguf => GGUF_HEADER_LIMIT,
        Kind::Config if file_bytes > CONFIG_LIMIT => 8,
        Kind::Config => CONFIG_LIMIT,
        Kind::Index => 8,
    };
    wanted.min(file_bytes)
}

/// What a file says of its model, from as many of its first bytes as [`wanted_bytes`] says.
///
/// # Errors
/// [`DescriptionError`]: it is no file that describes a model.
pub fn describe(name: &str, start: &[u8], file_bytes: u64) -> Result<Description, DescriptionError> {
    let of_weights = |format| move |source| DescriptionError::Weights { name: name.to_owned(), format, source };
    match kind(name, start) {
        Kind::Safetensors => {
            let length = safetensors_header_length(start, file_bytes).map_err(of_weights("safetensors"))?;
            let end = usize::try_from(length.saturating_add(8)).unwrap_or(usize::MAX).min(start.len());
            let counted =
                safetensors_header(start.get(8..end).unwrap_or_default()).map_err(of_weights("safetensors"))?;
            let stem = Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            Ok(Description { name: stem, counted: Some(counted), ..Description::default() })
        }
        Kind::Index => Err(DescriptionError::Index { name: name.to_owned() }),
        Kind::Gguf => gguf_header(start, file_bytes).map_err(of_weights("GGUF")),
        Kind::Config if file_bytes > CONFIG_LIMIT => {
            Err(DescriptionError::TooLong { name: name.to_owned(), source: TooLong(file_bytes) })
        }
        Kind::Config => {
            let bad = |source| DescriptionError::Config { name: name.to_owned(), source };
            let config = super::config::json_of(start).map_err(bad)?;
            let described = Description { config: Some(config), ..Description::default() };
            described.architecture().map_err(bad)?;
            Ok(described)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &str, bytes: &[u8]) -> Result<Description, DescriptionError> {
        let file_bytes = bytes.len() as u64;
        let wanted = wanted_bytes(name, &bytes[..bytes.len().min(8)], file_bytes);
        describe(name, &bytes[..usize::try_from(wanted).unwrap()], file_bytes)
    }

    #[test]
    fn only_the_header_of_weights_is_wanted() {
        let header = br#"{"a":{"dtype":"BF16","shape":[1000,1000],"data_offsets":[0,2000000]}}"#;
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_slice(), &[7; 100]].concat();
        assert_eq!(wanted_bytes("a.safetensors", &bytes[..8], 2_000_077), 8 + header.len() as u64);
        let model = described("models/a.safetensors", &bytes).unwrap();
        assert_eq!(model.name.as_deref(), Some("a"));
        assert_eq!(model.architecture().unwrap().counted_parameters, Some(1_000_000));
    }

    #[test]
    fn a_description_comes_back_from_json() {
        let bytes = br#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}"#;
        let model = described("config.json", bytes).unwrap();
        let text = serde_json::to_string(&model).unwrap();
        let again: Description = serde_json::from_str(&text).unwrap();
        assert_eq!(again.architecture(), model.architecture());
    }

    #[test]
    fn what_describes_no_model_is_said() {
        let said = |name: &str, bytes: &[u8]| described(name, bytes).unwrap_err().to_string();
        assert_eq!(said("a.json", b"[]"), "`a.json` does not describe a model that can be estimated");
        assert_eq!(said("a.safetensors", b"abc"), "`a.safetensors` is not a readable safetensors file");
        assert_eq!(said("a.gguf", b"GG"), "`a.gguf` is not a readable GGUF file");
        let index = described("model.safetensors.index.json", b"{}").unwrap_err();
        assert!(index.to_string().contains("only lists the files"), "{index}");
        let long = describe("a.json", b"{", CONFIG_LIMIT + 1).unwrap_err();
        assert_eq!(long.to_string(), "`a.json` is not a `config.json`");
    }
}
