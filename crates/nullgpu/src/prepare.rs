//! Gets ready to run a Python of which the loader finds the null GPU first.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use crate::card::{self, Card};
use crate::elf::wanted::{self, Libraries, SharedObject};
use crate::elf::{Functions, stub};
use crate::error::{Error, Kind};
use crate::install::{self, Torch};
use crate::looked_up;

/// Stubs that lie in a directory, ready to be loaded.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The PyTorch that they are for.
    pub torch: Torch,
    /// The directory of the stubs.
    pub stubs: PathBuf,
    /// What is loaded first: the core, then a stub for each library, sorted by soname.
    pub preload: Vec<PathBuf>,
    /// Whether the stubs were there already.
    pub cached: bool,
}

/// The machine that a program is to find.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Of which kind its cards are.
    pub card: &'static Card,
    /// Another amount of memory than the card has.
    pub memory_bytes: Option<u64>,
    /// How many cards there are.
    pub devices: u32,
    /// What of each is gone before the first allocation; without it, what the core takes for usual.
    pub context_bytes: Option<u64>,
    /// Where each process writes what it did, as a line of JSON.
    pub trace: Option<PathBuf>,
}

impl Machine {
    /// One card with all its memory.
    pub fn new(card: &'static Card) -> Self {
        Machine { card, memory_bytes: None, devices: 1, context_bytes: None, trace: None }
    }
}

/// The file that says what the stubs beside it are for.
const IDENTITY: &str = "identity.txt";

/// Writes the stubs that the PyTorch in `site_packages` wants into `directory`, unless they are there already.
///
/// `core` is the library that answers (`highwater-nullgpu-core`).
///
/// # Errors
/// There is no PyTorch for CUDA, or a file cannot be read or written.
pub fn prepare(site_packages: &Path, core: &Path, directory: &Path) -> Result<Prepared, Error> {
    let torch = install::torch(site_packages)?;
    let core = core.canonicalize().map_err(|_| Error::new(core, Kind::NoCore))?;
    fs::create_dir_all(directory).map_err(|error| Error::new(directory, Kind::Write(error)))?;
    let directory = directory.canonicalize().map_err(|error| Error::new(directory, Kind::Write(error)))?;
    let objects = install::shared_objects(site_packages);
    let identity = identity(&torch, &objects);

    let known = read_identity(&directory, &identity);
    let cached = known.is_some();
    let sonames = match known {
        Some(sonames) => sonames,
        None => write_stubs(site_packages, &objects, &directory, &identity)?,
    };
    let mut preload = vec![core];
    preload.extend(sonames.iter().map(|soname| directory.join(soname)));
    for path in &preload {
        if path.to_string_lossy().contains([' ', ':']) {
            return Err(Error::new(path, Kind::Unloadable));
        }
    }
    Ok(Prepared { torch, stubs: directory, preload, cached })
}

impl Prepared {
    /// The variables to run a program with; `preloaded` is what `LD_PRELOAD` holds already, and goes behind.
    ///
    /// `CUDA_VISIBLE_DEVICES` must be taken out of the environment besides: it speaks of other cards.
    pub fn environment(&self, machine: &Machine, preloaded: Option<OsString>) -> Vec<(OsString, OsString)> {
        let mut preload = OsString::new();
        for path in &self.preload {
            if !preload.is_empty() {
                preload.push(":");
            }
            preload.push(path);
        }
        if let Some(preloaded) = preloaded.filter(|preloaded| !preloaded.is_empty()) {
            preload.push(":");
            preload.push(preloaded);
        }
        let (major, minor) = self.torch.cuda;
        let mut variables: Vec<(OsString, OsString)> = vec![("LD_PRELOAD".into(), preload)];
        let mut set = |name: &str, value: OsString| variables.push((format!("HIGHWATER_NULLGPU_{name}").into(), value));
        set("CARD", card::settings(machine.card, machine.memory_bytes).into());
        set("DEVICES", machine.devices.to_string().into());
        set("CUDA", (major * 1000 + minor * 10).to_string().into());
        for (name, number) in
            [("CONTEXT", machine.context_bytes), ("CUDNN", self.torch.cudnn), ("NCCL", self.torch.nccl)]
        {
            if let Some(number) = number {
                set(name, number.to_string().into());
            }
        }
        if let Some(trace) = &machine.trace {
            set("TRACE", trace.clone().into());
        }
        variables
    }
}

/// What the stubs depend on: this crate, the PyTorch, and the files that were read, with their sizes and times.
fn identity(torch: &Torch, objects: &[PathBuf]) -> String {
    let mut text = format!(
        "highwater {} record {} names {} torch {} cuda {:?}\n",
        env!("CARGO_PKG_VERSION"),
        stub::RECORD_LAYOUT,
        looked_up::LISTS.iter().map(|(_, _, names)| names.len()).sum::<usize>(),
        torch.version,
        torch.cuda
    );
    for path in objects {
        let metadata = fs::metadata(path).ok();
        let size = metadata.as_ref().map_or(0, fs::Metadata::len);
        let modified = metadata.and_then(|metadata| metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |since| since.as_secs());
        let _ = writeln!(text, "{} {size} {modified}", path.display());
    }
    text
}

/// The sonames of the stubs in a directory, if they are those of `identity` and all are there.
fn read_identity(directory: &Path, identity: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(directory.join(IDENTITY)).ok()?;
    let sonames: Vec<String> = text.strip_prefix(identity)?.lines().map(str::to_owned).collect();
    let complete = !sonames.is_empty() && sonames.iter().all(|soname| directory.join(soname).is_file());
    complete.then_some(sonames)
}

fn write_stubs(
    site_packages: &Path,
    paths: &[PathBuf],
    directory: &Path,
    identity: &str,
) -> Result<Vec<String>, Error> {
    let mut objects = Vec::new();
    for path in paths {
        match wanted::read_file(path) {
            Ok(object) if calls_cuda(&object) => objects.push(object),
            // Text that a linker reads, and objects of other machines, lie about in packages.
            Ok(_) | Err(wanted::ReadError::Format(_)) => {}
            Err(error) => return Err(Error::new(path, Kind::Read(error))),
        }
    }
    let mut libraries = wanted::libraries(&objects);
    if libraries.is_empty() {
        return Err(Error::new(site_packages, Kind::NothingWanted));
    }
    add_looked_up(&mut libraries);

    let mut names = String::new();
    for (soname, functions) in &libraries {
        let path = directory.join(soname);
        let bytes = stub::write(soname, functions).map_err(|error| Error::new(&path, Kind::Stub(error)))?;
        write_whole(&path, &bytes)?;
        let _ = writeln!(names, "{soname}");
    }
    write_whole(&directory.join(IDENTITY), format!("{identity}{names}").as_bytes())?;
    Ok(libraries.into_keys().collect())
}

/// Whether an object is of interest: PyTorch's own, and what is linked with it or with CUDA.
fn calls_cuda(object: &SharedObject) -> bool {
    let of_torch = |name: &str| ["libtorch", "libc10", "libcaffe2"].iter().any(|prefix| name.starts_with(prefix));
    object.soname.as_deref().is_some_and(of_torch)
        || object.needed.iter().any(|needed| wanted::is_cuda_library(needed) || of_torch(needed))
}

/// Adds the names that are looked up at run time, where no file has asked for them.
fn add_looked_up(libraries: &mut Libraries) {
    for (soname, _, names) in looked_up::LISTS {
        let functions: &mut Functions = libraries.entry(soname.to_owned()).or_default();
        for &name in names {
            if !functions.values().any(|names| names.contains(name)) {
                functions.entry(None).or_default().insert(name.to_owned());
            }
        }
    }
}

/// Writes a file so that another process sees all of it or nothing.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written: io::Result<()> = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        Error::new(path, Kind::Write(error))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// A directory with a PyTorch of which one object wants `cudaMalloc`: a stub needs its core, so it does as an object
    /// that wants something.
    fn site_packages() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("torch/lib")).unwrap();
        fs::write(directory.path().join("torch/version.py"), "__version__ = '2.9.0'\ncuda = '12.8'\n").unwrap();
        let functions: Functions = BTreeMap::from([(None, BTreeSet::from(["own".to_owned()]))]);
        let bytes = stub::write("libtorch_cuda.so", &functions).unwrap();
        fs::write(directory.path().join("torch/lib/libtorch_cuda.so"), bytes).unwrap();
        directory
    }

    #[test]
    fn what_wants_nothing_of_cuda_is_said() {
        let (site, out) = (site_packages(), tempfile::tempdir().unwrap());
        let core = site.path().join("core.so");
        let error = prepare(site.path(), &core, out.path()).unwrap_err();
        assert!(matches!(error.kind, Kind::NoCore));
        fs::write(&core, "").unwrap();
        let error = prepare(site.path(), &core, out.path()).unwrap_err();
        assert!(matches!(error.kind, Kind::NothingWanted), "{error}");
    }

    #[test]
    fn the_environment_says_what_the_core_reads() {
        let torch = Torch { version: "2.9.0".to_owned(), cuda: (12, 8), cudnn: Some(91_002), nccl: None };
        let preload = vec![PathBuf::from("/a/core.so"), PathBuf::from("/b/libcudart.so.12")];
        let prepared = Prepared { torch, stubs: PathBuf::new(), preload, cached: false };
        let machine = Machine { memory_bytes: Some(1 << 33), devices: 2, ..Machine::new(Card::named("t4").unwrap()) };
        let variables = prepared.environment(&machine, Some("/c.so".into()));
        let text: Vec<String> =
            variables.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        assert_eq!(
            text,
            [
                "LD_PRELOAD=/a/core.so:/b/libcudart.so.12:/c.so",
                "HIGHWATER_NULLGPU_CARD=name=Tesla T4;memory=8589934592;cc=7.5;sms=40;l2=4194304;bus=256",
                "HIGHWATER_NULLGPU_DEVICES=2",
                "HIGHWATER_NULLGPU_CUDA=12080",
                "HIGHWATER_NULLGPU_CUDNN=91002",
            ]
        );
    }
}
