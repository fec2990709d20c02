//! The connections that are open, and which of them goes when there are too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All that are open.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    state: Arc<Mutex<State>>,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// By number; each in the order of `turn`.
    open: BTreeMap<u64, Connection>,
    /// Counts what happens: a later event has a larger number.
    turn: u64,
}

#[derive(Debug)]
struct Connection {
    /// Requests that are being answered.
    answering: usize,
    /// When it was opened, or last had an answer.
    since: u64,
    task: Option<AbortHandle>,
}

impl Connections {
    /// Room for so many.
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Arc::default(), most: most.max(1) }
    }

    /// Takes one in; where there is no room for it, the one goes that has asked for nothing for longest.
    pub(crate) fn open(&self) -> Place {
        let mut state = self.lock();
        while state.open.len() >= self.most && state.close_one() {}
        state.turn += 1;
        let number = state.turn;
        state.open.insert(number, Connection { answering: 0, since: number, task: None });
        Place { connections: self.clone(), number }
    }

    /// Closes the one that has asked for nothing for longest; false where there is none.
    pub(crate) fn close_one(&self) -> bool {
        self.lock().close_one()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done while it is locked can fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn close_one(&mut self) -> bool {
        // One that is being answered goes only if all are.
        let longest = self.open.iter().min_by_key(|(_, one)| (one.answering > 0, one.since));
        let Some(number) = longest.map(|(&number, _)| number) else { return false };
        let task = self.open.remove(&number).and_then(|one| one.task);
        if let Some(task) = task {
            task.abort();
        }
        true
    }
}

/// A connection's place among those that are open, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Connections,
    number: u64,
}

impl Place {
    /// What ends the connection when its place is needed.
    pub(crate) fn ends_by(&self, task: AbortHandle) {
        match self.connections.lock().open.get_mut(&self.number) {
            Some(one) => one.task = Some(task),
            None => task.abort(),
        }
    }

    /// A request is being answered until what is given back is dropped.
    pub(crate) fn answering(&self) -> Answering {
        if let Some(one) = self.connections.lock().open.get_mut(&self.number) {
            one.answering += 1;
        }
        Answering { connections: self.connections.clone(), number: self.number }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Answering {
    connections: Connections,
    number: u64,
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.connections.lock();
        state.turn += 1;
        let turn = state.turn;
        if let Some(one) = state.open.get_mut(&self.number) {
            one.answering -= 1;
            one.since = turn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(connections: &Connections) -> Vec<u64> {
        connections.lock().open.keys().copied().collect()
    }

    #[test]
    fn the_one_that_asked_for_nothing_for_longest_goes() {
        let connections = Connections::new(3);
        let places = [connections.open(), connections.open(), connections.open()];
        // The first has had an answer since, and the second is being answered.
        drop(places[0].answering());
        let _answering = places[1].answering();
        let fourth = connections.open();
        assert_eq!(numbers(&connections), [places[0].number, places[1].number, fourth.number]);
        let fifth = connections.open();
        assert_eq!(numbers(&connections), [places[1].number, fourth.number, fifth.number]);
        drop(fourth);
        assert_eq!(numbers(&connections), [places[1].number, fifth.number]);
    }

    #[test]
    fn where_all_are_being_answered_the_oldest_goes() {
        let connections = Connections::new(2);
        let places = [connections.open(), connections.open()];
        let _answering = places.each_ref().map(Place::answering);
        let third = connections.open();
        assert_eq!(numbers(&connections), [places[1].number, third.number]);
        assert!(connections.close_one() && connections.close_one());
        assert!(!connections.close_one());
    }
}
