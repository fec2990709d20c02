//! A directory with a few files, and a sandbox elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// What is known of a file: its mode, when it was written, and the hash of what is in it or where it leads.
type Known = (u32, i64, Vec<u8>);

pub(crate) struct World {
    /// Where programs run.
    pub(crate) home: PathBuf,
    /// What has become of it inside.
    pub(crate) tree: PathBuf,
    sandbox: PathBuf,
    _directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("it is there");
        let (home, sandbox) = (root.join("home"), root.join("passes/box"));
        fs::create_dir_all(sandbox.join("stage")).expect("a sandbox");
        fs::create_dir_all(home.join("data/deep/deeper")).expect("directories");
        fs::create_dir_all(home.join("empty")).expect("a directory");
        for (path, text) in
            [("a.txt", "first\n"), ("b.txt", "second\n"), ("data/c.txt", "third\n"), ("data/deep/d.txt", "fourth\n")]
        {
            fs::write(home.join(path), text).expect("a file");
        }
        symlink("data", home.join("to_data")).expect("a link");
        symlink("a.txt", home.join("to_a")).expect("a link");
        let tree = sandbox.join("tree").join(home.strip_prefix("/").expect("absolute"));
        World { home, tree, sandbox, _directory: directory }
    }

    /// Everything outside of the sandbox.
    fn known(&self) -> BTreeMap<PathBuf, Known> {
        let mut known = BTreeMap::new();
        let root = self.home.parent().expect("it has one");
        let mut pending: Vec<PathBuf> =
            fs::read_dir(root).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
        while let Some(path) = pending.pop() {
            if path.ends_with("passes") {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).expect("it is there");
            let content = if metadata.is_dir() {
                pending.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).expect("a file")
            };
            known.insert(path, (metadata.mode(), metadata.mtime_nsec(), Sha256::digest(content).to_vec()));
        }
        known
    }

    /// A command that will run in here, in the directory `home`.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(&self.home)
            .env("LD_PRELOAD", library())
            .env("HIGHWATER_SANDBOX", &self.sandbox)
            .env("HIGHWATER_SANDBOX_PASS", self.home.with_file_name("passes"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("HOME", &self.home);
        command
    }

    /// Runs a command, makes sure that nothing outside has changed, and gives what it printed.
    pub(crate) fn run(&self, command: &mut Command) -> String {
        let before = self.known();
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{said}\n{errors}", output.status);
        let after = self.known();
        let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
        let changed: Vec<_> = before.keys().chain(after.keys()).filter(differs).collect();
        assert!(changed.is_empty(), "changed outside: {changed:?}");
        said
    }

    pub(crate) fn shell(&self, script: &str) -> String {
        self.run(self.command("/bin/sh").args(["-euc", script]))
    }

    pub(crate) fn python(&self, script: &str) -> String {
        self.run(self.command("python3").args(["-c", script]))
    }
}

/// The library, which Cargo puts beside this test's program or one directory above.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a test is a program");
    let places = program.ancestors().skip(1).take(2).map(|place| place.join("libhighwater_sandbox.so"));
    places.into_iter().find(|path| path.is_file()).expect("Cargo has built the library with this test")
}
