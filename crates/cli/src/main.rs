//! The program: [`highwater_cli`] does it all.

use std::process::ExitCode;

use highwater_huge_pages::HugePages;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    highwater_cli::run(std::env::args_os())
}
