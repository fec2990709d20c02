//! PyTorch's CUDA caching allocator, rebuilt as a deterministic state machine.

pub mod message;
pub mod settings;
pub mod sizes;
pub mod version;

pub use settings::Settings;
pub use version::TorchVersion;
