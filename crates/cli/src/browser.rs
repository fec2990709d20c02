//! Opens the browser, without telling the other users of the machine where.

use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that leads to an address, and that nobody else may read; dropping it removes it.
///
/// What a program is started with, every user of the machine can list. So the browser is started with this file, and the
/// address, with its token, stands in there.
#[derive(Debug)]
pub(crate) struct Doorway(NamedTempFile);

impl Doorway {
    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn to(address: &str) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("highwater-").suffix(".html");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(std::fs::Permissions::from_mode(0o600));
        }
        let mut file = builder.tempfile_in(folder())?;
        // An address has none of the characters that HTML reads otherwise.
        writeln!(
            file,
            "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n<title>highwater</title>\n\
             <p><a href=\"{address}\">Open highwater</a></p>"
        )?;
        Ok(Self(file))
    }

    /// Starts the browser with it.
    ///
    /// # Errors
    /// If none can be started.
    pub(crate) fn opened(self) -> io::Result<Self> {
        open::that_detached(self.0.path())?;
        Ok(self)
    }
}

/// The command that brings an address of this machine to the one that the user sits at; `None` unless they came over SSH.
pub(crate) fn forwarding(address: &str) -> Option<String> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    forwarded(address, &connection, std::env::var("USER").ok().as_deref())
}

/// `connection` is as sshd(8) says: the client's address and port, then the server's.
fn forwarded(address: &str, connection: &str, user: Option<&str>) -> Option<String> {
    let (host, _) = address.strip_prefix("http://")?.split_once('/')?;
    let (_, port) = host.rsplit_once(':')?;
    let mut parts = connection.split(' ').skip(2);
    let server: IpAddr = parts.next()?.parse().ok()?;
    let ssh_port: u16 = parts.next()?.parse().ok()?;
    let ssh_port = if ssh_port == 22 { String::new() } else { format!("-p {ssh_port} ") };
    let is_plain = |user: &&str| user.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let user = user.filter(|user| !user.is_empty()).filter(is_plain).map(|user| format!("{user}@")).unwrap_or_default();
    Some(format!("ssh {ssh_port}-L {port}:127.0.0.1:{port} {user}{server}"))
}

/// Where the browser can read it: one that was installed as a snap sees no temporary files, and nothing hidden.
fn folder() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    home.filter(|_| Path::new("/snap/bin").is_dir()).unwrap_or_else(std::env::temp_dir)
}

#[cfg(test)]
mod tests {
    use super::forwarded;

    #[test]
    fn the_port_is_forwarded_to_where_the_user_sits() {
        let address = "http://127.0.0.1:8123/0123/";
        let of = |connection: &str, user| forwarded(address, connection, user);
        let plain = "192.0.2.1 50000 198.51.100.7 22";
        assert_eq!(of(plain, Some("ada")).as_deref(), Some("ssh -L 8123:127.0.0.1:8123 ada@198.51.100.7"));
        assert_eq!(of(plain, Some("a; b")).as_deref(), Some("ssh -L 8123:127.0.0.1:8123 198.51.100.7"));
        let other = "192.0.2.1 50000 2001:db8::1 2222";
        assert_eq!(of(other, None).as_deref(), Some("ssh -p 2222 -L 8123:127.0.0.1:8123 2001:db8::1"));
        for broken in ["", "a b c d", "192.0.2.1 50000 $(id) 22", "192.0.2.1 50000 198.51.100.7 x"] {
            assert_eq!(of(broken, None), None, "{broken}");
        }
    }
}
