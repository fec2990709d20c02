//! Asks a study, and makes the answer a document.

use std::fmt::Write as _;

use highwater_allocator::Memory;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_whatif::whole_step::whole_step;
use highwater_whatif::{Conf, Outcome, Replayed, Study};

use crate::{
    AlarmView, BarView, BoundView, EmptyCacheView, FitView, LargestView, RunView, SimulateView, SiteView, TimelineView,
    VerdictView,
};

/// How often the largest block is looked at.
const SAMPLES: usize = 64;

/// Steps of a timeline: twice the pixels of a wide screen.
const MAX_STEPS: usize = 4000;

/// A question to a study.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Settings to run under; none asks which would be better than those of the recording.
    pub confs: Vec<Conf>,
    /// Memory to run in, with its name; none asks for the least memory that is enough.
    pub memories: Vec<(Memory, Option<String>)>,
    /// Whether to include the reserved memory of each run over time.
    pub with_timelines: bool,
}

/// Answers the question; only in part if the program's watch is stopped.
pub fn answer<'a>(
    replayed: &Replayed,
    analysis: &Analysis<'a>,
    device: &DeviceAnalysis<'a>,
    question: &Question,
) -> SimulateView<'a> {
    let study = &replayed.study;
    let watch = &study.program.watch;
    let mut view = SimulateView::new(analysis.snapshot, device, study, replayed.rules, replayed.chosen_by.name());
    view.bound = BoundView::new(study, study.packing().as_ref());
    let own: Conf = (study.recorded_conf.clone(), study.recorded.clone());
    let confs = if question.confs.is_empty() { std::slice::from_ref(&own) } else { &question.confs };
    let ample = [(Memory::Ample, None)];
    let memories = if question.memories.is_empty() { &ample[..] } else { &question.memories };
    let asked = Asked { analysis, device, study, with_timelines: question.with_timelines };
    let asks_fit = question.memories.is_empty();
    let rows = if asks_fit && question.confs.is_empty() { study.candidates() } else { confs.to_vec() };
    watch.begin(&rows);
    for conf in confs {
        for (memory, card) in memories {
            if watch.is_stopped() {
                return view;
            }
            asked.run(&mut view, conf, *memory, card.as_deref());
        }
        if !asks_fit {
            watch.step();
        }
    }
    if !asks_fit || watch.is_stopped() {
        watch.end();
        return view;
    }
    let table = study.fit_table(&rows);
    watch.end();
    if watch.is_stopped() {
        return view;
    }
    view.fit = table.iter().map(|fit| FitView::new(study, fit)).collect();
    if view.ends_at_error {
        view.fit.iter_mut().for_each(|fit| fit.cards.clear());
    }
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
        if watch.is_stopped() {
            return view;
        }
        view.waterfall = study.waterfall(own).iter().map(BarView::new).collect();
        let savings = study.site_savings(own, device, &analysis.sites);
        view.sites = savings.iter().map(|saving| SiteView::new(analysis, saving)).collect();
        if watch.is_stopped() {
            return view;
        }
        view.empty_caches = study.empty_caches(own).iter().map(EmptyCacheView::new).collect();
        let blocks = study.largest_blocks(own, Memory::Ample, SAMPLES);
        view.largest_block = blocks.iter().map(LargestView::new).collect();
        // The page draws what it offers to compare.
        for conf in rows.iter().skip(1).take_while(|_| !watch.is_stopped()) {
            asked.timeline(&mut view, conf, Memory::Ample, None);
        }
    }
    view
}

/// A question and its subject.
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

    /// Adds the reserved memory of a run over time, if requested.
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
