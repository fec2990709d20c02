//! By which name a request calls this machine.

use axum::http::HeaderMap;
use axum::http::header::HOST;

/// The host that a request names, if it is this machine on our port.
pub fn own_host(headers: &HeaderMap, port: u16) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    (hosts.next().is_none() && is_own(host, port)).then_some(host)
}

/// Whether a host is this machine, by a name that nobody else can give to another one, on our port.
///
/// Browsers leave out port 80.
pub fn is_own(host: &str, port: u16) -> bool {
    let (name, named_port) = match host.rsplit_once(':') {
        Some((name, named_port)) => (name, named_port.parse().ok()),
        None => (host, Some(80)),
    };
    matches!(name, "127.0.0.1" | "localhost") && named_port == Some(port)
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

    #[test]
    fn a_browser_leaves_out_port_80() {
        assert!(is_own("127.0.0.1", 80) && is_own("localhost", 80) && is_own("127.0.0.1:80", 80));
        assert!(!is_own("evil.example", 80) && !is_own("127.0.0.1:", 80) && !is_own("", 80));
    }

    #[test]
    fn a_request_that_names_two_hosts_names_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(own_host(&headers, 80), None);
        headers.append(HOST, "localhost".parse().expect("a value"));
        assert_eq!(own_host(&headers, 80), Some("localhost"));
        headers.append(HOST, "localhost".parse().expect("a value"));
        assert_eq!(own_host(&headers, 80), None);
    }
}
