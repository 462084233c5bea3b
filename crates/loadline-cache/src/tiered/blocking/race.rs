//! A read of the tier, and loads beside it once the read takes long.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::failure::Failure;
use super::super::fetch::{Fetch, Loading, Question};
use super::super::key::Key;
use super::{BlockingShared, timed};
use crate::LoadError;
use crate::{Begun, Rest};

/// The values of a read, and how long it took.
type Read = (Result<Vec<Option<Vec<u8>>>, Failure>, Duration);
/// The result of a load, or its panic, and how long it took.
type Load<V> = (thread::Result<Result<Option<V>, LoadError>>, Duration);

/// The state that the two threads of a race and the caller share.
struct Race<V> {
    state: Mutex<State<V>>,
    changed: Condvar,
}

struct State<V> {
    read: Option<Read>,
    load: Option<Load<V>>,
    /// Whether the caller needs no more results.
    is_over: bool,
}

/// The result that the caller continues with.
enum First<V> {
    Read(Read),
    Load(Load<V>),
}

impl<V> Race<V> {
    fn new() -> Arc<Self> {
        let state = State {
            read: None,
            load: None,
            is_over: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the read over. Returns it if the caller does not need it any more.
    fn read_ended(&self, read: Read) -> Option<Read> {
        let mut state = self.lock();
        if state.is_over {
            return Some(read);
        }
        state.read = Some(read);
        self.changed.notify_one();
        None
    }

    fn load_ended(&self, load: Load<V>) {
        self.lock().load = Some(load);
        self.changed.notify_one();
    }

    /// Waits for the read, or for a load.
    fn first(&self) -> First<V> {
        let is_undecided = |state: &mut State<V>| state.read.is_none() && state.load.is_none();
        let state = self.changed.wait_while(self.lock(), is_undecided);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        match (state.read.take(), state.load.take()) {
            // A value that was loaded before is not needed any more.
            (Some(read), load) => {
                state.load = load;
                First::Read(read)
            }
            (None, Some(load)) => First::Load(load),
            (None, None) => unreachable!("there is a read or a load"),
        }
    }

    /// Waits for the load.
    fn load(&self) -> Load<V> {
        let is_loading = |state: &mut State<V>| state.load.is_none();
        let state = self.changed.wait_while(self.lock(), is_loading);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.load.take().expect("the load has ended")
    }

    /// Waits for the read.
    fn read(&self) -> Read {
        let is_reading = |state: &mut State<V>| state.read.is_none();
        let state = self.changed.wait_while(self.lock(), is_reading);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.read.take().expect("the read has ended")
    }

    /// Leaves the read to itself. Returns it if it has ended.
    fn leave(&self) -> Option<Read> {
        let mut state = self.lock();
        state.is_over = true;
        state.read.take()
    }
}

impl<K: Key, V: Send + Sync + 'static> BlockingShared<K, V> {
    /// Reads the keys of a question. If the read takes longer than it should, its values are loaded beside it, one after the
    /// other, until the read has ended.
    pub(super) fn ask(self: &Arc<Self>, fetch: &mut Fetch<K, V>, question: Question<'_>) {
        let core = &self.core;
        let (Some(patience), Ok(store)) = (core.patience(&question), self.store()) else {
            let (values, elapsed) = self.read_decoded(&fetch.keys(&question));
            return core.decoded(fetch, question, values, elapsed);
        };
        let begun = Instant::now();
        match store.begin_get(&fetch.keys(&question), patience) {
            Begun::Done(values) => {
                let values = values.map_err(|error| core.failed(error));
                core.answered(fetch, question, values, begun.elapsed());
            }
            Begun::Late(rest) => self.race(fetch, question, rest, begun),
        }
    }

    fn race(
        self: &Arc<Self>,
        fetch: &mut Fetch<K, V>,
        question: Question<'_>,
        rest: Rest,
        begun: Instant,
    ) {
        let core = &self.core;
        let race = self.start_read(fetch, &question, rest, begun);
        let mut failed = Vec::new();
        while let Some(loading) = core.load_beside(fetch, &question) {
            self.start_load(fetch.key(&loading).clone(), &race);
            match race.first() {
                First::Load((Ok(Ok(value)), elapsed)) => {
                    core.loaded_beside(fetch, loading, value, elapsed);
                }
                First::Load(load) => failed.push((loading, load)),
                First::Read((values, elapsed)) => {
                    core.answered(fetch, question, values, elapsed);
                    if !fetch.is_answered(&loading) {
                        failed.push((loading, race.load()));
                    }
                    return self.take_late(fetch, failed);
                }
            }
        }
        let read = match &failed[..] {
            [] => race.leave(),
            _ => Some(race.read()),
        };
        match read {
            None => core.loads_won(),
            Some((values, elapsed)) => {
                core.answered(fetch, question, values, elapsed);
                self.take_late(fetch, failed);
            }
        }
    }

    /// Takes loads whose keys the read may have answered.
    fn take_late(&self, fetch: &mut Fetch<K, V>, loads: Vec<(Loading<'_>, Load<V>)>) {
        for (loading, (result, elapsed)) in loads {
            if !fetch.is_answered(&loading) {
                let result = result.unwrap_or_else(|panic| resume_unwind(panic));
                self.core.loaded_late(fetch, loading, result, elapsed);
            }
        }
    }

    /// Has a thread wait for the end of a read.
    fn start_read(
        self: &Arc<Self>,
        fetch: &mut Fetch<K, V>,
        question: &Question<'_>,
        rest: Rest,
        begun: Instant,
    ) -> Arc<Race<V>> {
        let race = Race::new();
        let keys = fetch.keys(question).len();
        let late = self.core.hedge(fetch, question, begun.elapsed());
        let (shared, end) = (Arc::clone(self), Arc::clone(&race));
        start("cache-read", move || {
            let values = catch_unwind(AssertUnwindSafe(rest));
            let values = values.map_or(Err(Failure::Opaque), |values| {
                values.map_err(|error| shared.core.failed(error))
            });
            if let Some((values, elapsed)) = end.read_ended((values, begun.elapsed())) {
                shared.core.read_late(keys, &values, elapsed);
            }
            drop(late);
        });
        race
    }

    /// Loads a value on a thread of its own.
    fn start_load(self: &Arc<Self>, key: K, race: &Arc<Race<V>>) {
        let (shared, end) = (Arc::clone(self), Arc::clone(race));
        start("cache-load", move || {
            let load = || catch_unwind(AssertUnwindSafe(|| (shared.load)(&key)));
            end.load_ended(timed(load));
        });
    }
}

/// Does `work` on a thread of its own, or here if there can be none.
fn start<W: FnOnce() + Send + 'static>(name: &str, work: W) {
    let work = Arc::new(Mutex::new(Some(work)));
    let other = Arc::clone(&work);
    let perform = |work: &Mutex<Option<W>>| {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            work();
        }
    };
    let thread = thread::Builder::new().name(name.to_owned());
    if thread.spawn(move || perform(&other)).is_err() {
        perform(&work);
    }
}
