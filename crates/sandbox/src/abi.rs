//! Numbers, structures and functions of Linux and its C library on x86-64, under their names in C.
//!
//! They are here, and not taken from the crate `libc`, so that this library depends on nothing and one call of the compiler builds
//! it into `highwater` (`build.rs` of `crates/nullgpu`). A test compares each with that crate.
#![expect(non_upper_case_globals, reason = "the names are those of C")]

use std::ffi::{c_char, c_int, c_long, c_void};

macro_rules! constants {
    ($($type:ident { $($name:ident = $value:expr),* $(,)? })*) => {
        $($(pub(crate) const $name: $type = $value;)*)*

        #[cfg(test)]
        #[test]
        fn constants_are_those_of_the_c_library() {
            $($(assert_eq!($name, libc::$name, stringify!($name));)*)*
        }
    };
}

constants! {
    c_int {
        AT_FDCWD = -100, AT_SYMLINK_NOFOLLOW = 0x100, AT_REMOVEDIR = 0x200, AT_SYMLINK_FOLLOW = 0x400, AT_EMPTY_PATH = 0x1000,
        O_ACCMODE = 3, O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2, O_CREAT = 0x40, O_EXCL = 0x80, O_TRUNC = 0x200, O_APPEND = 0x400,
        O_DIRECTORY = 0x1_0000, O_NOFOLLOW = 0x2_0000, O_CLOEXEC = 0x8_0000, O_PATH = 0x20_0000, O_TMPFILE = 0x41_0000,
        X_OK = 1, W_OK = 2, LOCK_EX = 2, LOCK_UN = 8, AF_UNIX = 1,
        EPERM = 1, ENOENT = 2, EINTR = 4, EBADF = 9, EACCES = 13, EEXIST = 17, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, ERANGE = 34,
        ENAMETOOLONG = 36, ENOSYS = 38, ELOOP = 40,
    }
    u32 {
        S_IFMT = 0o170_000, S_IFREG = 0o100_000, S_IFDIR = 0o040_000, S_IFLNK = 0o120_000, S_IWUSR = 0o200,
        RENAME_NOREPLACE = 1, RENAME_EXCHANGE = 2,
    }
    u8 { DT_LNK = 10 }
    c_long {
        SYS_open = 2, SYS_close = 3, SYS_stat = 4, SYS_lstat = 6, SYS_ioctl = 16, SYS_access = 21, SYS_sendfile = 40,
        SYS_connect = 42, SYS_bind = 49, SYS_execve = 59, SYS_flock = 73, SYS_truncate = 76, SYS_getcwd = 79, SYS_chdir = 80,
        SYS_rename = 82, SYS_mkdir = 83, SYS_rmdir = 84, SYS_creat = 85, SYS_link = 86, SYS_unlink = 87, SYS_symlink = 88,
        SYS_readlink = 89, SYS_chmod = 90, SYS_fchmod = 91, SYS_chown = 92, SYS_fchown = 93, SYS_lchown = 94, SYS_utime = 132,
        SYS_mknod = 133, SYS_gettid = 186, SYS_setxattr = 188, SYS_lsetxattr = 189, SYS_fsetxattr = 190, SYS_getxattr = 191,
        SYS_lgetxattr = 192, SYS_listxattr = 194, SYS_llistxattr = 195, SYS_removexattr = 197, SYS_lremovexattr = 198,
        SYS_fremovexattr = 199, SYS_getdents64 = 217, SYS_utimes = 235, SYS_openat = 257, SYS_mkdirat = 258, SYS_mknodat = 259,
        SYS_fchownat = 260, SYS_futimesat = 261, SYS_newfstatat = 262, SYS_unlinkat = 263, SYS_renameat = 264, SYS_linkat = 265,
        SYS_symlinkat = 266, SYS_readlinkat = 267, SYS_fchmodat = 268, SYS_faccessat = 269, SYS_utimensat = 280,
        SYS_renameat2 = 316, SYS_getrandom = 318, SYS_execveat = 322, SYS_statx = 332, SYS_openat2 = 437, SYS_faccessat2 = 439,
        SYS_fchmodat2 = 452,
    }
}

/// Since Linux 6.13; the crate `libc` does not have them for x86-64 yet.
pub(crate) const SYS_setxattrat: c_long = 463;
pub(crate) const SYS_removexattrat: c_long = 466;

/// `struct stat`, which is the kernel's own here.
#[repr(C)]
pub(crate) struct Stat {
    st_dev: u64,
    st_ino: u64,
    st_nlink: u64,
    pub(crate) st_mode: u32,
    pub(crate) st_uid: u32,
    pub(crate) st_gid: u32,
    padding: u32,
    st_rdev: u64,
    st_size: i64,
    st_blksize: i64,
    st_blocks: i64,
    pub(crate) st_atime: i64,
    pub(crate) st_atime_nsec: i64,
    pub(crate) st_mtime: i64,
    pub(crate) st_mtime_nsec: i64,
    st_ctime: i64,
    st_ctime_nsec: i64,
    reserved: [i64; 3],
}

/// `struct timespec`
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) tv_sec: i64,
    pub(crate) tv_nsec: i64,
}

/// `struct sockaddr_un`
#[repr(C)]
pub(crate) struct SockaddrUn {
    pub(crate) sun_family: u16,
    pub(crate) sun_path: [c_char; 108],
}

/// `struct dirent64`; as long as its name needs.
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of C")]
pub(crate) struct Dirent64 {
    d_ino: u64,
    d_off: i64,
    d_reclen: u16,
    pub(crate) d_type: u8,
    pub(crate) d_name: [c_char; 256],
}

/// `Dl_info`
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of C")]
pub(crate) struct DlInfo {
    pub(crate) dli_fname: *const c_char,
    dli_fbase: *mut c_void,
    dli_sname: *const c_char,
    dli_saddr: *mut c_void,
}

/// For [`dlsym`]: the next library behind the one that asks.
pub(crate) const RTLD_NEXT: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);

unsafe extern "C" {
    pub(crate) fn __errno_location() -> *mut c_int;
    pub(crate) fn malloc(size: usize) -> *mut c_void;
    pub(crate) fn getenv(name: *const c_char) -> *mut c_char;
    pub(crate) fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
    pub(crate) fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(crate) fn dladdr(address: *const c_void, found: *mut DlInfo) -> c_int;
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    macro_rules! same_layout {
        ($($ours:ident = $theirs:ident { $($field:ident),* };)*) => {$(
            assert_eq!(size_of::<$ours>(), size_of::<libc::$theirs>());
            assert_eq!(align_of::<$ours>(), align_of::<libc::$theirs>());
            $(assert_eq!(offset_of!($ours, $field), offset_of!(libc::$theirs, $field), stringify!($field));)*
        )*};
    }

    #[test]
    fn structures_are_those_of_the_c_library() {
        same_layout! {
            Stat = stat { st_mode, st_uid, st_gid, st_atime, st_atime_nsec, st_mtime, st_mtime_nsec };
            Timespec = timespec { tv_sec, tv_nsec };
            SockaddrUn = sockaddr_un { sun_family, sun_path };
            Dirent64 = dirent64 { d_type, d_name };
            DlInfo = Dl_info { dli_fname };
        }
        assert_eq!(RTLD_NEXT, libc::RTLD_NEXT);
    }
}
