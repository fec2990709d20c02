//! Who may ask: only the page itself, by its own name, with the token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use highwater_loopback::own_host;

use crate::refusal::Refusal;
use crate::server::Served;

/// What the page may load: its own files, and a worker or a picture of its own making.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self' blob:; \
    style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Lets those through who may ask, and says on every answer what a browser may do with it.
pub(crate) async fn guard(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let mut response = match check(&served, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HEADERS {
        // The calculator has a policy of its own.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn check(served: &Served, request: &Request) -> Result<(), Refusal> {
    let host = own_host(request.headers(), served.port).ok_or_else(|| {
        Refusal::new(StatusCode::FORBIDDEN, "this server only accepts its own host name")
            .hint("open the address that `highwater view` printed")
    })?;
    // Browsers send it with all that another page could ask for and read, or change.
    if let Some(origin) = request.headers().get(header::ORIGIN)
        && origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")) != Some(host)
    {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "this server only answers its own page"));
    }
    let token = request.uri().path().split('/').nth(1).unwrap_or_default();
    if served.token.is(token) { Ok(()) } else { Err(Refusal::not_found("there is nothing here")) }
}
