//! `highwater run`: what it hands to Python, and what it says where there is none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::run::command;

/// An interpreter that is made up: it has the package if `status` is 0, and says what it is told to run.
fn interpreter(folder: &Path, status: u8) -> PathBuf {
    let path = folder.join("python");
    let script = format!("#!/bin/sh\nif [ \"$1\" = -c ]; then exit {status}; fi\necho \"$@\"\nexit 7\n");
    fs::write(&path, script).expect("the folder takes it");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

#[test]
fn the_script_is_handed_to_python_with_all_that_is_its_own() {
    let folder = tempfile::tempdir().expect("there is room");
    let python = interpreter(folder.path(), 0);
    let output = command()
        .args(["run", "--record", "my.pickle", "--stacks", "all", "--python"])
        .arg(&python)
        .args(["../recipes/allocator_goldens.py", "--record", "yours", "-m", "x"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(7), "the script's own status");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        told,
        "-m highwater.autorecord --record my.pickle --stacks all ../recipes/allocator_goldens.py --record yours -m x\n"
    );
    let output = command().arg("run").arg("--python").arg(&python).args(["-m", "my.module", "-v"]).output();
    let told = output.expect("it runs").stdout;
    assert_eq!(String::from_utf8_lossy(&told), "-m highwater.autorecord -m my.module -v\n");
}

#[test]
fn an_interpreter_that_cannot_do_it_says_what_to_do() {
    let folder = tempfile::tempdir().expect("there is room");
    let without = interpreter(folder.path(), 1);
    for (python, what) in
        [(without.as_path(), "does not have the Python package `highwater`"), (Path::new("/nope"), "cannot be started")]
    {
        let output = command()
            .arg("run")
            .arg("--python")
            .arg(python)
            .arg("../recipes/allocator_goldens.py")
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(what) && said.contains("hint: ") && said.contains("--python"), "{said}");
    }
}
