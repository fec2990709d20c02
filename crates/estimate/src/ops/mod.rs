//! PyTorch's operators, as far as memory goes: what each allocates forward, keeps for the backward pass, and allocates there.
//!
//! Every operator was compared with recordings of the real one, allocation by allocation (`testdata/estimates`).

mod attention;
mod embedding;
mod linear;
mod loss;
mod norm;
mod pointwise;
mod ranks;
mod reduction;

pub(crate) use attention::{AttentionInputs, EagerStyle, Kernel, KernelChoice, Mask};
pub(crate) use linear::{Adapter, Cut, Linear};
pub(crate) use loss::LossStyle;
pub(crate) use norm::{Norm, NormKind};
