//! What the screen shows: the last look, what was before, and what a person chose.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use highwater_monitor::{GpuSample, ProcessSample, Sample};
use highwater_output::style;

use super::kill::Target;

/// Looks that a graph remembers: as many as the widest terminal has columns.
const HISTORY: usize = 600;

/// What the processes are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The largest first.
    #[default]
    Memory,
    Pid,
    User,
    Command,
    Gpu,
}

impl Sort {
    pub(super) const ALL: [Self; 5] = [Self::Memory, Self::Pid, Self::User, Self::Command, Self::Gpu];

    /// As it is called at the top of its column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pid => "pid",
            Self::User => "user",
            Self::Command => "command",
            Self::Gpu => "GPU",
        }
    }

    fn next(self) -> Self {
        let place = Self::ALL.iter().position(|&sort| sort == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }
}

/// What keys mean at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Browse,
    /// A filter is being typed.
    Filter,
    /// All there is to know of the chosen process.
    Details,
    /// A signal waits for its confirmation.
    Confirm(Target),
    Help,
}

/// What was of one GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Used bytes, the newest first.
    pub(super) used_bytes: VecDeque<u64>,
    /// The most that was ever seen.
    pub(super) most_bytes: u64,
}

/// Everything that is drawn.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Debug)]
pub(super) struct State {
    pub(super) sample: Option<Sample>,
    pub(super) histories: HashMap<String, History>,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    pub(super) mode: Mode,
    /// The chosen process, by its GPU and number.
    pub(super) chosen: Option<(String, u32)>,
    /// Those whose rows are open.
    pub(super) open: HashSet<u32>,
    /// Lines scrolled past, in the list and in the details.
    pub(super) scroll: usize,
    pub(super) details_scroll: u16,
    pub(super) is_log: bool,
    pub(super) is_paused: bool,
    /// Looks of this machine since the screen was paused, at most as many as a graph remembers.
    waiting: VecDeque<Sample>,
    pub(super) interval: Duration,
    /// 1 is as asked for; 2 is twice as many looks.
    pub(super) speed: f64,
    pub(super) looks: u64,
    /// What was last done.
    pub(super) message: Option<String>,
    pub(super) has_colour: bool,
}

impl State {
    pub(super) fn new(is_log: bool, interval: Duration) -> Self {
        Self {
            sample: None,
            histories: HashMap::new(),
            sort: Sort::default(),
            is_reversed: false,
            filter: String::new(),
            mode: Mode::default(),
            chosen: None,
            open: HashSet::new(),
            scroll: 0,
            details_scroll: 0,
            is_log,
            is_paused: false,
            waiting: VecDeque::new(),
            interval,
            speed: 1.0,
            looks: 0,
            message: None,
            has_colour: style::on_stdout(),
        }
    }

    /// Pauses the screen, or goes on with all that was seen meanwhile.
    pub(super) fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if !self.is_paused {
            for sample in std::mem::take(&mut self.waiting) {
                self.take(sample);
            }
        }
    }

    /// Takes a look in.
    pub(super) fn take(&mut self, sample: Sample) {
        if self.is_paused && !self.is_log {
            self.waiting.push_back(sample);
            if self.waiting.len() > HISTORY {
                self.waiting.pop_front();
            }
            return;
        }
        for gpu in &sample.gpus {
            let history = self.histories.entry(gpu.label()).or_default();
            // A GPU that does not tell leaves a gap of nothing, so that its graph goes on in time.
            let used_bytes = gpu.memory.map_or(0, |memory| memory.used_bytes);
            history.most_bytes = history.most_bytes.max(used_bytes);
            history.used_bytes.push_front(used_bytes);
            history.used_bytes.truncate(HISTORY);
        }
        self.looks += 1;
        self.sample = Some(sample);
        if !self.rows().iter().any(|(gpu, process)| self.is_chosen(gpu, process)) {
            self.choose(0);
        }
    }

    /// A log has ended.
    pub(super) fn end(&mut self, why: Option<String>) {
        self.message = Some(why.unwrap_or_else(|| "the log ends here".to_owned()));
    }

    /// The processes that are listed, in their order.
    pub(super) fn rows(&self) -> Vec<(&GpuSample, &ProcessSample)> {
        let gpus = self.sample.iter().flat_map(|sample| &sample.gpus);
        let all = gpus.flat_map(|gpu| gpu.processes.iter().map(move |process| (gpu, process)));
        let mut rows: Vec<_> = all.filter(|(_, process)| self.is_wanted(process)).collect();
        rows.sort_by(|(gpu, a), (other, b)| {
            let by_place =
                || (gpu.index, gpu.mig.map(|part| part.index)).cmp(&(other.index, other.mig.map(|part| part.index)));
            let ordering = match self.sort {
                Sort::Memory => b.bytes.cmp(&a.bytes),
                Sort::Pid => a.pid.cmp(&b.pid),
                Sort::User => a.user.cmp(&b.user),
                Sort::Command => a.command.cmp(&b.command),
                Sort::Gpu => by_place(),
            };
            let ordering = if self.is_reversed { ordering.reverse() } else { ordering };
            ordering.then_with(|| b.bytes.cmp(&a.bytes)).then_with(by_place).then(a.pid.cmp(&b.pid))
        });
        rows
    }

    /// Whether the filter lets a process through: by a part of its command line or user, or its number.
    fn is_wanted(&self, process: &ProcessSample) -> bool {
        let filter = self.filter.to_lowercase();
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| text.to_lowercase().contains(&filter));
        filter.is_empty() || has(&process.command) || has(&process.user) || process.pid.to_string().contains(&filter)
    }

    pub(super) fn is_chosen(&self, gpu: &GpuSample, process: &ProcessSample) -> bool {
        self.chosen.as_ref().is_some_and(|(label, pid)| *pid == process.pid && *label == gpu.label())
    }

    /// The chosen process and its GPU.
    pub(super) fn chosen(&self) -> Option<(&GpuSample, &ProcessSample)> {
        self.rows().into_iter().find(|(gpu, process)| self.is_chosen(gpu, process))
    }

    /// Chooses a row by its place; the last, if there are not so many.
    fn choose(&mut self, place: usize) {
        let rows = self.rows();
        let row = rows.get(place.min(rows.len().saturating_sub(1)));
        self.chosen = row.map(|(gpu, process)| (gpu.label(), process.pid));
    }

    /// Moves the choice, not past the ends.
    pub(super) fn step(&mut self, by: isize) {
        let place = self.rows().iter().position(|(gpu, process)| self.is_chosen(gpu, process)).unwrap_or(0);
        self.choose(place.saturating_add_signed(by));
    }

    /// Orders by this, or the other way round if it is so ordered already.
    pub(super) fn sort_by(&mut self, sort: Sort) {
        self.is_reversed = self.sort == sort && !self.is_reversed;
        self.sort = sort;
    }

    pub(super) fn sort_by_next(&mut self) {
        self.is_reversed = false;
        self.sort = self.sort.next();
    }

    /// Opens or closes the chosen row.
    pub(super) fn toggle(&mut self) {
        if let Some((_, pid)) = self.chosen
            && !self.open.remove(&pid)
        {
            self.open.insert(pid);
        }
    }

    /// Changes the filter, which may hide what is chosen.
    pub(super) fn filter_by(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.filter);
        if self.chosen().is_none() {
            self.choose(0);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use highwater_monitor::{Memory, ProcessKind};

    pub(in super::super) fn process(pid: u32, mib: u64, user: &str, command: &str) -> ProcessSample {
        ProcessSample {
            pid,
            kind: ProcessKind::Compute,
            bytes: Some(mib << 20),
            user: Some(user.into()),
            command: Some(command.into()),
            torch: None,
            torch_note: None,
            loaded: None,
        }
    }

    pub(in super::super) fn sample() -> Sample {
        let memory = Some(Memory {
            total_bytes: 100 << 30,
            used_bytes: 25 << 30,
            free_bytes: 74 << 30,
            reserved_bytes: 1 << 30,
        });
        let gpu =
            |index, processes| GpuSample { index, name: "H200".into(), memory, processes, ..GpuSample::default() };
        let first = vec![process(30, 500, "ann", "python a.py"), process(10, 700, "bob", "python b.py")];
        Sample { gpus: vec![gpu(0, first), gpu(1, vec![process(20, 600, "ann", "other")])], ..Sample::default() }
    }

    fn state() -> State {
        let mut state = State::new(false, Duration::from_secs(1));
        state.take(sample());
        state
    }

    fn pids(state: &State) -> Vec<u32> {
        state.rows().iter().map(|(_, process)| process.pid).collect()
    }

    #[test]
    fn rows_are_ordered_as_asked_for() {
        let mut state = state();
        assert_eq!(pids(&state), [10, 20, 30]);
        state.sort_by(Sort::Memory);
        assert_eq!(pids(&state), [30, 20, 10]);
        state.sort_by(Sort::User);
        assert_eq!(pids(&state), [20, 30, 10]);
        state.sort_by(Sort::Gpu);
        assert_eq!(pids(&state), [10, 30, 20]);
        state.sort_by_next();
        assert_eq!((state.sort, state.is_reversed), (Sort::Memory, false));
    }

    #[test]
    fn a_choice_follows_its_process_and_stays_in_the_list() {
        let mut state = state();
        assert_eq!(state.chosen().unwrap().1.pid, 10);
        state.step(1);
        state.sort_by(Sort::Pid);
        assert_eq!(state.chosen().unwrap().1.pid, 20);
        state.step(99);
        assert_eq!(state.chosen().unwrap().1.pid, 30);
        state.step(-99);
        assert_eq!(state.chosen().unwrap().1.pid, 10);
        state.filter_by(|filter| filter.push_str("ANN"));
        assert_eq!(pids(&state), [20, 30]);
        assert_eq!(state.chosen().unwrap().1.pid, 20);
        state.filter_by(|filter| filter.push('!'));
        assert!(state.chosen().is_none());
    }

    #[test]
    fn a_graph_remembers_so_much_and_no_more() {
        let mut state = state();
        for _ in 0..2 * HISTORY {
            state.take(sample());
        }
        assert_eq!(state.histories["0"].used_bytes.len(), HISTORY);
    }
}
