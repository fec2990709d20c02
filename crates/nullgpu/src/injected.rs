//! The Python modules that a dry run adds to the program's processes, as files for `PYTHONPATH`.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind};
use crate::verified_file;

macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        /// Paths, and what the files hold.
        const MODULES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../python/", $name)))),*];
    };
}

modules![
    "sitecustomize.py",
    "highwater_dryrun/__init__.py",
    "highwater_dryrun/arguments.py",
    "highwater_dryrun/autograd.py",
    "highwater_dryrun/children.py",
    "highwater_dryrun/compiled.py",
    "highwater_dryrun/core.py",
    "highwater_dryrun/engines.py",
    "highwater_dryrun/exchange.py",
    "highwater_dryrun/farewell.py",
    "highwater_dryrun/history.py",
    "highwater_dryrun/hosts.py",
    "highwater_dryrun/importing.py",
    "highwater_dryrun/kernels.py",
    "highwater_dryrun/likely.py",
    "highwater_dryrun/mirrors.py",
    "highwater_dryrun/notes.py",
    "highwater_dryrun/padding.py",
    "highwater_dryrun/ports.py",
    "highwater_dryrun/ranks.py",
    "highwater_dryrun/reads.py",
    "highwater_dryrun/run.py",
    "highwater_dryrun/sandbox.py",
    "highwater_dryrun/settings.py",
    "highwater_dryrun/sizes.py",
    "highwater_dryrun/terminated.py",
    "highwater_dryrun/values.py",
    "highwater_dryrun/weights.py",
];

/// Writes the modules below the directory of a run, and gives the directory to be put at the front of `PYTHONPATH`.
///
/// Python believes what it finds compiled beside a module, so they lie in no directory that outlives the run.
///
/// # Errors
/// Something cannot be written, or the path cannot stand in `PYTHONPATH`.
pub(crate) fn write(directory: &Path) -> Result<PathBuf, Error> {
    let root = directory.join("python");
    if root.to_string_lossy().contains(':') {
        return Err(Error::new(&root, Kind::Unloadable));
    }
    for (name, text) in MODULES {
        verified_file::keep(&root.join(name), text.as_bytes())?;
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_module_is_written() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let directory = tempfile::tempdir().unwrap();
        let root = write(directory.path()).unwrap();
        for place in [source.clone(), source.join("highwater_dryrun")] {
            for entry in fs::read_dir(place).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "py") {
                    let written = root.join(path.strip_prefix(&source).unwrap());
                    assert!(written.is_file(), "{} is not among the modules", path.display());
                }
            }
        }
    }
}
