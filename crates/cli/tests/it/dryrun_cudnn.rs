//! Dry runs that ask an installed cuDNN.

use std::path::Path;

use serde_json::Value;

use crate::dryrun::python;
use crate::run::command;

/// A dry run of a script with more directories to import from; its answer as text.
fn with_packages(script: &Path, packages: &Path, arguments: &[&str]) -> String {
    let others = std::env::var("PYTHONPATH").unwrap_or_default();
    let output = command()
        .env("PYTHONPATH", format!("{}:{others}", packages.display()))
        .args(["dryrun", "--gpu", "h200", "--python", &python()])
        .arg(script)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
#[ignore = "needs a PyTorch for CUDA: HIGHWATER_TEST_TORCH=/path/to/python"]
fn torch_convolutions_are_asked_of_the_installed_cudnn() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let script = root.join("script.py");
    std::fs::write(
        &script,
        "
import os, shutil, sys, torch
layer = torch.nn.Conv2d(64, 64, 3, padding=1).cuda()
layer(torch.randn(8, 64, 32, 32, device='cuda')).sum().backward()
with open(sys.argv[1], 'w') as out: print(torch.cuda.max_memory_allocated(), file=out)
# What stands in for cuDNN here answers as cuDNN itself, so it does as an installed one.
stub = next(path for path in os.environ['LD_PRELOAD'].split(':') if 'libcudnn.so' in path)
os.makedirs(sys.argv[2], exist_ok=True)
shutil.copy(stub, os.path.join(sys.argv[2], 'libcudnn_graph.so.9'))
",
    )
    .unwrap();
    let packages = root.join("packages");
    let library = packages.join("nvidia/cudnn/lib");
    let run = |out: &str| {
        let out = root.join(out);
        let said = with_packages(&script, &packages, &[out.to_str().unwrap(), library.to_str().unwrap()]);
        (said, std::fs::read_to_string(out).unwrap())
    };
    let estimates = "The workspaces of convolutions are estimates";
    let (said, peak) = run("estimated");
    assert!(said.contains(estimates), "{said}");
    let (said, asked_peak) = run("asked");
    assert!(!said.contains(estimates), "{said}");
    assert_eq!(asked_peak, peak);
    // One that cannot be loaded, or that breaks off.
    std::fs::write(library.join("libcudnn_graph.so.9"), "no library").unwrap();
    std::fs::write(&script, std::fs::read_to_string(&script).unwrap().split("# What").next().unwrap()).unwrap();
    let (said, damaged_peak) = run("damaged");
    assert!(said.contains(estimates), "{said}");
    assert_eq!(damaged_peak, peak);
}

#[test]
#[ignore = "needs a PyTorch for CUDA and cuDNN: HIGHWATER_TEST_TORCH=/path/to/python HIGHWATER_TEST_CUDNN=/path/to/site-packages"]
fn nightly_convolutions_are_those_of_an_h200() {
    let packages =
        std::env::var("HIGHWATER_TEST_CUDNN").expect("HIGHWATER_TEST_CUDNN names a directory with cuDNN's wheel");
    let script = highwater_testkit::testdata("recipes/convolution_peaks.py");
    let measured = std::fs::read_to_string(highwater_testkit::testdata("peaks/convolutions.jsonl")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut others = Vec::new();
    for line in measured.lines() {
        let real: Value = serde_json::from_str(line).unwrap();
        let out = directory.path().join("peaks.jsonl");
        let name = real["program"].as_str().unwrap();
        let said = with_packages(&script, Path::new(&packages), &[out.to_str().unwrap(), name]);
        assert!(!said.contains("are estimates"), "{said}");
        let dry: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        std::fs::remove_file(out).unwrap();
        if dry != real {
            others.push(name.to_owned());
        }
    }
    // Groups of a small number, and a filter's gradient of 16 bits in three dimensions, are split in another way than is known.
    assert_eq!(others, ["volumes, float16", "modulated"]);
}
