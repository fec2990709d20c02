//! A GPU in the user's words: its name, or its memory.

use highwater_problem::Explained;
use highwater_units::{SizeError, parse_size};
use thiserror::Error;

use crate::Card;

/// A GPU in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardOrSize {
    /// A known GPU.
    Card(&'static Card),
    /// A GPU with only its memory known, in bytes.
    Bytes(u64),
}

/// Why a text is not a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is neither a size nor a known GPU")]
pub struct NeitherCardNorSize {
    /// The text.
    pub text: String,
    /// The problem with its number.
    #[source]
    pub cause: Option<SizeError>,
}

impl Explained for NeitherCardNorSize {
    fn hint(&self) -> Option<String> {
        Some(format!("give its memory, such as `24GiB`, or one of {}", Card::names()))
    }
}

impl CardOrSize {
    /// The card of a name such as `rtx4090`, or else of a memory such as `24GiB`.
    ///
    /// # Errors
    /// If the text is neither.
    pub fn parse(text: &str) -> Result<Self, NeitherCardNorSize> {
        match Card::named(text.trim()) {
            Some(card) => Ok(Self::Card(card)),
            None => parse_size(text).map(Self::Bytes).map_err(|cause| {
                let is_number = !matches!(cause, SizeError::Unit | SizeError::Number);
                NeitherCardNorSize { text: text.to_owned(), cause: is_number.then_some(cause) }
            }),
        }
    }

    /// The total that the driver reports.
    pub fn memory_bytes(self) -> u64 {
        match self {
            Self::Card(card) => card.memory_bytes,
            Self::Bytes(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cards_are_tried_before_sizes() {
        assert_eq!(
            CardOrSize::parse("RTX4090").map(CardOrSize::memory_bytes),
            Ok(Card::named("rtx4090").unwrap().memory_bytes)
        );
        assert_eq!(CardOrSize::parse("24G"), Ok(CardOrSize::Bytes(24 << 30)));
        let refused = CardOrSize::parse("80").unwrap_err();
        assert!(refused.cause.as_ref().unwrap().to_string().contains("did you mean `80GiB`?"), "{refused:?}");
        assert!(refused.hint().unwrap().contains("a100, h100"), "{refused:?}");
        assert_eq!(CardOrSize::parse("rtx9090").unwrap_err().cause, None);
    }
}
