//! The tier below memory, without its connection: what is read from it and written to it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::backlog::{Backlog, Write};
use super::breaker::{Breaker, RequestKind};
use super::clock::to_ns;
use super::codec::Codec;
use super::failure::Failure;
use super::flights::Flight;
use super::frame::{self, Format, Refused, Times};
use super::hedge::Hedge;
use super::key::Key;
use super::metrics::{TierMetrics, TierStats};
use super::trace;
use super::worth::Ledger;
use crate::{Error, Found, LeasedWrite};

/// When a value that was loaded or inserted is written to the tier. The documentation of the
/// [crate](crate#several-processes) says for each mode what other processes can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WriteMode {
    /// Before the call returns.
    #[default]
    Through,
    /// In the background, later. What has not been written when the process ends is lost: at most what the backlog
    /// holds ([`Tier::backlog`](super::Tier::backlog)). Invalidations reach other processes late, too, and an inserted value
    /// replaces what [another process](crate#several-processes) has written meanwhile.
    Behind,
    /// Never. Nor are invalidations: they concern memory only.
    ReadOnly,
}

/// The least duration of a lease by default. A lease is left to its expiry where a load has no value to write.
const LEASE: Duration = Duration::from_secs(60);

/// The guess before the first value was seen.
const FIRST_MEAN_BYTES: u64 = 1_024;

/// Decides which values are written to the tier, by the value and the time that its load took.
pub(crate) type Select<K, V> = Box<dyn Fn(&K, &V, Duration) -> bool + Send + Sync>;

/// Whether a tier can keep keys like this one.
pub(crate) type Keeps = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Is told of the errors of a tier.
pub(crate) type OnError = Box<dyn Fn(&Error) + Send + Sync>;

/// A tier of bytes.
pub(crate) struct Lower<K, V> {
    pub(crate) codec: Arc<dyn Codec<V>>,
    pub(crate) format: Format,
    pub(crate) prefix: Vec<u8>,
    pub(crate) keeps: Keeps,
    pub(crate) on_error: Option<OnError>,
    pub(crate) mode: WriteMode,
    pub(crate) select: Option<Select<K, V>>,
    pub(crate) timeout: Duration,
    /// After how long values are loaded beside a read.
    pub(crate) hedge: Option<Arc<Hedge>>,
    /// Whether processes share the tier, so that loads need leases.
    pub(crate) is_shared: bool,
    /// The least duration of a lease, for which other processes do not load. `None`: [`LEASE`].
    pub(crate) lease: Option<Duration>,
    pub(crate) longest_load_ns: AtomicU64,
    /// A write whose notice has not arrived yet, and when it was sent.
    pub(crate) probe: Mutex<Option<(Vec<u8>, Instant)>>,
    /// A number that no other process has.
    pub(crate) nonce: u64,
    pub(crate) batch_bytes: usize,
    pub(crate) breaker: Mutex<Breaker>,
    pub(crate) backlog: Mutex<Backlog>,
    /// The writes from the backlog that are under way.
    pub(crate) draining: Mutex<Option<Arc<Flight<()>>>>,
    pub(crate) metrics: TierMetrics,
    pub(crate) ledger: Ledger,
    /// A running mean of the sizes of values, to split batches by bytes before the values are there.
    pub(crate) mean_bytes: AtomicU64,
}

/// The result of writes: the places of those that have not happened, since their keys have changed in the tier while they
/// were loaded.
pub(crate) type Written = Result<Vec<usize>, Failure>;

/// The places of the writes that have not happened.
pub(crate) fn overtaken(happened: Vec<bool>) -> Vec<usize> {
    let places = happened.into_iter().enumerate();
    let overtaken = places.filter(|(_, happened)| !happened);
    overtaken.map(|(place, _)| place).collect()
}

/// The answer of a tier for a key.
#[derive(Debug)]
pub(crate) enum TierRead<V> {
    Value(Option<V>, Times),
    /// A value past its time to live.
    Expired(Option<V>, Times),
    Nothing(Why),
}

/// The answer of a tier for a key, and the time that decoding it took.
#[derive(Debug)]
pub(crate) struct Decoded<V> {
    pub(crate) found: TierRead<V>,
    pub(crate) took: Duration,
}

impl<V> Decoded<V> {
    /// Nothing.
    pub(crate) fn missing() -> Self {
        Self {
            found: TierRead::Nothing(Why::Missing),
            took: Duration::ZERO,
        }
    }
}

/// The reason why there is no usable value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Missing,
    Damaged,
    OtherVersion,
    Outdated,
}

impl<K, V> Lower<K, V> {
    pub(crate) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn draining(&self) -> MutexGuard<'_, Option<Arc<Flight<()>>>> {
        self.draining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    /// The size of a value, by those seen before.
    pub(crate) fn value_bytes(&self) -> u64 {
        match self.mean_bytes.load(Relaxed) {
            0 => FIRST_MEAN_BYTES,
            mean => mean,
        }
    }

    /// Values of one request, by the sizes of those seen before.
    pub(crate) fn batch_len(&self) -> usize {
        usize::try_from(self.batch_bytes as u64 / self.value_bytes())
            .unwrap_or(usize::MAX)
            .max(1)
    }

    fn saw_bytes(&self, bytes: usize) {
        let mean = match self.mean_bytes.load(Relaxed) {
            0 => bytes as u64,
            mean => (mean * 7 + bytes as u64) / 8,
        };
        self.mean_bytes.store(mean.max(1), Relaxed);
    }

    /// Reads a frame at the time `unix_us`.
    pub(crate) fn read(&self, key: &[u8], bytes: Option<&[u8]>, unix_us: u64) -> TierRead<V> {
        let Some(bytes) = bytes else {
            return TierRead::Nothing(Why::Missing);
        };
        self.saw_bytes(bytes.len());
        self.metrics.read_bytes.add(bytes.len());
        let (value, times) = match frame::decode(&self.format, &*self.codec, key, bytes) {
            Ok(decoded) => decoded,
            Err(Refused::Damaged) => {
                self.metrics.damaged.add(1);
                return TierRead::Nothing(Why::Damaged);
            }
            Err(Refused::OtherVersion) => {
                self.metrics.other_version.add(1);
                return TierRead::Nothing(Why::OtherVersion);
            }
        };
        if !self.backlog().trusts(times.stamp) {
            self.metrics.outdated.add(1);
            return TierRead::Nothing(Why::Outdated);
        }
        if times.fresh_until <= unix_us {
            self.metrics.expired.add(1);
            return TierRead::Expired(value, times);
        }
        TierRead::Value(value, times)
    }

    /// Reads a frame as by [`read`](Self::read), and measures it.
    pub(crate) fn decode(&self, key: &[u8], bytes: Option<&[u8]>, unix_us: u64) -> Decoded<V> {
        if bytes.is_none() {
            return Decoded::missing();
        }
        let begun = Instant::now();
        let found = self.read(key, bytes, unix_us);
        let took = begun.elapsed();
        self.metrics.decodes.record(took);
        Decoded { found, took }
    }

    /// The bytes of a value, and how long the tier keeps them.
    pub(crate) fn frame(&self, key: &[u8], value: Option<&V>, times: Times) -> Option<Arc<[u8]>> {
        let begun = Instant::now();
        match frame::encode(&self.format, &*self.codec, key, value, times) {
            Ok(frame) => {
                let elapsed = begun.elapsed();
                self.metrics.encodes.record(elapsed);
                self.ledger.encoded(elapsed);
                self.saw_bytes(frame.len());
                Some(frame.into())
            }
            Err(_) => {
                self.metrics.not_encoded.add(1);
                None
            }
        }
    }

    /// The duration of a lease: longer than loads have taken so far, since a value is kept only while its lease lasts.
    pub(crate) fn lease_time(&self) -> Duration {
        let longest = Duration::from_nanos(self.longest_load_ns.load(Relaxed));
        self.lease.unwrap_or(LEASE).max(4 * longest)
    }

    /// Notes that a load took this long.
    pub(crate) fn saw_load(&self, elapsed: Duration) {
        self.longest_load_ns.fetch_max(to_ns(elapsed), Relaxed);
    }

    /// Whether the load of a key takes a lease before it begins.
    pub(crate) fn takes_leases(&self) -> bool {
        self.is_shared && self.mode != WriteMode::ReadOnly
    }

    fn probe(&self) -> MutexGuard<'_, Option<(Vec<u8>, Instant)>> {
        self.probe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait for the notice of one of these writes, unless it waits for another one.
    pub(crate) fn await_notice(&self, writes: &[(Vec<u8>, Write)]) {
        let put = |(_, write): &&(Vec<u8>, Write)| matches!(write, Write::Put { .. });
        if self.metrics.is_tracking.load(Relaxed)
            && let Some((key, _)) = writes.iter().find(put)
        {
            let mut probe = self.probe();
            probe.get_or_insert_with(|| (key.clone(), Instant::now()));
        }
    }

    /// Ends the wait for the notice of a key, or of any key. Returns how long it was.
    pub(crate) fn end_wait(&self, key: Option<&[u8]>) -> Option<Duration> {
        let mut probe = self.probe();
        let is_it = |(own, _): &mut (Vec<u8>, Instant)| key.is_none_or(|key| own == key);
        probe.take_if(is_it).map(|(_, since)| since.elapsed())
    }

    /// The outcome that is recorded for a request that failed after `elapsed`.
    pub(crate) fn failure(&self, elapsed: Duration) -> Found {
        if elapsed < self.timeout {
            Found::TierFailed
        } else {
            Found::TierTimedOut
        }
    }

    /// Reports a request that ended after `elapsed`. One that took too long counts as failed: not every store can be
    /// interrupted.
    pub(crate) fn report<T>(
        &self,
        kind: RequestKind,
        result: &Result<T, Failure>,
        elapsed: Duration,
        now: Duration,
    ) {
        let result = match result {
            _ if elapsed > self.timeout => Err(Failure::Unknown),
            Ok(_) => Ok(()),
            Err(failure) => Err(*failure),
        };
        let mut breaker = self.breaker();
        let before = breaker.open();
        breaker.report(kind, result, now);
        let after = breaker.open();
        drop(breaker);
        for ((requests, before), (_, after)) in before.into_iter().zip(after) {
            if before != after {
                trace::breaker(requests, after);
            }
        }
    }

    /// Whether there are writes that the tier does not have yet, and it can be asked at the time `now`.
    pub(crate) fn has_work(&self, now: Duration) -> bool {
        if self.mode == WriteMode::ReadOnly {
            return false;
        }
        let (puts, deletes) = self.backlog().waiting();
        if puts + deletes == 0 {
            return false;
        }
        let breaker = self.breaker();
        let permits = |count, kind| count > 0 && breaker.would_permit(kind, now);
        !breaker.is_down()
            && (permits(puts, RequestKind::Puts) || permits(deletes, RequestKind::Deletes))
    }

    pub(crate) fn stats(&self) -> TierStats {
        let mut stats = self.metrics.stats();
        let breaker = self.breaker();
        (stats.is_open, stats.opened) = (breaker.is_open(), breaker.opened());
        stats.refuses_writes = breaker.refuses_writes();
        drop(breaker);
        let backlog = self.backlog();
        stats.backlog = backlog.len() as u64;
        (stats.lost_puts, stats.lost_deletes) = (backlog.lost_puts, backlog.lost_deletes);
        stats
    }
}

/// The writes of one request to a tier that processes share.
pub(crate) fn to_leased(writes: &[(Vec<u8>, Write)]) -> Vec<LeasedWrite<'_>> {
    let leased = writes.iter().map(|(key, write)| match write {
        Write::Put {
            frame, ttl, token, ..
        } => LeasedWrite::Put {
            key,
            value: frame,
            ttl: *ttl,
            token: token.as_deref(),
        },
        Write::Delete => LeasedWrite::Delete { key },
    });
    leased.collect()
}

/// The writes of one request.
pub(crate) fn to_batch(writes: &[(Vec<u8>, Write)]) -> crate::Batch {
    let mut batch = crate::Batch::new();
    for (key, write) in writes {
        match write {
            Write::Put {
                frame,
                ttl: Some(ttl),
                ..
            } => batch.put_for(key, frame, *ttl),
            Write::Put { frame, .. } => batch.put(key, frame),
            Write::Delete => batch.delete(key),
        };
    }
    batch
}

impl<K: Key, V> Lower<K, V> {
    /// The key with these bytes in the tier, if it can be read back.
    pub(crate) fn key_of(&self, bytes: &[u8]) -> Option<K> {
        let own = bytes.strip_prefix(&self.prefix[..])?;
        K::from_bytes(own)
    }
}
