//! The requests that the viewer's server reads itself; HTTP is read by hyper.

/// A host, a question and stretches of sections, a line each, are taken or refused as the asker's mistake, and no other host is our own.
pub fn viewer(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut lines = text.splitn(3, '\n').map(str::trim_end);
    let mut line = || lines.next().unwrap_or_default();
    let (host, query, stretches) = (line(), line(), line());
    let is_own = highwater_loopback::is_own(host, 8123);
    assert!(!is_own || ["127.0.0.1:", "localhost:"].iter().any(|name| host.starts_with(name)));
    let statuses = highwater_viewer::read_request(query, stretches);
    for status in statuses.into_iter().flatten() {
        assert!((400..500).contains(&status), "refused with {status}");
    }
}
