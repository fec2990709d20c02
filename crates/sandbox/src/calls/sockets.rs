//! Sockets that have a path: binding makes a file, connecting looks for one.

use std::ffi::{c_int, c_uint, c_void};

use super::real;
use crate::abi;
use crate::path::Path;
use crate::redirect::{Purpose, redirect};
use crate::system::Errno;

/// An address of any kind, as long as another argument says.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Address(*const c_void);

/// Where the path begins in an address of such a socket.
const PATH_AT: usize = std::mem::offset_of!(abi::SockaddrUn, sun_path);

impl Address {
    /// What a register holds.
    pub(super) fn at(address: usize) -> Self {
        Address(address as *const c_void)
    }

    /// The path, if it is the address of a socket that has one.
    fn path<'a>(self, length: c_uint) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok().filter(|&length| length > PATH_AT && !self.0.is_null())?;
        // SAFETY: not null, hence as long as the caller says; bytes have no invalid values.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), length) };
        let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
        let path = bytes[PATH_AT..].split(|&byte| byte == 0).next().unwrap_or_default();
        // An empty name, or one that begins with a zero byte, is none in the file system.
        (i32::from(family) == abi::AF_UNIX && !path.is_empty()).then_some(path)
    }
}

/// An address with this path.
fn address_of(path: &Path) -> Result<abi::SockaddrUn, Errno> {
    let mut address = abi::SockaddrUn { sun_family: 1, sun_path: [0; 108] };
    let room = address.sun_path.len();
    let bytes = path.as_bytes();
    if bytes.len() >= room {
        return Err(Errno::TOO_LONG);
    }
    for (to, &from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    Ok(address)
}

/// Of a whole address, a path of any length within.
const SIZE: c_uint = 110;

const _: () = assert!(abi::AF_UNIX == 1 && size_of::<abi::SockaddrUn>() == 110, "as `address_of` has it");

macro_rules! sockets {
    ($(fn $name:ident = $purpose:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $name(socket: c_int, address: Address, length: c_uint) -> c_int {
            let path = address.path(length);
            let other = path.map_or(Ok(None), |path| redirect(abi::AT_FDCWD, path, $purpose));
            let other = other.and_then(|other| other.filter(|other| Some(other.as_bytes()) != path).map(|other| address_of(&other)).transpose());
            match other {
                Ok(None) => real!($name: fn(c_int, Address, c_uint) -> c_int; socket, address, length),
                Ok(Some(other)) => real!($name: fn(c_int, *const abi::SockaddrUn, c_uint) -> c_int;
                    socket, &raw const other, SIZE),
                Err(error) => error.fail(),
            }
        }
    )*};
}

sockets! {
    fn bind = Purpose::Make;
    fn connect = Purpose::Look;
}
