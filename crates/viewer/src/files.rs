//! The files that are shown: those that were named, and those that were dropped on the page.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use highwater_problem::Problem;
use highwater_snapshot::{Error as SnapshotError, open_file};
use tokio::sync::watch;

use crate::reader::{Gate, Progress, Shown, Treatment, start};
use crate::refusal::Refusal;

/// More files than a page has room for.
const MAX_FILES: usize = 256;

/// One file.
#[derive(Debug)]
pub(crate) struct Shelved {
    pub(crate) name: String,
    /// Where it lies; `None` if it was dropped on the page or came through a pipe.
    path: Option<PathBuf>,
    /// What it was like when it was opened.
    stamp: Arc<Mutex<Option<Stamp>>>,
    progress: watch::Receiver<Progress>,
}

/// What tells that a file was written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// What `api/files` says of a file.
#[derive(Debug, serde::Serialize)]
pub(crate) struct FileView {
    id: usize,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    state: &'static str,
    changed_on_disk: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// All files, by their numbers.
#[derive(Debug)]
pub(crate) struct Shelf {
    files: RwLock<Vec<Arc<Shelved>>>,
    gate: Arc<Gate>,
    treatment: Treatment,
}

/// Either of what can be read.
enum Source {
    File(File),
    Pipe(io::Stdin),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Pipe(pipe) => pipe.read(buffer),
        }
    }
}

impl Shelf {
    /// An empty one. As many files are read at once as there are cores.
    pub(crate) fn new(treatment: Treatment) -> Self {
        let places = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { files: RwLock::default(), gate: Arc::new(Gate::new(places)), treatment }
    }

    /// Begins to read a file; `-` is standard input.
    pub(crate) fn add_path(&self, path: &Path) {
        let stamp = Arc::new(Mutex::new(None));
        if path == Path::new("-") {
            let open = || Ok(Source::Pipe(io::stdin()));
            let progress = start("standard input".to_owned(), self.treatment, None, open);
            self.push(Shelved { name: "standard input".to_owned(), path: None, stamp, progress });
            return;
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let open = {
            let (stamp, path) = (Arc::clone(&stamp), path.to_owned());
            move || -> Result<Source, SnapshotError> {
                let file = open_file(&path)?;
                let opened = file.metadata().ok().map(|metadata| Stamp::of(&metadata));
                *stamp.lock().unwrap_or_else(PoisonError::into_inner) = opened;
                Ok(Source::File(file))
            }
        };
        let progress = start(name.clone(), self.treatment, Some(Arc::clone(&self.gate)), open);
        self.push(Shelved { name, path: Some(path.to_owned()), stamp, progress });
    }

    /// Begins to read what is dropped on the page, while it comes in.
    ///
    /// # Errors
    /// If there are too many files.
    pub(crate) fn add_dropped(&self, name: String, body: impl Read + Send + 'static) -> Result<usize, Refusal> {
        if self.files().len() >= MAX_FILES {
            let status = axum::http::StatusCode::CONFLICT;
            return Err(Refusal::new(status, format!("{MAX_FILES} files are open, which is the limit"))
                .hint("stop `highwater view` and start it with only the files that you need"));
        }
        // It has no place among the others: who sends it may be slow.
        let progress = start(name.clone(), self.treatment, None, move || Ok(body));
        Ok(self.push(Shelved { name, path: None, stamp: Arc::default(), progress }))
    }

    fn files(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Shelved>>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, file: Shelved) -> usize {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.push(Arc::new(file));
        files.len() - 1
    }

    /// The file of a number.
    ///
    /// # Errors
    /// If it is no number of a file.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Shelved>, Refusal> {
        let files = self.files();
        let file = id.parse::<usize>().ok().and_then(|id| files.get(id));
        file.cloned().ok_or_else(|| Refusal::not_found(format!("there is no file {id}")))
    }

    /// Every file.
    pub(crate) fn all(&self) -> Vec<Arc<Shelved>> {
        self.files().clone()
    }

    /// How far each is.
    pub(crate) fn states(&self) -> Vec<Progress> {
        self.files().iter().map(|file| file.progress.borrow().clone()).collect()
    }

    /// What there is.
    pub(crate) fn list(&self) -> Vec<FileView> {
        self.all().iter().enumerate().map(|(id, file)| file.view(id)).collect()
    }
}

impl Shelved {
    /// What is served of it, when it has been read.
    ///
    /// # Errors
    /// If nothing of it can be shown.
    pub(crate) async fn shown(&self) -> Result<Arc<Shown>, Refusal> {
        let mut progress = self.progress.clone();
        let state = progress.wait_for(|progress| !matches!(progress, Progress::Reading)).await;
        match &*state.map_err(|_| Refusal::gone(&self.name))? {
            Progress::Ready(shown) => Ok(Arc::clone(shown)),
            Progress::Failed(refusal) => Err(refusal.clone()),
            Progress::Reading => Err(Refusal::gone(&self.name)),
        }
    }

    fn view(&self, id: usize) -> FileView {
        let stamp = *self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, problem) = match &*self.progress.borrow() {
            Progress::Reading => ("reading", None),
            Progress::Ready(_) => ("ready", None),
            Progress::Failed(refusal) => ("failed", Some(refusal.problem.clone())),
        };
        let now = self.path.as_ref().map(|path| fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata)));
        let changed_on_disk = stamp.is_some() && now.is_some_and(|now| now != stamp);
        FileView { id, name: self.name.clone(), bytes: stamp.map(|stamp| stamp.bytes), state, changed_on_disk, problem }
    }
}
