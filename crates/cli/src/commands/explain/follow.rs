//! `highwater explain --follow`: each failure of a log as it comes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context as _;
use highwater_documents::ExplainView;
use highwater_oom::{Found, LogReader};

use super::{Args, print};

/// A message whose next line does not come for so long is whole.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a file is looked at for more.
const POLL: Duration = Duration::from_millis(250);
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait.
const WAITING: usize = 16;

/// Reads until the log ends (a file: until the program is stopped), and explains each failure once.
///
/// # Errors
/// If the file cannot be opened, or the answer cannot be written.
pub(super) fn run(args: &Args, file: &Path, name: &str) -> anyhow::Result<()> {
    let is_file = file.as_os_str() != "-";
    let log: Box<dyn Read + Send> = if is_file {
        Box::new(File::open(file).with_context(|| format!("cannot read {}", crate::input::name(file)))?)
    } else {
        Box::new(io::stdin())
    };
    let (sender, receiver) = sync_channel(WAITING);
    // It ends with the log, or with this process.
    std::thread::spawn(move || read(log, is_file, &sender));
    let mut reader = LogReader::new();
    let mut shown = Shown::default();
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok(piece) => {
                reader.push(&piece);
                // A line that comes ends messages that are complete.
                if reader.so_far() != (shown.messages, shown.events) && !reader.is_amid() {
                    shown.show(args, reader.clone().finish(), name)?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if reader.is_amid() || reader.so_far() != (shown.messages, shown.events) {
                    shown.show(args, reader.clone().finish(), name)?;
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    shown.show(args, reader.finish(), name)
}

fn read(mut log: Box<dyn Read + Send>, is_file: bool, sender: &SyncSender<Vec<u8>>) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match log.read(&mut buffer) {
            Ok(0) if is_file => std::thread::sleep(POLL),
            Ok(0) => return,
            Ok(length) => {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// How much was explained already.
#[derive(Default)]
struct Shown {
    messages: usize,
    events: usize,
    with_summary: bool,
}

impl Shown {
    /// Explains what is new.
    fn show(&mut self, args: &Args, mut found: Found, name: &str) -> anyhow::Result<()> {
        let (messages, events) = (found.groups.len(), found.events.len());
        found.groups.drain(..self.messages.min(messages));
        found.events.drain(..self.events.min(events));
        (self.messages, self.events) = (self.messages.max(messages), self.events.max(events));
        let has_summary = found.failed_summary().is_some();
        if found.groups.is_empty() && found.events.is_empty() && (self.with_summary || !has_summary) {
            return Ok(());
        }
        self.with_summary |= has_summary;
        found.count = found.groups.iter().map(|group| group.count).sum();
        print(args, &ExplainView::of_log(&found), name)
    }
}
