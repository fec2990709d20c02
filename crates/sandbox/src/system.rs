//! System calls, made without the C library: nobody stands before them, and `errno` stays as it is.
//!
//! A pointer that is handed to the kernel here comes from a reference, and the kernel writes as much as the reference has;
//! that is the premise of every `SAFETY` below. Paths end with a zero byte, by the invariant of [`Path`].

use std::arch::asm;
use std::ffi::{c_int, c_long};

use crate::abi;
use crate::path::Path;

/// Why a call failed, as the kernel says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const NOT_THERE: Errno = Errno(abi::ENOENT);
    pub(crate) const EXISTS: Errno = Errno(abi::EEXIST);
    pub(crate) const NO_DIRECTORY: Errno = Errno(abi::ENOTDIR);
    pub(crate) const IS_DIRECTORY: Errno = Errno(abi::EISDIR);
    pub(crate) const INVALID: Errno = Errno(abi::EINVAL);
    pub(crate) const DENIED: Errno = Errno(abi::EACCES);
    pub(crate) const TOO_LONG: Errno = Errno(abi::ENAMETOOLONG);
    pub(crate) const LOOP: Errno = Errno(abi::ELOOP);
    pub(crate) const INTERRUPTED: Errno = Errno(abi::EINTR);
    pub(crate) const TOO_SMALL: Errno = Errno(abi::ERANGE);
}

/// # Safety
/// The arguments are what the kernel expects of this call.
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    /// Errors are the negative numbers down to here.
    const LAST_ERROR: c_long = -4095;
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: c_long;
    // SAFETY: the registers of a system call on x86-64; that its arguments are right the caller promises.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first, in("rsi") second, in("rdx") third, in("r10") fourth, in("r8") fifth, in("r9") sixth,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    match result {
        LAST_ERROR..0 => Err(Errno(c_int::try_from(-result).unwrap_or(abi::EINVAL))),
        _ => usize::try_from(result.cast_unsigned()).map_err(|_| Errno::INVALID),
    }
}

/// A file that is open until this is dropped.
pub(crate) struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: nobody else has the descriptor.
        let _ = unsafe { call(abi::SYS_close, [word(self.0), 0, 0, 0, 0, 0]) };
    }
}

impl File {
    pub(crate) fn open(path: &Path, flags: c_int, mode: u32) -> Result<File, Errno> {
        open_to_keep(path, flags | abi::O_CLOEXEC, mode).map(File)
    }

    /// What the kernel knows of it.
    pub(crate) fn metadata(&self) -> Result<abi::Stat, Errno> {
        metadata_of(self.0, &Path::new(), abi::AT_EMPTY_PATH)
    }

    /// The next entries of a directory, as many as there is room for; how many bytes they take.
    pub(crate) fn entries(&self, room: &mut [u8]) -> Result<usize, Errno> {
        let arguments = [word(self.0), room.as_mut_ptr() as usize, room.len(), 0, 0, 0];
        // SAFETY: the premise of this module.
        unsafe { call(abi::SYS_getdents64, arguments) }
    }

    /// Waits until nobody else has it locked.
    pub(crate) fn lock(&self) -> Result<(), Errno> {
        loop {
            // SAFETY: no pointers.
            match unsafe { call(abi::SYS_flock, [word(self.0), word(abi::LOCK_EX), 0, 0, 0, 0]) } {
                Err(Errno::INTERRUPTED) => {}
                result => return result.map(drop),
            }
        }
    }

    /// For every copy of the descriptor that a fork has made, too.
    pub(crate) fn unlock(&self) {
        // SAFETY: no pointers.
        let _ = unsafe { call(abi::SYS_flock, [word(self.0), word(abi::LOCK_UN), 0, 0, 0, 0]) };
    }

    /// Takes the content of another file, and its mode, owner and times as far as may be.
    pub(crate) fn copy_from(&self, source: &File, metadata: &abi::Stat, with_content: bool) -> Result<(), Errno> {
        if with_content {
            self.copy_content(source)?;
        }
        let times = [
            abi::Timespec { tv_sec: metadata.st_atime, tv_nsec: metadata.st_atime_nsec },
            abi::Timespec { tv_sec: metadata.st_mtime, tv_nsec: metadata.st_mtime_nsec },
        ];
        let owner = [word(self.0), metadata.st_uid as usize, metadata.st_gid as usize, 0, 0, 0];
        let mode = [word(self.0), (metadata.st_mode & 0o7777) as usize, 0, 0, 0, 0];
        // SAFETY: the premise of this module.
        unsafe {
            // Only root may give files away, and not every file system keeps the others.
            let _ = call(abi::SYS_fchown, owner);
            let _ = call(abi::SYS_fchmod, mode);
            let _ = call(abi::SYS_utimensat, [word(self.0), 0, times.as_ptr() as usize, 0, 0, 0]);
        }
        Ok(())
    }

    fn copy_content(&self, source: &File) -> Result<(), Errno> {
        /// `FICLONE` of linux/fs.h: both files share their blocks until one is written.
        const CLONE: usize = 0x4004_9409;
        const PIECE: usize = 1 << 30;
        // SAFETY: no pointers.
        if unsafe { call(abi::SYS_ioctl, [word(self.0), CLONE, word(source.0), 0, 0, 0]) }.is_ok() {
            return Ok(());
        }
        loop {
            // SAFETY: a null pointer, for the place in the source is its own.
            match unsafe { call(abi::SYS_sendfile, [word(self.0), word(source.0), 0, PIECE, 0, 0]) } {
                Ok(0) => return Ok(()),
                Ok(_) | Err(Errno::INTERRUPTED) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Opens a file for whoever asked.
pub(crate) fn open_to_keep(path: &Path, flags: c_int, mode: u32) -> Result<c_int, Errno> {
    let arguments = [word(abi::AT_FDCWD), address(path), word(flags), mode as usize, 0, 0];
    // SAFETY: the premise of this module.
    let descriptor = unsafe { call(abi::SYS_openat, arguments) }?;
    c_int::try_from(descriptor).map_err(|_| Errno::INVALID)
}

/// Where a link leads.
pub(crate) fn read_link(path: &Path) -> Result<Path, Errno> {
    read_link_of(abi::AT_FDCWD, path.with_end())
}

/// Where a link leads, by a directory that is open and a name that ends with a zero byte.
pub(crate) fn read_link_of(directory: c_int, name: &[u8]) -> Result<Path, Errno> {
    debug_assert_eq!(name.last(), Some(&0));
    let mut room = [0_u8; crate::path::CAPACITY];
    let arguments = [word(directory), name.as_ptr() as usize, room.as_mut_ptr() as usize, room.len(), 0, 0];
    // SAFETY: the premise of this module.
    let length = unsafe { call(abi::SYS_readlinkat, arguments) }?;
    Path::of(&room[..length.min(room.len())])
}

/// What the kernel knows of what a path means; a link is not followed.
pub(crate) fn metadata(path: &Path) -> Result<abi::Stat, Errno> {
    metadata_of(abi::AT_FDCWD, path, abi::AT_SYMLINK_NOFOLLOW)
}

fn metadata_of(directory: c_int, path: &Path, flags: c_int) -> Result<abi::Stat, Errno> {
    // SAFETY: a structure of numbers, of which each may be zero.
    let mut metadata: abi::Stat = unsafe { std::mem::zeroed() };
    let arguments = [word(directory), address(path), (&raw mut metadata) as usize, word(flags), 0, 0];
    // SAFETY: the premise of this module; the kernel's structure is the C library's on x86-64.
    unsafe { call(abi::SYS_newfstatat, arguments) }?;
    Ok(metadata)
}

/// Whether this is a directory.
pub(crate) fn is_directory(metadata: &abi::Stat) -> bool {
    metadata.st_mode & abi::S_IFMT == abi::S_IFDIR
}

/// Whether this is a file with bytes in it.
pub(crate) fn is_regular(metadata: &abi::Stat) -> bool {
    metadata.st_mode & abi::S_IFMT == abi::S_IFREG
}

/// Whether this process may do `what`: `W_OK` and the like.
pub(crate) fn may(path: &Path, what: c_int) -> Result<(), Errno> {
    // SAFETY: the premise of this module.
    unsafe { call(abi::SYS_faccessat, [word(abi::AT_FDCWD), address(path), word(what), 0, 0, 0]) }.map(drop)
}

/// The directory that relative paths begin at.
pub(crate) fn current_directory() -> Result<Path, Errno> {
    let mut room = [0_u8; crate::path::CAPACITY];
    // SAFETY: the premise of this module.
    let length = unsafe { call(abi::SYS_getcwd, [room.as_mut_ptr() as usize, room.len(), 0, 0, 0, 0]) }?;
    // The kernel counts the final zero byte.
    Path::of(&room[..length.saturating_sub(1)])
}

/// The path of what is open.
pub(crate) fn path_of(descriptor: c_int) -> Result<Path, Errno> {
    let mut link = Path::of(b"/proc/self/fd/")?;
    link.push_number(u64::try_from(descriptor).map_err(|_| Errno(abi::EBADF))?)?;
    read_link(&link).map_err(|error| if error == Errno::NOT_THERE { Errno(abi::EBADF) } else { error })
}

pub(crate) fn make_directory(path: &Path, mode: u32) -> Result<(), Errno> {
    // SAFETY: the premise of this module.
    unsafe { call(abi::SYS_mkdir, [address(path), mode as usize, 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn change_mode(path: &Path, mode: u32) -> Result<(), Errno> {
    // SAFETY: the premise of this module.
    unsafe { call(abi::SYS_chmod, [address(path), mode as usize, 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn make_link(target: &Path, path: &Path) -> Result<(), Errno> {
    // SAFETY: the premise of this module.
    unsafe { call(abi::SYS_symlink, [address(target), address(path), 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn remove(path: &Path) -> Result<(), Errno> {
    // SAFETY: the premise of this module.
    unsafe { call(abi::SYS_unlink, [address(path), 0, 0, 0, 0, 0]) }.map(drop)
}

/// `flags` as `renameat2` has them.
pub(crate) fn rename(from: &Path, to: &Path, flags: u32) -> Result<(), Errno> {
    let here = word(abi::AT_FDCWD);
    let arguments = [here, address(from), here, address(to), flags as usize, 0];
    // Some file systems, and old kernels, have only the call without flags.
    let number = if flags == 0 { abi::SYS_renameat } else { abi::SYS_renameat2 };
    // SAFETY: the premise of this module.
    unsafe { call(number, arguments) }.map(drop)
}

/// The number of this thread, in the whole system.
pub(crate) fn thread() -> u64 {
    // SAFETY: no arguments.
    unsafe { call(abi::SYS_gettid, [0; 6]) }.map_or(0, |number| number as u64)
}

/// Fills the room with chance.
pub(crate) fn random(room: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: the premise of this module.
    unsafe { call(abi::SYS_getrandom, [room.as_mut_ptr() as usize, room.len(), 0, 0, 0, 0]) }.map(drop)
}

fn address(path: &Path) -> usize {
    path.with_end().as_ptr() as usize
}

/// A number as the kernel takes it: it looks at the lower half only.
fn word(number: c_int) -> usize {
    number.cast_unsigned() as usize
}
