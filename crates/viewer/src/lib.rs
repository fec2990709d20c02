//! The viewer's server, and the page that needs none.
//!
//! Reads snapshots, has the analysis make columns of them, and hands those to the page that was built from `ui/`. It
//! computes nothing itself.
//!
//! # Design constraints
//!
//! - Loopback only, under a token that nobody can guess. A request that names another host or comes from another page is
//!   refused: a web page elsewhere can reach this port, too, through a name that it lets point here.
//! - What is served stays what was read: sections are made once, and kept as the bytes that go out.
//! - A request that came too early waits; one whose client is gone is dropped.
//! - Nothing is fetched from anywhere, neither by the server nor by the page.

mod assets;
mod calculator;
mod comparing;
mod download;
mod error;
mod files;
mod guard;
mod html;
mod outline;
mod reader;
mod refusal;
mod routes;
mod server;
mod simulator;
mod token;
mod upload;
mod waiting;

pub use assets::{calculator_is_built, is_built as ui_is_built};
pub use calculator::write_calculator;
pub use error::Error;
pub use html::{PageOptions, write_page};
#[doc(hidden)]
pub use routes::read_request;
pub use server::{Options, Viewer};
