//! Starting programs with arguments one by one: `execl` and its like, which take as many as there are.
//!
//! Rust has no such functions. The arguments are in registers and, from the sixth on, on the stack: with those in the registers
//! pushed before them, they are the list of pointers that `execv` takes.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int};

use super::starting::{Texts, execv, execve, execvp};
use crate::real::Name;

macro_rules! listed {
    ($($name:ident = $then:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name() -> c_int {
            // Where to return to is taken from between the arguments, and is put back behind them. With it there are six words,
            // which leaves the stack at the multiple of 16 that `call` wants.
            naked_asm!(
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {then}",
                "pop rcx",
                "add rsp, 40",
                "push rcx",
                "ret",
                then = sym $then,
            )
        }
    )*};
}

listed! {
    execl = execv;
    execlp = execvp;
    execle = execve_behind;
}

/// The variables are behind the null that ends the arguments.
extern "C" fn execve_behind(path: Name, arguments: Texts) -> c_int {
    let mut end = arguments;
    // SAFETY: null is behind the last argument, and only what is before it is read.
    while !unsafe { *end }.is_null() {
        // SAFETY: as above.
        end = unsafe { end.add(1) };
    }
    // SAFETY: by the interface of `execle` the pointer to the variables lies behind the null.
    let variables = unsafe { end.add(1).cast::<*const *const c_char>().read() };
    execve(path, arguments, variables)
}
