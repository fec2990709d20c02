//! `highwater view FILE…`: the viewer, in the browser.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater_viewer::{Options, Viewer};

use crate::browser::Doorway;
use crate::error::{self, Problem};
use crate::input;
use crate::output::{note, text_to_stdout};
use crate::printable::printable;
use crate::units::counted;

/// Options of `highwater view`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater view run.pickle
  highwater view job/                       all snapshots of a folder
  highwater view profile.sqlite --with run.pickle
  highwater view run.pickle --no-open --port 8123
      over SSH, prints the command that forwards the port")]
pub(crate) struct Args {
    /// Snapshots: pickle, JSON or HTML page, gzipped or not; or SQLite exports of Nsight Systems; a directory stands for its
    /// files; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A snapshot of the same run as a profile of Nsight Systems: both are shown on one clock
    #[arg(long, value_name = "SNAPSHOT")]
    with: Option<PathBuf>,
    /// The port to listen on [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Only print the address, as over SSH
    #[arg(long)]
    no_open: bool,
    /// Only this device
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Strip the directories from all paths in the snapshot
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    size: input::SizeArgs,
}

/// What is no snapshot says so at once: then the browser need not open for it.
const PATIENCE: Duration = Duration::from_millis(50);

/// Serves until Ctrl-C.
///
/// # Errors
/// If a file is not there, nothing of any file can be shown, or the port is taken.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let files = files(&args.files)?;
    if args.with.is_some() && !matches!(&files[..], [file] if highwater_nsight::is_profile(file)) {
        return Err(Problem::new("`--with` needs exactly one file, a profile of Nsight Systems")
            .hint(
                "give the profile, and after `--with` the snapshot: `highwater view profile.sqlite --with run.pickle`",
            )
            .into());
    }
    let options = Options {
        port: args.port,
        device: args.device,
        redact: args.redact,
        unpacking: args.size.unpacking(),
        with: args.with.clone(),
        ..Options::default()
    };
    let viewer = Viewer::open(&files, &options).map_err(Problem::from)?;
    let mut failures = viewer.failures(PATIENCE).unwrap_or_default();
    if let Some(last) = failures.pop() {
        for failure in failures {
            error::report(&failure.into());
        }
        return Err(last.into());
    }
    let address = viewer.address();
    let what = match &files[..] {
        [file] => printable(&input::short_name(file)).into_owned(),
        _ => counted(files.len(), "snapshot", "snapshots"),
    };
    text_to_stdout(|out| {
        writeln!(out, "Viewing {what} at {address}")?;
        if let Some(forward) = forwarding(&address) {
            writeln!(
                out,
                "On your own machine, run `{forward}` (with the user and host name that you log in with), then open the address there"
            )?;
        }
        writeln!(out, "Press Ctrl-C to stop")
    })?;
    serve(viewer, &address, args.no_open || is_remote())
}

/// Whether somebody sits at another machine, whose browser cannot be opened from here.
fn is_remote() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    // A desktop that is forwarded, or an editor that opens addresses at the other end, can.
    is_set("SSH_CONNECTION") && !["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"].into_iter().any(is_set)
}

/// The port that `ssh` connects to unless told otherwise.
const SSH_PORT: u16 = 22;

/// The command that makes the address reachable over SSH, where it takes one.
fn forwarding(address: &str) -> Option<String> {
    let port = address.split(':').nth(2)?.split('/').next()?.to_owned();
    // The server's own address is the third of the four: the client's, its port, the server's, its port.
    let connection = std::env::var("SSH_CONNECTION").ok().filter(|_| is_remote())?;
    let mut server = connection.split(' ').skip(2);
    let host = server.next().filter(|host| host.parse::<std::net::IpAddr>().is_ok()).unwrap_or("HOST");
    let own_port = server.next().and_then(|port| port.parse::<u16>().ok()).filter(|&port| port != SSH_PORT);
    let own_port = own_port.map_or_else(String::new, |port| format!("-p {port} "));
    Some(format!("ssh {own_port}-L {port}:127.0.0.1:{port} {host}"))
}

/// Opens the browser at an address, and serves until Ctrl-C.
///
/// # Errors
/// If the network fails.
pub(crate) fn serve(viewer: Viewer, address: &str, no_open: bool) -> anyhow::Result<()> {
    // It lies there until the server ends, for the browser may be slow to start.
    let doorway = if no_open { None } else { Some(Doorway::to(address).and_then(Doorway::opened)) };
    if let Some(Err(error)) = &doorway {
        note(&format!("cannot open a browser ({error}): open the address yourself"))?;
    }
    viewer
        .serve(|problem| {
            error::report(&problem.clone().into());
        })
        .map_err(|error| Problem::from(error).into())
}

/// The files that are meant: directories opened, each in the order in which people count.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            files.extend(snapshots_in(path)?);
        } else if path != Path::new("-") {
            highwater_snapshot::open_file(path).map_err(|error| error.problem(&input::name(path)))?;
            files.push(path.clone());
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// What snapshots are called. JSON files often stand beside them and say something else, so they count where nothing
/// better is there.
const ENDINGS: [&[&str]; 2] = [&[".pickle", ".pkl"], &[".json", ".html"]];

/// What may follow.
const PACKED: [&str; 3] = ["", ".gz", ".zst"];

fn snapshots_in(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    let unreadable =
        |error: &std::io::Error| Problem::new(format!("`{}` cannot be read", directory.display())).because(error);
    // As text and as it is: a name need not be UTF-8.
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| unreadable(&error))? {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        if path.is_file()
            && let Some(name) = path.file_name()
        {
            names.push((name.to_string_lossy().into_owned(), path.clone()));
        }
    }
    let with = |endings: &[&str]| -> Vec<(String, PathBuf)> {
        let is_meant = |name: &str| {
            let name = name.to_ascii_lowercase();
            endings.iter().any(|ending| PACKED.iter().any(|packed| name.ends_with(&format!("{ending}{packed}"))))
        };
        names.iter().filter(|(name, _)| is_meant(name)).cloned().collect()
    };
    let mut found = ENDINGS.iter().map(|endings| with(endings)).find(|found| !found.is_empty()).unwrap_or_default();
    if found.is_empty() {
        return Err(Problem::new(format!("`{}` contains no snapshot", directory.display())).hint(
            "highwater looks for files with these names: *.pickle, *.pkl, *.json, *.html, and these with .gz \
             or .zst",
        ));
    }
    found.sort_by_cached_key(|(name, _)| highwater_ranks::natural(name));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}
