//! The token in the address.

use std::fmt;
use std::io;

/// 160 bits that nobody can guess, as 40 hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new() -> io::Result<Self> {
        let mut bytes = [0_u8; 20];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Ok(Self(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()))
    }

    /// Whether a text is the token. Takes as long for every text of its length.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        own.len() == other.len() && own.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_it() {
        let token = Token::new().expect("random numbers");
        let text = token.to_string();
        assert_eq!(text.len(), 40);
        assert!(token.is(&text));
        assert!(!token.is(""));
        assert!(!token.is(&text[..39]));
        assert!(!token.is(&format!("{}x", &text[..39])));
        assert!(!Token::new().expect("random numbers").is(&text));
    }
}
