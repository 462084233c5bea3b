//! Arms of a measurement of tiers: what is done with objects in memory, with their codecs, and on each tier, one call at a
//! time in `loadline_load::call`.

mod actions;
mod load;
mod place;
mod pool;
mod probe;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use loadline_cache::Batch;
use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::workload::{Chooser, Number, Workload};
use loadline_load::{Control, Error};

use super::{failure, load_block, workload};
use crate::exit::Failure;
use crate::object::Format;
use crate::plan::{Arm, ArmOp, Case, Flawed, Setup, TierOp};
use crate::systems::engines::{Keys, Names};
use actions::{Action, OnTier, SettingUp, Simple, WithFlaw};
use probe::{Parted, Probe, SharedSums, Site};

pub(crate) use load::{Answerer, CacheSubject, Gets};
pub(crate) use place::OpenPlace;
use place::Watched;
pub(crate) use pool::Pool;
pub(crate) use probe::PartSums;

/// Shared by all arms.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) pool: Arc<Pool>,
    pub(crate) places: Arc<Vec<OpenPlace>>,
    pub(crate) prefix: String,
    pub(crate) seed: u64,
}

/// An arm whose blocks are measured.
pub(crate) struct TierSubject {
    callers: Callers<TierCallee>,
    block: Block,
    watched: Option<Watched>,
    sums: Option<SharedSums>,
    /// The parts of the last block.
    parts: Option<PartSums>,
}

impl Bench {
    /// Brings all objects into the tiers, in every codec that an arm reads.
    ///
    /// # Errors
    /// The error of a codec or a tier.
    pub(crate) fn load(&self, arms: &[Arm]) -> Result<(), Failure> {
        let mut done: Vec<(usize, Format)> = Vec::new();
        for arm in arms {
            let Some(place) = arm.step.place() else {
                continue;
            };
            if let ArmOp::Null(..) = arm.step {
                self.places[place].reply_null(self.pool.mean_bytes(arm.format)?);
            }
            let target = self.places[place].target;
            if done.contains(&(target, arm.format)) {
                continue;
            }
            done.push((target, arm.format));
            let names = self.names(arm.format);
            let encoded = self.pool.encoded(arm.format)?;
            let store = self.places[place].connect()?;
            let mut key = Vec::new();
            for (number, bytes) in encoded.iter().enumerate() {
                key.clear();
                names.append(number as u64, &mut key);
                store
                    .put(&key, bytes)
                    .map_err(|error| self.places[place].broken(&error))?;
            }
        }
        Ok(())
    }

    /// The time of `calls` reads that find nothing, each followed by a write.
    ///
    /// # Errors
    /// The error of a codec or the tier.
    pub(crate) fn write_time(
        &self,
        place: &OpenPlace,
        format: Format,
        calls: u32,
    ) -> Result<Duration, Failure> {
        let encoded = self.pool.encoded(format)?;
        let store = place.connect()?;
        let (names, mut key, mut out) = (self.names(format), Vec::new(), Vec::new());
        let begun = Instant::now();
        for (number, bytes) in encoded.iter().cycle().enumerate().take(calls as usize) {
            key.clear();
            names.append(number as u64, &mut key);
            store
                .get_into(&key, &mut out)
                .and_then(|_| store.put(&key, bytes))
                .map_err(|error| place.broken(&error))?;
        }
        Ok(begun.elapsed())
    }

    fn names(&self, format: Format) -> Names {
        Names::new(&format!("{}{format}:", self.prefix), self.pool.len() as u64)
    }

    /// Opens `arm`, whose case is `case`.
    ///
    /// # Errors
    /// That a connection cannot be opened, or what a codec says.
    pub(crate) fn open(&self, arm: &Arm, case: &Case) -> Result<TierSubject, Failure> {
        let failed = |error: Error| failure(&case.name, &error);
        let compiled = case
            .workload
            .compile(&self.prefix, case.keys, &case.value_size);
        let workload =
            workload(compiled.commands, case, &case.key_dist, self.seed).map_err(failed)?;
        let sums = match arm.step {
            ArmOp::Tier(_, TierOp::GetParts | TierOp::SetParts) | ArmOp::Null(..) => {
                Some(SharedSums::default())
            }
            _ => None,
        };
        let callee = TierCallee {
            action: self.action(arm, sums.as_ref())?,
            size: arm.batch,
            places: vec![Vec::new(); AHEAD],
            reads: reads(arm.step),
            sentence: String::new(),
        };
        let watched = match arm.step {
            ArmOp::Tier(place, _) => self.places[place].watched()?,
            ArmOp::Null(place, _) => Some(self.places[place].null_watched()),
            _ => None,
        };
        Ok(TierSubject {
            callers: Callers::new(workload, vec![callee], false, self.seed).map_err(failed)?,
            block: load_block(case, self.seed),
            watched,
            sums,
            parts: None,
        })
    }

    fn action(&self, arm: &Arm, sums: Option<&SharedSums>) -> Result<Box<dyn Action>, Failure> {
        let (pool, format) = (Arc::clone(&self.pool), arm.format);
        Ok(match arm.step {
            ArmOp::Recompute => Box::new(Simple(move |number| {
                pool.recompute(number)
                    .map(|object| drop(std::hint::black_box(object)))?;
                Ok(true)
            })),
            ArmOp::Hit => {
                let cache = actions::in_memory(&pool).map_err(Failure::unavailable)?;
                Box::new(Simple(move |number| {
                    let found = cache
                        .get(&(number as u32))
                        .map_err(|error| error.to_string())?;
                    Ok(std::hint::black_box(found).is_some())
                }))
            }
            ArmOp::DeepCopy => Box::new(Simple(move |number| {
                drop(std::hint::black_box((**pool.object(number)).clone()));
                Ok(true)
            })),
            ArmOp::Encode => {
                let mut bytes = Vec::new();
                Box::new(Simple(move |number| {
                    bytes.clear();
                    format.encode(pool.object(number), &mut bytes)?;
                    std::hint::black_box(&bytes);
                    Ok(true)
                }))
            }
            ArmOp::Decode => {
                let encoded = pool.encoded(format)?;
                Box::new(Simple(move |number: usize| {
                    drop(std::hint::black_box(format.decode(&encoded[number])?));
                    Ok(true)
                }))
            }
            ArmOp::Tier(place, op @ (TierOp::GetParts | TierOp::SetParts)) => {
                let place = &self.places[place];
                let site = match place.endpoint() {
                    Some(endpoint) => Site::Server(Probe::open(&endpoint)?),
                    None => Site::Engine(place.connect()?),
                };
                Box::new(self.parted(site, arm, op, true, sums))
            }
            ArmOp::Null(place, op) => {
                let site = Site::Server(Probe::open(&self.places[place].null_endpoint())?);
                Box::new(self.parted(site, arm, op, false, sums))
            }
            ArmOp::Tier(place, TierOp::Cached) => self.cached(place, format)?,
            ArmOp::Tier(place, op) => self.on_tier(place, arm, op)?,
            ArmOp::Setup(place, setup) => self.setting_up(place, setup)?,
            ArmOp::Flawed(place, flawed) => self.with_flaw(place, arm, flawed)?,
        })
    }

    fn parted(
        &self,
        site: Site,
        arm: &Arm,
        op: TierOp,
        decodes: bool,
        sums: Option<&SharedSums>,
    ) -> Parted {
        Parted {
            site,
            pool: Arc::clone(&self.pool),
            names: self.names(arm.format),
            format: arm.format,
            writes: op == TierOp::SetParts,
            decodes,
            key: Vec::new(),
            value: Vec::new(),
            sums: sums.map(Arc::clone).unwrap_or_default(),
        }
    }

    fn cached(&self, place: usize, format: Format) -> Result<Box<dyn Action>, Failure> {
        let place = &self.places[place];
        let url = place.url.as_deref().unwrap_or_default();
        let cache = actions::over_server(&self.pool, url, &self.prefix, format);
        let cache = cache.map_err(|why| Failure::unavailable(format!("{}: {why}.", place.name)))?;
        Ok(Box::new(Simple(move |number| {
            let found = cache
                .get(&(number as u32))
                .map_err(|error| error.to_string())?;
            Ok(std::hint::black_box(found).is_some())
        })))
    }

    fn on_tier(&self, place: usize, arm: &Arm, op: TierOp) -> Result<Box<dyn Action>, Failure> {
        let names = match op {
            TierOp::Miss => Names::new(&format!("{}absent:", self.prefix), self.pool.len() as u64),
            _ => self.names(arm.format),
        };
        let encoded = self.pool.encoded(arm.format)?;
        Ok(Box::new(OnTier {
            store: self.places[place].connect()?,
            pool: Arc::clone(&self.pool),
            names,
            format: arm.format,
            op,
            lengths: Arc::new(encoded.iter().map(Vec::len).collect()),
            keys: Keys::default(),
            batch: Batch::new(),
            out: Vec::new(),
        }))
    }

    fn setting_up(&self, place: usize, setup: Setup) -> Result<Box<dyn Action>, Failure> {
        Ok(Box::new(SettingUp {
            client: self.places[place].client()?,
            setup,
            runtime: actions::runtime().map_err(Failure::unavailable)?,
        }))
    }

    fn with_flaw(
        &self,
        place: usize,
        arm: &Arm,
        flawed: Flawed,
    ) -> Result<Box<dyn Action>, Failure> {
        Ok(Box::new(WithFlaw {
            flawed,
            client: self.places[place].client()?,
            store: self.places[place].connect()?,
            cache: actions::in_memory(&self.pool).map_err(Failure::unavailable)?,
            pool: Arc::clone(&self.pool),
            names: self.names(arm.format),
            format: arm.format,
            key: Vec::new(),
            value: Vec::new(),
        }))
    }
}

/// Whether a step reads what is there, so that nothing found is a failure.
fn reads(step: ArmOp) -> bool {
    match step {
        ArmOp::Tier(_, op) => op.reads(),
        ArmOp::Hit => true,
        ArmOp::Flawed(_, flawed) => flawed != Flawed::RuntimeMiss,
        _ => false,
    }
}

impl TierSubject {
    /// Takes the parts of the last block, if the arm is measured in parts.
    pub(crate) fn take_parts(&mut self) -> Option<PartSums> {
        self.parts.take()
    }
}

impl Subject for TierSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let block = Block {
            stop,
            seed,
            ..self.block
        };
        if let Some(watched) = &mut self.watched {
            watched.begin()?;
        }
        let mut outcome = self.callers.run(&block, control)?;
        if outcome.ops == 0 && stop.ops != Some(0) && !control.interrupted() {
            // The time was over before there was one call; without any there would be no figure.
            let one = Block {
                stop: Stop::after_ops(1),
                ..block
            };
            outcome = self.callers.run(&one, control)?;
        }
        if let Some(watched) = &mut self.watched {
            outcome.target = watched.end()?;
        }
        if let Some(sums) = &self.sums {
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            self.parts = Some(std::mem::take(&mut *sums));
        }
        Ok(outcome)
    }
}

/// One thread with one arm.
struct TierCallee {
    action: Box<dyn Action>,
    size: u32,
    /// The objects of the calls that are ready.
    places: Vec<Vec<usize>>,
    /// Whether nothing found is a failure.
    reads: bool,
    /// Message of the last error.
    sentence: String,
}

impl Callee for TierCallee {
    fn ops_per_call(&self) -> u64 {
        u64::from(self.size)
    }

    fn prepare(&mut self, place: usize, _: usize, chooser: &mut Chooser, workload: &Workload) {
        let objects = &mut self.places[place];
        objects.clear();
        let number = |_| chooser.number(Number::Key, workload.keys()) as usize;
        objects.extend((0..self.size).map(number));
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        let error = match self.action.call(&self.places[place]) {
            Ok(found) if found || !self.reads => return Reply::Other,
            Ok(_) => "an object is missing".to_owned(),
            Err(why) => why,
        };
        self.sentence = format!("TIER {error}");
        Reply::Error(self.sentence.as_bytes())
    }
}
