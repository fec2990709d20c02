//! A stub that was written is loaded with the core, as a program would have it, and its functions are called.

#![expect(unsafe_code, reason = "loads libraries and calls what they have")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_void};

use highwater_nullgpu::elf::{Functions, stub};
use libloading::Library;
use libloading::os::unix;

use crate::core_library;

type Malloc = unsafe extern "C" fn(*mut u64, u64) -> i32;
type Free = unsafe extern "C" fn(u64) -> i32;
type Count = unsafe extern "C" fn(*mut i32) -> i32;
type Create = unsafe extern "C" fn(*mut *mut c_void) -> i32;
type Unknown = unsafe extern "C" fn(*mut u64, u64, f64) -> u64;

fn load(functions: &Functions, directory: &tempfile::TempDir) -> Library {
    // SAFETY: the core's initialisers do nothing.
    let core = unsafe { unix::Library::open(Some(core_library()), unix::RTLD_NOW | unix::RTLD_GLOBAL) }.unwrap();
    // A stub that is loaded holds on to the core, as the core does to the stub's counters.
    std::mem::forget(core);
    let path = directory.path().join("libstub.so.7");
    std::fs::write(&path, stub::write("libstub.so.7", functions).unwrap()).unwrap();
    // SAFETY: the stub's one initialiser hands it to the core, which is loaded.
    unsafe { Library::new(path) }.unwrap()
}

#[test]
fn functions_are_answered_by_the_core_or_say_success() {
    let functions: Functions = BTreeMap::from([
        (Some("V1".to_owned()), BTreeSet::from(["cudaMalloc".to_owned(), "cudaFree".to_owned()])),
        (Some("V2".to_owned()), BTreeSet::from(["neverHeardOf".to_owned()])),
        (None, BTreeSet::from(["cudaGetDeviceCount".to_owned(), "cublasCreate_v2".to_owned()])),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let stub = load(&functions, &directory);
    // SAFETY: the names are functions of these types, as CUDA's interface has them, and the places are valid.
    unsafe {
        let malloc = stub.get::<Malloc>("cudaMalloc").unwrap();
        let free = stub.get::<Free>("cudaFree").unwrap();
        let (mut first, mut second) = (0, 0);
        assert_eq!((malloc(&raw mut first, 3 << 20), malloc(&raw mut second, 3 << 20)), (0, 0));
        assert_eq!(second, first + (4 << 20), "the next one behind, in steps of 2 MiB");
        assert_eq!(malloc(&raw mut second, 1 << 60), 2, "out of memory");
        assert_eq!((free(first), free(first)), (0, 1), "freed once");

        let (mut count, mut handle, mut untouched) = (0, std::ptr::null_mut(), 5);
        assert_eq!(stub.get::<Count>("cudaGetDeviceCount").unwrap()(&raw mut count), 0);
        assert_eq!(count, 1);
        assert_eq!(stub.get::<Create>("cublasCreate_v2").unwrap()(&raw mut handle), 0);
        assert!(!handle.is_null());
        assert_eq!(stub.get::<Unknown>("neverHeardOf").unwrap()(&raw mut untouched, 1, 1.0), 0);
        assert_eq!(untouched, 5);
    }
}

#[test]
fn a_symbol_is_found_by_its_version_only() {
    let functions: Functions = BTreeMap::from([(Some("V1".to_owned()), BTreeSet::from(["versioned".to_owned()]))]);
    let directory = tempfile::tempdir().unwrap();
    let handle = unix::Library::from(load(&functions, &directory)).into_raw();
    // SAFETY: the library is loaded and stays so; both texts end with a zero byte.
    let found = |version: &CStr| unsafe { dlvsym(handle, c"versioned".as_ptr(), version.as_ptr()) };
    assert!(!found(c"V1").is_null());
    assert!(found(c"V2").is_null());
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

#[test]
fn a_process_ends_with_the_one_that_runs_it() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    // The shell runs two programs; one of them is not told whose it is. Each says its number once it is loaded.
    let script = "HIGHWATER_NULLGPU_PARENT=$$ sh -c 'echo own $$; exec sleep 1000' &
        HIGHWATER_NULLGPU_PARENT=1 sh -c 'echo other $$; exec sleep 1000' & wait";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .env("LD_PRELOAD", core_library())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said: Vec<String> =
        BufReader::new(shell.stdout.take().unwrap()).lines().take(2).collect::<Result<_, _>>().unwrap();
    said.sort();
    let [other, own] = [&said[0], &said[1]].map(|line| line.split(' ').nth(1).unwrap());
    shell.kill().unwrap();
    shell.wait().unwrap();
    // It is gone, or only waited for by whoever takes orphans in.
    let state = |process: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").map_or('X', |(_, rest)| rest.chars().next().unwrap_or('X'))
    };
    while !matches!(state(own), 'X' | 'Z') {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!matches!(state(other), 'X' | 'Z'));
    Command::new("kill").args(["-KILL", other]).status().unwrap();
}
