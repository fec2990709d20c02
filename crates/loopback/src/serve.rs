//! Takes connections in, and answers what comes over them.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;

use crate::connections::{Connections, Place};

/// For a whole head to come in: from when the connection is there, or the answer before is written.
pub const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// Where the system cannot take one in, and none can be closed for it.
const BREAK: Duration = Duration::from_millis(100);

/// Most connections, however many descriptors there are: a browser opens six.
const MOST_CONNECTIONS: usize = 512;

/// How connections are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As a page wants it: the next request may come over the same connection, and an answer takes as long as it takes.
    Page,
    /// One question, one answer, and both within this time.
    Question(Duration),
}

/// As [`serve`], in the thread that calls it.
///
/// # Errors
/// As [`serve`].
pub fn run(listener: TcpListener, manner: Manner, router: Router) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(listener, manner, router))
}

/// Answers whoever connects, and does not end.
///
/// A head that is not there in time ([`HEAD_DEADLINE`]) ends its connection. There are fewer connections than half of the
/// descriptors that the process may have; beyond that, the one that has asked for nothing for longest goes for the next.
///
/// # Errors
/// If the listener cannot be used.
pub async fn serve(listener: TcpListener, manner: Manner, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let connections = Connections::new(most_connections());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = connections.open();
                let io = TokioIo::new(stream);
                take(io, place, manner, router.clone());
                // Whoever connects in a tight loop leaves the others their turn.
                tokio::task::yield_now().await;
            }
            // Whoever connected is gone already.
            Err(error) if is_of_the_other_side(&error) => {}
            // The descriptors are used up, by other things as well.
            Err(_) => {
                if !connections.close_one() {
                    tokio::time::sleep(BREAK).await;
                }
                tokio::task::yield_now().await;
            }
        }
    }
}

fn take(io: TokioIo<tokio::net::TcpStream>, place: Place, manner: Manner, router: Router) {
    let place = std::sync::Arc::new(place);
    let own = std::sync::Arc::clone(&place);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let answering = own.answering();
        let answered = router.call(request);
        async move {
            let answer: Result<Response, _> = answered.await;
            drop(answering);
            answer
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE).keep_alive(manner == Manner::Page);
    let kept = std::sync::Arc::clone(&place);
    let task = tokio::spawn(async move {
        let served = builder.serve_connection(io, service);
        // How a connection ends is its client's business.
        match manner {
            Manner::Page => drop(served.await),
            Manner::Question(patience) => drop(tokio::time::timeout(patience, served).await),
        }
        drop(kept);
    });
    place.ends_by(task.abort_handle());
}

fn is_of_the_other_side(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Half of what the process may open, so that files, threads and programs can be, too.
fn most_connections() -> usize {
    #[cfg(unix)]
    {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        (limit / 2).min(MOST_CONNECTIONS)
    }
    #[cfg(not(unix))]
    MOST_CONNECTIONS
}
