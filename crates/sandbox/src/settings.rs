//! Where the tree is, and what is let through: environment variables of the parent process, read once.
//!
//! | Variable | Holds |
//! | --- | --- |
//! | `HIGHWATER_SANDBOX` | a directory that is there, with no link in its path; without it nothing is redirected |
//! | `HIGHWATER_SANDBOX_PASS` | directories, with colons between, in which writes stay where they are |

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::path::{self, Path};
use crate::real;
use crate::system::{self, Errno};

pub(crate) const SANDBOX: &CStr = c"HIGHWATER_SANDBOX";
pub(crate) const PASS: &CStr = c"HIGHWATER_SANDBOX_PASS";

/// Whether a path is where there are no files that could be copied: writes there mean something else.
pub(crate) fn is_of_the_kernel(path: &[u8]) -> bool {
    [&b"/dev"[..], b"/proc", b"/sys"].iter().any(|directory| path::below(path, directory).is_some())
}

pub(crate) struct Settings {
    /// The tree: what a path means if something there has changed.
    pub(crate) tree: Path,
    /// Where directories and files are prepared.
    pub(crate) stage: Path,
    /// Who changes the tree holds this file.
    pub(crate) lock: Path,
    pass: Path,
    /// The variables themselves, for programs that are started without.
    variables: [Path; 2],
    begun: AtomicBool,
}

impl Settings {
    /// # Errors
    /// A path is too long.
    pub(crate) fn new(sandbox: &[u8], pass: &[u8]) -> Result<Self, Errno> {
        Ok(Settings {
            tree: Path::joined(sandbox, b"tree")?,
            stage: Path::joined(sandbox, b"stage")?,
            lock: Path::joined(sandbox, b"lock")?,
            pass: Path::of(pass)?,
            variables: [variable(SANDBOX, sandbox)?, variable(PASS, pass)?],
            begun: AtomicBool::new(false),
        })
    }

    /// Whether a directory is one of those that the parent process named, in which writes stay where they are.
    pub(crate) fn passes(&self, directory: &[u8]) -> bool {
        self.pass.as_bytes().split(|&byte| byte == b':').any(|pass| !pass.is_empty() && pass == directory)
    }

    /// Whether there is a tree yet; until then everything is where it always was.
    pub(crate) fn begun(&self) -> bool {
        let begun = self.begun.load(Ordering::Relaxed) || system::metadata(&self.tree).is_ok();
        if begun {
            self.begun.store(true, Ordering::Relaxed);
        }
        begun
    }
}

/// `name=value`
fn variable(name: &CStr, value: &[u8]) -> Result<Path, Errno> {
    let mut variable = Path::of(name.to_bytes())?;
    variable.push(b"=")?;
    variable.push(value)?;
    Ok(variable)
}

/// What a program's environment needs so that it has these settings: texts with a zero byte behind.
pub(crate) fn variables() -> impl Iterator<Item = &'static [u8]> {
    get().into_iter().flat_map(|settings| settings.variables.iter().map(Path::with_end))
}

/// The settings of this process, if it is in a sandbox.
pub(crate) fn get() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    let read = || {
        let sandbox = real::environment(SANDBOX).filter(|path| !path.is_empty())?;
        Settings::new(sandbox, real::environment(PASS).unwrap_or_default()).ok()
    };
    SETTINGS.get_or_init(read).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_passes() {
        let settings = Settings::new(b"/run/box", b"/run:/cache").unwrap();
        for (path, passes) in [("/run", true), ("/cache", true), ("/cache2", false), ("", false), ("/home", false)] {
            assert_eq!(settings.passes(path.as_bytes()), passes, "{path}");
        }
        for (path, is) in [("/proc", true), ("/proc/self", true), ("/process", false), ("/dev/null", true), ("", false)]
        {
            assert_eq!(is_of_the_kernel(path.as_bytes()), is, "{path}");
        }
        assert_eq!(settings.tree.as_bytes(), b"/run/box/tree");
    }
}
