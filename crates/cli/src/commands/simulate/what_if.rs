//! `highwater simulate FILE`: a recording under other settings, with less memory, on other cards.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use highwater_allocator::Settings;
use highwater_allocator::settings::Backend;
use highwater_analysis::replay::{Choice, ChosenBy, choose, recorded_settings};
use highwater_analysis::view::{
    AlarmView, BarView, BoundView, EmptyCacheView, FitView, LargestView, RunView, SimulateView, SiteView, VerdictView,
};
use highwater_analysis::whatif::cards::{CARDS, CONTEXT_BYTES};
use highwater_analysis::whatif::{Memory, Outcome, Study};
use highwater_analysis::{Analysis, DeviceAnalysis, StackClasses, analyse_with};
use indicatif::{ProgressBar, ProgressStyle};

use super::Args;
use super::what_if_text;
use crate::args::Format;
use crate::error::Problem;
use crate::output::{to_stdout, write_json};
use crate::units::parse_size;

/// How often the largest block is looked at.
const SAMPLES: usize = 64;

/// Reads, replays, runs, answers.
///
/// # Errors
/// If the snapshot cannot be read, or settings or a card are not what PyTorch or this program knows.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let input = args.input().context("a snapshot is needed")?;
    let (snapshot, classes) = input.read_with(StackClasses::new)?;
    let analysis = analyse_with(&snapshot, classes);
    let device = busiest(&analysis, args.device)?;
    super::verify::check_backend(&input, &snapshot)?;
    // The program is taken out under the rules that explain the recording best, whosever rules the runs are under.
    let choice = choose(&snapshot, &[device]);
    let (torch, chosen_by) = match args.torch {
        Some(torch) => (torch, ChosenBy::Request),
        None => (choice.torch, choice.by),
    };
    let cards = args.card.iter().map(|text| card(text)).collect::<Result<Vec<_>, _>>()?;
    let Choice { torch: replayed, mut replays, .. } = choice;
    let replay = replays.pop().context("a device has a replay")?;
    let study = Study::of_replay(&snapshot, device, torch, recorded_settings(&snapshot, torch), replay);
    let confs = confs(args, &study)?;
    let view = answer(
        args,
        &analysis,
        device,
        &study,
        SimulateView::new(&study, replayed, super::verify::chosen_by(chosen_by)),
        &confs,
        &cards,
    );
    match args.format {
        Format::Json => to_stdout(|out| write_json(out, &view))?,
        Format::Text => {
            to_stdout(|out| what_if_text::write(out, &view, &input.short_name(), &study))?;
            crate::warnings::print_all(&analysis)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The device that is asked for, or else the one with the most entries.
fn busiest<'a, 'b>(analysis: &'b Analysis<'a>, wanted: Option<u32>) -> Result<&'b DeviceAnalysis<'a>, Problem> {
    let devices = analysis.devices.iter().filter(|device| wanted.is_none_or(|wanted| device.device == wanted));
    let busiest = devices.max_by_key(|device| (device.entries.len(), std::cmp::Reverse(device.device)));
    let device = busiest.filter(|device| !device.entries.is_empty());
    device.ok_or_else(|| {
        Problem::new("the snapshot has no trace, so there is nothing to run again")
            .hint("record with `torch.cuda.memory._record_memory_history()` before the program allocates")
    })
}

/// Settings with the string that gave them.
type Conf = (String, Settings);

/// The settings that are asked for; those of the recording if none are.
fn confs(args: &Args, study: &Study) -> Result<Vec<Conf>, Problem> {
    if args.conf.is_empty() {
        return Ok(vec![(study.recorded_conf.clone(), study.recorded.clone())]);
    }
    args.conf.iter().map(|conf| settings(conf, study)).collect()
}

fn settings(conf: &str, study: &Study) -> Result<Conf, Problem> {
    let settings = study.settings(conf).map_err(|error| {
        let problem = Problem::new(format!("`--conf {conf}` is refused by torch {}", study.torch)).because(&error);
        match error.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })?;
    if settings.backend == Backend::CudaMallocAsync {
        return Err(Problem::new("`backend:cudaMallocAsync` cannot be simulated: its memory is the driver's own")
            .hint("what it needs at least is the live memory that a run without `--conf` shows"));
    }
    Ok((conf.to_owned(), settings))
}

/// A card with what it is called.
struct Card {
    name: String,
    memory: Memory,
}

/// A card by its name, or by its memory.
fn card(text: &str) -> Result<Card, Problem> {
    let known = CARDS.iter().find(|card| card.name.eq_ignore_ascii_case(text));
    let total_bytes = match known {
        Some(card) => card.total_bytes(),
        None => parse_size(text).map_err(|_| {
            let names: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
            Problem::new(format!("`--card {text}` is neither a size nor a card that is known"))
                .hint(format!("give its memory, such as `24GiB`, or one of {}", names.join(", ")))
        })?,
    };
    Ok(Card { name: text.to_owned(), memory: Memory::Card { total_bytes, outside_bytes: CONTEXT_BYTES } })
}

fn answer<'a>(
    args: &Args,
    analysis: &Analysis<'a>,
    device: &DeviceAnalysis<'a>,
    study: &Study,
    mut view: SimulateView<'a>,
    confs: &[Conf],
    cards: &[Card],
) -> SimulateView<'a> {
    view.bound = BoundView::new(study, study.packing().as_ref());
    let limits = args.capacity.iter().map(|&bytes| (Memory::Limit(bytes), None));
    let mut memories: Vec<(Memory, Option<&str>)> =
        limits.chain(cards.iter().map(|card| (card.memory, Some(card.name.as_str())))).collect();
    let asks_for_memory = !memories.is_empty();
    if !asks_for_memory {
        memories.push((Memory::Ample, None));
    }
    for (conf, settings) in confs {
        for &(memory, card) in &memories {
            let case = study.case(settings, memory);
            let fails = matches!(case.run.outcome, Outcome::OutOfMemory { .. });
            let pinned = fails.then(|| study.pinned(settings, memory, device, &analysis.sites)).flatten();
            view.runs.push(RunView::new(analysis, study, conf, memory, card, &case, pinned.as_ref()));
        }
    }
    if asks_for_memory {
        return view;
    }
    let rows = if args.conf.is_empty() { study.candidates() } else { confs.to_vec() };
    let progress = Progress::new(rows.len());
    let table = study.fit_table(&rows, &|| progress.step());
    progress.finish();
    view.fit = table.iter().map(|fit| FitView::new(study, fit)).collect();
    if args.conf.is_empty() {
        let own = &study.recorded;
        if let Some(memory) = study.memory_at_failure(device) {
            let case = study.case(own, memory);
            let pinned = study.pinned(own, memory, device, &analysis.sites);
            let conf = &study.recorded_conf;
            view.runs.push(RunView::new(analysis, study, conf, memory, None, &case, pinned.as_ref()));
        }
        view.verdict = Some(VerdictView::new(&study.verdict(device, &table)));
        view.alarms = study.alarms(&table).iter().map(AlarmView::new).collect();
        view.waterfall = study.waterfall(own).iter().map(BarView::new).collect();
        let savings = study.site_savings(own, device, &analysis.sites);
        view.sites = savings.iter().map(|saving| SiteView::new(analysis, saving)).collect();
        view.empty_caches = study.empty_caches(own).iter().map(EmptyCacheView::new).collect();
        let blocks = study.largest_blocks(own, Memory::Ample, SAMPLES);
        view.largest_block = blocks.iter().map(LargestView::new).collect();
    }
    view
}

/// How far the table is, on a terminal.
struct Progress(ProgressBar);

impl Progress {
    fn new(rows: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("simulating {wide_bar} {pos} of {len} settings {elapsed}");
        let bar = ProgressBar::new(rows as u64).with_style(style.expect("the template is well-formed"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    fn step(&self) {
        self.0.inc(1);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}
