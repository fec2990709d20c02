//! Listens, and ends when it is told to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_loopback::Manner;
use highwater_problem::Problem;
use highwater_snapshot::Unpacking;

use crate::error::Error;
use crate::files::{Progress, Shelf};
use crate::reader::Treatment;
use crate::routes::router;
use crate::token::Token;

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The port; 0 takes any that is free.
    pub port: u16,
    /// Only this device.
    pub device: Option<u32>,
    /// Strip the directories from all paths.
    pub redact: bool,
    /// How much compressed files may become.
    pub unpacking: Unpacking,
    /// A snapshot of the run that a profile of Nsight Systems is of: both are on one clock.
    pub with: Option<PathBuf>,
    /// What the calculator begins with: see [`write_calculator`](crate::write_calculator).
    pub inputs: Vec<(String, String)>,
}

/// What the routes know.
pub(crate) struct Served {
    pub(crate) shelf: Shelf,
    pub(crate) token: Token,
    pub(crate) port: u16,
    pub(crate) inputs: Vec<(String, String)>,
}

/// A server that has its address, and is already reading.
///
/// # Examples
/// ```no_run
/// use highwater_viewer::{Options, Viewer};
///
/// let viewer = Viewer::open(&["run.pickle".into()], &Options::default())?;
/// println!("{}", viewer.address());
/// viewer.serve(|problem| eprintln!("{problem}"))?;
/// # Ok::<(), highwater_viewer::Error>(())
/// ```
pub struct Viewer {
    listener: TcpListener,
    served: Arc<Served>,
}

impl Viewer {
    /// Takes a port of the loopback, and begins to read the files.
    ///
    /// # Errors
    /// If the port is taken, or there are no random numbers for a token. A file that cannot be read is none: the page
    /// says so.
    pub fn open(files: &[PathBuf], options: &Options) -> Result<Self, Error> {
        let Options { port, device, redact, unpacking, .. } = *options;
        let listen = |source| Error::Listen { port, source };
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let token = Token::new().map_err(|source| Error::Token { source })?;
        let shelf = Shelf::new(Treatment { device, redact, unpacking }, options.with.clone());
        for file in files {
            shelf.add_path(file);
        }
        Ok(Self { listener, served: Arc::new(Served { shelf, token, port, inputs: options.inputs.clone() }) })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.served.port, self.served.token)
    }

    /// Where the calculator is.
    pub fn calculator_address(&self) -> String {
        format!("{}calculator.html", self.address())
    }

    /// Waits a moment for the files. Their failures, if nothing of any of them can be shown.
    pub fn failures(&self, patience: Duration) -> Option<Vec<Problem>> {
        let begun = Instant::now();
        loop {
            let states = self.served.shelf.states();
            if states.is_empty() || states.iter().any(|state| matches!(state, Progress::Ready)) {
                return None;
            }
            // The browser opens meanwhile.
            if self.served.shelf.is_promising() {
                return None;
            }
            let failures = states.iter().map(|state| match state {
                Progress::Failed(refusal) => Some(refusal.problem.clone()),
                _ => None,
            });
            if let Some(failures) = failures.collect::<Option<Vec<_>>>() {
                return Some(failures);
            }
            if begun.elapsed() > patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Serves until the program is asked to end: by Ctrl-C, or by the system. `failed` is told of each file that nothing
    /// can be shown of.
    ///
    /// # Errors
    /// If the network fails.
    pub fn serve(self, failed: impl Fn(&Problem) + Send + Sync + 'static) -> Result<(), Error> {
        let serve = |source| Error::Serve { source };
        // One thread is enough: it hands out bytes that are there.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(serve)?;
        runtime
            .block_on(async {
                let failed = Arc::new(failed);
                for file in self.served.shelf.all() {
                    let failed = Arc::clone(&failed);
                    tokio::spawn(async move {
                        if let Err(refusal) = file.read().await {
                            failed(&refusal.problem);
                        }
                    });
                }
                tokio::select! {
                    ended = highwater_loopback::serve(self.listener, Manner::Page, router(self.served)) => ended,
                    asked = asked_to_end() => asked,
                }
            })
            .map_err(serve)
    }
}

#[cfg(unix)]
async fn asked_to_end() -> io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn asked_to_end() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
