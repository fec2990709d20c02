//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Order;
use super::kill::{Signal, Target};
use super::state::{Mode, Sort, State};

/// Letters of a filter at most.
const FILTER_LENGTH: usize = 100;

/// What the screen does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    Leave,
    Order(Order),
}

/// The keys, for the help.
pub(super) const HELP: [(&str, &str); 14] = [
    ("↑ ↓ PgUp PgDn", "choose a process"),
    ("Enter", "expand its row: how PyTorch uses its memory"),
    ("d", "details: command, tree, memory"),
    ("m p u c g", "sort by memory, pid, user, command, GPU; again reverses it"),
    ("s", "sort by the next column"),
    ("/", "filter by command, user or pid; Esc removes it"),
    ("k", "ask the process to end (SIGTERM), with confirmation"),
    ("K", "end it (SIGKILL), with confirmation"),
    ("Space", "pause or resume"),
    ("+ -", "sample more or less often; faster or slower in a log"),
    ("? h", "this help"),
    ("Esc", "back"),
    ("q", "leave"),
    ("Ctrl-C", "quit at once"),
];

/// Does what a key asks for.
pub(super) fn pressed(state: &mut State, key: KeyEvent) -> Then {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if key.code == KeyCode::Char('c') { Then::Leave } else { Then::Nothing };
    }
    state.message = None;
    match state.mode.clone() {
        Mode::Browse => browse(state, key.code),
        Mode::Filter => filter(state, key.code),
        Mode::Details => details(state, key.code),
        Mode::Confirm(target) => confirm(state, &target, key.code),
        Mode::Help => {
            state.mode = Mode::Browse;
            Then::Nothing
        }
    }
}

fn browse(state: &mut State, key: KeyCode) -> Then {
    match key {
        KeyCode::Char('q') => return Then::Leave,
        KeyCode::Esc => state.filter_by(String::clear),
        KeyCode::Up => state.step(-1),
        KeyCode::Down => state.step(1),
        KeyCode::PageUp => state.step(-10),
        KeyCode::PageDown => state.step(10),
        KeyCode::Home => state.step(isize::MIN),
        KeyCode::End => state.step(isize::MAX),
        KeyCode::Enter => state.toggle(),
        KeyCode::Char('m') => state.sort_by(Sort::Memory),
        KeyCode::Char('p') => state.sort_by(Sort::Pid),
        KeyCode::Char('u') => state.sort_by(Sort::User),
        KeyCode::Char('c') => state.sort_by(Sort::Command),
        KeyCode::Char('g') => state.sort_by(Sort::Gpu),
        KeyCode::Char('s') => state.sort_by_next(),
        KeyCode::Char('/') => state.mode = Mode::Filter,
        KeyCode::Char('d') if state.chosen().is_some() => {
            state.details_scroll = 0;
            state.mode = Mode::Details;
        }
        KeyCode::Char('k') => ask_to_kill(state, Signal::Term),
        KeyCode::Char('K') => ask_to_kill(state, Signal::Kill),
        KeyCode::Char('?' | 'h') => state.mode = Mode::Help,
        KeyCode::Char(' ') => {
            state.pause();
            // Looks go on while the screen stands still, for a log may be written.
            if state.is_log {
                return Then::Order(if state.is_paused { Order::Pause } else { Order::Resume });
            }
        }
        KeyCode::Char('+' | '=') => {
            state.speed = (state.speed * 2.0).min(64.0);
            return Then::Order(Order::Faster);
        }
        KeyCode::Char('-') => {
            state.speed = (state.speed / 2.0).max(1.0 / 64.0);
            return Then::Order(Order::Slower);
        }
        _ => {}
    }
    Then::Nothing
}

fn filter(state: &mut State, key: KeyCode) -> Then {
    match key {
        KeyCode::Enter => state.mode = Mode::Browse,
        KeyCode::Esc => {
            state.filter_by(String::clear);
            state.mode = Mode::Browse;
        }
        KeyCode::Backspace => {
            state.filter_by(|filter| filter.truncate(filter.char_indices().next_back().map_or(0, |(at, _)| at)));
        }
        KeyCode::Char(letter) if state.filter.chars().count() < FILTER_LENGTH => {
            state.filter_by(|filter| filter.push(letter));
        }
        _ => {}
    }
    Then::Nothing
}

fn details(state: &mut State, key: KeyCode) -> Then {
    match key {
        KeyCode::Up => state.details_scroll = state.details_scroll.saturating_sub(1),
        KeyCode::Down => state.details_scroll = state.details_scroll.saturating_add(1),
        KeyCode::Char('k') => ask_to_kill(state, Signal::Term),
        KeyCode::Char('K') => ask_to_kill(state, Signal::Kill),
        KeyCode::Char('q' | 'd') | KeyCode::Esc | KeyCode::Enter => state.mode = Mode::Browse,
        _ => {}
    }
    Then::Nothing
}

fn ask_to_kill(state: &mut State, signal: Signal) {
    let Some((_, process)) = state.chosen() else { return };
    let pid = process.pid;
    if state.is_log {
        state.message = Some("this is a log: its processes cannot be ended".to_owned());
        return;
    }
    match Target::new(pid, signal) {
        Some(target) => state.mode = Mode::Confirm(target),
        None => state.message = Some(format!("process {pid} cannot be reached from here")),
    }
}

/// Only `y` says yes.
fn confirm(state: &mut State, target: &Target, key: KeyCode) -> Then {
    state.mode = Mode::Browse;
    let what = format!("{} to {}", target.signal.name(), target.pid);
    state.message = Some(match key {
        KeyCode::Char('y' | 'Y') => super::sent(target.send(), &what),
        _ => format!("{what}: not sent"),
    });
    Then::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::state::tests::{process, sample};
    use std::time::Duration;

    fn state(is_log: bool) -> State {
        let mut state = State::new(is_log, Duration::from_secs(1));
        state.take(sample());
        state
    }

    fn press(state: &mut State, keys: &[KeyCode]) -> Then {
        keys.iter().map(|&code| pressed(state, KeyEvent::new(code, KeyModifiers::NONE))).last().unwrap()
    }

    fn letters(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn a_filter_takes_letters_that_are_keys_elsewhere() {
        let mut state = state(false);
        press(&mut state, &letters("/qk?x"));
        assert_eq!((state.filter.as_str(), &state.mode), ("qk?x", &Mode::Filter));
        press(&mut state, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((state.filter.as_str(), &state.mode), ("qk?", &Mode::Browse));
        press(&mut state, &[KeyCode::Esc]);
        assert_eq!(state.filter, "");
    }

    #[test]
    fn a_signal_wants_a_yes() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut state = state(false);
        let mut sample = sample();
        sample.gpus[0].processes = vec![process(child.id(), 9000, "me", "sleep 60")];
        state.take(sample);
        press(&mut state, &[KeyCode::Home, KeyCode::Char('k')]);
        assert!(matches!(&state.mode, Mode::Confirm(target) if target.pid == child.id()), "{:?}", state.mode);
        press(&mut state, &[KeyCode::Enter]);
        assert!(state.message.as_ref().is_some_and(|message| message.ends_with("not sent")));
        assert!(child.try_wait().unwrap().is_none());
        press(&mut state, &letters("Ky"));
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn nothing_in_a_log_is_ended() {
        let mut state = state(true);
        press(&mut state, &letters("k"));
        assert_eq!(state.mode, Mode::Browse);
        assert!(state.message.is_some());
    }

    #[test]
    fn a_pause_stops_the_screen_and_not_the_looks() {
        let mut live = state(false);
        let looks = live.looks;
        assert_eq!(press(&mut live, &letters(" ")), Then::Nothing);
        for _ in 0..3 {
            live.take(sample());
        }
        assert_eq!((live.is_paused, live.looks), (true, looks), "as it was");
        assert_eq!(press(&mut live, &letters(" ")), Then::Nothing);
        assert_eq!((live.is_paused, live.looks), (false, looks + 3), "none is missing in the graph");
        let mut log = state(true);
        assert_eq!(press(&mut log, &letters(" ")), Then::Order(Order::Pause), "a log waits");
        assert_eq!(press(&mut log, &letters(" ")), Then::Order(Order::Resume));
    }

    #[test]
    fn keys_lead_everywhere_and_back() {
        let mut state = state(false);
        for (keys, mode) in [("?", Mode::Help), ("d", Mode::Details)] {
            press(&mut state, &letters(keys));
            assert_eq!(state.mode, mode);
            press(&mut state, &[KeyCode::Esc]);
            assert_eq!(state.mode, Mode::Browse);
        }
        assert_eq!(press(&mut state, &letters("+")), Then::Order(Order::Faster));
        assert_eq!(press(&mut state, &letters("q")), Then::Leave);
    }
}
