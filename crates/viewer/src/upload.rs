//! A request's body as something that a thread can read from.

use std::io::{self, Read};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use crate::refusal::Refusal;

/// Pieces that wait to be read: the sender is held up beyond.
const WAITING: usize = 16;

/// The most that is taken in: larger than any file that fits a browser.
pub(crate) const MAX_BYTES: u64 = 64 << 30;

/// The bytes that come in.
pub(crate) struct Incoming {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

/// Where they come from.
pub(crate) struct Feed(mpsc::Sender<io::Result<Bytes>>);

pub(crate) fn pipe() -> (Feed, Incoming) {
    let (feed, pieces) = mpsc::channel(WAITING);
    (Feed(feed), Incoming { pieces, piece: Bytes::new() })
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

impl Feed {
    /// Hands on a whole body. What the reader does not want is read all the same, or the browser would not listen to the
    /// answer.
    ///
    /// # Errors
    /// If it breaks off, or is too long.
    pub(crate) async fn all_of(self, mut body: Body) -> Result<(), Refusal> {
        let mut bytes = 0_u64;
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    let broken = io::Error::new(io::ErrorKind::ConnectionAborted, "the upload was interrupted");
                    // The reader may be done with it.
                    let _ = self.0.send(Err(broken)).await;
                    return Err(Refusal::malformed("the upload was interrupted").because(error));
                }
            };
            let Ok(piece) = frame.into_data() else { continue };
            bytes = bytes.saturating_add(piece.len() as u64);
            if bytes > MAX_BYTES {
                let _ = self.0.send(Err(io::Error::other("the upload is too large"))).await;
                return Err(too_large());
            }
            let _ = self.0.send(Ok(piece)).await;
        }
        Ok(())
    }
}

pub(crate) fn too_large() -> Refusal {
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("a dropped file may have at most {}", highwater_units::size(MAX_BYTES)),
    )
    .hint("open it from the command line: `highwater view FILE`")
}
