//! Directories in which nobody but this user can put anything: what lies there is loaded into programs.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::interpreter::Interpreter;

/// Where the stubs for an interpreter's PyTorch are kept from run to run; none where this user has no home.
pub fn cache(interpreter: &Interpreter) -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    // A relative path would be another one in every directory, and somebody else's in some.
    let root = variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .filter(|root| root.is_absolute())?;
    // FNV-1a: the same in every version of this program.
    let hash = interpreter
        .site_packages
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Some(root.join("highwater").join(format!("dryrun-{hash:016x}")))
}

/// Makes a directory that is this user's own, unless it is there.
///
/// # Errors
/// It cannot be made, or somebody else could put files there: it is a link, another user's or open to others, or a directory above it
/// could be renamed by others.
pub fn make(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    match builder().create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check(directory),
    }
}

/// What makes directories that nobody else can open, where the system has modes.
#[cfg(unix)]
fn builder() -> fs::DirBuilder {
    use std::os::unix::fs::DirBuilderExt as _;

    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(not(unix))]
fn builder() -> fs::DirBuilder {
    fs::DirBuilder::new()
}

#[cfg(unix)]
fn check(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;

    /// Where everybody may write, but nobody may rename what is another's, as in `/tmp`.
    const STICKY: u32 = 0o1000;
    const BY_OTHERS: u32 = 0o022;
    let own = rustix::process::geteuid().as_raw();
    let refused = |path: &Path| {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("`{}` belongs to another user, or other users can open it", path.display()),
        ))
    };
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        return refused(directory);
    }
    for above in directory.canonicalize()?.ancestors().skip(1) {
        let found = fs::symlink_metadata(above)?;
        let is_open = found.mode() & BY_OTHERS != 0 && found.mode() & STICKY == 0;
        if is_open || ![0, own].contains(&found.uid()) {
            return refused(above);
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn check(_directory: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn what_others_can_write_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(root.path(), 0o700);
        let directory = root.path().join("above/own");
        make(&directory).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        make(&directory).unwrap();
        for (path, mode, is_right) in [
            (&directory, 0o755, false),
            (&directory, 0o700, true),
            (&root.path().join("above"), 0o777, false),
            (&root.path().join("above"), 0o775, false),
            (&root.path().join("above"), 0o1777, true),
            (&root.path().join("above"), 0o755, true),
        ] {
            set(path, mode);
            assert_eq!(make(&directory).is_ok(), is_right, "{mode:o}");
        }
        let link = root.path().join("link");
        symlink(&directory, &link).unwrap();
        assert!(make(&link).is_err(), "a link may lead elsewhere tomorrow");
        fs::write(root.path().join("file"), "").unwrap();
        assert!(make(&root.path().join("file")).is_err());
    }
}
