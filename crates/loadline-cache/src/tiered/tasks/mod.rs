//! The cache for tasks, on tokio.

mod link;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::backlog::Write;
use super::core::{Core, Look, NewValue};
use super::explain::Explanation;
use super::failure::Failure;
use super::fetch::{Fetch, Leasing, Loading, Question, Release, Work};
use super::flights::{Flight, Joined};
use super::key::Key;
use super::lower::{Written, overtaken, to_batch, to_leased};
use super::metrics::Stats;
use super::steps::{drain, overwrite, perform, read, write_alone};
use super::trace::{self, Lookup};
use super::tracking::Notices;
use super::warm_up::WarmUp;
use super::worth::Worth;
use crate::{Error, Leased, LeasedWrite, LoadError};

pub(crate) use self::link::AsyncLink;

/// The result of a request to the store, unless its time is over before.
macro_rules! on_store {
    ($shared:expr, $store:ident => $request:expr) => {{
        let (core, link) = (&$shared.core, &$shared.link);
        let link = link.as_ref().ok_or(Failure::NotDone)?;
        let request = async {
            let $store = link.store().await.map_err(|error| {
                core.note(&error);
                Failure::NotDone
            })?;
            let answer: Result<_, Error> = async { $request }.await;
            answer.map_err(|error| core.failed(error))
        };
        let answer = tokio::time::timeout(link.timeout, request).await;
        answer.unwrap_or(Err(Failure::Unknown))
    }};
}
/// Refreshes at a time. More are not begun.
const MOST_REFRESHES: usize = 64;
/// Time that `flush` tries.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) type Loaded<V> = Pin<Box<dyn Future<Output = Result<Option<V>, LoadError>> + Send>>;
type Load<K, V> = Box<dyn Fn(K) -> Loaded<V> + Send + Sync>;

/// The same as [`Cache`](crate::Cache), for tasks.
///
/// A call that is dropped ends the load that it performs; another call that waits for the same key then loads it.
pub struct AsyncCache<K: Key, V> {
    shared: Arc<AsyncShared<K, V>>,
}

impl<K: Key, V> Clone for AsyncCache<K, V> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

struct AsyncShared<K: Key, V> {
    core: Core<K, V>,
    link: Option<AsyncLink>,
    load: Load<K, V>,
    refreshing: AtomicUsize,
    is_draining: AtomicBool,
}

impl<K: Key, V: Send + Sync + 'static> AsyncCache<K, V> {
    pub(crate) fn new(
        core: Core<K, V>,
        link: Option<AsyncLink>,
        notices: Option<Notices>,
        load: Load<K, V>,
    ) -> Self {
        let shared = Arc::new(AsyncShared {
            core,
            link,
            load,
            refreshing: AtomicUsize::new(0),
            is_draining: AtomicBool::new(false),
        });
        if let Some(notices) = notices {
            let shared = Arc::downgrade(&shared);
            tokio::spawn(async move { notices.take_on_task(shared).await });
        }
        Self { shared }
    }

    /// See [`Cache::get`](crate::Cache::get).
    ///
    /// # Errors
    /// [`Error::Load`].
    pub async fn get(&self, key: &K) -> Result<Option<Arc<V>>, Error> {
        match self.shared.core.look(key) {
            Look::Hit(value) => {
                trace::hit();
                return Ok(value);
            }
            Look::Refresh(value) => {
                self.refresh(key);
                return Ok(value);
            }
            Look::Miss(_) => {}
        }
        let mut answers = self.fetch(std::slice::from_ref(key)).await.into_answers();
        answers.swap_remove(0).map_err(Error::Load)
    }

    /// See [`Cache::get_many`](crate::Cache::get_many). Loads run at the same time.
    ///
    /// # Errors
    /// For each key [`Error::Load`].
    pub async fn get_many(&self, keys: &[K]) -> Vec<Result<Option<Arc<V>>, Error>> {
        let answers = self.fetch(keys).await.into_answers().into_iter();
        answers.map(|answer| answer.map_err(Error::Load)).collect()
    }

    /// See [`Cache::explain`](crate::Cache::explain).
    ///
    /// # Errors
    /// [`Error::Load`].
    pub async fn explain(&self, key: &K) -> (Result<Option<Arc<V>>, Error>, Explanation) {
        let mut fetch = self.fetch(std::slice::from_ref(key)).await;
        let steps = fetch.take_steps();
        let answer = fetch.into_answers().swap_remove(0);
        let worth = self.worth();
        (answer.map_err(Error::Load), Explanation { steps, worth })
    }

    /// See [`Cache::insert`](crate::Cache::insert).
    pub async fn insert(&self, key: &K, value: V) {
        self.overwrite(key, Some((Arc::new(value), None))).await;
    }

    /// See [`Cache::insert_for`](crate::Cache::insert_for).
    pub async fn insert_for(&self, key: &K, value: V, ttl: Duration) {
        let value = (Arc::new(value), Some(ttl));
        self.overwrite(key, Some(value)).await;
    }

    /// See [`Cache::invalidate`](crate::Cache::invalidate). Dropped before it has returned, the value can remain in the
    /// tiers.
    pub async fn invalidate(&self, key: &K) {
        self.overwrite(key, None).await;
    }

    /// See [`Cache::warm_up`](crate::Cache::warm_up).
    ///
    /// # Errors
    /// Those of [`Cache::warm_up`](crate::Cache::warm_up).
    pub async fn warm_up(&self, bytes: u64, time: Duration) -> Result<WarmUp, Error> {
        let (shared, until) = (&self.shared, tokio::time::Instant::now() + time);
        let mut warming = shared.core.warm_up(bytes, time)?;
        if let Some(link) = &shared.link
            && let Ok(store) = link
                .store()
                .await
                .inspect_err(|error| shared.core.note(error))
        {
            let (prefix, mut keys) = (warming.prefix().to_vec(), Vec::new());
            let mut is_whole = true;
            let mut visit = |key: &[u8]| {
                let flow = shared.core.sees(&mut warming, &mut keys, key);
                is_whole = flow.is_continue();
                flow
            };
            // The timeout of a request is not that of a walk.
            let walk = store.scan_keys(&prefix, &mut visit);
            let scanned = tokio::time::timeout_at(until + link.timeout, walk).await;
            let scanned = scanned.map(|walk| walk.inspect_err(|error| shared.core.note(error)));
            warming.scanned(keys, matches!(scanned, Ok(Ok(()))) && is_whole);
        }
        while let Some(batch) = shared.core.warm_next(&mut warming) {
            let (values, elapsed) = timed(shared.read(&batch.keys())).await;
            shared.core.warmed(&mut warming, batch, values, elapsed);
        }
        Ok(warming.done())
    }

    /// See [`Cache::flush`](crate::Cache::flush).
    pub async fn flush(&self) -> u64 {
        let until = Instant::now() + FLUSH_TIMEOUT;
        while let Some(other) = self.shared.drain().await {
            let left = until.saturating_duration_since(Instant::now());
            if tokio::time::timeout(left, other.closed()).await.is_err() {
                break;
            }
        }
        self.stats().tier.map_or(0, |tier| tier.backlog)
    }

    /// The costs and savings of the tier below memory, once it was read and a value was loaded.
    #[must_use]
    pub fn worth(&self) -> Option<Worth> {
        self.shared.core.worth()
    }

    /// Counts and times of the cache so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.core.stats()
    }

    async fn fetch(&self, keys: &[K]) -> Fetch<K, V> {
        let lookup = Lookup::begin(keys.len());
        let mut fetch = lookup.within(|| self.shared.core.fetch(keys.iter()));
        lookup.around(self.shared.run(&mut fetch)).await;
        fetch.due().for_each(|key| self.refresh(key));
        self.drain_later();
        fetch
    }

    async fn overwrite(&self, key: &K, value: NewValue<V>) {
        overwrite!(self, key, value, closed, await);
    }

    fn refresh(&self, key: &K) {
        let refreshing = &self.shared.refreshing;
        if refreshing.fetch_add(1, Ordering::Relaxed) >= MOST_REFRESHES {
            refreshing.fetch_sub(1, Ordering::Relaxed);
            self.shared.core.metrics.refreshes_skipped.add(1);
            return;
        }
        let (counted, key) = (Refreshing(Arc::clone(&self.shared)), key.clone());
        tokio::spawn(async move {
            let shared = &counted.0;
            if let Some(mut fetch) = shared.core.refresh(&key) {
                shared.run(&mut fetch).await;
            }
        });
    }

    /// Has the backlog written in the background.
    fn drain_later(&self) {
        let lower = self.shared.core.lower.as_ref();
        if !lower.is_some_and(|lower| lower.has_work(self.shared.core.clock.now()))
            || self.shared.is_draining.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let draining = Draining(Arc::clone(&self.shared));
        tokio::spawn(async move {
            draining.0.drain().await;
        });
    }
}

/// A refresh that is counted until it ends, in whatever way.
struct Refreshing<K: Key, V>(Arc<AsyncShared<K, V>>);

impl<K: Key, V> Drop for Refreshing<K, V> {
    fn drop(&mut self) {
        self.0.refreshing.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The task that writes the backlog, until it ends, in whatever way.
struct Draining<K: Key, V>(Arc<AsyncShared<K, V>>);

impl<K: Key, V> Drop for Draining<K, V> {
    fn drop(&mut self) {
        self.0.is_draining.store(false, Ordering::Release);
    }
}

impl<K: Key, V> AsRef<Core<K, V>> for AsyncShared<K, V> {
    fn as_ref(&self) -> &Core<K, V> {
        &self.core
    }
}

impl<K: Key, V: Send + Sync + 'static> AsyncShared<K, V> {
    /// Performs what a call needs, until all its keys are answered.
    async fn run(self: &Arc<Self>, fetch: &mut Fetch<K, V>) {
        perform!(self, fetch, tokio::time::sleep, outcome, await);
    }

    /// Reads the keys of a question. If the read takes longer than it should, its values are loaded beside it, and for each
    /// key the first result is used.
    async fn ask(self: &Arc<Self>, fetch: &mut Fetch<K, V>, question: Question<'_>) {
        let core = &self.core;
        let Some(patience) = core.patience(&question) else {
            let (values, elapsed) = timed(self.read(&fetch.keys(&question))).await;
            return core.answered(fetch, question, values, elapsed);
        };
        let keys: Vec<Vec<u8>> = fetch.keys(&question).into_iter().map(Into::into).collect();
        let (shared, count) = (Arc::clone(self), keys.len());
        let mut read = Box::pin(async move {
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            timed(shared.read(&keys)).await
        });
        if let Ok((values, elapsed)) = tokio::time::timeout(patience, &mut read).await {
            return core.answered(fetch, question, values, elapsed);
        }
        let late = core.hedge(fetch, &question, patience);
        let mut loads = FuturesUnordered::new();
        while let Some(loading) = core.load_beside(fetch, &question) {
            let load = (self.load)(fetch.key(&loading).clone());
            loads.push(async { (timed(load).await, loading) });
        }
        let mut failed = Vec::new();
        let (values, elapsed) = loop {
            match select(&mut read, loads.next()).await {
                Either::Left((read, _)) => break read,
                Either::Right((Some(((Ok(value), elapsed), loading)), _)) => {
                    core.loaded_beside(fetch, loading, value, elapsed);
                }
                Either::Right((Some((load, loading)), _)) => failed.push((load, loading)),
                Either::Right((None, _)) if failed.is_empty() => {
                    let shared = Arc::clone(self);
                    tokio::spawn(async move {
                        let (values, elapsed) = read.await;
                        shared.core.read_late(count, &values, elapsed);
                        drop(late);
                    });
                    return core.loads_won();
                }
                Either::Right((None, _)) => break read.await,
            }
        };
        core.answered(fetch, question, values, elapsed);
        for ((result, elapsed), loading) in failed {
            core.loaded_late(fetch, loading, result, elapsed);
        }
        // Loads of keys that the read has answered end here.
        while fetch.is_loading()
            && let Some(((result, elapsed), loading)) = loads.next().await
        {
            core.loaded_late(fetch, loading, result, elapsed);
        }
    }

    async fn lease(&self, keys: &[&[u8]], leasing: &Leasing<'_>) -> Result<Vec<Leased>, Failure> {
        on_store!(self, store => store.lease(keys, &leasing.token, leasing.time).await)
    }

    /// Loads values at the same time.
    async fn load_all(&self, fetch: &mut Fetch<K, V>, first: Loading<'_>) {
        let mut loads = FuturesUnordered::new();
        let mut next = Some(first);
        while let Some(loading) = next {
            let load = (self.load)(fetch.key(&loading).clone());
            loads.push(async { (timed(load).await, loading) });
            next = self.core.load(fetch);
        }
        while let Some(((result, elapsed), loading)) = loads.next().await {
            self.core.loaded(fetch, loading, result, elapsed);
        }
    }

    async fn read(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        on_store!(self, store => read!(store, keys, await))
    }

    async fn write(&self, writes: &[(Vec<u8>, Write)]) -> Written {
        match self.core.is_shared() {
            true => self.write_leased(&to_leased(writes)).await,
            false => on_store!(self, store => write_alone!(store, writes, await)),
        }
    }

    async fn write_leased(&self, writes: &[LeasedWrite<'_>]) -> Written {
        on_store!(self, store => Ok(overtaken(store.write_leased(writes).await?)))
    }

    /// Writes the backlog. If another task is doing so, returns its writes.
    async fn drain(&self) -> Option<Arc<Flight<()>>> {
        drain!(self, await)
    }
}

async fn timed<R>(work: impl Future<Output = R>) -> (R, Duration) {
    let start = Instant::now();
    let result = work.await;
    (result, start.elapsed())
}
