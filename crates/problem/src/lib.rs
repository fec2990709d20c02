//! An error in the three parts that people read: the problem, its cause, and a hint. The terminal, Python and the
//! pages show the same three.

use std::error::Error;
use std::fmt;

use serde::Serialize;

/// The problem, its causes, and a hint. As JSON an object with `error`, `causes` and, where there is one, `hint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    #[serde(rename = "error")]
    what: String,
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Problem {
    /// The problem: a sentence without a full stop, values in backticks.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), causes: Vec::new(), hint: None }
    }

    /// Adds why; of several causes the nearest comes first.
    #[must_use]
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.hinted(Some(hint.into()))
    }

    /// As [`hint`](Self::hint), if there is one.
    #[must_use]
    pub fn hinted(self, hint: Option<String>) -> Self {
        Self { hint: hint.or(self.hint), ..self }
    }

    /// The problem.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Why, the nearest cause first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// The hint.
    pub fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Problem {}

/// An error with more than a sentence: its problem has the sentence, the source, and the hint.
pub trait Explained: Error {
    /// Why, where the sentence does not say it.
    fn reason(&self) -> Option<String> {
        self.source().map(ToString::to_string)
    }

    /// The hint, if there is one.
    fn hint(&self) -> Option<String>;
}

impl<E: Explained> From<E> for Problem {
    fn from(error: E) -> Self {
        Self { what: error.to_string(), causes: error.reason().into_iter().collect(), hint: error.hint() }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Full(io::Error);

    impl fmt::Display for Full {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the disk is full")
        }
    }

    impl Error for Full {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    impl Explained for Full {
        fn hint(&self) -> Option<String> {
            Some("delete something".to_owned())
        }
    }

    #[test]
    fn an_error_becomes_a_problem_in_three_parts() {
        let problem = Problem::from(Full(io::Error::other("no space left")));
        assert_eq!(problem, Problem::new("the disk is full").because("no space left").hint("delete something"));
        assert_eq!(problem.clone().hinted(None), problem);
    }

    #[test]
    fn the_page_reads_it_as_json() {
        let json = |problem: &Problem| serde_json::to_string(problem).unwrap();
        assert_eq!(json(&Problem::new("it is cut")), r#"{"error":"it is cut","causes":[]}"#);
        let whole = Problem::new("it is cut").because("byte 7").because("end of file").hint("copy it again");
        assert_eq!(json(&whole), r#"{"error":"it is cut","causes":["byte 7","end of file"],"hint":"copy it again"}"#);
    }
}
