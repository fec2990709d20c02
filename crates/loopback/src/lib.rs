//! HTTP on the loopback, where everybody on the machine can ask, and web pages from elsewhere as well.
//!
//! # Design constraints
//!
//! - Only requests that name this machine by its own name are answered: see [`own_host`].
//! - A request's head has a deadline, and connections have a bound below that of the process's descriptors: whoever opens
//!   connections and says nothing, or says it slowly, keeps nobody else out. See [`serve`].
//! - One thread is enough: it hands out bytes that are there.

mod connections;
mod host;
mod serve;

pub use host::{is_own, own_host};
pub use serve::{HEAD_DEADLINE, Manner, run, serve};
