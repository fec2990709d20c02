//! The GPU memory of a model, computed from its configuration: for training, a forward pass or a generation.
//!
//! A training loop runs without numbers on a tape: each operator of PyTorch does to the books what the real one does to memory, each
//! family's forward pass calls the operators as its module in transformers does, and autograd's engine runs them backward in PyTorch's
//! order. So a peak is found, not fitted, and everything that is there at the peak has a name and a formula.
//!
//! Pure: nothing is opened, printed or measured here.
//!
//! More than 9,000 lines, because half of it are the families of models, a file each over the same operators: a crate of their own
//! would make every operator public.

mod advise;
mod architecture;
mod chain;
mod choices;
mod dtype;
mod estimate;
mod hybrid;
mod models;
mod network;
mod ops;
mod optimizer;
mod options;
mod pipeline;
mod quantization;
pub mod read;
mod request;
mod reserve;
mod run;
mod served;
mod setup;
mod shape;
mod sharding;
mod stage;
mod tape;
mod unknown;

pub use advise::{Change, Simple, changes_to_fit, largest_batch, saved_by_holding_the_loss_only, simple};
pub use architecture::*;
pub use chain::{Chain, Op, Step};
pub use choices::Choice;
/// The cards that can be named.
pub use dtype::DType;
pub use estimate::{Breakdown, ErrorBand, Estimate, MOST_BYTES, PhasePeak, Term, estimate, peak_requested_bytes};
pub use hybrid::{Extra, Feed, GlobalHeads, Hybrid, Mixer, State};
pub use models::weights;
pub use network::{Network, Piece, Stage};
pub use options::{DEFAULT_CARD, Field, Group, Kind, OPTIONS, Opt, OptView, Request, options_view};
pub use pipeline::{Component, Decoding, Pipeline, Role};
pub use quantization::{Quantization, Stored, Weight, WeightKind};
pub use request::RequestError;
pub use served::{LayerCache, ServedExperts, ServedLayer, ServedShape, ServedVision};
pub use setup::*;
pub use shape::{Dim, Shape, dim};
pub use tape::Category;
