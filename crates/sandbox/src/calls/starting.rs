//! Starting programs: those that were written are found, and every one is in the sandbox too, whatever its environment.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;

use super::{real, taken};
use crate::abi;
use crate::path::Path;
use crate::real::{Name, library, set_environment};
use crate::redirect::{Purpose, redirect};
use crate::settings;
use crate::system::{self, Errno};

const HERE: c_int = abi::AT_FDCWD;

/// Texts of the caller's: pointers to each, and null behind the last.
pub(super) type Texts = *const *const c_char;

#[unsafe(no_mangle)]
pub(super) extern "C" fn execve(path: Name, arguments: Texts, variables: Texts) -> c_int {
    let mut own = Environment::with(variables);
    taken(
        HERE,
        path,
        Purpose::Look,
        |path| real!(execve: fn(Name, Texts, Texts) -> c_int; path, arguments, own.texts()),
    )
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn execv(path: Name, arguments: Texts) -> c_int {
    execve(path, arguments, present())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn execvp(name: Name, arguments: Texts) -> c_int {
    execvpe(name, arguments, present())
}

#[unsafe(no_mangle)]
extern "C" fn execvpe(name: Name, arguments: Texts, variables: Texts) -> c_int {
    let mut own = Environment::with(variables);
    match found(name.bytes()) {
        Ok(path) => real!(execvpe: fn(Name, Texts, Texts) -> c_int; name.or(path.as_ref()), arguments, own.texts()),
        Err(error) => error.fail(),
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn execveat(
    directory: c_int,
    path: Name,
    arguments: Texts,
    variables: Texts,
    flags: c_int,
) -> c_int {
    let mut own = Environment::with(variables);
    taken(
        directory,
        path,
        Purpose::Look,
        |path| real!(execveat: fn(c_int, Name, Texts, Texts, c_int) -> c_int; directory, path, arguments, own.texts(), flags),
    )
}

#[unsafe(no_mangle)]
extern "C" fn fexecve(descriptor: c_int, arguments: Texts, variables: Texts) -> c_int {
    let mut own = Environment::with(variables);
    real!(fexecve: fn(c_int, Texts, Texts) -> c_int; descriptor, arguments, own.texts())
}

/// Gives a number of an error, and does not touch `errno`.
#[unsafe(no_mangle)]
extern "C" fn posix_spawn(
    child: *mut c_int,
    path: Name,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Texts,
    variables: Texts,
) -> c_int {
    let mut own = Environment::with(variables);
    match redirect(HERE, path.bytes(), Purpose::Look) {
        Ok(other) => real!(posix_spawn: fn(*mut c_int, Name, *const c_void, *const c_void, Texts, Texts) -> c_int;
            child, path.or(other.as_ref()), actions, attributes, arguments, own.texts()),
        Err(error) => error.0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn posix_spawnp(
    child: *mut c_int,
    name: Name,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Texts,
    variables: Texts,
) -> c_int {
    let mut own = Environment::with(variables);
    match found(name.bytes()) {
        Ok(path) => real!(posix_spawnp: fn(*mut c_int, Name, *const c_void, *const c_void, Texts, Texts) -> c_int;
            child, name.or(path.as_ref()), actions, attributes, arguments, own.texts()),
        Err(error) => error.0,
    }
}

/// What the child is to open is opened by the C library itself.
#[unsafe(no_mangle)]
extern "C" fn posix_spawn_file_actions_addopen(
    actions: *mut c_void,
    descriptor: c_int,
    path: Name,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    match redirect(HERE, path.bytes(), Purpose::Open(flags)) {
        Ok(other) => real!(posix_spawn_file_actions_addopen: fn(*mut c_void, c_int, Name, c_int, c_uint) -> c_int;
            actions, descriptor, path.or(other.as_ref()), flags, mode),
        Err(error) => error.0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn posix_spawn_file_actions_addchdir_np(actions: *mut c_void, path: Name) -> c_int {
    match redirect(HERE, path.bytes(), Purpose::Look) {
        Ok(other) => real!(posix_spawn_file_actions_addchdir_np: fn(*mut c_void, Name) -> c_int;
            actions, path.or(other.as_ref())),
        Err(error) => error.0,
    }
}

/// Where the program of this name is, if it was written; else the C library looks for it.
fn found(name: &[u8]) -> Result<Option<Path>, Errno> {
    if name.contains(&b'/') {
        return redirect(HERE, name, Purpose::Look);
    }
    let directories = crate::real::environment(c"PATH").unwrap_or_default();
    let Some(settings) = settings::get().filter(|settings| settings.begun() && !name.is_empty()) else {
        return Ok(None);
    };
    for directory in directories.split(|&byte| byte == b':') {
        let Ok(path) = Path::joined(if directory.is_empty() { b"." } else { directory }, name) else { continue };
        let Ok(Some(path)) = redirect(HERE, path.as_bytes(), Purpose::Look) else { continue };
        if system::may(&path, abi::X_OK).is_ok() {
            return Ok(crate::path::below(path.as_bytes(), settings.tree.as_bytes()).is_some().then_some(path));
        }
    }
    Ok(None)
}

/// Functions with which the C library starts a shell by its own means, with the variables of this process.
macro_rules! by_shell {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $ret:ty;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> $ret {
            Environment::with(present()).put_back();
            real!($name: fn($($type),*) -> $ret; $($argument),*)
        }
    )*};
}

by_shell! {
    fn system(command: Name) -> c_int;
    fn popen(command: Name, mode: Name) -> *mut c_void;
    fn wordexp(words: Name, out: *mut c_void, flags: c_int) -> c_int;
}

/// The variables of this process.
fn present() -> Texts {
    unsafe extern "C" {
        static environ: Texts;
    }
    // SAFETY: who changes the environment while a program is started from it has no right answer to expect.
    unsafe { environ }
}

/// Variables with which a program is in the sandbox: the caller's, if they have what that takes, else a copy that has it.
///
/// The copy is the one thing here that is allocated; after a `vfork` it stays with the parent, a few hundred bytes.
struct Environment {
    given: Texts,
    /// Empty if what was given will do.
    own: Vec<*const c_char>,
    /// The variable for the loader, with a zero byte behind; empty if what was given will do.
    preload: Vec<u8>,
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

impl Environment {
    fn with(given: Texts) -> Self {
        let texts = texts_of(given);
        let value = |name: &[u8]| texts.iter().find_map(|&text| read(text).strip_prefix(name));
        let preloaded = value(PRELOAD).unwrap_or_default();
        let loads = preloaded.split(|&byte| byte == b':' || byte == b' ').any(|path| path == library());
        let missing = settings::get().is_some() && !(loads && value(b"HIGHWATER_SANDBOX=").is_some());
        if !missing {
            return Environment { given, own: Vec::new(), preload: Vec::new() };
        }
        let own_names: [&[u8]; 3] = [PRELOAD, b"HIGHWATER_SANDBOX=", b"HIGHWATER_SANDBOX_PASS="];
        let is_other = |text: &*const c_char| !own_names.iter().any(|name| read(*text).starts_with(name));
        let mut own: Vec<*const c_char> = texts.iter().copied().filter(is_other).collect();
        let mut preload = PRELOAD.to_vec();
        preload.extend(library());
        if !preloaded.is_empty() && !loads {
            preload.push(b':');
            preload.extend(preloaded);
        }
        preload.push(0);
        own.push(preload.as_ptr().cast());
        own.extend(settings::variables().map(|text| text.as_ptr().cast::<c_char>()));
        own.push(null());
        Environment { given, own, preload }
    }

    fn texts(&mut self) -> Texts {
        if self.own.is_empty() { self.given } else { self.own.as_ptr() }
    }

    /// Gives the variables that are missing to this process itself.
    fn put_back(&self) {
        if self.preload.is_empty() {
            return;
        }
        let put = |name: &CStr, variable: &[u8]| {
            let value = &variable[name.to_bytes().len() + 1..];
            // SAFETY: the value is the end of a text with a zero byte behind.
            unsafe { set_environment(name, value.as_ptr().cast()) };
        };
        put(c"LD_PRELOAD", &self.preload);
        for (name, variable) in [settings::SANDBOX, settings::PASS].into_iter().zip(settings::variables()) {
            put(name, variable);
        }
    }
}

fn texts_of<'a>(texts: Texts) -> &'a [*const c_char] {
    if texts.is_null() {
        return &[];
    }
    let mut count = 0;
    // SAFETY: null is behind the last, and only what is before it is read.
    while !unsafe { *texts.add(count) }.is_null() {
        count += 1;
    }
    // SAFETY: as many as were just read.
    unsafe { std::slice::from_raw_parts(texts, count) }
}

fn read<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: not null, and ends with a zero byte, as `exec` wants its texts; they stay while the call lasts.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}
