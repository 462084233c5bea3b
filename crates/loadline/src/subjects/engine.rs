//! Engines in this process, and servers through blocking connections, all called in the same loop: one call at a
//! time on each thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loadline_cache::{Batch, Error as StoreError, KeyValue, connect};
use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::workload::{Chooser, Number, Workload};
use loadline_load::{Control, Error};

use super::{load_block, workload};
use crate::plan::Case;
use crate::spelling::Target;
use crate::systems::client::Connector;
use crate::systems::engines::{EngineAccess, Keys, Names, described, scan};
use crate::systems::threads::Threads;
use crate::systems::{Access, Opened};

/// Keys written per call while they are loaded.
const LOAD_BATCH: u64 = 1_000;
/// Largest number of passes per block: an engine that removes all of its keys this often is measured precisely
/// enough.
const MOST_PASSES: u32 = 1_000;

/// The operation of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Put,
    Delete,
    /// Reads the pairs from a key on.
    Scan,
}

/// One case on an engine.
pub(super) struct EngineSubject {
    callers: Callers<EngineCallee>,
    block: Block,
    threads: Threads,
    /// Restores removed keys, if the case removes any.
    refill: Option<Refill>,
}

/// Writes the keys that a block has removed again.
struct Refill {
    store: Arc<dyn KeyValue>,
    /// Time to live of written keys; `None` for no limit.
    ttl: Option<Duration>,
    names: Names,
    workload: Workload,
    /// Number of keys taken for removal so far, which is the position of the next one.
    taken: Arc<AtomicU64>,
    /// Number of those that were restored.
    restored: u64,
    /// The largest number of keys that a pass takes: all, or what their last full calls on all threads leave.
    most: u64,
}

impl EngineSubject {
    /// Creates callers of `target` that perform the operations of `case`.
    ///
    /// # Errors
    /// If the workload is invalid or the engine refuses access.
    pub(super) fn open(
        target: &Opened,
        case: &Case,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, Error> {
        let ttl = match &target.target {
            Target::Engine(engine) => engine.ttl(),
            _ => None,
        };
        let (callers, refill) = callers(case, prefix, seed, ttl, &|| store(target))?;
        Ok(Self {
            callers,
            block: Block {
                pacing: case.pacing,
                ..load_block(case, seed)
            },
            threads: target.own_threads(),
            refill,
        })
    }

    /// Runs blocks until `stop`. Each removes every key at most once; removed keys are restored in between.
    fn passes(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let Some(refill) = &mut self.refill else {
            let block = Block {
                stop,
                seed,
                ..self.block
            };
            return self.callers.run(&block, control);
        };
        let mut all: Option<Outcome> = None;
        for _ in 0..MOST_PASSES {
            let so_far = all.as_ref();
            let left = Stop {
                ops: stop
                    .ops
                    .map(|ops| ops.saturating_sub(so_far.map_or(0, |all| all.ops))),
                duration: stop.duration.map(|time| {
                    time.saturating_sub(so_far.map_or(Duration::ZERO, |all| all.duration))
                }),
            };
            if left.ops == Some(0) || left.duration == Some(Duration::ZERO) {
                break;
            }
            let stop = Stop {
                ops: Some(left.ops.map_or(refill.most, |ops| ops.min(refill.most))),
                ..left
            };
            let block = Block {
                stop,
                seed,
                ..self.block
            };
            let outcome = self.callers.run(&block, control)?;
            refill.restore()?;
            let is_last = outcome.cut_short || outcome.ops == 0 || outcome.errors.total() > 0;
            match &mut all {
                Some(all) => all.follow(&outcome),
                None => all = Some(outcome),
            }
            if is_last {
                break;
            }
        }
        Ok(all.unwrap_or_else(Outcome::empty))
    }
}

/// Creates a caller for each thread of `case`, which calls what `connect` returns for it; and restores keys that they
/// remove, if they remove any. Written keys live for `ttl`.
fn callers(
    case: &Case,
    prefix: &str,
    seed: u64,
    ttl: Option<Duration>,
    connect: &dyn Fn() -> Result<Arc<dyn KeyValue>, Error>,
) -> Result<(Callers<EngineCallee>, Option<Refill>), Error> {
    let names = Names::new(prefix, case.keys);
    let verbs: Vec<Verb> = case
        .workload
        .operations
        .iter()
        .map(|op| verb(op.name()))
        .collect();
    let all_of = || {
        let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
        workload(compiled.commands, case, &case.key_dist, seed)
    };
    let taken = Arc::new(AtomicU64::new(0));
    let size = case.batch.unwrap_or(1);
    let callees = (0..case.threads)
        .map(|thread| {
            Ok(EngineCallee {
                store: connect()?,
                ttl,
                verbs: verbs.clone(),
                names: names.clone(),
                size,
                places: vec![PreparedCommand::default(); AHEAD],
                out: Vec::new(),
                sentence: String::new(),
                taken: Arc::clone(&taken),
                version: (!case.verify).then_some(u64::from(thread) << 32),
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let refill = verbs.contains(&Verb::Delete).then(|| {
        Ok::<_, Error>(Refill {
            store: connect()?,
            ttl,
            most: case.keys - case.keys % (u64::from(case.threads) * u64::from(size)),
            names,
            workload: all_of()?,
            taken,
            restored: 0,
        })
    });
    let callers = Callers::new(all_of()?, callees, case.verify, seed)?;
    Ok((callers, refill.transpose()?))
}

impl Subject for EngineSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let before = self.threads.cpu();
        let mut outcome = self.passes(stop, seed, control)?;
        outcome.target.cpu = self.threads.cpu_since(&before);
        Ok(outcome)
    }
}

impl Refill {
    fn restore(&mut self) -> Result<(), Error> {
        let taken = self.taken.load(Ordering::Relaxed);
        let mut batch = Batch::new();
        for place in self.restored..taken {
            let number = self.names.scattered(place);
            let values = self.workload.values();
            self.names.put(number, values, self.ttl, &mut batch);
            if batch.len() as u64 == LOAD_BATCH || place + 1 == taken {
                self.store.apply(&batch).map_err(|error| broken(&error))?;
                batch.clear();
            }
        }
        self.restored = taken;
        Ok(())
    }
}

/// Loads every key of the case, in the order of their names.
///
/// # Errors
/// If the workload is invalid, and the errors of the engine.
pub(super) fn load(
    engine: &EngineAccess,
    case: &Case,
    prefix: &str,
    seed: u64,
    control: &Control,
) -> Result<(), Error> {
    let names = Names::new(prefix, case.keys);
    let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
    let workload = workload(compiled.commands, case, &case.key_dist, seed)?;
    let store = engine.connect().map_err(|error| broken(&error))?;
    let mut batch = Batch::new();
    for number in 0..case.keys {
        names.put(number, workload.values(), None, &mut batch);
        if batch.len() as u64 == LOAD_BATCH || number + 1 == case.keys {
            store.apply(&batch).map_err(|error| broken(&error))?;
            batch.clear();
            if control.interrupted() {
                break;
            }
        }
    }
    Ok(())
}

/// Opens access to the engine behind `target` for one thread.
fn store(target: &Opened) -> Result<Arc<dyn KeyValue>, Error> {
    let opened = match &target.access {
        Access::Engine(engine) => engine.connect(),
        _ => match target.connector(None) {
            Ok(Connector::Server(client)) => connect(client).map(Into::into),
            Ok(Connector::Cluster(_)) => {
                return Err(Error::Plan("a cluster is not an engine".into()));
            }
            Err(failure) => return Err(Error::Subject(failure.to_string().into())),
        },
    };
    opened.map_err(|error| broken(&error))
}

pub(super) fn broken(error: &StoreError) -> Error {
    Error::Subject(described(error).into())
}

fn verb(command: &str) -> Verb {
    match command {
        "GET" => Verb::Get,
        "DEL" => Verb::Delete,
        "GETRANGE" => Verb::Scan,
        _ => Verb::Put,
    }
}

/// One thread's access to the engine.
struct EngineCallee {
    store: Arc<dyn KeyValue>,
    /// Time to live of written keys; `None` for no limit.
    ttl: Option<Duration>,
    /// Indexed by the number of the command.
    verbs: Vec<Verb>,
    names: Names,
    /// Keys per call.
    size: u32,
    places: Vec<PreparedCommand>,
    /// Buffer for values that are read, which an application would copy too.
    out: Vec<u8>,
    /// Text of the last error.
    sentence: String,
    /// The position of the next key to remove, which all threads share. Keys that were taken by a call that was not
    /// performed are written again with the removed ones.
    taken: Arc<AtomicU64>,
    /// The number of the last value, which makes it differ from the one that it replaces: SQLite leaves out a write that
    /// changes nothing, with its sync. Absent where values are verified.
    version: Option<u64>,
}

/// A prepared call.
#[derive(Debug, Clone, Default)]
struct PreparedCommand {
    command: usize,
    keys: Keys,
    /// The writes of a call that writes.
    writes: Batch,
}

impl Callee for EngineCallee {
    fn ops_per_call(&self) -> u64 {
        u64::from(self.size)
    }

    fn prepare(
        &mut self,
        place: usize,
        command: usize,
        chooser: &mut Chooser,
        workload: &Workload,
    ) {
        let verb = self.verbs[command];
        let ready = &mut self.places[place];
        ready.command = command;
        ready.keys.clear();
        ready.writes.clear();
        let keys = if verb == Verb::Scan { 1 } else { self.size };
        for place in 0..keys {
            let number = if verb == Verb::Delete {
                self.names
                    .scattered(self.taken.fetch_add(1, Ordering::Relaxed))
            } else {
                chooser.number(Number::Key, workload.keys())
            };
            let append = |out: &mut Vec<u8>| self.names.append(number, out);
            match verb {
                Verb::Get | Verb::Scan => ready.keys.push(append),
                Verb::Put => {
                    let version = self.version.as_mut().map(|version| {
                        *version += 1;
                        *version
                    });
                    ready.writes.put_with(self.ttl, append, |out| {
                        let begin = out.len();
                        workload.values().append(number, out);
                        mark(&mut out[begin..], version);
                    });
                }
                Verb::Delete => {
                    ready.keys.push(append);
                    ready.writes.delete(ready.keys.key(place as usize));
                }
            }
        }
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        let ready = &mut self.places[place];
        let verb = self.verbs[ready.command];
        let store = &*self.store;
        self.out.clear();
        let found = match (verb, self.size) {
            (Verb::Get, 1) => store.get_into(ready.keys.key(0), &mut self.out),
            (Verb::Get, _) => {
                let found = ready.keys.read(store, &mut self.out);
                found.map(|found| found == ready.keys.len())
            }
            (Verb::Scan, size) => {
                let count = u64::from(size).min(self.names.keys()) as usize;
                let found = scan(store, ready.keys.key(0), count, &mut self.out);
                found.map(|found| found == count)
            }
            (Verb::Put, 1) => put(store, &ready.writes, self.ttl).map(|()| true),
            (Verb::Delete, 1) => store.remove(ready.keys.key(0)).map(|()| true),
            (Verb::Put | Verb::Delete, _) => store.apply(&ready.writes).map(|()| true),
        };
        match found {
            Ok(true) if verb == Verb::Get && self.size == 1 => Reply::Payload(&self.out),
            Ok(true) => Reply::Other,
            Ok(false) => Reply::Nil,
            Err(error) => {
                self.sentence = format!("ENGINE {}", described(&error));
                Reply::Error(self.sentence.as_bytes())
            }
        }
    }
}

/// Performs the only write of `writes`, outside of a batch.
fn put(store: &dyn KeyValue, writes: &Batch, ttl: Option<Duration>) -> Result<(), StoreError> {
    let Some((key, Some(value))) = writes.iter().next() else {
        return Ok(());
    };
    match ttl {
        None => store.put(key, value),
        Some(ttl) => store.put_for(key, value, ttl),
    }
}

/// Writes `version` over the end of a value, as far as it fits.
fn mark(value: &mut [u8], version: Option<u64>) {
    let Some(version) = version else { return };
    let mark = version.to_le_bytes();
    let bytes = mark.len().min(value.len());
    let end = value.len() - bytes;
    value[end..].copy_from_slice(&mark[..bytes]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Mutex, MutexGuard};
    use std::thread::ThreadId;

    use clap::Parser;
    use loadline_load::keys::KeyDist;
    use loadline_load::values::{ValueData, ValueSize, Values};
    use loadline_load::workload::{Command, KeySpace};
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;
    use crate::args::{Cli, Command as Arguments};
    use crate::plan::{Surroundings, resolve_engines};
    use crate::spelling::{Choice, Durability, Engine, Kind};

    fn put_of(bytes: u64) -> Workload {
        let put = Command {
            name: "SET".into(),
            weight: 1,
            parts: vec![],
            replies: 1,
            reads: false,
            returns_payload: false,
        };
        let keys = KeySpace::new(&KeyDist::Uniform, 1, 0).unwrap();
        let values = Values::new(ValueSize::Fixed(bytes), ValueData::Random, 1).unwrap();
        Workload::new(vec![put], keys, values).unwrap()
    }

    /// The threads that called an engine, and the keys that they removed.
    #[derive(Default)]
    struct Seen {
        threads: HashSet<ThreadId>,
        removed: Vec<Vec<u8>>,
    }

    /// An engine that notes its callers.
    struct Watched(Arc<dyn KeyValue>, Mutex<Seen>);

    impl Watched {
        fn seen(&self) -> MutexGuard<'_, Seen> {
            let mut seen = self.1.lock().unwrap();
            seen.threads.insert(std::thread::current().id());
            seen
        }
    }

    impl KeyValue for Watched {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            drop(self.seen());
            self.0.get(key)
        }
        fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
            self.0.get_many(keys)
        }
        fn visit_many(
            &self,
            keys: &[&[u8]],
            bytes: u64,
            visit: &mut dyn FnMut(Option<&[u8]>),
        ) -> Result<(), StoreError> {
            drop(self.seen());
            self.0.visit_many(keys, bytes, visit)
        }
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
            drop(self.seen());
            self.0.put(key, value)
        }
        fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(), StoreError> {
            self.0.put_for(key, value, ttl)
        }
        fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
            self.seen().removed.push(key.to_vec());
            self.0.delete(key)
        }
        fn compare_and_swap(
            &self,
            key: &[u8],
            expected: Option<&[u8]>,
            next: Option<&[u8]>,
        ) -> Result<bool, StoreError> {
            self.0.compare_and_swap(key, expected, next)
        }
        fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
            let removed = batch.iter().filter(|(_, value)| value.is_none());
            self.seen()
                .removed
                .extend(removed.map(|(key, _)| key.to_vec()));
            self.0.apply(batch)
        }
        fn scan(
            &self,
            prefix: &[u8],
            visit: &mut dyn FnMut(&[u8], &[u8]),
        ) -> Result<(), StoreError> {
            self.0.scan(prefix, visit)
        }
        fn scan_from(
            &self,
            from: &[u8],
            count: usize,
            visit: &mut dyn FnMut(&[u8], &[u8]),
        ) -> Result<usize, StoreError> {
            drop(self.seen());
            self.0.scan_from(from, count, visit)
        }
    }

    #[test]
    fn all_threads_perform_each_operation() {
        let ops = "put,get,delete,batch-put,batch-get,batch-delete,sustained,scan";
        let words = "loadline engines map --threads 3 --keys 301 --batch 10 --op";
        let words = words.split(' ').chain([ops]);
        let Arguments::Engines(args) = Cli::parse_from(words).command else {
            unreachable!();
        };
        let plan = resolve_engines(&args, &Surroundings::of_tests()).unwrap();
        let stage = &plan.stages[0];
        let Target::Engine(engine) = &stage.targets[0] else {
            unreachable!();
        };
        let access = EngineAccess::open(Kind::Map, engine).unwrap();
        let control = Control::default();
        load(&access, &stage.cases[0], "p:", 1, &control).unwrap();
        assert_eq!(stage.cases.len(), 8);
        for case in &stage.cases {
            let watched = Arc::new(Watched(access.connect().unwrap(), Mutex::default()));
            let connect = || Ok(Arc::clone(&watched) as Arc<dyn KeyValue>);
            let (callers, refill) = callers(case, "p:", 1, None, &connect).unwrap();
            let mut subject = EngineSubject {
                callers,
                block: load_block(case, 1),
                threads: Threads::none(),
                refill,
            };
            let stop = Stop {
                ops: Some(300),
                duration: None,
            };
            let outcome = subject.block(stop, 1, &control).unwrap();
            assert_eq!((outcome.ops, outcome.errors.total()), (300, 0));
            let mut seen = watched.1.lock().unwrap();
            assert_eq!(seen.threads.len(), 3, "{}", case.name);
            if case.name.contains("delete") {
                assert_eq!(seen.removed.len(), 300);
                seen.removed.sort();
                seen.removed.dedup();
                assert_eq!(seen.removed.len(), 300, "keys were removed twice");
            }
        }
        let mut left = 0;
        let count = &mut |_: &[u8], _: &[u8]| left += 1;
        access.connect().unwrap().scan(b"p:", count).unwrap();
        assert_eq!(left, 301, "removed keys were not written again");
    }

    #[test]
    fn every_put_changes_the_value() {
        let engine = Engine {
            choice: Choice::Embedded(Kind::Map, None),
            durability: Durability::Memory,
            dir: None,
            cache: None,
            memory_bytes: None,
        };
        let access = EngineAccess::open(Kind::Map, &engine).unwrap();
        for bytes in [1, 7, 100] {
            let workload = put_of(bytes);
            let mut chooser = Chooser::new(SmallRng::seed_from_u64(1), 0, 1);
            let mut callee = EngineCallee {
                store: access.connect().unwrap(),
                ttl: None,
                verbs: vec![Verb::Put],
                names: Names::new("p:", 1),
                size: 1,
                places: vec![PreparedCommand::default(); 3],
                out: Vec::new(),
                sentence: String::new(),
                taken: Arc::default(),
                version: Some(0),
            };
            let mut values = Vec::new();
            for place in 0..3 {
                callee.prepare(place, 0, &mut chooser, &workload);
                assert!(matches!(callee.perform(place), Reply::Other));
                let mut value = Vec::new();
                let (key, _) = callee.places[place].writes.iter().next().unwrap();
                assert!(callee.store.get_into(key, &mut value).unwrap());
                assert_eq!(value.len() as u64, bytes);
                assert!(!values.contains(&value), "{bytes} bytes");
                values.push(value);
            }
        }
    }
}
