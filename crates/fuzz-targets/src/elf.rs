//! Shared objects of an installed PyTorch, which the dry run reads to know what to stand in for.

use highwater_nullgpu::elf::stub;
use highwater_nullgpu::elf::wanted::{libraries, read};

/// A shared object is read or refused; for what it wants a library is written that can be read, and has it.
pub fn elf(bytes: &[u8]) {
    let Ok(object) = read(bytes) else { return };
    for (soname, functions) in libraries([&object]) {
        let Ok(written) = stub::write(&soname, &functions) else { continue };
        let stub = read(written.as_slice()).expect("a written library is readable");
        assert_eq!(stub.soname.as_ref(), Some(&soname));
        for name in functions.values().flatten() {
            assert!(stub.defined.contains(name), "`{name}` is not in its library");
        }
    }
}
