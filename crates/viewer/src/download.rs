//! What a thread writes as the body of an answer, while it goes out.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use highwater_whatif::Progress;
use http_body::Frame;
use tokio::sync::mpsc;

/// Pieces that wait to be sent: the writer is held up beyond.
const WAITING: usize = 16;

/// Bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;

/// Where a thread writes. Dropped before it is finished, it breaks the answer off, so that no client takes a part of it for
/// the whole.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pieces: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
    is_finished: Arc<AtomicBool>,
}

/// The body of the answer.
#[derive(Debug)]
pub(crate) struct Download {
    pieces: mpsc::Receiver<Bytes>,
    is_finished: Arc<AtomicBool>,
}

/// Goes on for as long as somebody takes what is written.
pub(crate) struct WhileTaken(mpsc::Sender<Bytes>);

pub(crate) fn pipe() -> (Outgoing, Download) {
    let (pieces, taken) = mpsc::channel(WAITING);
    let is_finished = Arc::new(AtomicBool::new(false));
    let out = Outgoing { pieces, piece: Vec::new(), is_finished: Arc::clone(&is_finished) };
    (out, Download { pieces: taken, is_finished })
}

impl Outgoing {
    /// Whether somebody still takes it.
    pub(crate) fn waiting(&self) -> WhileTaken {
        WhileTaken(self.pieces.clone())
    }

    /// All of it is written.
    pub(crate) fn finish(mut self) {
        // It is told before the channel closes.
        let is_flushed = self.flush().is_ok();
        self.is_finished.store(is_flushed, Ordering::Release);
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.pieces.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Progress for WhileTaken {
    fn is_stopped(&self) -> bool {
        self.0.is_closed()
    }
}

impl http_body::Body for Download {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        this.pieces.poll_recv(context).map(|piece| match piece {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if this.is_finished.load(Ordering::Acquire) => None,
            None => Some(Err(io::Error::other("the page was not finished"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn what_was_written_comes_out_and_only_what_was_finished_ends_well() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for is_finished in [true, false] {
            let (mut out, body) = pipe();
            let writer = std::thread::spawn(move || {
                for _ in 0..100 {
                    out.write_all(&[7; 10_000]).expect("it is taken");
                }
                if is_finished {
                    out.finish();
                }
            });
            let taken = runtime.block_on(body.collect()).map(|body| body.to_bytes().len());
            assert_eq!(taken.ok(), is_finished.then_some(1_000_000));
            writer.join().expect("it ends");
        }
    }

    #[test]
    fn the_writer_ends_with_its_reader() {
        let (mut out, body) = pipe();
        let waiting = out.waiting();
        assert!(!waiting.is_stopped());
        drop(body);
        assert!(waiting.is_stopped());
        assert!(out.write_all(&vec![0; PIECE_BYTES]).is_err());
    }
}
