//! Reads what the shared objects of an installed PyTorch want of the CUDA libraries.
//!
//! Symbol and library names are facts of the installed files: nothing of them is known here beforehand, except for which
//! library a name without a version belongs to, which its prefix tells.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use object::elf;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, Sym as _};
use object::{LittleEndian, ReadCache, ReadRef};

use super::Functions;

/// What one shared object says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedObject {
    /// Its own name, `DT_SONAME`.
    pub soname: Option<String>,
    /// The libraries it names as needed, in its order.
    pub needed: Vec<String>,
    /// Symbols that it wants of others.
    pub undefined: Vec<Undefined>,
    /// Names that it has for others.
    pub defined: BTreeSet<String>,
}

/// A symbol that a shared object wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undefined {
    /// Its name.
    pub name: String,
    /// The library and the version it is wanted in, where the object says so.
    pub version: Option<(String, String)>,
}

/// Reads the dynamic part of a 64-bit little-endian ELF file; of a large file, only the pages that hold it.
///
/// # Errors
/// The file cannot be read, or is not such a file.
pub fn read_file(path: &Path) -> Result<SharedObject, ReadError> {
    let file = File::open(path)?;
    let cache = ReadCache::new(file);
    Ok(read(&cache)?)
}

/// Why [`read_file`] could not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be opened.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// It is no 64-bit little-endian ELF file, or a broken one.
    #[error(transparent)]
    Format(#[from] object::Error),
}

/// Like [`read_file`], for bytes.
///
/// # Errors
/// The bytes are not such a file.
pub fn read<'data, R: ReadRef<'data>>(data: R) -> Result<SharedObject, object::Error> {
    let file = ElfFile64::<LittleEndian, R>::parse(data)?;
    let endian = file.endian();
    let header = file.elf_header();
    let sections = header.sections(endian, data)?;
    let mut found = SharedObject::default();

    if let Some((entries, strings)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        for entry in entries {
            let tag = entry.tag(endian);
            if tag == elf::DT_NULL {
                break;
            }
            if tag == elf::DT_NEEDED || tag == elf::DT_SONAME {
                let name = text(entry.string(endian, strings)?);
                if tag == elf::DT_NEEDED {
                    found.needed.push(name);
                } else {
                    found.soname = Some(name);
                }
            }
        }
    }

    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, data)?;
    for (index, symbol) in symbols.enumerate() {
        let name = symbol.name(endian, symbols.strings())?;
        if name.is_empty() {
            continue;
        }
        if !symbol.is_undefined(endian) {
            found.defined.insert(text(name));
            continue;
        }
        let version = match &versions {
            Some(table) => table.version(table.version_index(endian, index).index())?,
            None => None,
        };
        let version = version.and_then(|version| Some((text(version.file()?), text(version.name()))));
        found.undefined.push(Undefined { name: text(name), version });
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The libraries to stand in for, by soname, each with what is wanted of it.
pub type Libraries = BTreeMap<String, Functions>;

/// Whether a library is one of the CUDA toolkit's, its driver's or its companions'.
pub fn is_cuda_library(soname: &str) -> bool {
    ["libcu", "libnv", "libnccl"].iter().any(|prefix| soname.starts_with(prefix))
}

/// Puts together what several shared objects want of the CUDA libraries.
///
/// A symbol with a version goes to the library it is wanted of. One without goes by its prefix, unless one of the objects
/// has it. Every CUDA library that is named as needed is there, also where nothing is wanted of it.
pub fn libraries<'a>(objects: impl IntoIterator<Item = &'a SharedObject> + Clone) -> Libraries {
    let defined: BTreeSet<&str> =
        objects.clone().into_iter().flat_map(|object| object.defined.iter().map(String::as_str)).collect();
    let mut libraries = Libraries::new();
    for needed in objects.clone().into_iter().flat_map(|object| &object.needed) {
        if is_cuda_library(needed) {
            libraries.entry(needed.clone()).or_default();
        }
    }
    let sonames: Vec<String> = libraries.keys().cloned().collect();
    for undefined in objects.into_iter().flat_map(|object| &object.undefined) {
        let (soname, version) = match &undefined.version {
            Some((soname, version)) if is_cuda_library(soname) => (soname.clone(), Some(version.clone())),
            Some(_) => continue,
            None if defined.contains(undefined.name.as_str()) => continue,
            None => match soname_of(&undefined.name, &sonames) {
                Some(soname) => (soname, None),
                None => continue,
            },
        };
        libraries.entry(soname).or_default().entry(version).or_default().insert(undefined.name.clone());
    }
    libraries
}

/// Prefixes of names, longest first where one begins with another, each with the stem of its library's soname and the
/// soname to use if no object names the library.
const PREFIXES: [(&str, &str, &str); 15] = [
    ("pnccl", "libnccl.so", "libnccl.so.2"),
    ("nccl", "libnccl.so", "libnccl.so.2"),
    ("cusparseLt", "libcusparseLt.so", "libcusparseLt.so.0"),
    ("cuFile", "libcufile.so", "libcufile.so.0"),
    ("nvshmem", "libnvshmem_host.so", "libnvshmem_host.so.3"),
    ("curand", "libcurand.so", "libcurand.so.10"),
    ("nvml", "libnvidia-ml.so", "libnvidia-ml.so.1"),
    ("cublasLt", "libcublasLt.so", "libcublasLt.so.13"),
    ("cublas", "libcublas.so", "libcublas.so.13"),
    ("cudnn", "libcudnn.so", "libcudnn.so.9"),
    ("cusolver", "libcusolver.so", "libcusolver.so.12"),
    ("cusparse", "libcusparse.so", "libcusparse.so.12"),
    ("nvrtc", "libnvrtc.so", "libnvrtc.so.13"),
    ("cuda", "libcudart.so", "libcudart.so.13"),
    ("cu", "libcuda.so", "libcuda.so.1"),
];

fn soname_of(name: &str, sonames: &[String]) -> Option<String> {
    let (prefix, stem, otherwise) = PREFIXES.iter().find(|(prefix, ..)| name.starts_with(prefix))?;
    // `cu` alone begins many a word: the driver's functions go on with a capital.
    if *prefix == "cu" && !name[2..].starts_with(|next: char| next.is_ascii_uppercase()) {
        return None;
    }
    let named = sonames.iter().find(|soname| soname.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.')));
    Some(named.cloned().unwrap_or_else(|| (*otherwise).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(needed: &[&str], undefined: &[(&str, Option<(&str, &str)>)], defined: &[&str]) -> SharedObject {
        SharedObject {
            soname: None,
            needed: needed.iter().map(|&name| name.to_owned()).collect(),
            undefined: undefined
                .iter()
                .map(|(name, version)| Undefined {
                    name: (*name).to_owned(),
                    version: version.map(|(file, version)| (file.to_owned(), version.to_owned())),
                })
                .collect(),
            defined: defined.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn names(libraries: &Libraries, soname: &str, version: Option<&str>) -> Vec<String> {
        libraries[soname].get(&version.map(str::to_owned)).into_iter().flatten().cloned().collect()
    }

    #[test]
    fn a_version_says_the_library_and_a_prefix_does_where_there_is_none() {
        let objects = [
            object(
                &["libcudart.so.12", "libnccl.so.2", "libcublas.so.12", "libc.so.6", "libnvToolsExt.so.1"],
                &[
                    ("cudaMalloc", Some(("libcudart.so.12", "libcudart.so.12"))),
                    ("ncclAllReduce", None),
                    ("cuMemMap", None),
                    ("cudaOwn", None),
                    ("custom_thing", None),
                    ("memcpy", Some(("libc.so.6", "GLIBC_2.14"))),
                    ("cublasCreate_v2", None),
                ],
                &[],
            ),
            object(&[], &[], &["cudaOwn"]),
        ];
        let libraries = libraries(&objects);
        assert_eq!(names(&libraries, "libcudart.so.12", Some("libcudart.so.12")), ["cudaMalloc"]);
        assert_eq!(names(&libraries, "libcudart.so.12", None), [] as [&str; 0], "one of the objects has `cudaOwn`");
        assert_eq!(names(&libraries, "libnccl.so.2", None), ["ncclAllReduce"]);
        assert_eq!(names(&libraries, "libcuda.so.1", None), ["cuMemMap"], "not `custom_thing`");
        assert_eq!(names(&libraries, "libcublas.so.12", None), ["cublasCreate_v2"], "the major version that is needed");
        assert!(libraries["libnvToolsExt.so.1"].is_empty(), "needed, so it is there");
        assert!(!libraries.contains_key("libc.so.6"));
    }

    #[test]
    fn what_is_no_shared_object_is_refused() {
        assert!(read(b"#!/bin/sh\n".as_slice()).is_err());
        assert!(read([].as_slice()).is_err());
    }
}
