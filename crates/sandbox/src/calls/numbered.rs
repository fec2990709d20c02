//! System calls by their numbers, through the C library's `syscall`: those that programs make so for want of a function.

use std::ffi::{c_int, c_long};

use super::{changing, looking, naming, taken, whereabouts};
use crate::real::{Name, Room};
use crate::redirect::Purpose;
use crate::system::{self, Errno};

/// Declared with all the arguments that there can be: who has fewer hands over what its registers and its stack hold, which
/// the kernel does not look at.
#[expect(clippy::many_single_char_names, reason = "what they are depends on the number")]
#[unsafe(no_mangle)]
extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    let by_path =
        |purpose: Purpose| taken(low(a), Name::at(b), purpose, |path| kernel(number, [a, path.address(), c, d, e, f]));
    match number {
        libc::SYS_open => taken(libc::AT_FDCWD, Name::at(a), Purpose::Open(low(b)), |path| {
            kernel(number, [path.address(), b, c, d, e, f])
        }),
        libc::SYS_openat => by_path(Purpose::Open(low(c))),
        // Its flags are the first of a structure.
        libc::SYS_openat2 => by_path(Purpose::Open(first_of(c))),
        libc::SYS_statx => by_path(looking::by_flags(low(c))),
        libc::SYS_newfstatat | libc::SYS_faccessat2 => by_path(looking::by_flags(low(d))),
        libc::SYS_faccessat => by_path(Purpose::Look),
        libc::SYS_mkdirat | libc::SYS_mknodat => by_path(Purpose::Make),
        libc::SYS_unlinkat => by_path(changing::removal(low(c))),
        libc::SYS_fchmodat => by_path(Purpose::Change),
        libc::SYS_renameat2 => {
            naming::renameat2(low(a), Name::at(b), low(c), Name::at(d), low(e).cast_unsigned()).into()
        }
        libc::SYS_readlinkat => whereabouts::readlinkat(low(a), Name::at(b), Room::at(c as *mut _), d) as c_long,
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
