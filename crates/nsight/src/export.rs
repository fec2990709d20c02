//! Reports of Nsight Systems (`.nsys-rep`), which only its own program reads: it is called to write the SQLite file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use highwater_problem::Problem;

/// Whether a file is a report or a raw capture, by its name.
pub(crate) fn is_report(path: &Path) -> bool {
    is_named_report(path) && path.is_file()
}

/// Whether a name is one of a report or a raw capture.
pub(crate) fn is_named_report(path: &Path) -> bool {
    is_named(path, &["nsys-rep", "qdrep", "qdstrm"])
}

fn is_named(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|extension| extensions.contains(&extension))
}

/// An SQLite file.
pub(crate) enum Exported {
    /// That was given.
    Given(PathBuf),
    /// That was written for a report, in a folder that goes with this.
    Written(tempfile::TempDir),
}

impl Exported {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Given(path) => path.clone(),
            Self::Written(folder) => folder.path().join(FILE),
        }
    }
}

const FILE: &str = "export.sqlite";

/// The SQLite file of a profile: itself, or what `nsys export` writes for a report. Messages call the profile `shown`.
///
/// # Errors
/// If `nsys` is not on the `PATH`, or it refuses the report.
pub(crate) fn exported(path: &Path, shown: &str) -> Result<Exported, Problem> {
    if !is_report(path) {
        return Ok(Exported::Given(path.to_owned()));
    }
    let problem = || Problem::new(format!("{shown} cannot be read"));
    let name = shown.trim_matches('`');
    if is_named(path, &["qdstrm"]) {
        return Err(problem()
            .because("it is the raw capture of a profile that was not finished")
            .hint(format!("make the report with Nsight Systems' `QdstrmImporter -i {name}`, and give that")));
    }
    let folder = tempfile::tempdir().map_err(|error| problem().because(error))?;
    let mut command = Command::new("nsys");
    command.args(["export", "--type", "sqlite", "--force-overwrite", "true", "--output"]).arg(folder.path().join(FILE));
    // A path, whatever it begins with.
    let file = if path.is_absolute() { path.to_owned() } else { Path::new(".").join(path) };
    let output = command.arg(file).stdin(Stdio::null()).output().map_err(|error| {
        problem().because(format!("only Nsight Systems reads it, and `nsys` cannot be run: {error}")).hint(format!(
            "put `nsys` on the `PATH`, or run `nsys export --type sqlite {name}` where it is and give the file that it writes"
        ))
    })?;
    if !output.status.success() || !folder.path().join(FILE).is_file() {
        let said = [output.stderr, output.stdout].map(|text| String::from_utf8_lossy(&text).into_owned());
        let last = said.iter().find_map(|text| text.lines().rev().find(|line| !line.trim().is_empty()));
        return Err(problem()
            .because(format!("`nsys export` failed ({})", output.status))
            .because(last.unwrap_or("it says nothing").trim())
            .hint("use the `nsys` of the release that recorded it, or a newer one"));
    }
    Ok(Exported::Written(folder))
}
