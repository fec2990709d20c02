//! `highwater simulate FILE`: a recording under other settings, with less memory, on other cards.

use std::process::ExitCode;

use anyhow::Context as _;
use highwater_allocator::{Memory, TorchVersion};
use highwater_analysis::{Analysis, StackClasses, analyse_with};
use highwater_documents::SimulateView;
use highwater_documents::answer::{self, Question};
use highwater_driver::CardOrSize;
use highwater_driver::context::TRAINING_BYTES;
use highwater_problem::Explained as _;
use highwater_whatif::{Conf, Progress, RefusedConf, Replayed, Study, replayable};

use super::Args;
use super::what_if_text;
use crate::args::Format;
use crate::error::Problem;
use crate::output::{text_to_stdout, to_stdout, write_json};
use crate::progress::SimulationBar;

/// Reads, replays, runs, answers.
///
/// # Errors
/// If the snapshot cannot be read, or settings or a card are not what PyTorch or this program knows.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let input = args.input().context("a snapshot is needed")?;
    let (snapshot, classes) = input.read_with(|snapshot| StackClasses::with(snapshot, args.sites.lines()))?;
    let analysis = analyse_with(&snapshot, classes);
    let asked = Asked {
        confs: &args.conf,
        capacities: &args.capacity,
        cards: &args.card,
        torch: args.torch,
        device: args.device,
    };
    let (_, view) = asked.answered(&analysis, &input.name(), &SimulationBar::default())?;
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &view))?,
        Format::Text => {
            text_to_stdout(|out| what_if_text::write(out, &view, &input.short_name()))?;
            crate::warnings::print_all(&analysis)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is asked, as it is said on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'q> {
    pub(crate) confs: &'q [String],
    pub(crate) capacities: &'q [u64],
    pub(crate) cards: &'q [String],
    pub(crate) torch: Option<TorchVersion>,
    pub(crate) device: Option<u32>,
}

impl Asked<'_> {
    /// Asks the snapshot that messages call `name`.
    ///
    /// # Errors
    /// If it has nothing to run again, or settings or a card are not what PyTorch or this program knows.
    pub(crate) fn answered<'a>(
        &self,
        analysis: &Analysis<'a>,
        name: &str,
        progress: &impl Progress,
    ) -> Result<(Replayed, SimulateView<'a>), Problem> {
        let device = replayable(analysis, name, self.device)?;
        let cards = self.cards.iter().map(|text| Ok((card(text)?, Some(text.clone()))));
        let cards = cards.collect::<Result<Vec<_>, Problem>>()?;
        let replayed = Replayed::new(analysis, device, self.torch);
        let confs = self.confs.iter().map(|conf| settings(conf, &replayed.study)).collect::<Result<_, _>>()?;
        let limits = self.capacities.iter().map(|&bytes| (Memory::Limit(bytes), None));
        let question = Question { confs, memories: limits.chain(cards).collect(), with_timelines: false };
        let view = answer::answer(&replayed, analysis, device, &question, progress);
        Ok((replayed, view))
    }
}

fn settings(conf: &str, study: &Study) -> Result<Conf, Problem> {
    highwater_whatif::conf(study, conf).map_err(|error| match &error {
        RefusedConf::ByTorch(cause) => Problem::new(format!("`--conf {conf}` is refused by torch {}", study.torch))
            .because(cause)
            .hinted(error.hint()),
        RefusedConf::Asynchronous => Problem::from(error),
    })
}

/// A card by its name, or by its memory.
///
/// # Errors
/// If it is neither.
pub(crate) fn card(text: &str) -> Result<Memory, Problem> {
    let total_bytes = CardOrSize::parse(text)?.memory_bytes();
    Ok(Memory::Card { total_bytes, outside_bytes: TRAINING_BYTES })
}
