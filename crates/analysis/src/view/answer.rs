//! Asks a study, and makes the answer a document.

use std::fmt::{self, Write as _};

use highwater_allocator::settings::Backend;
use highwater_allocator::{ConfError, Settings, TorchVersion};
use highwater_problem::{Explained, Problem};
use highwater_snapshot::Snapshot;

use super::{
    AlarmView, BarView, BoundView, EmptyCacheView, FitView, LargestView, RunView, SimulateView, SiteView, TimelineView,
    VerdictView,
};
use crate::replay::{Choice, ChosenBy, choose, recorded_settings};
pub use crate::whatif::Progress;
use crate::whatif::{Memory, Outcome, Study};
use crate::whole_step::whole_step;
use crate::{Analysis, DeviceAnalysis};

/// How often the largest block is looked at.
const SAMPLES: usize = 64;

/// Steps of a timeline: twice the pixels of a wide screen.
const MAX_STEPS: usize = 4000;

/// Settings with the string that gave them.
pub type Conf = (String, Settings);

/// What is asked of a study.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Settings to run under; none asks which would be better than those of the recording.
    pub confs: Vec<Conf>,
    /// Memory to run in, and what to call it; none asks how little is enough.
    pub memories: Vec<(Memory, Option<String>)>,
    /// Whether to say what each run holds over time.
    pub with_timelines: bool,
}

/// Settings that cannot be run under.
#[derive(Clone, Debug)]
pub enum RefusedConf {
    /// PyTorch refuses them.
    ByTorch(ConfError),
    /// The driver's own allocator.
    Asynchronous,
}

impl fmt::Display for RefusedConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByTorch(error) => error.fmt(f),
            Self::Asynchronous => {
                f.write_str("`backend:cudaMallocAsync` cannot be simulated: its memory is the driver's own")
            }
        }
    }
}

impl std::error::Error for RefusedConf {}

impl Explained for RefusedConf {
    fn hint(&self) -> Option<String> {
        match self {
            Self::ByTorch(error) => error.hint(),
            Self::Asynchronous => {
                Some("what it needs at least is the live memory that a run without `--conf` shows".to_owned())
            }
        }
    }
}

/// The settings that a string gives under the rules of a study.
///
/// # Errors
/// If PyTorch refuses them, or they choose an allocator that is not its own.
pub fn conf(study: &Study, conf: &str) -> Result<Conf, RefusedConf> {
    let settings = study.settings(conf).map_err(RefusedConf::ByTorch)?;
    if settings.backend == Backend::CudaMallocAsync {
        return Err(RefusedConf::Asynchronous);
    }
    Ok((conf.to_owned(), settings))
}

/// The device that is asked for, or else one that ran out of memory, or else the one with the most entries; `None` if it
/// has no history, and no error either.
pub fn busiest<'a, 'b>(analysis: &'b Analysis<'a>, wanted: Option<u32>) -> Option<&'b DeviceAnalysis<'a>> {
    let devices = analysis.devices.iter().filter(|device| wanted.is_none_or(|wanted| device.device == wanted));
    let busiest =
        devices.max_by_key(|device| (!device.oom.is_empty(), device.entries.len(), std::cmp::Reverse(device.device)));
    busiest.filter(|device| device.has_history() || !device.oom.is_empty())
}

/// The device of which a recording is run again: the one that [`busiest`] chooses. `name` is how messages call the snapshot.
///
/// # Errors
/// If there is nothing to run again.
pub fn replayable<'a, 'b>(
    analysis: &'b Analysis<'a>,
    name: &str,
    wanted: Option<u32>,
) -> Result<&'b DeviceAnalysis<'a>, Problem> {
    let device = busiest(analysis, wanted).ok_or_else(|| without_trace(name, "there is nothing to run again"))?;
    check_replayable(analysis.snapshot, name)?;
    Ok(device)
}

/// That a snapshot has no trace, and what follows from it.
pub fn without_trace(name: &str, consequence: &str) -> Problem {
    Problem::new(format!("{name} has no trace, so {consequence}"))
        .hint("record with `torch.cuda.memory._record_memory_history()` before the program allocates")
}

/// Refuses a recording that the driver's own allocator served, or a profiler wrote.
///
/// # Errors
/// Says what can be known of it.
pub fn check_replayable(snapshot: &Snapshot, name: &str) -> Result<(), Problem> {
    if let Some(profile) = &snapshot.profile {
        return Err(Problem::new(format!("{name} is {}: there is nothing to run again", profile.form.name()))
            .because(
                "it holds neither the allocator's settings nor its segments, and sizes of blocks instead of requests",
            )
            .hint("record with `torch.cuda.memory._record_memory_history()` to simulate"));
    }
    if by_driver(snapshot) {
        return Err(Problem::new(format!("{name} was recorded with `backend:cudaMallocAsync`"))
            .because("the driver's own pools served the requests: they have no blocks and no segments to predict")
            .hint("`highwater report` shows what was requested; record with `backend:native` to replay"));
    }
    Ok(())
}

/// Whether the driver's own allocator served a recording: then there is nothing to run again.
pub fn is_asynchronous(analysis: &Analysis<'_>) -> bool {
    by_driver(analysis.snapshot)
}

fn by_driver(snapshot: &Snapshot) -> bool {
    recorded_settings(snapshot, TorchVersion::NEWEST).backend == Backend::CudaMallocAsync
}

impl ChosenBy {
    /// The word of the JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "flag",
            Self::Keys => "file",
            Self::Replay => "replay",
        }
    }
}

/// A study, ready to be asked: the program under the rules that explain the recording best.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The program.
    pub study: Study,
    /// The version whose rules explain the recording.
    rules: TorchVersion,
    chosen_by: ChosenBy,
}

impl Replayed {
    /// Replays a device. The program is taken out under the rules that explain the recording best, whosever rules the runs
    /// are under: those of `torch` if one is given.
    pub fn new(analysis: &Analysis<'_>, device: &DeviceAnalysis<'_>, torch: Option<TorchVersion>) -> Self {
        let snapshot = analysis.snapshot;
        let Choice { torch: replayed, by, mut replays, .. } = choose(snapshot, &[device]);
        let (torch, by) = torch.map_or((replayed, by), |torch| (torch, ChosenBy::Request));
        let replay = replays.pop().expect("each device has a replay");
        let study = Study::of_replay(snapshot, device, torch, recorded_settings(snapshot, torch), replay);
        Self { study, rules: replayed, chosen_by: by }
    }

    /// Answers; not with the whole, if it is stopped.
    pub fn answer<'a>(
        &self,
        analysis: &Analysis<'a>,
        device: &DeviceAnalysis<'a>,
        question: &Question,
        progress: &impl Progress,
    ) -> SimulateView<'a> {
        let study = &self.study;
        let mut view = SimulateView::new(study, self.rules, self.chosen_by.name());
        view.bound = BoundView::new(study, study.packing().as_ref());
        let own: Conf = (study.recorded_conf.clone(), study.recorded.clone());
        let confs = if question.confs.is_empty() { std::slice::from_ref(&own) } else { &question.confs };
        let ample = [(Memory::Ample, None)];
        let memories = if question.memories.is_empty() { &ample[..] } else { &question.memories };
        let asked = Asked { analysis, device, study, with_timelines: question.with_timelines };
        for conf in confs {
            for (memory, card) in memories {
                if progress.is_stopped() {
                    return view;
                }
                asked.run(&mut view, conf, *memory, card.as_deref());
            }
        }
        if !question.memories.is_empty() || progress.is_stopped() {
            return view;
        }
        let rows = if question.confs.is_empty() { study.candidates() } else { question.confs.clone() };
        let table = study.fit_table(&rows, progress);
        if progress.is_stopped() {
            return view;
        }
        view.fit = table.iter().map(|fit| FitView::new(study, fit)).collect();
        if question.confs.is_empty() {
            if let Some(memory) = study.memory_at_failure(device) {
                asked.run(&mut view, &own, memory, None);
            }
            let own = &study.recorded;
            let mut verdict = study.verdict(device, &table);
            if let Some(failure) = device.oom.first() {
                // A recording that ends at an error does not prove that anything fits.
                let whole = whole_step(analysis, device, failure);
                write!(verdict.text, "; the whole step needs {} at its peak", whole.amount()).expect("text takes it");
            }
            view.alarms = study.alarms(&table, &verdict).iter().map(AlarmView::new).collect();
            view.verdict = Some(VerdictView::new(&verdict));
            if progress.is_stopped() {
                return view;
            }
            view.waterfall = study.waterfall(own).iter().map(BarView::new).collect();
            let savings = study.site_savings(own, device, &analysis.sites);
            view.sites = savings.iter().map(|saving| SiteView::new(analysis, saving)).collect();
            if progress.is_stopped() {
                return view;
            }
            view.empty_caches = study.empty_caches(own).iter().map(EmptyCacheView::new).collect();
            let blocks = study.largest_blocks(own, Memory::Ample, SAMPLES);
            view.largest_block = blocks.iter().map(LargestView::new).collect();
            // The page draws what it offers to compare.
            for conf in rows.iter().skip(1).take_while(|_| !progress.is_stopped()) {
                asked.timeline(&mut view, conf, Memory::Ample, None);
            }
        }
        view
    }
}

/// What is asked, of what.
struct Asked<'b, 'a> {
    analysis: &'b Analysis<'a>,
    device: &'b DeviceAnalysis<'a>,
    study: &'b Study,
    with_timelines: bool,
}

impl<'a> Asked<'_, 'a> {
    /// Adds a run.
    fn run(&self, view: &mut SimulateView<'a>, (conf, settings): &Conf, memory: Memory, card: Option<&str>) {
        let case = self.study.case(settings, memory);
        let fails = matches!(case.run.outcome, Outcome::OutOfMemory { .. });
        let pinned = fails.then(|| self.study.pinned(settings, memory, self.device, &self.analysis.sites)).flatten();
        let run = RunView::new(self.analysis, self.study, conf, memory, card, &case, pinned.as_ref());
        let oom_entry = run.oom_entry;
        view.runs.push(run);
        self.timeline(view, &(conf.clone(), settings.clone()), memory, oom_entry);
    }

    /// Adds what a run holds over time, if that is asked for.
    fn timeline(&self, view: &mut SimulateView<'a>, (conf, settings): &Conf, memory: Memory, oom_entry: Option<u32>) {
        if self.with_timelines {
            let reserved = self.study.reserved(settings, memory, self.device.entries).thinned(MAX_STEPS);
            view.timelines.push(TimelineView {
                conf: conf.clone(),
                capacity_bytes: memory.capacity_bytes(),
                entries: reserved.entries,
                reserved_bytes: reserved.bytes,
                oom_entry,
            });
        }
    }
}
