//! System calls by their numbers, through the C library's `syscall`: those that programs make so for want of a function.

use std::ffi::{c_int, c_long};

use super::changing::{by_flags as changed, removal};
use super::looking::by_flags as looked_at;
use super::opening::CREATE;
use super::{descriptors, naming, sockets, starting, taken, whereabouts};
use crate::abi;
use crate::real::{Name, Room};
use crate::redirect::Purpose::{self, Change, ChangeLink, Look, LookAtLink, Make, Open, RemoveDirectory, Unlink};
use crate::system::{self, Errno};

/// Declared with all the arguments that there can be: who has fewer hands over what its registers and its stack hold, which
/// the kernel does not look at.
#[expect(clippy::many_single_char_names, reason = "what they are depends on the number")]
#[unsafe(no_mangle)]
extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    let path_first = |purpose: Purpose| {
        taken(abi::AT_FDCWD, Name::at(a), purpose, |path| kernel(number, [path.address(), b, c, d, e, f]))
    };
    let path_second =
        |purpose: Purpose| taken(low(a), Name::at(b), purpose, |path| kernel(number, [a, path.address(), c, d, e, f]));
    match number {
        abi::SYS_open => path_first(Open(low(b))),
        abi::SYS_creat => path_first(Open(CREATE)),
        abi::SYS_stat | abi::SYS_access | abi::SYS_chdir | abi::SYS_getxattr | abi::SYS_listxattr => path_first(Look),
        abi::SYS_lstat | abi::SYS_lgetxattr | abi::SYS_llistxattr => path_first(LookAtLink),
        abi::SYS_truncate
        | abi::SYS_chmod
        | abi::SYS_chown
        | abi::SYS_utime
        | abi::SYS_utimes
        | abi::SYS_setxattr
        | abi::SYS_removexattr => path_first(Change),
        abi::SYS_lchown | abi::SYS_lsetxattr | abi::SYS_lremovexattr => path_first(ChangeLink),
        abi::SYS_mkdir | abi::SYS_mknod => path_first(Make),
        abi::SYS_unlink => path_first(Unlink),
        abi::SYS_rmdir => path_first(RemoveDirectory),

        abi::SYS_openat => path_second(Open(low(c))),
        // Its flags are the first of a structure.
        abi::SYS_openat2 => path_second(Open(first_of(c))),
        abi::SYS_statx => path_second(looked_at(low(c))),
        abi::SYS_newfstatat | abi::SYS_faccessat2 => path_second(looked_at(low(d))),
        abi::SYS_faccessat => path_second(Look),
        abi::SYS_mkdirat | abi::SYS_mknodat => path_second(Make),
        abi::SYS_unlinkat => path_second(removal(low(c))),
        abi::SYS_fchmodat | abi::SYS_futimesat => path_second(Change),
        abi::SYS_fchmodat2 | abi::SYS_utimensat => path_second(changed(low(d))),
        abi::SYS_fchownat => path_second(changed(low(e))),
        abi::SYS_setxattrat | abi::SYS_removexattrat => path_second(changed(low(c))),

        abi::SYS_fchmod => descriptors::fchmod(low(a), low(b).cast_unsigned()).into(),
        abi::SYS_fchown => descriptors::fchown(low(a), low(b).cast_unsigned(), low(c).cast_unsigned()).into(),
        abi::SYS_fsetxattr => descriptors::fsetxattr(low(a), Name::at(b), c as *const _, d, low(e)).into(),
        abi::SYS_fremovexattr => descriptors::fremovexattr(low(a), Name::at(b)).into(),

        abi::SYS_rename => naming::renameat2(abi::AT_FDCWD, Name::at(a), abi::AT_FDCWD, Name::at(b), 0).into(),
        abi::SYS_renameat => naming::renameat2(low(a), Name::at(b), low(c), Name::at(d), 0).into(),
        abi::SYS_renameat2 => {
            naming::renameat2(low(a), Name::at(b), low(c), Name::at(d), low(e).cast_unsigned()).into()
        }
        abi::SYS_link => naming::linkat(abi::AT_FDCWD, Name::at(a), abi::AT_FDCWD, Name::at(b), 0).into(),
        abi::SYS_linkat => naming::linkat(low(a), Name::at(b), low(c), Name::at(d), low(e)).into(),
        abi::SYS_symlink => naming::symlinkat(Name::at(a), abi::AT_FDCWD, Name::at(b)).into(),
        abi::SYS_symlinkat => naming::symlinkat(Name::at(a), low(b), Name::at(c)).into(),
        abi::SYS_readlink => whereabouts::readlinkat(abi::AT_FDCWD, Name::at(a), Room::at(b as *mut _), c) as c_long,
        abi::SYS_readlinkat => whereabouts::readlinkat(low(a), Name::at(b), Room::at(c as *mut _), d) as c_long,

        abi::SYS_bind => sockets::bind(low(a), sockets::Address::at(b), low(c).cast_unsigned()).into(),
        abi::SYS_connect => sockets::connect(low(a), sockets::Address::at(b), low(c).cast_unsigned()).into(),
        abi::SYS_execve => starting::execve(Name::at(a), b as *const _, c as *const _).into(),
        abi::SYS_execveat => starting::execveat(low(a), Name::at(b), c as *const _, d as *const _, low(e)).into(),
        _ => kernel(number, [a, b, c, d, e, f]),
    }
}

fn kernel(number: c_long, arguments: [usize; 6]) -> c_long {
    // SAFETY: the arguments are the caller's, but for a path, which ends with a zero byte as that did.
    unsafe { system::call(number, arguments) }.map_or_else(Errno::fail, signed)
}

fn signed(result: usize) -> c_long {
    result.cast_signed() as c_long
}

/// The half of a register in which a number is that C calls `int`.
fn low(register: usize) -> c_int {
    let [first, second, third, fourth, ..] = register.to_le_bytes();
    c_int::from_le_bytes([first, second, third, fourth])
}

fn first_of(structure: usize) -> c_int {
    let structure = structure as *const usize;
    if structure.is_null() {
        return 0;
    }
    // SAFETY: not null, hence the structure that the kernel will read: its first member has eight bytes.
    low(unsafe { structure.read_unaligned() })
}
