//! Gets ready to run a Python of which the loader finds the null GPU first.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use highwater_driver::Card;
use serde::{Deserialize, Serialize};

use crate::card;
use crate::elf::wanted::{self, Libraries, SharedObject};
use crate::elf::{Functions, stub};
use crate::error::{Error, Kind};
use crate::install::{self, Torch};
use crate::looked_up;
use crate::verified_file;

/// Stubs that lie in a directory, ready to be loaded.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The PyTorch that they are for.
    pub torch: Torch,
    /// The directory of the stubs.
    pub stubs: PathBuf,
    /// What is loaded first: the core, then a stub for each library, sorted by soname.
    pub preload: Vec<PathBuf>,
    /// Whether it was known already which functions they need.
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

/// The file in which stands what the PyTorch wants, so that it need not be read again.
const WANTED: &str = "wanted.json";
/// The driver's library, and the name by which `-lcuda` finds it: up to 3.4, Triton links so what it compiles.
const DRIVER: &str = "libcuda.so.1";
const LINKED_DRIVER: &str = "libcuda.so";

/// Has the stubs that the PyTorch in `site_packages` wants in `directory`, and the extensions beside it and in `other_packages`.
///
/// What it wants is kept there from run to run. The stubs themselves are made anew each time, and what lies there is loaded only if
/// it has the very same bytes.
///
/// `core` is the library that answers (`highwater-nullgpu-core`).
///
/// # Errors
/// There is no PyTorch for CUDA, or a file cannot be read or written.
pub fn prepare(
    site_packages: &Path,
    other_packages: &[PathBuf],
    core: &Path,
    directory: &Path,
) -> Result<Prepared, Error> {
    let torch = install::torch(site_packages)?;
    let core = core.canonicalize().map_err(|_| Error::new(core, Kind::NoCore))?;
    fs::create_dir_all(directory).map_err(|error| Error::new(directory, Kind::Write(error)))?;
    let directory = directory.canonicalize().map_err(|error| Error::new(directory, Kind::Write(error)))?;
    let mut objects = install::shared_objects(site_packages);
    objects.extend(other_packages.iter().flat_map(|packages| install::shared_objects(packages)));
    let identity = identity(&torch, &objects);

    let list = directory.join(WANTED);
    let known = read_wanted(&list, &identity);
    let cached = known.is_some();
    let libraries = match known {
        Some(libraries) => libraries,
        None => {
            let libraries = wanted_libraries(site_packages, &objects)?;
            verified_file::keep(&list, &written(&identity, &libraries))?;
            libraries
        }
    };
    let mut preload = vec![core];
    for (soname, functions) in &libraries {
        let path = directory.join(soname);
        let bytes = stub::write(soname, functions).map_err(|error| Error::new(&path, Kind::Stub(error)))?;
        verified_file::keep(&path, &bytes)?;
        if soname == DRIVER {
            verified_file::keep(&directory.join(LINKED_DRIVER), &bytes)?;
        }
        preload.push(path);
    }
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

/// What the list depends on: this crate, the PyTorch, and the files that were read, with their sizes and times.
fn identity(torch: &Torch, objects: &[PathBuf]) -> String {
    let mut text = format!(
        "highwater {} names {} torch {} cuda {:?}\n",
        env!("CARGO_PKG_VERSION"),
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

/// The file [`WANTED`].
#[derive(Serialize, Deserialize)]
struct Wanted {
    identity: String,
    /// By soname.
    libraries: BTreeMap<String, ListedFunctions>,
}

/// As [`Functions`]: a key of JSON is never nothing.
type ListedFunctions = Vec<(Option<String>, BTreeSet<String>)>;

fn written(identity: &str, libraries: &Libraries) -> Vec<u8> {
    let libraries = libraries.iter().map(|(soname, functions)| {
        let functions = functions.iter().map(|(version, names)| (version.clone(), names.clone()));
        (soname.clone(), functions.collect())
    });
    serde_json::to_vec(&Wanted { identity: identity.to_owned(), libraries: libraries.collect() }).unwrap_or_default()
}

/// What is wanted, if the file is for the PyTorch of this identity and names nothing but libraries of CUDA.
fn read_wanted(list: &Path, identity: &str) -> Option<Libraries> {
    let wanted: Wanted = serde_json::from_slice(&fs::read(list).ok()?).ok()?;
    let is_plain = |soname: &String| wanted::is_cuda_library(soname) && !soname.contains('/');
    let is_right = wanted.identity == identity && !wanted.libraries.is_empty() && wanted.libraries.keys().all(is_plain);
    is_right.then(|| {
        wanted.libraries.into_iter().map(|(soname, functions)| (soname, functions.into_iter().collect())).collect()
    })
}

/// What the shared objects of a PyTorch and of its extensions want of CUDA's libraries.
fn wanted_libraries(site_packages: &Path, paths: &[PathBuf]) -> Result<Libraries, Error> {
    let mut objects = Vec::new();
    for path in paths {
        match wanted::read_file(path) {
            Ok(object) if calls_cuda(&object) => objects.push(object),
            // Text that a linker reads, and objects of other machines, lie about in packages.
            Ok(_) | Err(wanted::ReadError::Format(_)) => {}
            // An extension that may not be read cannot be loaded either: a script that imports it gets the loader's own message.
            Err(wanted::ReadError::File(_)) if !path.starts_with(site_packages.join("torch")) => {}
            Err(error) => return Err(Error::new(path, Kind::Read(error))),
        }
    }
    let mut libraries = wanted::libraries(&objects);
    if libraries.is_empty() {
        return Err(Error::new(site_packages, Kind::NothingWanted));
    }
    add_looked_up(&mut libraries);
    Ok(libraries)
}

/// Whether an object is of interest: PyTorch's own, and what is linked with it or with CUDA.
fn calls_cuda(object: &SharedObject) -> bool {
    let of_torch = |name: &str| ["libtorch", "libc10", "libcaffe2"].iter().any(|prefix| name.starts_with(prefix));
    object.soname.as_deref().is_some_and(of_torch)
        || object.needed.iter().any(|needed| wanted::is_cuda_library(needed) || of_torch(needed))
}

/// Adds the names that are looked up at run time, where no file has asked for them.
fn add_looked_up(libraries: &mut Libraries) {
    for (listed, _, names) in looked_up::LISTS {
        let is_meant =
            |soname: &&String| soname.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let soname = libraries.keys().find(is_meant).cloned().unwrap_or_else(|| listed.to_owned());
        let functions: &mut Functions = libraries.entry(soname).or_default();
        for &name in names {
            if !functions.values().any(|names| names.contains(name)) {
                functions.entry(None).or_default().insert(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
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

    /// A name that leads nowhere stands for a file without permission, which a superuser could read.
    #[test]
    fn an_extension_that_cannot_be_read_is_left_alone() {
        let site = site_packages();
        let gone = site.path().join("extension/kernels.so");
        let own = site.path().join("torch/lib/libgone.so");
        let with = |path: &Path| {
            wanted_libraries(site.path(), &[site.path().join("torch/lib/libtorch_cuda.so"), path.to_owned()])
        };
        assert!(matches!(with(&gone).unwrap_err().kind, Kind::NothingWanted), "it goes on");
        assert!(matches!(with(&own).unwrap_err().kind, Kind::Read(_)));
    }

    #[test]
    fn what_is_preloaded_is_what_this_program_made() {
        let (site, out) = (site_packages(), tempfile::tempdir().unwrap());
        let objects = install::shared_objects(site.path());
        let identity = identity(&install::torch(site.path()).unwrap(), &objects);
        let functions: Functions = BTreeMap::from([(Some("V1".to_owned()), BTreeSet::from(["cudaMalloc".to_owned()]))]);
        let mut libraries = Libraries::from([("libcudart.so.12".to_owned(), functions)]);
        let (core, list) = (out.path().join("core.so"), out.path().join(WANTED));
        fs::write(&core, "").unwrap();
        fs::write(&list, written(&identity, &libraries)).unwrap();
        let prepared = prepare(site.path(), &[], &core, out.path()).unwrap();
        assert!(prepared.cached);
        let stub = prepared.preload[1].clone();
        let right = fs::read(&stub).unwrap();
        fs::write(&stub, "somebody else's").unwrap();
        assert_eq!(prepare(site.path(), &[], &core, out.path()).unwrap().preload, prepared.preload);
        assert_eq!(fs::read(&stub).unwrap(), right);

        for name in ["evil.so", "../libcudart.so.12", "libcuda/../../evil.so", "/tmp/evil.so"] {
            libraries.insert(name.to_owned(), Functions::new());
            fs::write(&list, written(&identity, &libraries)).unwrap();
            assert!(read_wanted(&list, &identity).is_none(), "{name}");
            libraries.remove(name);
        }
        for damaged in ["", "{}", &format!("{identity}\nevil.so\n")] {
            fs::write(&list, damaged).unwrap();
            assert!(read_wanted(&list, &identity).is_none(), "{damaged}");
        }
    }

    #[test]
    fn a_linker_finds_the_driver_by_its_short_name() {
        let (site, out) = (site_packages(), tempfile::tempdir().unwrap());
        let identity = identity(&install::torch(site.path()).unwrap(), &install::shared_objects(site.path()));
        let functions: Functions = BTreeMap::from([(None, BTreeSet::from(["cuInit".to_owned()]))]);
        let libraries = Libraries::from([(DRIVER.to_owned(), functions)]);
        let core = out.path().join("core.so");
        fs::write(&core, "").unwrap();
        fs::write(out.path().join(WANTED), written(&identity, &libraries)).unwrap();
        let prepared = prepare(site.path(), &[], &core, out.path()).unwrap();
        let read = |name| fs::read(out.path().join(name)).unwrap();
        assert_eq!(read(LINKED_DRIVER), read(DRIVER));
        assert!(prepared.preload.iter().all(|path| !path.ends_with(LINKED_DRIVER)), "it is the same library");
    }

    #[test]
    fn what_wants_nothing_of_cuda_is_said() {
        let (site, out) = (site_packages(), tempfile::tempdir().unwrap());
        let core = site.path().join("core.so");
        let error = prepare(site.path(), &[], &core, out.path()).unwrap_err();
        assert!(matches!(error.kind, Kind::NoCore));
        fs::write(&core, "").unwrap();
        let error = prepare(site.path(), &[], &core, out.path()).unwrap_err();
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
