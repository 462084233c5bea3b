//! A cache under load: gets of keys by a distribution, answered by memory, by the tier below it, or by recomputing.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use loadline_cache::codec::{Codec, CodecError};
use loadline_cache::{Cache, Error as CacheError, KeyValue, Tier};
use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::outcome::Outcome;
use loadline_load::pacing::{Pacing, Stop};
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::workload::{Chooser, Number, Workload};
use loadline_load::{Control, Error};
use loadline_measure::Histogram;

use super::place::Watched;
use super::pool::Pool;
use super::{Bench, load_block, workload};
use crate::exit::Failure;
use crate::object::{Format, Object};
use crate::plan::{CacheLoad, Case};
use crate::subjects::failure;
use crate::systems::engines::described;

/// A read or write of a tier that takes longer counts as failed.
const TIER_TIMEOUT: Duration = Duration::from_secs(5);

/// The source of the answer to a get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answerer {
    Memory,
    Tier,
    Recompute,
}

impl Answerer {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Tier, Self::Recompute];
}

thread_local! {
    /// The answerer of the get of this thread so far: decoding means that the tier had the object, and loading that it
    /// had not.
    static ANSWERER: Cell<Answerer> = const { Cell::new(Answerer::Memory) };
}

/// Called by the codec when it decodes an object.
fn note_decoded() {
    ANSWERER.set(Answerer::Tier);
}

/// Objects in a cache, with their codec.
pub(super) struct AnyCodec(pub(super) Format);

/// No codec of loadline-cache has it.
const CODEC_ID: u8 = 200;

impl Codec<Object> for AnyCodec {
    fn id(&self) -> u8 {
        CODEC_ID
    }

    fn encode(&self, value: &Object, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(self.0.encode(value, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Object, CodecError> {
        note_decoded();
        Ok(self.0.decode(bytes)?)
    }
}

/// The gets of a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gets {
    /// Times by what answered, in the order of [`Answerer::ALL`].
    pub(crate) times: [Histogram; 3],
    /// Their sums, in nanoseconds.
    pub(crate) sums: [u64; 3],
    /// In an open loop: times from the intended start to the end.
    pub(crate) responses: Option<Histogram>,
}

impl Gets {
    /// Gets that `answerer` answered.
    pub(crate) fn of(&self, answerer: Answerer) -> u64 {
        self.times[answerer as usize].count()
    }

    pub(crate) fn count(&self) -> u64 {
        self.times.iter().map(Histogram::count).sum()
    }

    /// The time of all gets.
    pub(crate) fn time_ns(&self) -> u64 {
        self.sums.iter().sum()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, others) in self.times.iter_mut().zip(&other.times) {
            own.merge(others);
        }
        for (own, others) in self.sums.iter_mut().zip(other.sums) {
            *own += others;
        }
        if let Some(responses) = &other.responses {
            self.responses
                .get_or_insert_with(Histogram::default)
                .merge(responses);
        }
    }

    fn record(&mut self, answerer: Answerer, ns: u64) {
        self.times[answerer as usize].record(ns);
        self.sums[answerer as usize] += ns;
    }
}

/// A cache, its blocks and its restart.
pub(crate) struct CacheSubject {
    callers: Callers<Getter>,
    block: Block,
    watched: Option<Watched>,
    maker: Maker,
    desk: Arc<Mutex<Desk>>,
    blocks: u32,
    /// Blocks before the restart.
    restart_after: u32,
}

/// Data that the caller and the subject pass to each other between blocks.
#[derive(Default)]
struct Desk {
    /// A new cache to use from now on.
    fresh: Option<Cache<u32, Object>>,
    gets: Gets,
}

/// A tier of a cache.
struct CachedTier {
    /// The access of the operations without a cache.
    store: Arc<dyn KeyValue>,
    prefix: String,
    /// The first error, which the cache hides.
    failed: Arc<OnceLock<String>>,
}

/// Makes the cache anew, over the same tier.
struct Maker {
    pool: Arc<Pool>,
    load: CacheLoad,
    format: Format,
    object_bytes: u64,
    encoded_bytes: u64,
    tier: Option<CachedTier>,
    /// Bytes written to the tier, or about to be.
    written: Arc<AtomicU64>,
}

impl Bench {
    /// Opens a cache over the tier with the place `place`, or over none.
    ///
    /// # Errors
    /// That a connection cannot be opened, or what the cache says.
    pub(crate) fn open_cache(
        &self,
        place: Option<usize>,
        load: &CacheLoad,
        format: Format,
        case: &Case,
    ) -> Result<CacheSubject, Failure> {
        let failed = |error: Error| failure(&case.name, &error);
        let compiled = case
            .workload
            .compile(&self.prefix, case.keys, &case.value_size);
        let workload =
            workload(compiled.commands, case, &case.key_dist, self.seed).map_err(failed)?;
        let tier = place.map(|place| {
            Ok::<_, Failure>(CachedTier {
                store: self.places[place].connect()?,
                prefix: format!("{}cache:{place}:", self.prefix),
                failed: Arc::default(),
            })
        });
        let watched = place
            .map(|place| self.places[place].watched())
            .transpose()?;
        let maker = Maker {
            pool: Arc::clone(&self.pool),
            load: load.clone(),
            format,
            object_bytes: self.pool.object(0).bytes(),
            encoded_bytes: self.pool.mean_bytes(format)? as u64,
            tier: tier.transpose()?,
            written: Arc::default(),
        };
        let cache = maker.make().map_err(Failure::unavailable)?;
        let desk = Arc::new(Mutex::new(Desk::default()));
        let getter = Getter {
            cache,
            desk: Arc::clone(&desk),
            keys: vec![0; AHEAD],
            sentence: String::new(),
        };
        Ok(CacheSubject {
            callers: Callers::new(workload, vec![getter], false, self.seed).map_err(failed)?,
            block: Block {
                pacing: case.pacing,
                ..load_block(case, self.seed)
            },
            watched: watched.flatten(),
            maker,
            desk,
            blocks: 0,
            restart_after: load.restart_after(),
        })
    }
}

impl Maker {
    fn make(&self) -> Result<Cache<u32, Object>, String> {
        let pool = Arc::clone(&self.pool);
        let weigher = |_: &u32, object: &Object| object.bytes();
        let builder = Cache::<u32, Object>::builder_weighed(self.load.memory_bytes, weigher);
        let mut builder = builder.expected_entry_bytes(self.object_bytes);
        if let Some(tier) = &self.tier {
            let failed = Arc::clone(&tier.failed);
            let note = move |error: &CacheError| drop(failed.set(described(error)));
            let tier = Tier::store(Arc::clone(&tier.store))
                .exclusive()
                .on_error(note)
                .prefix(tier.prefix.as_bytes())
                .timeout(TIER_TIMEOUT);
            let (written, each) = (Arc::clone(&self.written), self.encoded_bytes);
            let most = self.load.tier_bytes;
            builder = builder
                .tier(tier, AnyCodec(self.format))
                // An object that a load returns is in no tier, so each write adds an object.
                .select(move |_, _, _| written.fetch_add(each, Ordering::Relaxed) + each <= most);
        }
        let cache = builder.build(move |number: &u32| {
            ANSWERER.set(Answerer::Recompute);
            pool.load(*number as usize).map(Some)
        });
        cache.map_err(|error| error.to_string())
    }
}

impl CacheSubject {
    /// Takes the gets of the last block.
    pub(crate) fn take_gets(&mut self) -> Gets {
        std::mem::take(&mut lock(&self.desk).gets)
    }
}

impl Subject for CacheSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        if self.blocks == self.restart_after {
            let fresh = self.maker.make();
            let fresh = fresh.map_err(|why| Error::Subject(why.into()))?;
            lock(&self.desk).fresh = Some(fresh);
        }
        self.blocks += 1;
        let block = Block {
            stop,
            seed,
            ..self.block
        };
        if let Some(watched) = &mut self.watched {
            watched.begin()?;
        }
        let mut outcome = self.callers.run(&block, control)?;
        if let Pacing::Open { .. } = block.pacing {
            lock(&self.desk).gets.responses = Some(outcome.response.clone());
        }
        if let Some(watched) = &mut self.watched {
            outcome.target = watched.end()?;
        }
        // A cache hides that its tier fails, and its figures would not be those of the tier.
        match self.maker.tier.as_ref().and_then(|tier| tier.failed.get()) {
            Some(why) => Err(Error::Subject(why.clone().into())),
            None => Ok(outcome),
        }
    }
}

fn lock(desk: &Mutex<Desk>) -> std::sync::MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One thread that gets.
struct Getter {
    cache: Cache<u32, Object>,
    desk: Arc<Mutex<Desk>>,
    /// The keys of the calls that are ready.
    keys: Vec<u32>,
    /// Message of the last error.
    sentence: String,
}

impl Callee for Getter {
    // Each get is timed by itself: a hit in memory is thousands of times as fast as a miss.
    const ARMS: bool = true;

    fn prepare(&mut self, place: usize, _: usize, chooser: &mut Chooser, workload: &Workload) {
        self.keys[place] = chooser.number(Number::Key, workload.keys()) as u32;
        if place == 0
            && let Some(fresh) = lock(&self.desk).fresh.take()
        {
            self.cache = fresh;
        }
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        ANSWERER.set(Answerer::Memory);
        let begun = Instant::now();
        let found = black_box(self.cache.get(&self.keys[place]));
        let ns = begun.elapsed().as_nanos() as u64;
        match found {
            Ok(_) => {
                lock(&self.desk).gets.record(ANSWERER.get(), ns);
                Reply::Other
            }
            Err(error) => {
                self.sentence = format!("TIER {error}");
                Reply::Error(self.sentence.as_bytes())
            }
        }
    }
}
