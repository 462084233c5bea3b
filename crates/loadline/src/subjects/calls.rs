//! An engine in this process, called by the commands of a workload: the cost of an operation without a network.

use std::io::{Cursor, Write};
use std::sync::Arc;
use std::time::Duration;

use loadline_cache::{Error as StoreError, KeyValue};
use loadline_load::block::Block;
use loadline_load::call::{AHEAD, Callee, Callers};
use loadline_load::keys::KeyDist;
use loadline_load::outcome::Outcome;
use loadline_load::pacing::Stop;
use loadline_load::reply::Reply;
use loadline_load::runner::Subject;
use loadline_load::workload::{Chooser, Part, Workload};
use loadline_load::{Control, Error};

use super::engine::broken;
use super::{load_block, workload};
use crate::plan::Case;
use crate::systems::engines::{EngineAccess, described};
use crate::workload::{Call, Definition};

/// Content of [`Reply::Error`] if a key holds no number.
const WRONG_KIND: &str = "WRONGTYPE";
/// Digits of a number, with its sign.
const DIGITS: usize = 20;

/// An operation of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Get,
    Set,
    /// Set with a time to live.
    SetFor(Duration),
    Del,
    Exists,
    Incr,
    MGet,
    MSet,
}

/// One call with its arguments, as parts that are assembled for every operation.
#[derive(Debug, Clone)]
struct PreparedCall {
    verb: Verb,
    arguments: Vec<Vec<Part>>,
}

/// One case on an engine in this process, called from as many threads as the case has.
pub(super) struct CallSubject {
    callers: Callers<CommandCallee>,
    block: Block,
}

impl CallSubject {
    /// Creates callers of `engine` that perform the operations of `case`.
    ///
    /// # Errors
    /// If the workload is invalid or the engine refuses access.
    pub(super) fn open(
        engine: &EngineAccess,
        case: &Case,
        prefix: &str,
        seed: u64,
    ) -> Result<Self, Error> {
        let compiled = case.workload.compile(prefix, case.keys, &case.value_size);
        let workload = workload(compiled.commands, case, &case.key_dist, seed)?;
        let (operations, _) = case.workload.calls(prefix, case.keys);
        let callees = (0..case.threads)
            .map(|_| CommandCallee::open(engine, &operations))
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            callers: Callers::new(workload, callees, case.verify, seed)?,
            block: Block {
                pacing: case.pacing,
                ..load_block(case, seed)
            },
        })
    }
}

impl Subject for CallSubject {
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
/// If the workload is invalid or the engine refuses access.
pub(super) fn load(
    engine: &EngineAccess,
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
    let callee = CommandCallee::open(engine, &[calls])?;
    Callers::new(workload, vec![callee], false, seed)?
        .run(&load_block(case, seed), control)
        .map(Some)
}

/// One thread's access to the engine.
struct CommandCallee {
    store: Arc<dyn KeyValue>,
    operations: Arc<[Vec<PreparedCall>]>,
    places: Vec<PreparedOperation>,
    /// Buffer for values that are read, which a caller would copy too.
    out: Vec<u8>,
    /// Text of the last error.
    sentence: String,
}

/// A prepared operation.
#[derive(Debug, Clone, Default)]
struct PreparedOperation {
    operation: usize,
    bytes: Vec<u8>,
    /// End of each argument in `bytes`, for all steps in sequence.
    ends: Vec<usize>,
}

/// The commands of `definition` that an engine in this process does not support.
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

impl CommandCallee {
    /// Creates a caller of `engine` that performs `operations`, all of which it supports.
    fn open(engine: &EngineAccess, operations: &[Vec<Call>]) -> Result<Self, Error> {
        let operations = operations
            .iter()
            .map(|calls| calls.iter().filter_map(step).collect())
            .collect();
        Ok(Self {
            store: engine.connect().map_err(|error| broken(&error))?,
            operations,
            places: vec![PreparedOperation::default(); AHEAD],
            out: Vec::new(),
            sentence: String::new(),
        })
    }
}

impl Callee for CommandCallee {
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
        let mut first = 0;
        let mut last = Ok(Answer::Other);
        for step in steps {
            let arguments = Arguments {
                place,
                first,
                count: step.arguments.len(),
            };
            first += step.arguments.len();
            self.out.clear();
            last = step.verb.perform(&*self.store, arguments, &mut self.out);
            if matches!(last, Err(_) | Ok(Answer::WrongKind)) {
                break;
            }
        }
        match last {
            Ok(Answer::Payload) => Reply::Payload(&self.out),
            Ok(Answer::Nil) => Reply::Nil,
            Ok(Answer::Other) => Reply::Other,
            Ok(Answer::WrongKind) => Reply::Error(WRONG_KIND.as_bytes()),
            Err(error) => {
                self.sentence = format!("ENGINE {}", described(&error));
                Reply::Error(self.sentence.as_bytes())
            }
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
    place: &'p PreparedOperation,
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

fn step(call: &Call) -> Option<PreparedCall> {
    let verb = verb(call)?;
    // The time to live is stored in the verb.
    let taken = if matches!(verb, Verb::SetFor(_)) {
        2
    } else {
        call.arguments.len()
    };
    Some(PreparedCall {
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

/// The time of the arguments `EX seconds` or `PX milliseconds`.
fn time_to_live(option: &[Part], time: &[Part]) -> Option<Duration> {
    let ([Part::Literal(option)], [Part::Literal(time)]) = (option, time) else {
        return None;
    };
    let time: u64 = std::str::from_utf8(time).ok()?.parse().ok()?;
    match option.to_ascii_uppercase().as_slice() {
        b"EX" => Some(Duration::from_secs(time)),
        b"PX" => Some(Duration::from_millis(time)),
        _ => None,
    }
}

impl Verb {
    #[inline]
    fn perform(
        self,
        store: &dyn KeyValue,
        arguments: Arguments<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Answer, StoreError> {
        let first = arguments.get(0);
        match self {
            Self::Get => {
                let is_there = store.get_into(first, out)?;
                return Ok(if is_there {
                    Answer::Payload
                } else {
                    Answer::Nil
                });
            }
            Self::Set => store.put(first, arguments.get(1))?,
            Self::SetFor(ttl) => store.put_for(first, arguments.get(1), ttl)?,
            Self::Del => arguments.iter().try_for_each(|key| store.remove(key))?,
            Self::Exists => {
                let mut there = 0;
                let mut count = |value: Option<&[u8]>| there += usize::from(value.is_some());
                for key in arguments.iter() {
                    store.visit_many(&[key], 0, &mut count)?;
                }
                std::hint::black_box(there);
            }
            Self::Incr => return increment(store, first, out),
            Self::MGet => {
                for key in arguments.iter() {
                    store.get_into(key, out)?;
                }
            }
            Self::MSet => {
                for pair in 0..arguments.count / 2 {
                    store.put(arguments.get(2 * pair), arguments.get(2 * pair + 1))?;
                }
            }
        }
        Ok(Answer::Other)
    }
}

/// Adds one to the decimal number at `key`; a missing key counts as 0.
fn increment(store: &dyn KeyValue, key: &[u8], held: &mut Vec<u8>) -> Result<Answer, StoreError> {
    loop {
        held.clear();
        let is_there = store.get_into(key, held)?;
        let number = match std::str::from_utf8(held) {
            _ if !is_there => Some(0),
            Ok(digits) => digits.parse::<i64>().ok(),
            Err(_) => None,
        };
        let Some(next) = number.and_then(|number| number.checked_add(1)) else {
            return Ok(Answer::WrongKind);
        };
        let mut digits = Cursor::new([0; DIGITS]);
        write!(digits, "{next}").expect("a number has at most 20 digits");
        let bytes = digits.position() as usize;
        let expected = is_there.then_some(&held[..]);
        if store.compare_and_swap(key, expected, Some(&digits.get_ref()[..bytes]))? {
            return Ok(Answer::Other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spelling::{Engine, Kind};
    use loadline_load::pacing::Pacing;
    use loadline_load::values::{ValueData, ValueSize, Values};
    use loadline_load::workload::KeySpace;

    fn ram() -> EngineAccess {
        EngineAccess::open(Kind::Ram, &Engine::RAM).unwrap()
    }

    fn keys(engine: &EngineAccess) -> usize {
        let mut keys = 0;
        let store = engine.connect().unwrap();
        store.scan(b"", &mut |_, _| keys += 1).unwrap();
        keys
    }

    fn definition(commands: &[&str]) -> Definition {
        let commands: Vec<String> = commands.iter().map(ToString::to_string).collect();
        Definition::from_commands(&commands).unwrap()
    }

    /// Performs `ops` operations over ten keys in sequence.
    fn perform(store: &EngineAccess, commands: &[&str], ops: u64) -> Outcome {
        let definition = definition(commands);
        assert_eq!(missing(&definition), Vec::<&str>::new());
        let size = ValueSize::Range(1, 90);
        let workload = Workload::new(
            definition.compile("p:", 10, &size).commands,
            KeySpace::new(&KeyDist::Sequential, 10, 0).unwrap(),
            Values::new(size, ValueData::Random, 7).unwrap(),
        )
        .unwrap();
        let callee = CommandCallee::open(store, &definition.calls("p:", 10).0).unwrap();
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
    fn values_in_memory_are_read_back() {
        let store = ram();
        assert_eq!(perform(&store, &["GET {key}"], 20).nils, 20);
        perform(&store, &["SET {key} {value}"], 10);
        let read = perform(&store, &["GET {key}"], 100);
        assert_eq!((read.errors.total(), read.nils, read.ops), (0, 0, 100));
        perform(&store, &["MSET {key} {value} {prefix}other {value}"], 1);
        assert_eq!(keys(&store), 11);
        perform(&store, &["DEL {key}"], 10);
        assert_eq!(keys(&store), 1);
        assert_eq!(perform(&store, &["GET {key}"], 10).nils, 10);
    }

    #[test]
    fn counters_count_and_refuse_what_is_no_number() {
        let store = ram();
        assert_eq!(perform(&store, &["INCR {key}"], 30).errors.total(), 0);
        let number = store.connect().unwrap().get(b"p:00000004");
        assert_eq!(number.unwrap().as_deref(), Some(&b"3"[..]));
        perform(&store, &["SET {key} x"], 10);
        assert_eq!(perform(&store, &["INCR {key}"], 10).errors.total(), 10);
    }

    #[test]
    fn time_to_live_is_kept() {
        let store = ram();
        perform(&store, &["SET {key} {value} EX 60"], 10);
        assert_eq!(keys(&store), 10);
        perform(&store, &["SET {key} {value} PX 1"], 10);
        while keys(&store) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn unsupported_commands_are_named() {
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
