//! The files that are shown: those that were named, and those that were dropped on the page.
//!
//! A job can have a thousand ranks. A few files are open at a time; of the others only the outline stays, and they are read again when
//! somebody looks at them.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use axum::http::StatusCode;
use highwater_problem::Problem;
use highwater_snapshot::{Snapshot, Unpacking, open_file};
use tokio::sync::watch;

use crate::outline::Outline;
use crate::reader::{Gate, Purpose, Reading, Shown, Treatment, snapshot_of, start};
use crate::refusal::Refusal;

/// More files than a page has room for.
const MAX_FILES: usize = 256;

/// A pickle that is not a snapshot fails long before so many bytes are read of it. A text may be read to its end first.
const PROMISING_BYTES: u64 = 1 << 20;

/// So many files that can be read again are open at a time.
const MAX_OPEN: usize = 8;

/// One file. At least one of its two readings is there.
#[derive(Debug)]
pub(crate) struct Shelved {
    pub(crate) name: String,
    /// Where it is; `None` if it was dropped on the page or came through a pipe, so that it cannot be read again.
    path: Option<PathBuf>,
    /// What it was like when it was first opened.
    stamp: Arc<Mutex<Option<Stamp>>>,
    /// Bytes read of the file so far, if it is not a text.
    taken: Arc<AtomicU64>,
    /// Everything, while it is open.
    shown: Mutex<Option<Reading<Shown>>>,
    outline: Mutex<Option<Reading<Outline>>>,
}

/// How far a file is.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It is being read.
    Reading,
    /// It can be shown.
    Ready,
    /// Nothing of it can be shown.
    Failed(Refusal),
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
    /// Those that are open and can be read again; the one that was used last is the last.
    open: Mutex<VecDeque<Arc<Shelved>>>,
    gate: Arc<Gate>,
    treatment: Treatment,
    /// The snapshot of the run that a profile of Nsight Systems is of.
    with: Option<PathBuf>,
}

/// Either of what can be read.
enum Source {
    File {
        file: File,
        taken: Arc<AtomicU64>,
        /// Whether it begins as JSON or HTML does, once that is known.
        is_text: Option<bool>,
    },
    Pipe(io::Stdin),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File { file, taken, is_text } => {
                let count = file.read(buffer)?;
                let begins_as_text = || buffer.first().is_some_and(|byte| b"{[< \t\r\n".contains(byte));
                if !*is_text.get_or_insert_with(begins_as_text) {
                    taken.fetch_add(count as u64, Ordering::Relaxed);
                }
                Ok(count)
            }
            Self::Pipe(pipe) => pipe.read(buffer),
        }
    }
}

impl Shelf {
    /// An empty one. As many files are read at once as there are cores.
    pub(crate) fn new(treatment: Treatment, with: Option<PathBuf>) -> Self {
        let places = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { files: RwLock::default(), open: Mutex::default(), gate: Arc::new(Gate::new(places)), treatment, with }
    }

    /// Begins to read a file; `-` is standard input. The first ones stay open.
    pub(crate) fn add_path(&self, path: &Path) {
        if path == Path::new("-") {
            let name = "standard input".to_owned();
            self.push(self.read_once(name, || Ok(Source::Pipe(io::stdin()))));
            return;
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            let (named, path) = (format!("`{name}`"), path.to_owned());
            let open = move || open_file(&path).map_err(|error| Refusal::from(error.problem(&named)));
            self.push(self.read_once(name, open));
            return;
        }
        let file = Arc::new(Shelved {
            name,
            path: Some(path.to_owned()),
            stamp: Arc::default(),
            taken: Arc::default(),
            shown: Mutex::default(),
            outline: Mutex::default(),
        });
        let mut open = lock(&self.open);
        if open.len() < MAX_OPEN {
            open.push_back(Arc::clone(&file));
            *lock(&file.shown) = Some(self.read(&file, path, Some(&self.gate), Purpose::Show));
        } else {
            *lock(&file.outline) = Some(self.read(&file, path, Some(&self.gate), Purpose::Outline));
        }
        drop(open);
        self.push(file);
    }

    /// Begins to read what is dropped on the page, while it comes in.
    ///
    /// # Errors
    /// If there are too many files.
    pub(crate) fn add_dropped(&self, name: String, body: impl Read + Send + 'static) -> Result<usize, Refusal> {
        if self.files().len() >= MAX_FILES {
            return Err(Refusal::new(StatusCode::CONFLICT, format!("{MAX_FILES} files are open, which is the limit"))
                .hint("stop `highwater view` and start it with only the files that you need"));
        }
        // It does not wait for the others: who sends it may be slow.
        Ok(self.push(self.read_once(name, move || Ok(body))))
    }

    /// Begins to read what cannot be read again.
    fn read_once<R: Read>(
        &self,
        name: String,
        open: impl FnOnce() -> Result<R, Refusal> + Send + 'static,
    ) -> Arc<Shelved> {
        let (made, shown) = watch::channel(None);
        let (named, unpacking) = (name.clone(), self.treatment.unpacking);
        let read = move || open().and_then(|bytes| snapshot_of(bytes, &named, unpacking));
        start(name.clone(), self.treatment, None, Purpose::Show(made), read);
        let shown = Mutex::new(Some(shown));
        Arc::new(Shelved {
            name,
            path: None,
            stamp: Arc::default(),
            taken: Arc::default(),
            shown,
            outline: Mutex::default(),
        })
    }

    /// Begins to read a file of a directory, which must be as it was when it was first read.
    fn read<T>(
        &self,
        file: &Shelved,
        path: &Path,
        gate: Option<&Arc<Gate>>,
        purpose: impl FnOnce(watch::Sender<Option<Result<Arc<T>, Refusal>>>) -> Purpose,
    ) -> Reading<T> {
        let (made, reading) = watch::channel(None);
        let (name, path, stamp) = (file.name.clone(), path.to_owned(), Arc::clone(&file.stamp));
        let taken = Arc::clone(&file.taken);
        let (with, unpacking) = (self.with.clone(), self.treatment.unpacking);
        start(file.name.clone(), self.treatment, gate.cloned(), purpose(made), move || {
            let opened = open_file(&path).map_err(|error| Refusal::from(error.problem(&format!("`{name}`"))))?;
            let now = opened.metadata().ok().map(|metadata| Stamp::of(&metadata));
            let mut stamp = lock(&stamp);
            if stamp.is_some() && *stamp != now {
                return Err(Refusal::new(
                    StatusCode::CONFLICT,
                    format!("`{name}` has changed on disk since it was read"),
                )
                .hint("stop `highwater view` and start it again"));
            }
            *stamp = now;
            if highwater_nsight::is_profile(&path) {
                return profile(&path, with.as_deref(), unpacking);
            }
            snapshot_of(Source::File { file: opened, taken, is_text: None }, &name, unpacking)
        });
        reading
    }

    /// What is served of a file, which is opened if it is not; the one that was used longest ago is closed for it.
    ///
    /// # Errors
    /// If nothing of it can be shown.
    pub(crate) async fn shown(&self, file: &Arc<Shelved>) -> Result<Arc<Shown>, Refusal> {
        let reading = match &file.path {
            None => lock(&file.shown).clone(),
            Some(path) => {
                self.make_room_for(file);
                let mut shown = lock(&file.shown);
                // Who looks at a file does not wait for the outlines of others.
                Some(shown.get_or_insert_with(|| self.read(file, path, None, Purpose::Show)).clone())
            }
        };
        done(reading, &file.name).await
    }

    /// The file with a number, opened.
    ///
    /// # Errors
    /// If there is no such file, or nothing of it can be shown.
    pub(crate) async fn open(&self, id: &str) -> Result<(Arc<Shelved>, Arc<Shown>), Refusal> {
        let file = self.get(id)?;
        let shown = self.shown(&file).await?;
        Ok((file, shown))
    }

    fn make_room_for(&self, file: &Arc<Shelved>) {
        let mut open = lock(&self.open);
        open.retain(|one| !Arc::ptr_eq(one, file));
        open.push_back(Arc::clone(file));
        if open.len() > MAX_OPEN
            && let Some(oldest) = open.pop_front()
        {
            tokio::spawn(async move { oldest.close().await });
        }
    }

    fn files(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Shelved>>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, file: Arc<Shelved>) -> usize {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.push(file);
        files.len() - 1
    }

    /// The file with a number.
    ///
    /// # Errors
    /// If no file has the number.
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
        self.files().iter().map(|file| file.progress()).collect()
    }

    /// Whether any file that is still being read is a snapshot by all signs.
    pub(crate) fn is_promising(&self) -> bool {
        self.files().iter().any(|file| file.is_promising() && matches!(file.progress(), Progress::Reading))
    }

    /// What there is.
    pub(crate) fn list(&self) -> Vec<FileView> {
        self.all().iter().enumerate().map(|(id, file)| file.view(id)).collect()
    }
}

impl Shelved {
    /// Waits until it has been read for the first time.
    ///
    /// # Errors
    /// If nothing of it can be shown.
    pub(crate) async fn read(&self) -> Result<(), Refusal> {
        let outline = lock(&self.outline).clone();
        match outline {
            Some(outline) => done(Some(outline), &self.name).await.map(drop),
            None => self.open_one().await.map(drop),
        }
    }

    /// The outline; a file that is open makes it when it is first asked for.
    ///
    /// # Errors
    /// If nothing of it can be shown.
    pub(crate) async fn outline(&self) -> Result<Arc<Outline>, Refusal> {
        let known = lock(&self.outline).clone();
        if known.is_some() {
            return done(known, &self.name).await;
        }
        let made = self.open_one().await?.outline(&self.name).await?;
        let (_, reading) = watch::channel(Some(Ok(Arc::clone(&made))));
        *lock(&self.outline) = Some(reading);
        Ok(made)
    }

    async fn open_one(&self) -> Result<Arc<Shown>, Refusal> {
        let shown = lock(&self.shown).clone();
        done(shown, &self.name).await
    }

    /// Lets everything but the outline go.
    async fn close(&self) {
        if self.outline().await.is_ok() {
            *lock(&self.shown) = None;
        }
    }

    fn progress(&self) -> Progress {
        fn of<T>(reading: Option<&Reading<T>>) -> Option<Progress> {
            Some(match &*reading?.borrow() {
                None => Progress::Reading,
                Some(Ok(_)) => Progress::Ready,
                Some(Err(refusal)) => Progress::Failed(refusal.clone()),
            })
        }
        // A file that was read once stays ready, though it may be gone when it is opened again.
        of(lock(&self.outline).as_ref()).or_else(|| of(lock(&self.shown).as_ref())).unwrap_or(Progress::Reading)
    }

    /// Whether so much of it was read that it is a snapshot by all signs.
    fn is_promising(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= PROMISING_BYTES
    }

    fn view(&self, id: usize) -> FileView {
        let stamp = *lock(&self.stamp);
        let (state, problem) = match self.progress() {
            Progress::Reading => ("reading", None),
            Progress::Ready => ("ready", None),
            Progress::Failed(refusal) => ("failed", Some(refusal.problem)),
        };
        let now = self.path.as_ref().map(|path| fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata)));
        let changed_on_disk = stamp.is_some() && now.is_some_and(|now| now != stamp);
        FileView { id, name: self.name.clone(), bytes: stamp.map(|stamp| stamp.bytes), state, changed_on_disk, problem }
    }
}

/// A profile of Nsight Systems, on the clock of a snapshot of the same run if there is one.
fn profile(path: &Path, with: Option<&Path>, unpacking: Unpacking) -> Result<Snapshot, Refusal> {
    let Some(with) = with else { return Ok(highwater_nsight::read(path)?) };
    let named = format!("`{}`", with.display());
    let opened = open_file(with).map_err(|error| error.problem(&named))?;
    let mut snapshot = Snapshot::read_with(opened, unpacking).map_err(|error| error.problem(&named))?;
    highwater_nsight::read_beside(path, &mut snapshot)?;
    Ok(snapshot)
}

/// What a reading ends with.
async fn done<T>(reading: Option<Reading<T>>, name: &str) -> Result<Arc<T>, Refusal> {
    let mut reading = reading.ok_or_else(|| Refusal::gone(name))?;
    let made = reading.wait_for(Option::is_some).await.map_err(|_| Refusal::gone(name))?;
    made.clone().unwrap_or_else(|| Err(Refusal::gone(name)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
