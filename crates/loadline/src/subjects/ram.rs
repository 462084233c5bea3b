//! Our store in this process, called directly: the cost of an operation without a network.

use std::io::Write;
use std::sync::Arc;

use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::keys::KeyDist;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::workload::{Chooser, Part, Workload};
use loadline_load::{Control, Error};
use loadline_store::{Change, Entry, Keyspace, Value};
use rustix::time::{ClockId, clock_gettime};

use super::{load_block, workload};
use crate::plan::Case;
use crate::workload::{Call, Definition};

/// Content of [`Reply::Error`] if a key holds a value of another kind.
const WRONG_KIND: &[u8] = b"WRONGTYPE";

/// An operation of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Set,
    /// Set with a time to live in milliseconds.
    SetFor(u64),
    Del,
    Exists,
    Incr,
    MGet,
    MSet,
}

/// One call with its arguments, as parts that are assembled for every operation.
#[derive(Debug, Clone)]
struct Step {
    verb: Verb,
    arguments: Vec<Vec<Part>>,
}

/// One case on the store in this process, called from as many threads as the case has.
pub(super) struct RamSubject {
    callers: Callers<RamCallee>,
    block: Block,
}

impl RamSubject {
    /// Creates callers of `store` that perform the operations of `case`.
    ///
    /// # Errors
    /// If the workload is invalid.
    pub(super) fn new(
        store: &Arc<Keyspace>,
        case: &Case,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, Error> {
        let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
        let workload = workload(compiled.commands, case, &case.key_dist, seed)?;
        let (operations, _) = case.workload.calls(prefix, case.keys);
        let callees = (0..case.threads)
            .map(|_| RamCallee::new(Arc::clone(store), &operations))
            .collect();
        Ok(Self {
            callers: Callers::new(workload, callees, case.verify, seed)?,
            block: Block {
                pacing: case.pacing,
                ..load_block(case, seed)
            },
        })
    }
}

impl Subject for RamSubject {
    fn block(&mut self, stop: Stop, seed: u64, control: &Control) -> Result<Outcome, Error> {
        let block = Block {
            stop,
            seed,
            ..self.block
        };
        self.callers.run(&block, control)
    }
}

/// Loads every key of the case. Returns `None` if the workload needs no keys.
///
/// # Errors
/// If the workload is invalid.
pub(super) fn load(
    store: &Arc<Keyspace>,
    case: &Case,
    prefix: &str,
    seed: u64,
    control: &Control,
) -> Result<Option<Outcome>, Error> {
    let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
    let (_, calls) = case.workload.calls(prefix, case.keys);
    let Some((command, calls)) = compiled.load.zip(calls) else {
        return Ok(None);
    };
    let workload = workload(vec![command], case, &KeyDist::Sequential, seed)?;
    let callee = RamCallee::new(Arc::clone(store), &[calls]);
    Callers::new(workload, vec![callee], false, seed)?
        .run(&load_block(case, seed), control)
        .map(Some)
}

/// One thread's access to the store.
struct RamCallee {
    store: Arc<Keyspace>,
    operations: Arc<[Vec<Step>]>,
    places: Vec<Place>,
    /// Buffer for values that are read, which a caller would copy too.
    out: Vec<u8>,
}

/// A prepared operation.
#[derive(Debug, Clone, Default)]
struct Place {
    operation: usize,
    bytes: Vec<u8>,
    /// End of each argument in `bytes`, for all steps in sequence.
    ends: Vec<usize>,
}

/// The commands of `definition` that the store does not support in process.
pub(super) fn missing(definition: &Definition) -> Vec<&'static str> {
    let (operations, load) = definition.calls("", 1);
    let mut missing: Vec<&str> = operations
        .iter()
        .chain(&load)
        .flatten()
        .filter(|call| verb(call).is_none())
        .map(|call| call.command)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

impl RamCallee {
    /// Creates a caller of `store` that performs `operations`, all of which the store supports.
    fn new(store: Arc<Keyspace>, operations: &[Vec<Call>]) -> Self {
        let operations = operations
            .iter()
            .map(|calls| calls.iter().filter_map(step).collect())
            .collect();
        Self {
            store,
            operations,
            places: vec![Place::default(); AHEAD],
            out: Vec::new(),
        }
    }
}

impl Callee for RamCallee {
    fn prepare(
        &mut self,
        place: usize,
        command: usize,
        chooser: &mut Chooser,
        workload: &Workload,
    ) {
        let place = &mut self.places[place];
        place.operation = command;
        place.bytes.clear();
        place.ends.clear();
        let arguments = self.operations[command]
            .iter()
            .flat_map(|step| &step.arguments);
        for argument in arguments {
            for part in argument {
                part.append(chooser, workload, &mut place.bytes);
            }
            place.ends.push(place.bytes.len());
        }
    }

    fn perform(&mut self, place: usize) -> Reply<'_> {
        let place = &self.places[place];
        let steps = &self.operations[place.operation];
        let now = now_ms();
        let mut first = 0;
        let mut last = Answer::Other;
        for step in steps {
            let arguments = Arguments {
                place,
                first,
                count: step.arguments.len(),
            };
            first += step.arguments.len();
            self.out.clear();
            last = step
                .verb
                .perform(&self.store, arguments, now, &mut self.out);
            if matches!(last, Answer::WrongKind) {
                break;
            }
        }
        match last {
            Answer::Payload => Reply::Payload(&self.out),
            Answer::Nil => Reply::Nil,
            Answer::Other => Reply::Other,
            Answer::WrongKind => Reply::Error(WRONG_KIND),
        }
    }
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The value was copied out.
    Payload,
    Nil,
    Other,
    WrongKind,
}

/// The arguments of a step.
#[derive(Debug, Clone, Copy)]
struct Arguments<'p> {
    place: &'p Place,
    first: usize,
    count: usize,
}

impl<'p> Arguments<'p> {
    fn get(self, index: usize) -> &'p [u8] {
        let at = self.first + index;
        let begin = at
            .checked_sub(1)
            .map_or(0, |before| self.place.ends[before]);
        &self.place.bytes[begin..self.place.ends[at]]
    }

    fn iter(self) -> impl Iterator<Item = &'p [u8]> {
        (0..self.count).map(move |index| self.get(index))
    }
}

fn step(call: &Call) -> Option<Step> {
    let verb = verb(call)?;
    // The time to live is stored in the verb.
    let taken = if matches!(verb, Verb::SetFor(_)) {
        2
    } else {
        call.arguments.len()
    };
    Some(Step {
        verb,
        arguments: call.arguments[..taken].to_vec(),
    })
}

fn verb(call: &Call) -> Option<Verb> {
    let count = call.arguments.len();
    let verb = match (call.command, count) {
        ("GET", 1) => Verb::Get,
        ("SET", 2) => Verb::Set,
        ("SET", 4) => Verb::SetFor(time_to_live(&call.arguments[2], &call.arguments[3])?),
        ("DEL", 1..) => Verb::Del,
        ("EXISTS", 1..) => Verb::Exists,
        ("INCR", 1) => Verb::Incr,
        ("MGET", 1..) => Verb::MGet,
        ("MSET", 2..) if count.is_multiple_of(2) => Verb::MSet,
        _ => return None,
    };
    Some(verb)
}

/// Milliseconds of the arguments `EX seconds` or `PX milliseconds`.
fn time_to_live(option: &[Part], time: &[Part]) -> Option<u64> {
    let ([Part::Literal(option)], [Part::Literal(time)]) = (option, time) else {
        return None;
    };
    let time: u64 = std::str::from_utf8(time).ok()?.parse().ok()?;
    match option.to_ascii_uppercase().as_slice() {
        b"EX" => time.checked_mul(1_000),
        b"PX" => Some(time),
        _ => None,
    }
}

/// Milliseconds since the Unix epoch, read from the cheapest clock. It advances every few milliseconds, which is
/// precise enough for a time to live.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

impl Verb {
    #[inline]
    fn perform(
        self,
        store: &Keyspace,
        arguments: Arguments<'_>,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Answer {
        let first = arguments.get(0);
        match self {
            Self::Get => get(store, first, now, out),
            Self::Set => put(store, first, arguments.get(1), None, now),
            Self::SetFor(ms) => put(
                store,
                first,
                arguments.get(1),
                Some(now.saturating_add(ms)),
                now,
            ),
            Self::Del => {
                for key in arguments.iter() {
                    store.take(key, now);
                }
                Answer::Other
            }
            Self::Exists => {
                let there = arguments
                    .iter()
                    .filter(|key| store.read(key, now, |value| value.is_some()))
                    .count();
                std::hint::black_box(there);
                Answer::Other
            }
            Self::Incr => increment(store, first, now),
            Self::MGet => {
                for key in arguments.iter() {
                    get(store, key, now, out);
                }
                Answer::Other
            }
            Self::MSet => {
                for pair in 0..arguments.count / 2 {
                    let (key, value) = (arguments.get(2 * pair), arguments.get(2 * pair + 1));
                    put(store, key, value, None, now);
                }
                Answer::Other
            }
        }
    }
}

/// Copies the string at `key` to the end of `out`.
fn get(store: &Keyspace, key: &[u8], now: u64, out: &mut Vec<u8>) -> Answer {
    store.read(key, now, |value| match value {
        Some(Value::String(bytes)) => {
            out.extend_from_slice(bytes);
            Answer::Payload
        }
        Some(_) => Answer::WrongKind,
        None => Answer::Nil,
    })
}

/// Sets `key` to `value`, with an expiry at `until` (milliseconds since the Unix epoch) if that is given.
fn put(store: &Keyspace, key: &[u8], value: &[u8], until: Option<u64>, now: u64) -> Answer {
    let mut entry = Entry::lasting(Value::String(value.to_vec()));
    entry.expires_at = until;
    store.modify(key, now, |_| (Answer::Other, Change::Put(entry)))
}

/// Adds one to the decimal number at `key`; a missing key counts as 0.
fn increment(store: &Keyspace, key: &[u8], now: u64) -> Answer {
    store.modify(key, now, |entry| {
        let Some(entry) = entry else {
            let one = Entry::lasting(Value::String(b"1".to_vec()));
            return (Answer::Other, Change::Put(one));
        };
        let Value::String(digits) = &mut entry.value else {
            return (Answer::WrongKind, Change::Keep);
        };
        let number = std::str::from_utf8(digits)
            .ok()
            .and_then(|text| text.parse::<i64>().ok())
            .and_then(|number| number.checked_add(1));
        match number {
            Some(number) => {
                digits.clear();
                write!(digits, "{number}").expect("a vector takes everything");
                (Answer::Other, Change::Keep)
            }
            None => (Answer::WrongKind, Change::Keep),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_load::pacing::Pacing;
    use loadline_load::values::{ValueData, ValueSize, Values};
    use loadline_load::workload::KeySpace;

    fn definition(commands: &[&str]) -> Definition {
        let commands: Vec<String> = commands.iter().map(ToString::to_string).collect();
        Definition::from_commands(&commands).unwrap()
    }

    /// Performs `ops` operations over ten keys in sequence.
    fn perform(store: &Arc<Keyspace>, commands: &[&str], ops: u64) -> Outcome {
        let definition = definition(commands);
        assert_eq!(missing(&definition), Vec::<&str>::new());
        let size = ValueSize::Range(1, 90);
        let workload = Workload::new(
            definition.compile("p:", 10, &size).commands,
            KeySpace::new(&KeyDist::Sequential, 10, 0).unwrap(),
            Values::new(size, ValueData::Random, 7).unwrap(),
        )
        .unwrap();
        let callee = RamCallee::new(Arc::clone(store), &definition.calls("p:", 10).0);
        let block = Block {
            pacing: Pacing::Closed,
            stop: Stop::after_ops(ops),
            interval: super::super::INTERVAL,
            seed: 1,
        };
        Callers::new(workload, vec![callee], true, 1)
            .unwrap()
            .run(&block, &Control::default())
            .unwrap()
    }

    #[test]
    fn what_was_set_is_read_back() {
        let store = Arc::new(Keyspace::new());
        assert_eq!(perform(&store, &["GET {key}"], 20).nils, 20);
        perform(&store, &["SET {key} {value}"], 10);
        let read = perform(&store, &["GET {key}"], 100);
        assert_eq!((read.errors.total(), read.nils, read.ops), (0, 0, 100));
        perform(&store, &["MSET {key} {value} {prefix}other {value}"], 1);
        assert_eq!(store.len(), 11);
        perform(&store, &["DEL {key}"], 10);
        assert_eq!(store.len(), 1);
        assert_eq!(perform(&store, &["GET {key}"], 10).nils, 10);
    }

    #[test]
    fn counters_count_and_refuse_what_is_no_number() {
        let store = Arc::new(Keyspace::new());
        assert_eq!(perform(&store, &["INCR {key}"], 30).errors.total(), 0);
        let three = |value: Option<&Value>| value == Some(&Value::String(b"3".to_vec()));
        assert!(store.read(b"p:00000004", now_ms(), three));
        perform(&store, &["SET {key} x"], 10);
        assert_eq!(perform(&store, &["INCR {key}"], 10).errors.total(), 10);
    }

    #[test]
    fn a_time_to_live_is_kept() {
        let store = Arc::new(Keyspace::new());
        perform(&store, &["SET {key} {value} EX 60"], 10);
        assert_eq!(store.expiring(), 10);
        assert!(store.read(b"p:00000000", now_ms() + 50_000, |value| value.is_some()));
        assert!(store.read(b"p:00000000", now_ms() + 70_000, |value| value.is_none()));
    }

    #[test]
    fn what_the_store_lacks_is_named() {
        for (commands, lacks) in [
            (&["GET {key}", "LPUSH {key} a"][..], &["LPUSH"][..]),
            (&["SET {key} {value} NX"], &["SET"]),
            (&["SET {key} {value} EX 60", "EXISTS {key}"], &[]),
        ] {
            let operations = commands
                .iter()
                .map(|line| crate::workload::Operation::parse([line]).unwrap())
                .collect();
            let definition = Definition::custom(
                "x".into(),
                "x".into(),
                operations,
                crate::workload::Load::Nothing,
            )
            .unwrap();
            assert_eq!(missing(&definition), lacks);
        }
    }
}
