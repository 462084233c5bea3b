//! A read of the tier, and a load beside it once the read takes long.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::fetch::{Fetch, Question};
use super::super::key::Key;
use super::{Link, Shared, timed};
use crate::LoadError;
use crate::blocking::{Begun, Rest};

/// The values of a read, or `None` if it failed, and how long it took.
type Read = (Option<Vec<Option<Vec<u8>>>>, Duration);
/// The result of a load, or its panic, and how long it took.
type Load<V> = (thread::Result<Result<Option<V>, LoadError>>, Duration);

/// What the two threads of a race and the caller share.
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

/// What the caller goes on with.
enum First<V> {
    Read(Read),
    /// A load that succeeded. One that failed waits for the read.
    Load(Option<V>, Duration),
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

    fn first(&self) -> First<V> {
        let is_undecided = |state: &mut State<V>| {
            state.read.is_none() && !matches!(state.load, Some((Ok(Ok(_)), _)))
        };
        let state = self.changed.wait_while(self.lock(), is_undecided);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = state.read.take() {
            return First::Read(read);
        }
        state.is_over = true;
        match state.load.take() {
            Some((Ok(Ok(value)), elapsed)) => First::Load(value, elapsed),
            _ => unreachable!("there is a read or a load that succeeded"),
        }
    }

    /// Waits for the load.
    fn load(&self) -> (Result<Option<V>, LoadError>, Duration) {
        let is_loading = |state: &mut State<V>| state.load.is_none();
        let state = self.changed.wait_while(self.lock(), is_loading);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let (result, elapsed) = state.load.take().expect("the load has ended");
        drop(state);
        (result.unwrap_or_else(|panic| resume_unwind(panic)), elapsed)
    }
}

impl<K: Key, V: Send + Sync + 'static> Shared<K, V> {
    /// Reads the keys of a question. If the read of a single key takes longer than it should, its value is loaded beside it,
    /// and the first result is used.
    pub(super) fn ask(self: &Arc<Self>, fetch: &mut Fetch<K, V>, question: Question<'_>) {
        let core = &self.core;
        let store = self.link.as_ref().and_then(Link::store);
        let (Some(patience), Some(store)) = (core.patience(&question), store) else {
            let (values, elapsed) = self.read_decoded(&fetch.keys(&question));
            return core.decoded(fetch, question, values, elapsed);
        };
        let begun = Instant::now();
        match store.begin_get(fetch.keys(&question)[0], patience) {
            Begun::Done(value) => {
                let values = value.ok().map(|value| vec![value]);
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
        let (loading, late) = core.hedge(fetch, &question, begun.elapsed());
        let race = Race::new();
        let (shared, key, end) = (
            Arc::clone(self),
            fetch.key(&loading).clone(),
            Arc::clone(&race),
        );
        let load = move || {
            let load = || catch_unwind(AssertUnwindSafe(|| (shared.load)(&key)));
            end.load_ended(timed(load));
        };
        let (shared, end) = (Arc::clone(self), Arc::clone(&race));
        let read = move || {
            let value = catch_unwind(AssertUnwindSafe(rest))
                .ok()
                .and_then(Result::ok);
            let values = value.map(|value| vec![value]);
            if let Some((values, elapsed)) = end.read_ended((values, begun.elapsed())) {
                shared.core.read_late(values.is_some(), elapsed);
            }
            drop(late);
        };
        start("cache-load", load);
        start("cache-read", read);
        match race.first() {
            First::Load(value, elapsed) => core.load_won(fetch, loading, Ok(value), elapsed),
            First::Read((values, elapsed)) => {
                core.answered(fetch, question, values, elapsed);
                if !fetch.is_answered(&loading) {
                    let (result, elapsed) = race.load();
                    core.loaded(fetch, loading, result, elapsed);
                }
            }
        }
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
