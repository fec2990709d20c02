//! The Python that is to run the program: which it is, and where its PyTorch lies.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::error::{Error, Kind};

/// A Python that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// What to start.
    pub program: PathBuf,
    /// The directory in which its PyTorch is.
    pub site_packages: PathBuf,
    /// The other directories from which it imports packages, in its order.
    pub other_packages: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Answer {
    /// The directory of the package `torch`; none if there is none.
    torch: Option<PathBuf>,
    /// The directories from which it imports, without those of Python itself.
    #[serde(default)]
    packages: Vec<PathBuf>,
    system: String,
    machine: String,
    /// As in 3.11.
    version: (u32, u32),
}

/// Prints an [`Answer`]. Finds torch without importing it, which takes seconds and wants a driver.
const QUESTION: &str = r#"
import importlib.util, json, os, platform, sys, sysconfig
found = importlib.util.find_spec("torch")
places = list(found.submodule_search_locations or []) if found else []
own = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
own |= {os.path.join(path, "lib-dynload") for path in own}
packages = [os.path.realpath(path) for path in sys.path if path and os.path.isdir(path)]
print(json.dumps({"torch": os.path.realpath(places[0]) if places else None,
                  "packages": [path for path in packages if path not in own], "system": platform.system(),
                  "machine": platform.machine(), "version": sys.version_info[:2]}))
"#;

/// Letters of what a program says that is no Python.
const SAID_MAX: usize = 120;

/// The oldest Python for which what a dry run adds is written.
const OLDEST: (u32, u32) = (3, 9);

impl Interpreter {
    /// Asks a Python about itself; `program` is a path, or a name to be looked for.
    ///
    /// # Errors
    /// It cannot be started, is no Python, has no PyTorch, or is for another system than Linux on x86-64.
    pub fn new(program: &Path) -> Result<Self, Error> {
        let fail = |kind| Error::new(program, kind);
        let output = Command::new(program)
            .args(["-c", QUESTION])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| fail(Kind::NotStarted(error)))?;
        let Ok(answer) = serde_json::from_slice::<Answer>(&output.stdout) else {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
            return Err(fail(Kind::NoPython { said: last.trim().chars().take(SAID_MAX).collect() }));
        };
        if (answer.system.as_str(), answer.machine.as_str()) != ("Linux", "x86_64") {
            return Err(fail(Kind::OtherSystem { system: format!("{} on {}", answer.system, answer.machine) }));
        }
        if answer.version < OLDEST {
            return Err(fail(Kind::OldPython { version: answer.version }));
        }
        let torch = answer.torch.ok_or_else(|| fail(Kind::NoTorch))?;
        let site_packages = torch.parent().map(Path::to_owned).unwrap_or_default();
        let mut other_packages = answer.packages;
        other_packages.retain(|path| *path != site_packages);
        Ok(Interpreter { program: program.to_owned(), site_packages, other_packages })
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program that answers as a Python would.
    fn program(answer: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("python");
        std::fs::write(&path, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        directory
    }

    fn asked(answer: &str) -> Result<Interpreter, Error> {
        #[cfg(target_os = "linux")]
        let _alone = crate::processes::tests::alone();
        Interpreter::new(&program(answer).path().join("python"))
    }

    #[test]
    fn an_interpreter_says_where_torch_is() {
        let answer = r#"{"torch": "/env/site-packages/torch", "packages": ["/more", "/env/site-packages"], "system": "Linux", "machine": "x86_64", "version": [3, 12]}"#;
        let interpreter = asked(answer).unwrap();
        assert_eq!(interpreter.site_packages, Path::new("/env/site-packages"));
        assert_eq!(interpreter.other_packages, [Path::new("/more")]);
    }

    #[test]
    fn what_cannot_run_it_is_said() {
        let error = Interpreter::new(Path::new("/nowhere/python")).unwrap_err();
        assert!(matches!(error.kind, Kind::NotStarted(_)));
        assert!(matches!(asked("hello").unwrap_err().kind, Kind::NoPython { .. }));
        let answer = r#"{"torch": null, "system": "Linux", "machine": "x86_64", "version": [3, 12]}"#;
        assert!(matches!(asked(answer).unwrap_err().kind, Kind::NoTorch));
        let answer = r#"{"torch": null, "system": "Linux", "machine": "x86_64", "version": [3, 7]}"#;
        assert!(matches!(asked(answer).unwrap_err().kind, Kind::OldPython { version: (3, 7) }));
        let answer = r#"{"torch": "/t/torch", "system": "Darwin", "machine": "arm64", "version": [3, 12]}"#;
        let text = asked(answer).unwrap_err().to_string();
        assert!(text.ends_with("runs programs for Darwin on arm64"), "{text}");
    }
}
