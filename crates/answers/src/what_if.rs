//! A recording under other settings, with less memory, on other cards.

use highwater_allocator::{Memory, TorchVersion};
use highwater_analysis::Analysis;
use highwater_documents::SimulateView;
use highwater_documents::answer::{self, Question};
use highwater_driver::CardOrSize;
use highwater_driver::context::TRAINING_BYTES;
use highwater_problem::{Explained as _, Problem};
use highwater_whatif::{Conf, RefusedConf, Replayed, Study, Watch, replayable};

/// A question to the simulator, in the words of the command line.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'q> {
    /// Settings, as in `PYTORCH_ALLOC_CONF`.
    pub confs: &'q [String],
    /// Limits on what the allocator may reserve, in bytes.
    pub capacities: &'q [u64],
    /// Cards, by name or memory.
    pub cards: &'q [String],
    /// The release whose rules to use, where the recording shall not decide.
    pub torch: Option<TorchVersion>,
    /// Only this device.
    pub device: Option<u32>,
}

impl Asked<'_> {
    /// Asks the snapshot that messages call `name`.
    ///
    /// # Errors
    /// If it has nothing to run again, or settings or a card are not what PyTorch or this program knows.
    pub fn answered<'a>(
        &self,
        analysis: &Analysis<'a>,
        name: &str,
        watch: &Watch,
    ) -> Result<(Replayed, SimulateView<'a>), Problem> {
        let device = replayable(analysis, name, self.device)?;
        let cards = self.cards.iter().map(|text| Ok((card(text)?, Some(text.clone()))));
        let cards = cards.collect::<Result<Vec<_>, Problem>>()?;
        let replayed = Replayed::watched(analysis.snapshot, device, self.torch, watch);
        let confs = self.confs.iter().map(|conf| settings(conf, &replayed.study)).collect::<Result<_, _>>()?;
        let limits = self.capacities.iter().map(|&bytes| (Memory::Limit(bytes), None));
        let question = Question { confs, memories: limits.chain(cards).collect(), with_timelines: false };
        let view = answer::answer(&replayed, analysis, device, &question);
        Ok((replayed, view))
    }
}

fn settings(conf: &str, study: &Study) -> Result<Conf, Problem> {
    highwater_whatif::conf(study, conf).map_err(|error| match &error {
        RefusedConf::ByTorch(cause) => {
            Problem::new(format!("torch {} refuses `--conf {conf}`", study.torch)).because(cause).hinted(error.hint())
        }
        RefusedConf::Asynchronous => Problem::from(error),
    })
}

/// A card by its name, or by its memory.
///
/// # Errors
/// If it is neither.
pub fn card(text: &str) -> Result<Memory, Problem> {
    let total_bytes = CardOrSize::parse(text)?.memory_bytes();
    Ok(Memory::Card { total_bytes, outside_bytes: TRAINING_BYTES })
}
