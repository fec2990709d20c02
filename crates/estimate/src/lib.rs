//! What a model needs of a GPU's memory, worked out from its configuration.

mod architecture;
mod dtype;
mod models;
mod ops;
mod optimizer;
pub mod read;
mod run;
mod setup;
mod shape;
mod tape;

pub use architecture::*;
pub use dtype::DType;
pub use setup::*;
pub use shape::{Dim, Shape, dim};
pub use tape::Category;

/// Debugging aid.
pub fn debug_peak(architecture: &Architecture, setup: &Setup, print: bool) -> (u64, u64) {
    let run = run::run(architecture, setup).unwrap();
    let mut current = 0_u64;
    let mut peak = 0;
    for event in &run.books.events {
        match event {
            tape::Event::Alloc(id) => {
                let a = run.books.allocations[*id as usize];
                current += a.bytes;
                if print {
                    eprintln!("A {} {} {}/{}", a.bytes, current, a.what.part, a.what.name);
                }
            }
            tape::Event::Free(id) => {
                current -= run.books.allocations[*id as usize].bytes;
                if print {
                    eprintln!("F {} {}", run.books.allocations[*id as usize].bytes, current);
                }
            }
            tape::Event::Begin(m) => {
                if print {
                    eprintln!("# {m:?}");
                }
            }
        }
        peak = peak.max(current);
    }
    (run.parameters, peak)
}
