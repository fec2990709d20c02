//! Fields of a configuration as a reader of caches wants them: found under any of their names, and bounded.

use serde_json::{Map, Value};

use crate::error::ServeError;
use crate::version::short;

/// No size of a model is larger.
const LARGEST: u64 = 1 << 32;

/// A configuration, or the part of it that describes the language model.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// The first of these fields that is there and not null.
    pub(crate) fn any(self, names: &[&str]) -> Option<(&'a str, &'a Value)> {
        names
            .iter()
            .find_map(|name| self.0.get_key_value(*name))
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.as_str(), value))
    }

    /// A size from 0, if the field is there.
    pub(crate) fn size_if(self, names: &[&str]) -> Result<Option<u64>, ServeError> {
        let Some((name, value)) = self.any(names) else { return Ok(None) };
        let wrong = || {
            ServeError::Config(format!(
                "`{name}` of the configuration is `{}`, expected a whole number up to 4,294,967,296",
                short(&value.to_string())
            ))
        };
        value.as_u64().filter(|size| *size <= LARGEST).map(Some).ok_or_else(wrong)
    }

    /// A size from 1, without which there is no answer.
    pub(crate) fn size(self, names: &[&str]) -> Result<u64, ServeError> {
        let missing =
            || ServeError::Config(format!("the configuration has no `{}`: the cache cannot be computed", names[0]));
        self.size_if(names)?.filter(|size| *size > 0).ok_or_else(missing)
    }

    /// A size, or this.
    pub(crate) fn size_or(self, names: &[&str], default: u64) -> Result<u64, ServeError> {
        Ok(self.size_if(names)?.unwrap_or(default))
    }

    /// Whether a field is true.
    pub(crate) fn is(self, name: &str) -> bool {
        self.any(&[name]).is_some_and(|(_, value)| value.as_bool() == Some(true))
    }

    /// A yes or no, or this.
    pub(crate) fn flag(self, name: &str, default: bool) -> bool {
        self.any(&[name]).and_then(|(_, value)| value.as_bool()).unwrap_or(default)
    }

    /// A word.
    pub(crate) fn word(self, names: &[&str]) -> Option<&'a str> {
        self.any(names)?.1.as_str()
    }

    /// A list of words.
    pub(crate) fn words(self, name: &str) -> Option<Vec<&'a str>> {
        self.any(&[name])?.1.as_array()?.iter().map(Value::as_str).collect()
    }

    /// A list of numbers.
    pub(crate) fn numbers(self, name: &str) -> Option<Vec<u64>> {
        self.any(&[name])?.1.as_array()?.iter().map(Value::as_u64).collect()
    }

    /// An object within.
    pub(crate) fn object(self, name: &str) -> Option<Fields<'a>> {
        self.any(&[name])?.1.as_object().map(Fields)
    }
}
