//! Answers what-ifs of the page, one at a time, and keeps the answers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use axum::body::Bytes;
use axum::http::StatusCode;
use highwater_allocator::Memory;
use highwater_analysis::Analysis;
use highwater_answers::what_if::card;
use highwater_documents::answer::{self, Question};
use highwater_problem::{Explained as _, Problem};
use highwater_whatif::{Progress as _, Replayed, Watch, replayable};

use crate::reader::{Answer, json};
use crate::refusal::Refusal;
use crate::waiting::Waiting;

/// What is asked of the simulator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct WhatIf {
    pub(crate) device: Option<u32>,
    pub(crate) confs: Vec<String>,
    pub(crate) capacities: Vec<u64>,
    /// Names of cards.
    pub(crate) cards: Vec<String>,
}

/// Answers that are kept: each is some 100 kB at most.
const MAX_ANSWERS: usize = 64;

/// Answers one question after the other: each replays the recording many times.
pub(crate) struct Simulator<'b, 'a> {
    analysis: &'b Analysis<'a>,
    /// By device.
    replayed: HashMap<u32, Replayed>,
    answers: HashMap<WhatIf, Bytes>,
}

impl<'b, 'a> Simulator<'b, 'a> {
    pub(crate) fn new(analysis: &'b Analysis<'a>) -> Self {
        Self { analysis, replayed: HashMap::new(), answers: HashMap::new() }
    }

    pub(crate) fn run(mut self, questions: &Receiver<(WhatIf, Arc<Waiting>, Answer)>) {
        while let Ok((question, waiting, answer)) = questions.recv() {
            // Whoever asked may be gone.
            if !waiting.is_stopped() {
                let answered = self.answer(&question, &waiting);
                let _ = answer.send(answered);
            }
        }
    }

    fn answer(&mut self, asked: &WhatIf, waiting: &Arc<Waiting>) -> Result<Bytes, Refusal> {
        if let Some(answer) = self.answers.get(asked) {
            return Ok(answer.clone());
        }
        let analysis = self.analysis;
        if let Some(wanted) = asked.device
            && analysis.device(wanted).is_none()
        {
            return Err(Refusal::malformed(format!("there is no device {wanted}")));
        }
        let device = replayable(analysis, "the snapshot", asked.device)?;
        waiting.begin(device.entries.len());
        let watch = Watch::shared(Arc::clone(waiting) as _);
        let replayed = match self.replayed.entry(device.device) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let replayed = Replayed::watched(analysis.snapshot, device, None, &watch);
                if waiting.is_stopped() {
                    // It may hold only the beginning of the recording.
                    return Err(unawaited());
                }
                place.insert(replayed)
            }
        };
        replayed.study.program.watch = watch;
        let confs = asked.confs.iter().map(|conf| {
            highwater_whatif::conf(&replayed.study, conf).map_err(|error| {
                let problem = Problem::new(format!("the settings `{conf}` cannot be simulated"));
                let problem = problem.because(&error).hinted(error.hint());
                Refusal { status: StatusCode::BAD_REQUEST, problem }
            })
        });
        let limits = asked.capacities.iter().map(|&bytes| Ok((Memory::Limit(bytes), None)));
        let cards = asked.cards.iter().map(|name| Ok((card(name)?, Some(name.clone()))));
        let question = Question {
            confs: confs.collect::<Result<_, _>>()?,
            memories: limits.chain(cards).collect::<Result<_, Problem>>()?,
            with_timelines: true,
        };
        let answer = json(&answer::answer(replayed, analysis, device, &question));
        if waiting.is_stopped() {
            // It may not be whole, and nobody sees it.
            return Err(unawaited());
        }
        if self.answers.len() >= MAX_ANSWERS {
            self.answers.clear();
        }
        self.answers.insert(asked.clone(), answer.clone());
        Ok(answer)
    }
}

fn unawaited() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no client waits for the answer")
}

#[cfg(test)]
mod tests {
    use highwater_analysis::analyse;
    use highwater_testkit::recording;

    use super::*;

    #[test]
    fn a_question_that_nobody_waits_for_any_more_is_given_up() {
        let snapshot = recording("linear_forward");
        let analysis = analyse(&snapshot);
        let mut simulator = Simulator::new(&analysis);
        let question = WhatIf { capacities: vec![1 << 30], ..WhatIf::default() };

        let waiting = Arc::new(Waiting::default());
        waiting.leave();
        assert!(simulator.answer(&question, &waiting).is_err());
        assert!(simulator.answers.is_empty(), "half an answer is not kept");
        assert!(simulator.replayed.is_empty(), "nor half a recording");

        let waiting = Arc::new(Waiting::default());
        let whole = simulator.answer(&question, &waiting).expect("an answer");
        assert!(
            whole.windows(b"\"capacity_bytes\":1073741824".len()).any(|part| part == b"\"capacity_bytes\":1073741824")
        );
    }
}
