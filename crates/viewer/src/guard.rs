//! Who may ask: only the page itself, by its own name, with the token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::problem::Problem;
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

fn check(served: &Served, request: &Request) -> Result<(), Problem> {
    let host = host(request.headers()).filter(|host| is_own(host, served.port)).ok_or_else(|| {
        Problem::new(StatusCode::FORBIDDEN, "this server answers to its own name only")
            .hint("open the address as `highwater view` printed it")
    })?;
    // Browsers send it with all that another page could ask for and read, or change.
    if let Some(origin) = request.headers().get(header::ORIGIN)
        && origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")) != Some(host)
    {
        return Err(Problem::new(StatusCode::FORBIDDEN, "this server answers to its own page only"));
    }
    let token = request.uri().path().split('/').nth(1).unwrap_or_default();
    if served.token.is(token) { Ok(()) } else { Err(Problem::not_found("there is nothing here")) }
}

fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// Whether a host is this machine, by a name that nobody else can give to another one, on our port.
pub(crate) fn is_own(host: &str, port: u16) -> bool {
    let Some((name, named_port)) = host.rsplit_once(':') else { return false };
    matches!(name, "127.0.0.1" | "localhost") && named_port.parse() == Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_names_on_the_own_port_are_own() {
        for host in ["127.0.0.1:8123", "localhost:8123"] {
            assert!(is_own(host, 8123), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:8124",
            "evil.example:8123",
            "localhost.evil.example:8123",
            "",
            ":8123",
            "127.0.0.1:8123:8123",
            "[::1]:8123",
        ] {
            assert!(!is_own(host, 8123), "{host}");
        }
    }
}
