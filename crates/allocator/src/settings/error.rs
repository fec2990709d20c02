//! What was wrong with a settings string.

use super::key;
use crate::version::TorchVersion;
use highwater_problem::Explained;

/// A settings string that PyTorch refuses: what is wrong ([`ConfErrorKind`]) and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {kind}")]
pub struct ConfError {
    /// The byte of the string, counted from 0, at which the offending key or value begins; the string's length if
    /// something is missing at its end.
    pub at: usize,
    /// What is wrong.
    pub kind: ConfErrorKind,
}

/// What is wrong with a settings string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfErrorKind {
    /// A key that this version does not have.
    #[error("`{key}` is not a setting of torch {version}")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// The version in force.
        version: TorchVersion,
    },
    /// The string ends before the value.
    #[error("`{key}` has no value")]
    MissingValue {
        /// The key.
        key: &'static str,
    },
    /// Something else where a `:` or `,` must be. Torch 2.10 and newer take anything in that place.
    #[error("expected `{expected}`, found `{found}`")]
    Separator {
        /// `:` or `,`.
        expected: char,
        /// What is there, empty at the end.
        found: String,
    },
    /// A switch that is neither on nor off.
    #[error("`{key}:{value}` is neither `True` nor `False`")]
    NotASwitch {
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
    },
    /// A value that does not begin with a number.
    #[error("`{key}:{value}` is not a number")]
    NotANumber {
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
    },
    /// A number that PyTorch cannot hold.
    #[error("`{key}:{value}` is beyond what PyTorch can read")]
    Unreadable {
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
    },
    /// A number outside its range.
    #[error("`{key}:{value}` is out of range: {allowed}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
        /// Which values are allowed.
        allowed: String,
    },
    /// A list without `]`.
    #[error("the list of `{key}` has no `]`")]
    OpenList {
        /// The key.
        key: &'static str,
    },
    /// A backend that does not exist.
    #[error("`backend:{value}` does not exist: `native` or `cudaMallocAsync`")]
    UnknownBackend {
        /// The value as written.
        value: String,
    },
    /// The backend is chosen once, when PyTorch is loaded.
    #[error("`backend:{value}` differs from the backend chosen before")]
    OtherBackend {
        /// The value as written.
        value: String,
    },
}

impl Explained for ConfError {
    /// Its message has the kind.
    fn reason(&self) -> Option<String> {
        None
    }

    fn hint(&self) -> Option<String> {
        Some(match &self.kind {
            ConfErrorKind::UnknownKey { key, version } => return key_hint(key, *version),
            ConfErrorKind::MissingValue { key } => format!("write `{key}:VALUE`"),
            ConfErrorKind::Separator { .. } => {
                "write `KEY:VALUE,KEY:VALUE`; the value of `roundup_power2_divisions` may be a list `[MIB:DIVISIONS,…]`"
                    .into()
            }
            ConfErrorKind::NotASwitch { .. } => "write `True` or `False`, with a capital letter".into(),
            ConfErrorKind::OpenList { .. } => "close the list with `]`".into(),
            ConfErrorKind::OtherBackend { .. } => "set the backend in the first settings string only".into(),
            ConfErrorKind::NotANumber { .. }
            | ConfErrorKind::Unreadable { .. }
            | ConfErrorKind::OutOfRange { .. }
            | ConfErrorKind::UnknownBackend { .. } => return None,
        })
    }
}

/// Why some release refused a key: the releases that have it, or the key that is meant.
///
/// ```
/// use highwater_allocator::settings::refused_key_hint;
///
/// assert_eq!(refused_key_hint("expandable_segments").unwrap(), "torch 2.1 and newer have it");
/// assert_eq!(refused_key_hint("max_split_size").unwrap(), "did you mean `max_split_size_mb`?");
/// ```
pub fn refused_key_hint(written: &str) -> Option<String> {
    match key::named(written) {
        Some(known) => Some(format!("torch {} and newer have it", known.since)),
        None => key_hint(written, TorchVersion::NEWEST),
    }
}

/// Why a key might be there that is none.
fn key_hint(written: &str, version: TorchVersion) -> Option<String> {
    if let Some(known) = key::named(written) {
        return (known.since > version).then(|| format!("torch {} introduced it", known.since));
    }
    if written == "roundup_bypass_threshold_mb" {
        return Some("torch 2.1 removed it: requests of every size are rounded".into());
    }
    let near = key::KEYS.iter().filter(|key| key.since <= version).map(|key| (distance(written, key.name), key.name));
    Some(match near.min() {
        Some((edits, name)) if edits <= 4 => format!("did you mean `{name}`?"),
        _ => "write `KEY:VALUE,KEY:VALUE`".into(),
    })
}

/// How many letters to insert, remove or change.
fn distance(from: &str, to: &str) -> usize {
    // Beyond this it resembles no key, and the table must not grow with the input.
    if from.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in to.bytes().enumerate() {
            let change = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}
