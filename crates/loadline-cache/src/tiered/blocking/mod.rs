//! The cache for threads.

mod race;

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::backlog::Write;
use super::core::{Core, Look, NewValue};
use super::explain::Explanation;
use super::failure::Failure;
use super::fetch::{Answered, Fetch, Leasing, Loading, Release, Work};
use super::flights::{Flight, Joined};
use super::key::Key;
use super::lower::{Decoded, Written, overtaken, to_batch, to_leased};
use super::metrics::Stats;
use super::steps::{drain, overwrite, perform, read, write_alone};
use super::trace::{self, Lookup};
use super::tracking::Notices;
use super::warm_up::WarmUp;
use super::worth::Worth;
use crate::blocking::open_place;
use crate::place::Place;
use crate::{Error, KeyValue, Leased, LeasedWrite, LoadError};

/// Refreshes that wait for a thread. More are not begun.
const WAITING_REFRESHES: usize = 1_024;
const REFRESH_THREADS: usize = 2;

type Load<K, V> = Box<dyn Fn(&K) -> Result<Option<V>, LoadError> + Send + Sync>;

/// A cache in tiers, for threads: memory, a store below it, and what the application loads.
///
/// Clones are handles of the same cache. See the [documentation of the crate](crate) for what it guarantees.
pub struct Cache<K: Key, V> {
    shared: Arc<BlockingShared<K, V>>,
    background: Arc<Background<K>>,
}

impl<K: Key, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            background: Arc::clone(&self.background),
        }
    }
}

/// The threads in the background, which end with the last handle of the cache.
struct Background<K> {
    refreshes: Option<SyncSender<K>>,
    drains: Option<SyncSender<()>>,
}

/// The parts that handles and the threads in the background share.
struct BlockingShared<K, V> {
    core: Core<K, V>,
    link: Option<Link>,
    load: Load<K, V>,
}

impl<K: Key, V: Send + Sync + 'static> Cache<K, V> {
    pub(crate) fn new(
        core: Core<K, V>,
        link: Option<Link>,
        notices: Option<Notices>,
        load: Load<K, V>,
    ) -> Self {
        let refreshes = core.refreshes();
        let writes = core.writes_below();
        let shared = Arc::new(BlockingShared { core, link, load });
        if let Some(notices) = notices {
            let shared = Arc::downgrade(&shared);
            spawn("cache-notices", move || notices.take(&shared));
        }
        let background = Background {
            refreshes: refreshes.then(|| BlockingShared::start_refreshing(&shared)),
            drains: writes.then(|| BlockingShared::start_draining(&shared)),
        };
        Self {
            shared,
            background: Arc::new(background),
        }
    }

    /// The value of a key, from the highest tier that has it; `None` if there is no such object.
    ///
    /// # Errors
    /// [`Error::Load`], if the value was in no tier and could not be loaded. Failures of a tier are no error.
    #[inline]
    pub fn get(&self, key: &K) -> Result<Option<Arc<V>>, Error> {
        match self.shared.core.look(key) {
            Look::Hit(value) => {
                trace::hit();
                Ok(value)
            }
            Look::Refresh(value) => {
                self.refresh(key);
                Ok(value)
            }
            Look::Miss(_) => self.get_below(key),
        }
    }

    #[cold]
    fn get_below(&self, key: &K) -> Result<Option<Arc<V>>, Error> {
        let mut answers = self.fetch(std::iter::once(key)).into_answers();
        answers.swap_remove(0).map_err(Error::Load)
    }

    /// The values of keys, in their order. Keys that are not in memory are asked for together.
    ///
    /// # Errors
    /// For each key those of [`get`](Self::get).
    pub fn get_many(&self, keys: &[K]) -> Vec<Result<Option<Arc<V>>, Error>> {
        let answers: Vec<Answered<V>> = self.fetch(keys.iter()).into_answers();
        let answers = answers.into_iter();
        answers.map(|answer| answer.map_err(Error::Load)).collect()
    }

    /// The value of a key as by [`get`](Self::get), and the way to it.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn explain(&self, key: &K) -> (Result<Option<Arc<V>>, Error>, Explanation) {
        let mut fetch = self.fetch(std::iter::once(key));
        let steps = fetch.take_steps();
        let answer = fetch.into_answers().swap_remove(0);
        let worth = self.worth();
        (answer.map_err(Error::Load), Explanation { steps, worth })
    }

    /// Puts a value into the tiers, in the place of an older one. [Other processes](crate#several-processes) see it once it
    /// is written.
    pub fn insert(&self, key: &K, value: V) {
        self.overwrite(key, Some((Arc::new(value), None)));
    }

    /// Puts a value into the tiers for the time `ttl`, less the jitter.
    pub fn insert_for(&self, key: &K, value: V, ttl: Duration) {
        self.overwrite(key, Some((Arc::new(value), Some(ttl))));
    }

    /// Removes a value from the tiers. A call of [`get`](Self::get) that begins after this one has returned sees what the
    /// source has from now on; loads under way are not kept, nor are those of [other processes](crate#several-processes).
    ///
    /// If the tier below cannot be reached, this process does not use its value, and removes it later.
    pub fn invalidate(&self, key: &K) {
        self.overwrite(key, None);
    }

    /// Fills memory with values of the tier, in the order in which it has them, until they weigh `bytes`, memory is full, or
    /// `time` is over. The last request can take up to the timeout of the tier longer. Other callers can use the cache
    /// meanwhile; what they load or write is not replaced.
    ///
    /// # Errors
    /// [`Error::Settings`] if there is no tier, or keys cannot be read back
    /// ([`Key::IS_READABLE`]). A failure of the tier is no error, but
    /// [`WarmUpEnd::TierFailed`](crate::WarmUpEnd::TierFailed).
    pub fn warm_up(&self, bytes: u64, time: Duration) -> Result<WarmUp, Error> {
        let shared = &self.shared;
        let mut warming = shared.core.warm_up(bytes, time)?;
        if let Ok(store) = shared.store() {
            let (prefix, mut keys) = (warming.prefix().to_vec(), Vec::new());
            let mut is_whole = true;
            let scanned = store.scan_keys(&prefix, &mut |key| {
                let flow = shared.core.sees(&mut warming, &mut keys, key);
                is_whole = flow.is_continue();
                flow
            });
            let scanned = scanned.inspect_err(|error| shared.core.note(error));
            warming.scanned(keys, scanned.is_ok() && is_whole);
        }
        while let Some(batch) = shared.core.warm_next(&mut warming) {
            let (values, elapsed) = timed(|| shared.read(&batch.keys()));
            shared.core.warmed(&mut warming, batch, values, elapsed);
        }
        Ok(warming.done())
    }

    /// Writes what waits in the backlog of the tier, and returns how many writes it still does not have.
    pub fn flush(&self) -> u64 {
        let shared = &self.shared;
        let until = Instant::now() + FLUSH_TIMEOUT;
        while let Some(other) = shared.drain() {
            match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => other.wait_closed_for(left),
                _ => break,
            }
        }
        shared.core.stats().tier.map_or(0, |tier| tier.backlog)
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

    fn fetch<'k>(&self, keys: impl Iterator<Item = &'k K>) -> Fetch<K, V> {
        let lookup = Lookup::begin(keys.size_hint().0);
        let mut fetch = lookup.within(|| self.shared.core.fetch(keys));
        lookup.within(|| self.shared.run(&mut fetch));
        fetch.due().for_each(|key| self.refresh(key));
        self.drain_later();
        fetch
    }

    fn overwrite(&self, key: &K, value: NewValue<V>) {
        overwrite!(self, key, value, wait_closed);
    }

    fn refresh(&self, key: &K) {
        let Some(refreshes) = &self.background.refreshes else {
            return;
        };
        if let Err(TrySendError::Full(_)) = refreshes.try_send(key.clone()) {
            self.shared.core.metrics.refreshes_skipped.add(1);
        }
    }

    /// Has the backlog written in the background. If the thread has its signal already, that is enough.
    fn drain_later(&self) {
        let lower = self.shared.core.lower.as_ref();
        if let Some(drains) = &self.background.drains
            && lower.is_some_and(|lower| lower.has_work(self.shared.core.clock.now()))
        {
            let _ = drains.try_send(());
        }
    }
}

/// Time that `flush` tries.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);

impl<K: Key, V> AsRef<Core<K, V>> for BlockingShared<K, V> {
    fn as_ref(&self) -> &Core<K, V> {
        &self.core
    }
}

impl<K: Key, V: Send + Sync + 'static> BlockingShared<K, V> {
    /// Performs what a call needs, until all its keys are answered.
    fn run(self: &Arc<Self>, fetch: &mut Fetch<K, V>) {
        perform!(self, fetch, std::thread::sleep, wait);
    }

    fn load_all(&self, fetch: &mut Fetch<K, V>, first: Loading<'_>) {
        let mut next = Some(first);
        while let Some(loading) = next {
            let (result, elapsed) = timed(|| (self.load)(fetch.key(&loading)));
            self.core.loaded(fetch, loading, result, elapsed);
            next = self.core.load(fetch);
        }
    }
}

impl<K: Key, V> BlockingShared<K, V> {
    fn store(&self) -> Result<&dyn KeyValue, Failure> {
        let link = self.link.as_ref().ok_or(Failure::NotDone)?;
        let store = link.store().unwrap_or_else(|error| {
            self.core.note(&error);
            None
        });
        store.ok_or(Failure::NotDone)
    }

    /// The result of a request to the store.
    fn on_store<T>(
        &self,
        request: impl FnOnce(&dyn KeyValue) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        request(self.store()?).map_err(|error| self.core.failed(error))
    }

    fn lease(&self, keys: &[&[u8]], leasing: &Leasing<'_>) -> Result<Vec<Leased>, Failure> {
        self.on_store(|store| store.lease(keys, &leasing.token, leasing.time))
    }

    /// Copies of the values of keys.
    fn read(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        self.on_store(|store| read!(store, keys))
    }

    /// Reads keys and decodes their values where they were received. Returns the time without decoding as well.
    fn read_decoded(&self, keys: &[&[u8]]) -> (Result<Vec<Decoded<V>>, Failure>, Duration) {
        let (core, mut decoding) = (&self.core, Duration::ZERO);
        let (read, elapsed) = timed(|| {
            let lower = core.lower.as_ref().ok_or(Failure::NotDone)?;
            let (mut decoded, mut left) = (Vec::with_capacity(keys.len()), keys.iter());
            let mut visit = |bytes: Option<&[u8]>| {
                if let Some(key) = left.next() {
                    let value = lower.decode(key, bytes, core.unix_us());
                    decoding += value.took;
                    decoded.push(value);
                }
            };
            self.on_store(|store| store.visit_many(keys, lower.value_bytes(), &mut visit))?;
            Ok(decoded)
        });
        (read, elapsed.saturating_sub(decoding))
    }

    fn write(&self, writes: &[(Vec<u8>, Write)]) -> Written {
        match self.core.is_shared() {
            true => self.write_leased(&to_leased(writes)),
            false => self.on_store(|store| write_alone!(store, writes)),
        }
    }

    fn write_leased(&self, writes: &[LeasedWrite<'_>]) -> Written {
        self.on_store(|store| Ok(overtaken(store.write_leased(writes)?)))
    }

    /// Writes the backlog. If another thread is doing so, returns its writes.
    fn drain(&self) -> Option<Arc<Flight<()>>> {
        drain!(self)
    }
}

impl<K: Key, V: Send + Sync + 'static> BlockingShared<K, V> {
    fn start_draining(shared: &Arc<Self>) -> SyncSender<()> {
        let (sender, signals) = sync_channel(1);
        let shared = Arc::clone(shared);
        spawn("cache-writes", move || {
            while let Ok(()) = signals.recv() {
                shared.drain();
            }
            // The last handle of the cache is gone.
            shared.drain();
        });
        sender
    }

    fn start_refreshing(shared: &Arc<Self>) -> SyncSender<K> {
        let (sender, keys) = sync_channel(WAITING_REFRESHES);
        let keys = Arc::new(Mutex::new(keys));
        for _ in 0..REFRESH_THREADS {
            let (shared, keys) = (Arc::clone(shared), Arc::clone(&keys));
            spawn("cache-refresh", move || {
                while let Some(key) = next(&keys) {
                    shared.refresh(&key);
                }
            });
        }
        sender
    }

    fn refresh(self: &Arc<Self>, key: &K) {
        let refresh = || {
            if let Some(mut fetch) = self.core.refresh(key) {
                self.run(&mut fetch);
            }
        };
        // A load that panics must not end the thread; the value is loaded again once it is asked for.
        let refresh = std::panic::AssertUnwindSafe(refresh);
        let _ = std::panic::catch_unwind(refresh);
    }
}

fn next<K>(keys: &Mutex<Receiver<K>>) -> Option<K> {
    let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
    keys.recv().ok()
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    // Without the thread, refreshes are skipped and the backlog waits for `flush`.
    let _ = thread.spawn(work);
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// The connection to a tier, opened once it can be.
pub(crate) struct Link {
    place: Option<Place>,
    store: OnceLock<Arc<dyn KeyValue>>,
    opening: Mutex<()>,
}

impl Link {
    /// # Errors
    /// [`Error::Url`]; those of a store of this process.
    pub(crate) fn open(url: &str, timeout: Duration) -> Result<Self, Error> {
        let place = Place::parse(url)?.within(timeout)?;
        let link = Self {
            store: OnceLock::new(),
            opening: Mutex::new(()),
            place: Some(place),
        };
        match link.try_open() {
            // It is opened once it can be.
            Ok(()) | Err(Error::Client(_)) => Ok(link),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn of(store: Arc<dyn KeyValue>) -> Self {
        Self {
            place: None,
            store: OnceLock::from(store),
            opening: Mutex::new(()),
        }
    }

    fn try_open(&self) -> Result<(), Error> {
        if let Some(place) = &self.place {
            let store = open_place(place.clone())?;
            let _ = self.store.set(store.into());
        }
        Ok(())
    }

    /// `None` if another caller is opening it.
    fn store(&self) -> Result<Option<&dyn KeyValue>, Error> {
        if let Some(store) = self.store.get() {
            return Ok(Some(&**store));
        }
        // One caller waits for the connection; it counts as a failure for the others.
        let Ok(_opening) = self.opening.try_lock() else {
            return Ok(None);
        };
        self.try_open()?;
        Ok(self.store.get().map(|store| &**store))
    }
}
