//! The screen: a thread looks, this one draws and reads keys.

mod draw;
mod graph;
mod keys;
mod kill;
mod state;

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use highwater_monitor::Sample;
use highwater_output::sink::note;
use highwater_problem::Problem;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::EnterAlternateScreen;
use ratatui::layout::{Rect, Size};
use ratatui::{DefaultTerminal, TerminalOptions, Viewport};

use self::state::State;
use super::Args;
use super::outputs::Outputs;
use super::source::Source;

/// How long a look may wait to be drawn.
const PATIENCE: Duration = Duration::from_millis(40);

/// Cells that are drawn at most, beside and below each other: no screen shows more, but a terminal may claim to, and each cell
/// takes memory.
const LARGEST: Size = Size { width: 1000, height: 400 };

/// What the looking thread says.
enum News {
    Look(Box<Sample>),
    /// There are no more, and why.
    End(Option<String>),
    Failed(Problem),
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Pause,
    Resume,
    /// Twice as many looks, or half as many.
    Faster,
    Slower,
}

/// Shows the screen until it is left.
///
/// # Errors
/// The terminal cannot be used, the driver is gone, or a file cannot be read or written.
pub(super) fn run(args: &Args, source: Source, outputs: Outputs) -> anyhow::Result<()> {
    let is_log = source.is_log();
    let (orders, received) = mpsc::channel();
    let (told, news) = mpsc::channel();
    let samples = args.samples;
    let watching = thread::spawn(move || watch(source, outputs, samples, &received, &told));
    let left = opened()
        .context("the terminal cannot be used as a screen")
        .and_then(|mut terminal| show(&mut terminal, State::new(is_log, args.interval), &news, &orders));
    ratatui::restore();
    // The thread ends when nobody gives it orders, and hands back the log, which says what was written as it is closed.
    drop(orders);
    drop(news);
    drop(watching.join());
    if let Some(why) = left? {
        note(&why)?;
    }
    Ok(())
}

/// The terminal as a screen.
fn opened() -> io::Result<DefaultTerminal> {
    // It is not asked for its size by the library, which believes whatever it says.
    let viewport = Viewport::Fixed(drawn_area(ratatui::crossterm::terminal::size()?.into()));
    let terminal = ratatui::try_init_with_options(TerminalOptions { viewport })?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    Ok(terminal)
}

/// The part of a terminal of some size that is drawn.
fn drawn_area(size: Size) -> Rect {
    Rect::new(0, 0, size.width.min(LARGEST.width), size.height.min(LARGEST.height))
}

/// Draws and reads keys; says why it ended, if not by a key.
fn show(
    terminal: &mut DefaultTerminal,
    mut state: State,
    news: &Receiver<News>,
    orders: &Sender<Order>,
) -> anyhow::Result<Option<String>> {
    let mut is_stale = true;
    loop {
        if is_stale {
            let area = drawn_area(terminal.size()?);
            if area != terminal.get_frame().area() {
                terminal.resize(area)?;
            }
            terminal.draw(|frame| draw::draw(frame, &mut state))?;
        }
        is_stale = false;
        if event::poll(PATIENCE)? {
            is_stale = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match keys::pressed(&mut state, key) {
                    keys::Then::Leave => return Ok(None),
                    // A log that has ended takes no more orders.
                    keys::Then::Order(order) => drop(orders.send(order)),
                    keys::Then::Nothing => {}
                }
            }
        }
        while let Ok(told) = news.try_recv() {
            is_stale = true;
            match told {
                News::Look(sample) => state.take(*sample),
                News::End(why) if state.is_log => state.end(why),
                News::End(why) => return Ok(why),
                News::Failed(problem) => return Err(problem.into()),
            }
        }
    }
}

/// Looks until there is nothing more to see, or nobody cares; gives back where it wrote to.
fn watch(
    mut source: Source,
    mut outputs: Outputs,
    samples: Option<u64>,
    orders: &Receiver<Order>,
    told: &Sender<News>,
) -> Outputs {
    let mut pace = Pace { factor: 1.0, is_paused: false };
    let mut looks = 0;
    while samples.is_none_or(|most| looks < most) {
        looks += 1;
        let look = source.next().and_then(|sample| {
            if let Some(sample) = &sample {
                outputs.take(sample)?;
            }
            Ok(sample)
        });
        let is_heard = match look {
            Ok(Some(sample)) => told.send(News::Look(Box::new(sample))).is_ok(),
            Ok(None) => break,
            Err(problem) => {
                let _ = told.send(News::Failed(problem));
                return outputs;
            }
        };
        let pause = match source.pause() {
            Ok(pause) => pause,
            Err(problem) => {
                let _ = told.send(News::Failed(problem));
                return outputs;
            }
        };
        if !is_heard || !pace.wait(pause, orders) {
            return outputs;
        }
    }
    let _ = told.send(News::End(source.why_ended()));
    outputs
}

/// How fast it goes.
struct Pace {
    factor: f64,
    is_paused: bool,
}

impl Pace {
    /// Waits, and takes orders meanwhile; false if nobody gives them any more.
    fn wait(&mut self, pause: Duration, orders: &Receiver<Order>) -> bool {
        let began = Instant::now();
        loop {
            let rest = pause.mul_f64(self.factor).saturating_sub(began.elapsed());
            let order = if self.is_paused {
                orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                orders.recv_timeout(rest)
            };
            match order {
                Ok(Order::Pause) => self.is_paused = true,
                Ok(Order::Resume) => self.is_paused = false,
                Ok(Order::Faster) => self.factor = (self.factor / 2.0).max(1.0 / 64.0),
                Ok(Order::Slower) => self.factor = (self.factor * 2.0).min(64.0),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }
}

/// That a signal was sent, or why not.
fn sent(result: io::Result<()>, what: &str) -> String {
    match result {
        Ok(()) => format!("sent {what}"),
        Err(error) => format!("cannot send {what}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_what_was_ordered() {
        let (orders, received) = mpsc::channel();
        let mut pace = Pace { factor: 1.0, is_paused: false };
        let mut waited = |pause_ms| {
            let began = Instant::now();
            let goes_on = pace.wait(Duration::from_millis(pause_ms), &received);
            (goes_on, began.elapsed())
        };
        let (goes_on, usual) = waited(200);
        assert!(goes_on && usual >= Duration::from_millis(200));
        orders.send(Order::Faster).unwrap();
        orders.send(Order::Faster).unwrap();
        assert!(waited(4000).1 < Duration::from_secs(3));
        orders.send(Order::Slower).unwrap();
        orders.send(Order::Pause).unwrap();
        orders.send(Order::Resume).unwrap();
        assert!(waited(400).1 >= Duration::from_millis(200));
        drop(orders);
        assert!(!waited(100_000).0, "nobody gives orders any more");
    }
}
