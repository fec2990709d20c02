//! A problem as the page shows it: the three parts that the terminal prints.

use std::fmt;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use highwater_snapshot::Error as SnapshotError;

/// What went wrong, why, and what to do.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Problem {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Problem {
    /// Why, the nearest cause first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// What to do about it.
    pub fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), causes: Vec::new(), hint: None }
    }

    /// Nothing is there.
    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// The request makes no sense.
    pub(crate) fn malformed(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn because(mut self, cause: &impl ToString) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// As [`hint`](Self::hint), if there is one.
    pub(crate) fn hinted(self, hint: Option<String>) -> Self {
        Self { hint: hint.or(self.hint.clone()), ..self }
    }

    /// A file of which nothing can be shown.
    pub(crate) fn unreadable(name: &str, error: &SnapshotError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, format!("`{name}` {}", error.headline()))
            .because(error)
            .hinted(error.hint().map(str::to_owned))
    }

    /// A thread that is gone.
    pub(crate) fn gone(name: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("what has read `{name}` is gone"))
            .hint("this is an error of highwater: start it again, and report the file if it comes back")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for Problem {}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Three texts are JSON.
        let text = serde_json::to_string(&self).unwrap_or_default();
        (self.status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
    }
}
