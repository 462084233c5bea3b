//! One load per key at a time, and one write.
//!
//! A flight is what one caller does about a key while others wait: it loads the value, or it invalidates or inserts it.
//! Threads and tasks wait for the same flight.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "tokio")]
use std::task::Poll;
use std::task::Waker;
use std::time::Duration;

use quick_cache::DefaultHashBuilder;

use crate::LoadError;

/// The end of a flight.
#[derive(Debug)]
pub(crate) enum Outcome<V> {
    Value(Option<Arc<V>>),
    Failed(LoadError),
    /// Its owner panicked, was cancelled, or wrote: look again.
    Again,
}

impl<V> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Value(value) => Self::Value(value.clone()),
            Self::Failed(error) => Self::Failed(error.clone()),
            Self::Again => Self::Again,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The value is read from a lower tier or loaded. A write overtakes it: its value is then not kept.
    Loading,
    Overtaken,
    /// The value is put into the tiers, or a write is under way. Others wait for its end.
    Writing,
}

#[derive(Debug)]
struct State<V> {
    phase: Phase,
    outcome: Option<Outcome<V>>,
    is_closed: bool,
    /// Whether the value may have changed in the tier below since it was read.
    is_doubtful: bool,
    wakers: Vec<Waker>,
}

/// The load or the write of a key by one caller, whose end others wait for.
#[derive(Debug)]
pub(crate) struct Flight<V> {
    state: Mutex<State<V>>,
    changed: Condvar,
}

impl<V> Flight<V> {
    fn new(phase: Phase) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                phase,
                outcome: None,
                is_closed: false,
                is_doubtful: false,
                wakers: Vec::new(),
            }),
            changed: Condvar::new(),
        })
    }

    /// One that others only wait for until it is closed.
    pub(crate) fn of_drain() -> Arc<Self> {
        Self::new(Phase::Writing)
    }

    /// Ends it. Waiting callers look again unless there is an outcome.
    pub(crate) fn close(&self) {
        self.change(|state| {
            state.outcome.get_or_insert(Outcome::Again);
            state.is_closed = true;
        });
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State<V>)) {
        let mut state = self.lock();
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Blocks until there is an outcome.
    pub(crate) fn wait(&self) -> Outcome<V> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The outcome, if there is one.
    #[cfg(test)]
    pub(crate) fn outcome_now(&self) -> Option<Outcome<V>> {
        self.lock().outcome.clone()
    }

    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Blocks until all of it is over.
    pub(crate) fn wait_closed(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks until all of it is over, or for this time.
    pub(crate) fn wait_closed_for(&self, time: Duration) {
        let is_open = |state: &mut State<V>| !state.is_closed;
        let waited = (self.changed).wait_timeout_while(self.lock(), time, is_open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// The same for tasks.
    #[cfg(feature = "tokio")]
    pub(crate) async fn outcome(&self) -> Outcome<V> {
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            match &state.outcome {
                Some(outcome) => Poll::Ready(outcome.clone()),
                None => {
                    remember(&mut state.wakers, context.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The same as [`wait_closed`](Self::wait_closed) for tasks.
    #[cfg(feature = "tokio")]
    pub(crate) async fn closed(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            if state.is_closed {
                return Poll::Ready(());
            }
            remember(&mut state.wakers, context.waker());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(feature = "tokio")]
fn remember(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

/// Hashed with a key of this process, as memory is, and faster than by the standard library.
type Map<K, V> = HashMap<K, Arc<Flight<V>>, DefaultHashBuilder>;
type Table<K, V> = Mutex<Map<K, V>>;

/// The flights of all keys.
#[derive(Debug)]
pub(crate) struct Flights<K, V> {
    table: Arc<Table<K, V>>,
}

/// The right to act on a key, or a flight to wait for.
#[derive(Debug)]
pub(crate) enum Joined<K: Hash + Eq, V> {
    Lead(Lead<K, V>),
    Wait(Arc<Flight<V>>),
}

impl<K: Hash + Eq + Clone, V> Flights<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            table: Arc::default(),
        }
    }

    /// Joins the flight of `key`, or begins one that loads.
    pub(crate) fn join(&self, key: &K) -> Joined<K, V> {
        let mut table = lock(&self.table);
        if let Some(flight) = table.get(key) {
            return Joined::Wait(Arc::clone(flight));
        }
        let flight = Flight::new(Phase::Loading);
        table.insert(key.clone(), Arc::clone(&flight));
        Joined::Lead(self.lead(key, flight))
    }

    /// Begins a write of `key`. It overtakes a load, and waits for another write.
    pub(crate) fn write(&self, key: &K) -> Joined<K, V> {
        let mut table = lock(&self.table);
        if let Some(flight) = table.get(key) {
            let mut state = flight.lock();
            match state.phase {
                Phase::Loading => state.phase = Phase::Overtaken,
                Phase::Overtaken => {}
                Phase::Writing => return Joined::Wait(Arc::clone(flight)),
            }
        }
        let flight = Flight::new(Phase::Writing);
        table.insert(key.clone(), Arc::clone(&flight));
        Joined::Lead(self.lead(key, flight))
    }

    /// Does `work` with `what`, the write of a key, at once. It overtakes a load, and none begins meanwhile. Returns `what`
    /// if another write is under way.
    pub(crate) fn write_at_once<W, R>(
        &self,
        key: &K,
        what: W,
        work: impl FnOnce(W) -> R,
    ) -> Result<R, W> {
        let mut table = lock(&self.table);
        if let Some(flight) = table.get(key) {
            let mut state = flight.lock();
            if state.phase == Phase::Writing {
                return Err(what);
            }
            state.phase = Phase::Overtaken;
            drop(state);
            // Those who come from here on do not wait for the older value.
            table.remove(key);
        }
        Ok(work(what))
    }

    /// The value of a key has changed elsewhere: one that is being put into memory does not stay there.
    pub(crate) fn doubt(&self, key: &K) {
        if let Some(flight) = lock(&self.table).get(key) {
            flight.lock().is_doubtful = true;
        }
    }

    /// The same for all keys.
    pub(crate) fn doubt_all(&self) {
        for flight in lock(&self.table).values() {
            flight.lock().is_doubtful = true;
        }
    }

    fn lead(&self, key: &K, flight: Arc<Flight<V>>) -> Lead<K, V> {
        Lead {
            table: Arc::clone(&self.table),
            key: key.clone(),
            flight,
        }
    }
}

fn lock<K, V>(table: &Table<K, V>) -> MutexGuard<'_, Map<K, V>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to act on a key. Dropped, it ends the flight; waiting callers look again unless there is an outcome.
#[derive(Debug)]
pub(crate) struct Lead<K: Hash + Eq, V> {
    table: Arc<Table<K, V>>,
    key: K,
    flight: Arc<Flight<V>>,
}

impl<K: Hash + Eq, V> Lead<K, V> {
    pub(crate) fn key(&self) -> &K {
        &self.key
    }

    /// Begins to put the loaded value into the tiers. Returns `false` if a write has overtaken the load.
    pub(crate) fn begin_writing(&self) -> bool {
        let mut state = self.flight.lock();
        if state.phase == Phase::Loading {
            state.phase = Phase::Writing;
        }
        state.phase == Phase::Writing
    }

    /// Whether the value may have changed elsewhere since the flight began.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.flight.lock().is_doubtful
    }

    /// Gives the outcome to those who wait for it.
    pub(crate) fn answer(&self, outcome: Outcome<V>) {
        self.flight.change(|state| state.outcome = Some(outcome));
    }
}

impl<K: Hash + Eq, V> Drop for Lead<K, V> {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        // A write that has overtaken this one has the place in the table.
        let is_own = |flight: &Arc<Flight<V>>| Arc::ptr_eq(flight, &self.flight);
        if table.get(&self.key).is_some_and(is_own) {
            table.remove(&self.key);
        }
        drop(table);
        self.flight.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(joined: Joined<u8, u8>) -> Lead<u8, u8> {
        match joined {
            Joined::Lead(lead) => lead,
            Joined::Wait(_) => panic!("a flight is under way"),
        }
    }

    fn flight(joined: Joined<u8, u8>) -> Arc<Flight<u8>> {
        match joined {
            Joined::Lead(_) => panic!("no flight is under way"),
            Joined::Wait(flight) => flight,
        }
    }

    #[test]
    fn dropped_lead_releases_those_who_wait() {
        let flights = Flights::new();
        let first = lead(flights.join(&1));
        let waiting = flight(flights.join(&1));
        drop(first);
        assert!(matches!(waiting.wait(), Outcome::Again));
        waiting.wait_closed();
        let second = lead(flights.join(&1));
        let waiting = flight(flights.join(&1));
        second.answer(Outcome::Value(Some(Arc::new(7))));
        assert!(matches!(waiting.wait(), Outcome::Value(Some(value)) if *value == 7));
        drop(second);
        assert!(lock(&flights.table).is_empty());
    }

    #[test]
    fn write_overtakes_a_load_and_waits_for_a_write() {
        let flights = Flights::new();
        let load = lead(flights.join(&1));
        let write = lead(flights.write(&1));
        assert!(!load.begin_writing());
        // The load is over, and the write still has its place.
        drop(load);
        let again = flight(flights.write(&1));
        drop(write);
        again.wait_closed();
        let load = lead(flights.join(&1));
        assert!(load.begin_writing());
        flight(flights.write(&1));
    }
}
