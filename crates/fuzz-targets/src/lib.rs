//! What highwater promises for any bytes, as functions that panic where the promise is broken.
//!
//! Each function takes the bytes as they come from outside. `fuzz/` has a binary for each, which looks for such bytes guided by
//! coverage; `tests/corpus.rs` calls each with the inputs that are kept in `fuzz/corpus`.

mod budgets;
mod elf;
mod logs;
mod models;
mod recorder;
mod requests;
mod settings;
mod snapshots;
mod viewer;

pub use budgets::budgets;
pub use elf::elf;
pub use logs::{hwlog, messages};
pub use models::{calculator, config, gguf, safetensors};
pub use recorder::recorder;
pub use requests::requests;
pub use settings::settings;
pub use snapshots::{analysis, profiler, snapshot};
pub use viewer::viewer;

/// A target: it returns, or panics.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its binary in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
pub const TARGETS: [(&str, Target); 15] = [
    ("analysis", analysis),
    ("budgets", budgets),
    ("calculator", calculator),
    ("config", config),
    ("elf", elf),
    ("gguf", gguf),
    ("hwlog", hwlog),
    ("messages", messages),
    ("profiler", profiler),
    ("recorder", recorder),
    ("requests", requests),
    ("safetensors", safetensors),
    ("settings", settings),
    ("snapshot", snapshot),
    ("viewer", viewer),
];
