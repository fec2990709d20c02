//! Fields of a configuration: found under any of their names, checked, or assumed and said so.

use highwater_problem::Explained;
use serde_json::{Map, Value};
use thiserror::Error;

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is no JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// It is JSON, but no object.
    #[error("expected a JSON object, found {0}")]
    NotAnObject(&'static str),
    /// A field holds something else than it should.
    #[error("`{field}` is {found}, expected {expected}")]
    BadField {
        /// The field.
        field: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// Two fields contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// A model of an unknown kind that does not say how large it is.
    #[error("the architecture `{0}` is unknown, and the configuration does not give the size of the model")]
    UnknownSize(String),
    /// Weights that are quantised in a way that is not known.
    #[error("the quantisation {0} is unknown")]
    UnknownQuantization(String),
    /// A model that is known, and whose memory cannot be computed.
    #[error("the architecture `{name}` cannot be estimated: {reason}")]
    NotComputed {
        /// Its `model_type`, or the class that a configuration names.
        name: String,
        /// Why not.
        reason: String,
    },
}

impl Explained for ConfigError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            ConfigError::NotJson(_) | ConfigError::NotAnObject(_) => {
                "give a model's `config.json`, its directory, or a `.safetensors` or `.gguf` file"
            }
            ConfigError::UnknownSize(_) | ConfigError::NotComputed { .. } => {
                "give the file of weights (`model.safetensors` or its index) instead: its header has the exact number of parameters"
            }
            ConfigError::UnknownQuantization(_) => {
                return Some(format!(
                    "known: {}; without `quantization_config` the configuration is that of the model before",
                    super::quantization::KNOWN
                ));
            }
            ConfigError::BadField { .. } | ConfigError::Contradiction(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// The largest size that is believed: a model with more of anything does not exist.
const LARGEST: u64 = 1 << 32;

/// The fields of one configuration.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// What was assumed so far.
    pub(super) assumptions: Vec<String>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(map: &'a Map<String, Value>) -> Fields<'a> {
        Fields { map, assumptions: Vec::new() }
    }

    /// The first of these fields that is there and not null.
    pub(super) fn any(&self, names: &[&str]) -> Option<(&'a str, &'a Value)> {
        names
            .iter()
            .find_map(|name| self.map.get_key_value(*name))
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.as_str(), value))
    }

    /// A count or size of at least 1, if the field is there.
    pub(super) fn count_if(&self, names: &[&str]) -> Result<Option<u64>, ConfigError> {
        let Some((name, value)) = self.any(names) else { return Ok(None) };
        match value.as_u64().or_else(|| super::hybrids::one_width(value)) {
            Some(count @ 1..=LARGEST) => Ok(Some(count)),
            _ => Err(bad(name, value, "a whole number from 1 to 4,294,967,296")),
        }
    }

    /// Height and width, which are one number where they are equal.
    pub(super) fn sides(&mut self, name: &str, default: u64) -> Result<[u64; 2], ConfigError> {
        let Some((name, Value::Array(list))) = self.any(&[name]) else {
            return Ok([self.count(&[name], default)?; 2]);
        };
        let side = |value: &Value| value.as_u64().filter(|side| (1..=LARGEST).contains(side));
        match list.as_slice() {
            [height, width] => side(height).zip(side(width)).map(|(height, width)| [height, width]),
            _ => None,
        }
        .ok_or_else(|| bad(name, &Value::Array(list.clone()), "a number, or height and width"))
    }

    /// A count or size; transformers' own default, said so, where the field is missing.
    pub(super) fn count(&mut self, names: &[&str], default: u64) -> Result<u64, ConfigError> {
        match self.count_if(names)? {
            Some(count) => Ok(count),
            None => {
                self.assume(names[0], &default.to_string());
                Ok(default)
            }
        }
    }

    /// A count that may be 0 or missing.
    pub(super) fn count_or_zero(&self, names: &[&str]) -> Result<u64, ConfigError> {
        match self.any(names) {
            None => Ok(0),
            Some((name, value)) => value
                .as_u64()
                .filter(|count| *count <= LARGEST)
                .ok_or_else(|| bad(name, value, "a whole number from 0")),
        }
    }

    /// A yes or no.
    pub(super) fn flag(&self, names: &[&str], default: bool) -> Result<bool, ConfigError> {
        match self.any(names) {
            None => Ok(default),
            Some((name, value)) => value.as_bool().ok_or_else(|| bad(name, value, "true or false")),
        }
    }

    /// A probability.
    pub(super) fn probability(&self, names: &[&str], default: f64) -> Result<f64, ConfigError> {
        match self.any(names) {
            None => Ok(default),
            Some((name, value)) => value
                .as_f64()
                .filter(|p| (0.0..=1.0).contains(p))
                .ok_or_else(|| bad(name, value, "a number from 0 to 1")),
        }
    }

    /// A positive number.
    pub(super) fn number(&self, names: &[&str]) -> Result<Option<f64>, ConfigError> {
        match self.any(names) {
            None => Ok(None),
            Some((name, value)) => {
                value.as_f64().filter(|number| number.is_finite()).map(Some).ok_or_else(|| bad(name, value, "a number"))
            }
        }
    }

    /// A word.
    pub(super) fn word(&self, names: &[&str]) -> Result<Option<&'a str>, ConfigError> {
        match self.any(names) {
            None => Ok(None),
            Some((name, value)) => value.as_str().map(Some).ok_or_else(|| bad(name, value, "a word")),
        }
    }

    /// A list of words.
    pub(super) fn words(&self, names: &[&str]) -> Option<Vec<&'a str>> {
        let (_, value) = self.any(names)?;
        value.as_array()?.iter().map(Value::as_str).collect()
    }

    /// A list of whole numbers.
    pub(super) fn numbers(&self, names: &[&str]) -> Vec<u64> {
        let list = self.any(names).and_then(|(_, value)| value.as_array());
        list.map(|list| list.iter().filter_map(Value::as_u64).collect()).unwrap_or_default()
    }

    /// Whether the field is there and null.
    pub(super) fn says_null(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(Value::is_null)
    }

    /// An object within.
    pub(super) fn object(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.map.get(name).and_then(Value::as_object)
    }

    /// Takes down that a field was missing.
    pub(super) fn assume(&mut self, field: &str, value: &str) {
        self.assumptions.push(format!("`{field}` is missing: assumed to be {value}, transformers' own default"));
    }
}

fn bad(field: &str, value: &Value, expected: &'static str) -> ConfigError {
    let mut found = value.to_string();
    if found.chars().count() > 40 {
        found = found.chars().take(40).chain("…".chars()).collect();
    }
    ConfigError::BadField { field: field.to_owned(), found: format!("`{found}`"), expected }
}
