//! The Python modules that a dry run adds to the program's processes, as files for `PYTHONPATH`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind};
use crate::prepare::write_whole;

macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        /// Paths, and what the files hold.
        const MODULES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../python/", $name)))),*];
    };
}

modules![
    "sitecustomize.py",
    "highwater_dryrun/__init__.py",
    "highwater_dryrun/compiled.py",
    "highwater_dryrun/core.py",
    "highwater_dryrun/exchange.py",
    "highwater_dryrun/history.py",
    "highwater_dryrun/importing.py",
    "highwater_dryrun/mirrors.py",
    "highwater_dryrun/notes.py",
    "highwater_dryrun/padding.py",
    "highwater_dryrun/ranks.py",
    "highwater_dryrun/reads.py",
    "highwater_dryrun/run.py",
    "highwater_dryrun/sandbox.py",
    "highwater_dryrun/settings.py",
    "highwater_dryrun/sizes.py",
    "highwater_dryrun/values.py",
    "highwater_dryrun/weights.py",
];

/// Writes the modules below `directory`, and gives the directory to be put at the front of `PYTHONPATH`.
///
/// # Errors
/// Something cannot be written.
pub(crate) fn write(directory: &Path) -> Result<PathBuf, Error> {
    let root = directory.join("python");
    let package = root.join("highwater_dryrun");
    fs::create_dir_all(&package).map_err(|error| Error::new(&package, Kind::Write(error)))?;
    for (name, text) in MODULES {
        let path = root.join(name);
        // Another run may be reading it.
        if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        write_whole(&path, text.as_bytes())?;
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
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
