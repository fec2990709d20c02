//! The reader against CPython's own `pickle`, file by file and protocol by protocol.

use std::path::{Path, PathBuf};
use std::process::Command;

use highwater_snapshot::Snapshot;
use highwater_testkit::{files, recordings, testdata};

use crate::common::{assert_same, normal_form};

/// Has CPython read the files; gives the folder with what it says of each.
fn ask_python(folder: &str, protocols: &str, paths: &[PathBuf]) -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&out).unwrap();
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/normal_form.py")).arg(&out);
    if !protocols.is_empty() {
        command.args(["--protocols", protocols]);
    }
    let output = command.args(paths).output().expect("this test compares with CPython and needs `python3` in the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

fn compare(path: &Path, out: &Path, protocols: &[u8]) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let expected = std::fs::read_to_string(out.join(format!("{name}.form"))).unwrap();
    let snapshot = Snapshot::open(path).unwrap();
    assert_same(&normal_form(&snapshot), &expected, name);
    for protocol in protocols {
        let again = out.join(format!("{name}.p{protocol}.pickle"));
        let snapshot = Snapshot::open(&again).unwrap();
        assert_same(&normal_form(&snapshot), &expected, &format!("{name}, protocol {protocol}"));
    }
}

#[test]
fn cpython_reads_every_layout_alike_in_every_protocol() {
    let folder = testdata("layouts");
    let paths: Vec<_> = [".pickle", ".html", ".json"].iter().flat_map(|ending| files(&folder, ending)).collect();
    let out = ask_python("layouts", "0,1,2,3,4,5", &paths);
    for path in paths {
        compare(&path, &out, &[0, 1, 2, 3, 4, 5]);
    }
}

#[test]
fn cpython_reads_every_recording_alike_in_every_protocol() {
    let (large, small): (Vec<_>, Vec<_>) =
        recordings().into_iter().partition(|path| path.metadata().unwrap().len() > 70_000);
    let out = ask_python("small", "0,1,2,3,4,5", &small);
    for path in small {
        compare(&path, &out, &[0, 1, 2, 3, 4, 5]);
    }
    let out = ask_python("large", "", &large);
    for path in large {
        compare(&path, &out, &[]);
    }
}

#[test]
fn cpython_reads_what_we_write_as_we_do() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("written");
    std::fs::create_dir_all(&folder).unwrap();
    let mut written = Vec::new();
    for path in recordings().into_iter().chain(files(&testdata("layouts"), ".pickle")) {
        let snapshot = Snapshot::open(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let pickle = folder.join(format!("{name}.pickle"));
        snapshot.write_pickle(std::fs::File::create(&pickle).unwrap()).unwrap();
        written.push(pickle);
        // JSON spells every stack out, so the large recordings would take hundreds of megabytes.
        if path.metadata().unwrap().len() < 20_000 {
            let json = folder.join(format!("{name}.json"));
            snapshot.write_json(std::fs::File::create(&json).unwrap()).unwrap();
            written.push(json);
        }
    }
    let out = ask_python("written_forms", "", &written);
    for path in written {
        compare(&path, &out, &[]);
    }
}

#[test]
fn the_layouts_are_what_their_recipe_makes() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recipe");
    let status = Command::new("python3")
        .arg(testdata("recipes/make_layouts.py"))
        .arg(&out)
        .status()
        .expect("this test runs the recipe and needs `python3` in the path");
    assert!(status.success());
    for ending in [".pickle", ".html", ".json"] {
        for path in files(&testdata("layouts"), ending) {
            let made = std::fs::read(out.join(path.file_name().unwrap())).unwrap();
            assert!(made == std::fs::read(&path).unwrap(), "{} is not what the recipe makes", path.display());
        }
    }
}
