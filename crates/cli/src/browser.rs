//! Opens the browser, without telling the other users of the machine where.

use std::io::{self, Write as _};
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

/// Where the browser can read it: one that was installed as a snap sees no temporary files, and nothing hidden.
fn folder() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    home.filter(|_| Path::new("/snap/bin").is_dir()).unwrap_or_else(std::env::temp_dir)
}
