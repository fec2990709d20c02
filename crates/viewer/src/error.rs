//! Why a server does not start.

use std::io;

use highwater_problem::Explained;
use thiserror::Error;

/// A server that does not start, or ends unasked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The port is taken, or not for us.
    #[error("cannot listen on port {port} of 127.0.0.1")]
    Listen {
        /// The port; 0 asked for any.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("cannot make a token")]
    Token {
        /// What the system says.
        source: io::Error,
    },
    /// The network failed.
    #[error("the server stopped")]
    Serve {
        /// What the system says.
        source: io::Error,
    },
}

impl Explained for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { port: 0, .. } | Self::Token { .. } | Self::Serve { .. } => None,
            Self::Listen { .. } => Some("choose another `--port`, or leave it out to use a free one".to_owned()),
        }
    }
}
