//! Reads one snapshot, makes its columns, and then answers what needs the snapshot itself.
//!
//! A thread for each file: the analysis borrows the snapshot, so both stay where they were made, and questions come to them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;

use axum::body::Bytes;
use axum::http::StatusCode;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::{Analysis, StackClasses, analyse_with, parallel};
use highwater_documents::columns::{self, Columns, Encoding, columns, with_calls};
use highwater_documents::{explain, report};
use highwater_snapshot::{Snapshot, Unpacking};
use highwater_whatif::{Progress as _, Replayed, Watch, check_replayable};
use tokio::sync::{oneshot, watch};

use crate::comparing::{Other, Wanted, compared};
use crate::download::Outgoing;
use crate::html::{PageOptions, write_page};
use crate::outline::Outline;
use crate::refusal::Refusal;
use crate::simulator::{Simulator, WhatIf};
use crate::waiting::{Told, Waiting};

self_cell::self_cell!(
    /// A snapshot, and what borrows it.
    pub(crate) struct Recording {
        owner: Snapshot,
        #[covariant]
        dependent: Analysis,
    }

    impl {Debug}
);

impl Recording {
    pub(crate) fn analysis(&self) -> &Analysis<'_> {
        self.borrow_dependent()
    }
}

/// A file as it is being read: nothing yet, then what was made of it.
pub(crate) type Reading<T> = watch::Receiver<Option<Result<Arc<T>, Refusal>>>;

/// Where a reader leaves what it made.
type Made<T> = watch::Sender<Option<Result<Arc<T>, Refusal>>>;

/// What a file is read for.
#[derive(Clone)]
pub(crate) enum Purpose {
    /// It stays open and answers questions until nobody has its [`Shown`].
    Show(Made<Shown>),
    /// It is closed again.
    Outline(Made<Outline>),
}

impl Purpose {
    fn fail(self, refusal: Refusal) {
        match self {
            Self::Show(made) => drop(made.send_replace(Some(Err(refusal)))),
            Self::Outline(made) => drop(made.send_replace(Some(Err(refusal)))),
        }
    }
}

/// What is served of a file.
#[derive(Debug)]
pub(crate) struct Shown {
    /// JSON.
    pub(crate) manifest: Bytes,
    /// JSON.
    pub(crate) frames: Bytes,
    /// Numbers, by name.
    pub(crate) sections: HashMap<String, Bytes>,
    recording: Arc<Recording>,
    questions: Sender<Ask>,
    /// Who waits for the simulator, and for what.
    waiting: Mutex<Vec<(WhatIf, Weak<Waiting>)>>,
}

/// A question to the analysis, and where the answer goes.
enum Ask {
    Report(Answer),
    Explain(Answer),
    /// In so many parts.
    Curves(usize, Answer),
    Outline(oneshot::Sender<Result<Arc<Outline>, Refusal>>),
    Compare(Other, Wanted, Answer),
    Simulate(WhatIf, Arc<Waiting>, Answer),
    Page(PageOptions, Outgoing),
}

pub(crate) type Answer = oneshot::Sender<Result<Bytes, Refusal>>;

impl Shown {
    /// The report, as JSON.
    pub(crate) async fn report(&self, name: &str) -> Result<Bytes, Refusal> {
        self.ask(name, Ask::Report).await
    }

    /// Why memory ran out and what to change, as JSON.
    pub(crate) async fn explain(&self, name: &str) -> Result<Bytes, Refusal> {
        self.ask(name, Ask::Explain).await
    }

    /// Totals over time in so many parts, as JSON.
    pub(crate) async fn curves(&self, name: &str, parts: usize) -> Result<Bytes, Refusal> {
        self.ask(name, |answer| Ask::Curves(parts, answer)).await
    }

    /// The part of it that stays when it is closed.
    pub(crate) async fn outline(&self, name: &str) -> Result<Arc<Outline>, Refusal> {
        self.ask(name, Ask::Outline).await
    }

    /// What changed from this file, which is called `names[0]`, to another, as JSON.
    pub(crate) async fn compare(
        &self,
        with: &Self,
        names: [String; 2],
        devices: Option<[u32; 2]>,
        wanted: Wanted,
    ) -> Result<Bytes, Refusal> {
        let name = names[0].clone();
        let other = Other { recording: Arc::clone(&with.recording), names, devices };
        self.ask(&name, |answer| Ask::Compare(other, wanted, answer)).await
    }

    /// What would have been, as JSON.
    pub(crate) async fn simulate(&self, name: &str, question: WhatIf) -> Result<Bytes, Refusal> {
        let waiting = Waits(Arc::default());
        {
            let mut all = self.all_waiting();
            all.retain(|(_, one)| one.strong_count() > 0);
            all.push((question.clone(), Arc::downgrade(&waiting.0)));
        }
        self.ask(name, |answer| Ask::Simulate(question, Arc::clone(&waiting.0), answer)).await
    }

    /// How far the answer to a question is, if somebody waits for it.
    pub(crate) fn progress(&self, question: &WhatIf) -> Option<Told> {
        let all = self.all_waiting();
        let waiting = all.iter().rev().filter(|(asked, _)| asked == question).filter_map(|(_, one)| one.upgrade());
        waiting.into_iter().find(|one| !one.is_stopped()).map(|one| one.told())
    }

    fn all_waiting(&self) -> MutexGuard<'_, Vec<(WhatIf, Weak<Waiting>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the page made that needs no server; it comes out of `out`.
    pub(crate) fn page(&self, name: &str, options: PageOptions, out: Outgoing) -> Result<(), Refusal> {
        self.questions.send(Ask::Page(options, out)).map_err(|_| Refusal::gone(name))
    }

    async fn ask<T>(
        &self,
        name: &str,
        question: impl FnOnce(oneshot::Sender<Result<T, Refusal>>) -> Ask,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(question(answer)).map_err(|_| Refusal::gone(name))?;
        answered.await.map_err(|_| Refusal::gone(name))?
    }
}

/// Waits until it is dropped: with the request, when the page is closed, or asks for something else.
struct Waits(Arc<Waiting>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What is done with each file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Treatment {
    /// Only this device.
    pub(crate) device: Option<u32>,
    /// Strip the directories from all paths.
    pub(crate) redact: bool,
    /// How much it may become, if it is compressed.
    pub(crate) unpacking: Unpacking,
}

/// The snapshot in some bytes; messages call them `name`.
///
/// # Errors
/// If nothing of one can be read.
pub(crate) fn snapshot_of(bytes: impl Read, name: &str, unpacking: Unpacking) -> Result<Snapshot, Refusal> {
    highwater_nsight::read_stream(bytes, unpacking, &format!("`{name}`")).map_err(Refusal::from)
}

/// Begins to read in a thread of its own.
pub(crate) fn start(
    name: String,
    treatment: Treatment,
    gate: Option<Arc<Gate>>,
    purpose: Purpose,
    read: impl FnOnce() -> Result<Snapshot, Refusal> + Send + 'static,
) {
    let thread = thread::Builder::new().name(format!("read {name}"));
    let spawned = thread.spawn({
        let purpose = purpose.clone();
        move || {
            let permit = gate.as_ref().map(Gate::enter);
            match (read().and_then(|snapshot| chosen(snapshot, &name, treatment)), purpose) {
                (Ok((snapshot, classes)), Purpose::Show(made)) => {
                    let recording = Recording::new(snapshot, |snapshot| analysed(snapshot, classes, treatment));
                    let recording = Arc::new(recording);
                    let analysis = recording.analysis();
                    let columns = columns(analysis, &name, &columns::Options::default());
                    let (questions, asked) = channel();
                    let shown = shown_of(&recording, columns, questions);
                    drop(permit);
                    made.send_replace(Some(Ok(Arc::new(shown))));
                    drop(made);
                    answer_all(analysis, &name, &asked);
                }
                (Ok((snapshot, classes)), Purpose::Outline(made)) => {
                    let outline = Outline::of(&name, &analysed(&snapshot, classes, treatment));
                    made.send_replace(Some(Ok(Arc::new(outline))));
                }
                (Err(refusal), purpose) => purpose.fail(refusal),
            }
        }
    });
    if let Err(error) = spawned {
        let problem = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "cannot start a thread to read with");
        purpose.fail(problem.because(error));
    }
}

/// The snapshot as it shall be shown, and what its frames said before.
fn chosen(snapshot: Snapshot, name: &str, treatment: Treatment) -> Result<(Snapshot, StackClasses), Refusal> {
    let mut snapshot = with_calls(&snapshot).unwrap_or(snapshot);
    snapshot.check_device(&format!("`{name}`"), treatment.device)?;
    let classes = StackClasses::new(&snapshot);
    if treatment.redact {
        snapshot.redact();
    }
    Ok((snapshot, classes))
}

fn analysed(snapshot: &Snapshot, classes: StackClasses, treatment: Treatment) -> Analysis<'_> {
    let mut analysis = analyse_with(snapshot, classes);
    analysis.devices.retain(|device| treatment.device.is_none_or(|wanted| device.device == wanted));
    analysis
}

fn shown_of(recording: &Arc<Recording>, mut columns: Columns, questions: Sender<Ask>) -> Shown {
    let packed = pack_large(&mut columns);
    let raw = columns.sections.into_iter().map(|(name, section)| (name, Bytes::from(section.bytes)));
    Shown {
        manifest: json(&columns.manifest),
        frames: json(&columns::frames(recording.analysis())),
        sections: raw.chain(packed).collect(),
        recording: Arc::clone(recording),
        questions,
        waiting: Mutex::default(),
    }
}

/// Columns of more bytes are packed, if the page always reads them whole: a browser keeps what it was sent for a while.
const LARGE_BYTES: usize = 4 << 20;

/// Takes the largest columns out, and packs them as the manifest then says.
fn pack_large(columns: &mut Columns) -> Vec<(String, Bytes)> {
    let encoding = |name: &str| match name.split_once('/')?.1 {
        "start" => Some(Encoding::Delta),
        "end" => Some(Encoding::Length),
        "size" => Some(Encoding::Varint),
        _ => None,
    };
    let large = columns.sections.iter().filter(|(_, section)| section.bytes.len() > LARGE_BYTES);
    let large: Vec<(String, Encoding)> = large.filter_map(|(name, _)| Some((name.clone(), encoding(name)?))).collect();
    let packed = parallel::map(&large, |(name, encoding)| {
        let start = name.strip_suffix("/end").and_then(|device| columns.sections.get(&format!("{device}/start")));
        (name.clone(), Bytes::from(columns.sections[name].encoded(*encoding, start).into_owned()))
    });
    for (name, encoding) in &large {
        columns.sections.remove(name);
        if let Some(info) = columns.manifest.info_mut(name) {
            info.encoding = *encoding;
        }
    }
    packed
}

/// Answers until nobody can ask any more.
fn answer_all(analysis: &Analysis<'_>, name: &str, asked: &Receiver<Ask>) {
    // Questions to the simulator take long: they wait for each other, nothing else waits for them. So do pages.
    let (pages, wanted_pages) = channel();
    let (simulations, simulator) = channel::<(WhatIf, Arc<Waiting>, Answer)>();
    let explanation: OnceLock<Result<Bytes, Refusal>> = OnceLock::new();
    thread::scope(|scope| {
        scope.spawn(move || Simulator::new(analysis).run(&simulator));
        scope.spawn(move || make_pages(analysis, name, &wanted_pages));
        let mut made: Option<Bytes> = None;
        while let Ok(question) = asked.recv() {
            match question {
                Ask::Report(answer) => {
                    let report = made.get_or_insert_with(|| json(&report(analysis)));
                    // Nobody waits for it any more, if this fails.
                    let _ = answer.send(Ok(report.clone()));
                }
                Ask::Explain(answer) => {
                    // It has the simulator try settings: the report need not wait for that.
                    let explanation = &explanation;
                    scope.spawn(move || answer.send(explanation.get_or_init(|| explained(analysis)).clone()));
                }
                Ask::Curves(parts, answer) => {
                    if !answer.is_closed() {
                        let _ = answer.send(Ok(json(&columns::curves(analysis, parts))));
                    }
                }
                Ask::Outline(answer) => {
                    if !answer.is_closed() {
                        let _ = answer.send(Ok(Arc::new(Outline::of(name, analysis))));
                    }
                }
                Ask::Compare(other, wanted, answer) => {
                    if !answer.is_closed() {
                        let _ = answer.send(compared(analysis, &other, wanted));
                    }
                }
                Ask::Simulate(question, waiting, answer) => {
                    if simulations.send((question, waiting, answer)).is_err() {
                        break;
                    }
                }
                Ask::Page(options, out) => {
                    if pages.send((options, out)).is_err() {
                        break;
                    }
                }
            }
        }
        drop(simulations);
        drop(pages);
    });
}

/// Makes one page at a time: each needs about as much memory as the columns do.
fn make_pages(analysis: &Analysis<'_>, name: &str, asked: &Receiver<(PageOptions, Outgoing)>) {
    while let Ok((options, mut out)) = asked.recv() {
        let watch = Watch::new(out.waiting());
        // It fails only if nobody takes it any more.
        let is_whole = !watch.is_stopped() && write_page(&mut out, analysis, name, &options, &watch).is_ok();
        if is_whole && !watch.is_stopped() {
            out.finish();
        }
    }
}

/// Why memory ran out, as `highwater explain` has it.
fn explained(analysis: &Analysis<'_>) -> Result<Bytes, Refusal> {
    let replayed = OnceCell::new();
    let is_replayable = check_replayable(analysis.snapshot, "the snapshot").is_ok();
    let replay = |device: &DeviceAnalysis<'_>| {
        is_replayable.then(|| replayed.get_or_init(|| Replayed::new(analysis.snapshot, device, None)))
    };
    let view = explain(analysis, replay).ok_or_else(|| Refusal::not_found("no request failed in the recording"))?;
    Ok(json(&view))
}

pub(crate) fn json(document: &impl serde::Serialize) -> Bytes {
    // The documents are made of strings, numbers and lists of them.
    serde_json::to_vec(document).expect("it is JSON").into()
}

/// Lets so many files be read at a time.
#[derive(Debug)]
pub(crate) struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Gate {
    pub(crate) fn new(places: usize) -> Self {
        Self { free: Mutex::new(places.max(1)), freed: Condvar::new() }
    }

    /// Waits for a place.
    fn enter(gate: &Arc<Self>) -> Permit {
        let mut free = gate.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = gate.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Permit(Arc::clone(gate))
    }
}

/// A place, until it is dropped.
struct Permit(Arc<Gate>);

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use highwater_analysis::analyse;
    use highwater_documents::columns::{Options, Section};
    use highwater_testkit::recording;

    use super::*;

    #[test]
    fn only_large_columns_are_packed_and_the_manifest_says_how() {
        let snapshot = recording("linear_forward");
        let mut columns = columns(&analyse(&snapshot), "", &Options::default());
        assert!(pack_large(&mut columns).is_empty());

        let starts: Vec<u32> = (0..1_200_000).collect();
        let ends: Vec<u32> = starts.iter().map(|start| start + start % 300).collect();
        let start = Section::of_u32(&starts);
        let end = Section::of_u32(&ends);
        let want = [start.encoded(Encoding::Delta, None), end.encoded(Encoding::Length, Some(&start))].map(Vec::from);
        columns.sections.insert("0/start".to_owned(), start.clone());
        columns.sections.insert("0/end".to_owned(), end.clone());
        let mut packed = pack_large(&mut columns);
        packed.sort();
        let [(end_name, end), (start_name, start)] = &packed[..] else { panic!("{} are packed", packed.len()) };
        assert_eq!((start_name.as_str(), end_name.as_str()), ("0/start", "0/end"));
        assert_eq!([start.to_vec(), end.to_vec()], want);
        assert!(!columns.sections.contains_key("0/start") && columns.sections.contains_key("0/size"));
        let encoding = |name: &str| columns.manifest.devices[0].sections[name].encoding;
        assert_eq!(
            [encoding("start"), encoding("end"), encoding("size")],
            [Encoding::Delta, Encoding::Length, Encoding::Raw]
        );
    }
}
