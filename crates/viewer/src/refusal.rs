//! A problem as an answer: beside its three parts it has a status.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use highwater_problem::Problem;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) problem: Problem,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, problem: Problem::new(error) }
    }

    /// Nothing is there.
    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// The request makes no sense.
    pub(crate) fn malformed(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn because(self, cause: impl std::fmt::Display) -> Self {
        Self { problem: self.problem.because(cause), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { problem: self.problem.hint(hint), ..self }
    }

    /// A thread that is gone.
    pub(crate) fn gone(name: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the reader of `{name}` has stopped"))
            .hint("this is an error of highwater: start it again, and report the file if it comes back")
    }
}

/// Of a file: it is there, and does not hold what is asked for.
impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, problem }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        // Texts are JSON.
        let text = serde_json::to_string(&self.problem).unwrap_or_default();
        (self.status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response()
    }
}
