//! Where the looks come from: this machine, or a log.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use highwater_monitor::log::{LogError, Reader};
use highwater_monitor::{Detail, Sample, Sampler, TorchWatch};
use highwater_problem::Problem;

use super::Args;
use super::watched::Watched;

/// How often what changes slowly is asked.
const ALL_EVERY: Duration = Duration::from_secs(1);

/// Longer breaks in a log are shortened to this.
const LONGEST_BREAK: Duration = Duration::from_secs(2);

/// Looks, one after the other.
pub(super) struct Source {
    from: From,
    interval: Duration,
    watched: Option<Watched>,
    /// When the last look began.
    looked: Instant,
    why_ended: Option<String>,
}

enum From {
    Machine(Box<Machine>),
    Log(Box<Log>),
}

struct Log {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// When the last look was.
    last_us: Option<u64>,
    /// The one after it, if it was read to know when it is due.
    next: Option<Sample>,
}

struct Machine {
    sampler: Sampler,
    torch: TorchWatch,
    all_asked: Option<Instant>,
}

impl Source {
    /// Opens the driver, or the log.
    ///
    /// # Errors
    /// There is no GPU, no such process, or no such log.
    pub(super) fn open(args: &Args) -> Result<Self, Problem> {
        let from = match &args.replay {
            Some(path) => From::Log(Box::new(Log::open(path)?)),
            None => {
                let mut sampler = Sampler::open(None).map_err(Problem::from)?;
                // That there is no GPU is said before a screen or a file is opened.
                sampler.sample(0, Detail::Quick).map_err(Problem::from)?;
                From::Machine(Box::new(Machine { sampler, torch: TorchWatch::default(), all_asked: None }))
            }
        };
        let watched = args.watch_pid.map(|pid| Watched::new(pid, args.replay.is_none())).transpose()?;
        Ok(Self { from, interval: args.interval, watched, looked: Instant::now(), why_ended: None })
    }

    /// Whether it is a log.
    pub(super) fn is_log(&self) -> bool {
        matches!(self.from, From::Log(_))
    }

    /// The next look; `None` after the last.
    ///
    /// # Errors
    /// The driver is gone, or the log is damaged.
    pub(super) fn next(&mut self) -> Result<Option<Sample>, Problem> {
        let mut sample = match &mut self.from {
            From::Machine(machine) => {
                if let Some(watched) = &mut self.watched
                    && !watched.is_there()
                {
                    self.why_ended = Some(format!("process {} has ended", watched.pid));
                    return Ok(None);
                }
                self.looked = Instant::now();
                machine.look()?
            }
            From::Log(log) => match log.look()? {
                Some(sample) => sample,
                None => {
                    let is_cut = log.reader.is_cut();
                    self.why_ended = is_cut.then(|| {
                        "the log ends in the middle of a line: its last sample is left \
                     out"
                        .to_owned()
                    });
                    return Ok(None);
                }
            },
        };
        if let Some(watched) = &mut self.watched {
            watched.keep(&mut sample);
        }
        Ok(Some(sample))
    }

    /// How long until the next look is due: a log keeps its own pace.
    ///
    /// # Errors
    /// The log is damaged.
    pub(super) fn pause(&mut self) -> Result<Duration, Problem> {
        match &mut self.from {
            From::Machine(_) => Ok(self.interval.saturating_sub(self.looked.elapsed())),
            From::Log(log) => log.pause(),
        }
    }

    /// Waits for the next look on this machine; a log that is printed does not wait.
    pub(super) fn wait(&mut self, is_later: bool) {
        if is_later
            && !self.is_log()
            && let Ok(pause) = self.pause()
        {
            std::thread::sleep(pause);
        }
    }

    /// Why there are no more looks, if that is worth a word.
    pub(super) fn why_ended(&self) -> Option<String> {
        self.why_ended.clone()
    }

    /// That there was not one look.
    pub(super) fn nothing(&self) -> Problem {
        match &self.from {
            From::Log(log) => Problem::new(format!("`{}` has no samples", log.path.display())).hint(
                "the program that wrote it ended before the first one: record again with `highwater top -o FILE`",
            ),
            From::Machine(_) => {
                Problem::new(self.why_ended.clone().unwrap_or_else(|| "no samples were taken".to_owned()))
            }
        }
    }
}

impl Machine {
    fn look(&mut self) -> Result<Sample, Problem> {
        let detail = match self.all_asked {
            Some(asked) if asked.elapsed() < ALL_EVERY => Detail::Quick,
            _ => {
                self.all_asked = Some(Instant::now());
                Detail::All
            }
        };
        let time_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let time_us = u64::try_from(time_us).unwrap_or(u64::MAX);
        let mut sample = self.sampler.sample(time_us, detail).map_err(Problem::from)?;
        self.torch.add(&mut sample);
        Ok(sample)
    }
}

impl Log {
    fn open(path: &Path) -> Result<Self, Problem> {
        let file = File::open(path).map_err(|error| {
            Problem::new(format!("`{}` cannot be read", path.display()))
                .because(error)
                .hint("`highwater top -o FILE` writes such a log")
        })?;
        let reader = Reader::new(BufReader::new(file)).map_err(|error| damaged(path, &error))?;
        Ok(Self { path: path.to_owned(), reader, last_us: None, next: None })
    }

    fn read(&mut self) -> Result<Option<Sample>, Problem> {
        self.reader.next_sample().map_err(|error| damaged(&self.path, &error))
    }

    fn look(&mut self) -> Result<Option<Sample>, Problem> {
        let sample = match self.next.take() {
            Some(sample) => Some(sample),
            None => self.read()?,
        };
        self.last_us = sample.as_ref().map(|sample| sample.time_us);
        Ok(sample)
    }

    /// From the last look to the next, as it was.
    fn pause(&mut self) -> Result<Duration, Problem> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        let gap_us = self.next.as_ref().zip(self.last_us).map_or(0, |(next, last)| next.time_us.saturating_sub(last));
        Ok(Duration::from_micros(gap_us).min(LONGEST_BREAK))
    }
}

fn damaged(path: &Path, error: &LogError) -> Problem {
    let problem =
        Problem::new(format!("`{}` is not a log of `highwater top`, or is damaged", path.display())).because(error);
    match error {
        LogError::NoLog => {
            problem.hint("`highwater top -o FILE` writes such a log; snapshots are for `highwater report`")
        }
        _ => problem,
    }
}
