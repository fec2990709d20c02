//! An installed PyTorch: which it is, and the shared objects that call CUDA.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Kind};

/// What is known of a PyTorch in a `site-packages` directory without running it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torch {
    /// Its version, as in `2.11.0+cu130`.
    pub version: String,
    /// The CUDA version that it was built with: major, minor.
    pub cuda: (u32, u32),
    /// The version of cuDNN that it asks for, as cuDNN's own number.
    pub cudnn: Option<u64>,
    /// The version of NCCL that it asks for, as NCCL's own number.
    pub nccl: Option<u64>,
}

/// Reads which PyTorch is installed.
///
/// # Errors
/// There is none, or one that was not built with CUDA.
pub fn torch(site_packages: &Path) -> Result<Torch, Error> {
    let path = site_packages.join("torch/version.py");
    let text = fs::read_to_string(&path).map_err(|_| Error::new(site_packages, Kind::NoTorch))?;
    let version = assigned(&text, "__version__").unwrap_or_default().to_owned();
    let cuda = assigned(&text, "cuda").and_then(|cuda| numbers(cuda).map(|[major, minor, _]| (major, minor)));
    let Some(cuda) = cuda else {
        return Err(Error::new(site_packages, Kind::WithoutCuda { version }));
    };
    let metadata = metadata(site_packages).unwrap_or_default();
    let number = |[first, second, third]: [u64; 3], unit: u64| first * unit + second * 100 + third;
    let library = |prefix| required(&metadata, prefix).map(|parts| parts.map(u64::from));
    // Up to version 8 with one digit less for the minor one.
    let cudnn = library("nvidia-cudnn-").map(|parts| number(parts, if parts[0] < 9 { 1000 } else { 10_000 }));
    let nccl = library("nvidia-nccl-").map(|parts| number(parts, 10_000));
    Ok(Torch { version, cuda, cudnn, nccl })
}

/// The text that a line of Python assigns to a name, with or without a type.
fn assigned<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (kind, value) = rest.split_once('=')?;
        (kind.trim().is_empty() || kind.trim_start().starts_with(':')).then_some(())?;
        let value = value.trim();
        let quote = value.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        value[1..].split(quote).next()
    })
}

/// The first three numbers of a version; those that it lacks are 0.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split('.').map(|part| {
        let digits = part.find(|next: char| !next.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().ok()
    });
    let first = parts.next()??;
    let mut following = || parts.next().flatten().unwrap_or(0);
    Some([first, following(), following()])
}

/// The version that a requirement in a package's metadata fixes.
fn required(metadata: &str, prefix: &str) -> Option<[u32; 3]> {
    metadata.lines().find_map(|line| {
        let requirement = line.strip_prefix("Requires-Dist: ")?.strip_prefix(prefix)?;
        numbers(requirement.split_once("==")?.1)
    })
}

fn metadata(site_packages: &Path) -> Option<String> {
    entries(site_packages).into_iter().find_map(|path| {
        let name = path.file_name()?.to_str()?;
        let is_torch = name.starts_with("torch-") && name.ends_with(".dist-info");
        is_torch.then(|| fs::read_to_string(path.join("METADATA")).ok()).flatten()
    })
}

/// The shared objects in a directory of packages, sorted by path: those that a package's list of files names, and, as not every package
/// has a list, those in a package itself and in its `lib`.
///
/// NVIDIA's own packages are not looked into: they are what is stood in for.
pub fn shared_objects(packages: &Path) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    for path in entries(packages) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if is_shared_object(&path) {
            found.insert(path);
        } else if name.ends_with(".dist-info") {
            found.extend(
                listed(&path.join("RECORD")).map(|listed| packages.join(listed)).filter(|path| is_shared_object(path)),
            );
        } else if name != NVIDIA && path.is_dir() {
            found.extend(entries(&path).into_iter().filter(|path| is_shared_object(path)));
            found.extend(entries(&path.join("lib")).into_iter().filter(|path| is_shared_object(path)));
        }
    }
    found.into_iter().collect()
}

/// The package in which NVIDIA's wheels lie.
const NVIDIA: &str = "nvidia";

/// The files below the directory of packages that a `RECORD` names: a row of CSV for each, with `/` between the parts of a path. A name in
/// quotation marks holds a comma or a mark, which no shared object's does.
fn listed(record: &Path) -> impl Iterator<Item = String> {
    let text = fs::read_to_string(record).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(',').next());
    let is_below = |name: &&str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let is_other = |name: &&str| name.split('/').next() != Some(NVIDIA);
    let names: Vec<_> =
        names.filter(|name| name.contains(".so")).filter(is_below).filter(is_other).map(str::to_owned).collect();
    names.into_iter()
}

/// What is in a directory, sorted; nothing if it cannot be read.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn is_shared_object(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ends = |end: &str| name.strip_suffix(end).is_some();
    // As in `lib.so` and `lib.so.1`.
    (ends(".so") || name.contains(".so.")) && path.is_file()
}

#[cfg(test)]
mod tests {
    use highwater_problem::Explained as _;

    use super::*;

    fn install(version: &str, metadata: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let (torch, info) = (directory.path().join("torch/lib"), directory.path().join("torch-2.6.0.dist-info"));
        fs::create_dir_all(&torch).unwrap();
        fs::create_dir_all(&info).unwrap();
        fs::write(directory.path().join("torch/version.py"), version).unwrap();
        fs::write(info.join("METADATA"), metadata).unwrap();
        for name in ["torch/lib/libb.so.2", "torch/lib/liba.so", "torch/_C.so", "ext.so", "torch/lib/notes.txt"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        directory
    }

    #[test]
    fn versions_are_read_without_running_anything() {
        let directory = install(
            "from typing import Optional\n__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\n",
            "Name: torch\nRequires-Dist: nvidia-cudnn-cu12==9.1.0.70; platform_system == \"Linux\"\n\
             Requires-Dist: nvidia-nccl-cu12 (==2.21.5) ; platform_system == \"Linux\"\n",
        );
        let expected =
            Torch { version: "2.6.0+cu124".to_owned(), cuda: (12, 4), cudnn: Some(90_100), nccl: Some(22_105) };
        assert_eq!(torch(directory.path()).unwrap(), expected);
        let names: Vec<_> = shared_objects(directory.path())
            .iter()
            .map(|path| path.strip_prefix(directory.path()).unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["ext.so", "torch/_C.so", "torch/lib/liba.so", "torch/lib/libb.so.2"]);
    }

    #[test]
    fn objects_deep_in_a_package_are_found_by_its_list_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for name in ["engine/attention/kernels.abi3.so", "engine/core.so", "nvidia/cublas/lib/libcublas.so.13"] {
            write(name, "");
        }
        write(
            "engine-1.0.dist-info/RECORD",
            "engine/attention/kernels.abi3.so,sha256=x,1\nengine/core.so,,\nengine/gone.so,,\n../../bin/out.so,,\n/etc/out.so,,\n\
             engine/notes.py,,\nnvidia/cublas/lib/libcublas.so.13,,\n",
        );
        let names: Vec<_> = shared_objects(directory.path())
            .iter()
            .map(|path| path.strip_prefix(directory.path()).unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["engine/attention/kernels.abi3.so", "engine/core.so"]);
    }

    #[test]
    fn without_torch_or_without_cuda_there_is_nothing_to_run() {
        let directory = tempfile::tempdir().unwrap();
        let error = torch(directory.path()).unwrap_err();
        assert!(matches!(error.kind, Kind::NoTorch));
        let directory = install("__version__ = '2.6.0+cpu'\ncuda: Optional[str] = None\n", "");
        let error = torch(directory.path()).unwrap_err();
        assert!(error.to_string().contains("torch 2.6.0+cpu is built without CUDA"), "{error}");
        assert!(error.hint().unwrap().contains("pip install"));
    }
}
