//! The plan of `loadline engines`: operations on engines, by class of durability.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use loadline_load::keys::{KeyDist, KeyPicker};
use loadline_load::pacing::Pacing;
use loadline_load::values::{ValueData, ValueSize};
use loadline_measure::engines::exceeded_budget;
use loadline_measure::words;
use loadline_resp::Protocol;
use serde_json::{Value, json};

mod ops;
mod writeup;

use super::bounds::{check_memory, keys, value_size};
use super::description::Description;
use super::{Case, Estimate, Length, MOST_ROUNDS, Plan, Surroundings, lengths};
use crate::args::{EngineOpArg, EngineWorkloadArg, EnginesArgs, LengthArgs};
use crate::exit::Failure;
use crate::spelling::{CacheLimits, Choice, Durability, Engine, Kind, Target};
use crate::units::{bytes_text, count_text, duration_text, key_dist_text, value_size_text};
use ops::{Shape, default_threads, removes};

const DEFAULT_KEYS: u64 = 100_000;
const DEFAULT_VALUE_BYTES: u64 = 100;
/// The default if only sustained writes are measured.
const SUSTAINED_VALUE_BYTES: u64 = 1_024;
/// Sustained writes write this many times the data.
const SUSTAINED_TIMES: u64 = 10;
/// Budget of the cache of each engine that has one.
const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;
const DEFAULT_BATCH: u32 = 100;
/// One of each kind: single, batch, and concurrent operations.
const DEFAULT_OPS: [EngineOpArg; 5] = [
    EngineOpArg::Put,
    EngineOpArg::Get,
    EngineOpArg::BatchPut,
    EngineOpArg::BatchGet,
    EngineOpArg::Mixed,
];
const DEFAULT_CLASSES: [Durability; 3] =
    [Durability::Memory, Durability::Process, Durability::Always];
/// Calls of a batch are prepared in memory, so their number is limited.
const MOST_BATCH: u32 = 10_000;
const MOST_THREADS: u32 = 1_024;
/// Writing a key when an engine is loaded, a mean over engines.
const LOADING_PER_KEY: Duration = Duration::from_micros(2);
/// Memory, disk and recovery of an engine, without writing its keys, a mean over engines.
const FOOTPRINT: Duration = Duration::from_millis(1_500);
/// Bytes of a key after its fixed prefix: the run id and the number.
const RUN_ID_AND_DIGITS: u64 = 16;
/// Times that a footprint writes all keys.
const FOOTPRINT_LOADS: u32 = 2;

/// A comparison of engines, resolved.
#[derive(Debug, Clone)]
pub(crate) struct EnginesPlan {
    /// The common part of all runs. Its targets are those of all stages.
    pub(crate) base: Plan,
    /// The stages in sequence, each with its own engines.
    pub(crate) stages: Vec<Plan>,
    /// The engine that the others are compared with.
    pub(crate) reference: String,
    /// The limits of the engines if they are measured as caches.
    pub(crate) cache: Option<CacheLimits>,
    /// Bytes of the cache of each engine that has one.
    pub(crate) memory_bytes: u64,
    /// Sentences about engines that lack a class.
    pub(crate) left_out: Vec<String>,
    /// Whether memory, disk and recovery are measured in every class, and not only in the first one with files.
    pub(crate) is_thorough: bool,
}

/// Resolves the arguments of `loadline engines`.
///
/// # Errors
/// A usage error for an invalid value or combination.
pub(crate) fn resolve(args: &EnginesArgs, around: &Surroundings) -> Result<EnginesPlan, Failure> {
    let mut choices = choices(args, around)?;
    let cache = match args.workload {
        None => None,
        Some(EngineWorkloadArg::Writeup) => {
            writeup::check(args, &choices)?;
            Some(writeup::CACHE)
        }
    };
    if args.op.contains(&EngineOpArg::Scan) && choices.iter().any(Choice::is_server) {
        return Err(Failure::usage(
            "--op scan: a server has no call that returns keys with their values; name engines of this process, as in `loadline engines store heed redb --op scan`.",
        ));
    }
    let reference = reference(args, &mut choices)?;
    if choices.iter().any(Choice::is_over_tcp) {
        choices.push(Choice::Null);
    }
    let classes = classes(args)?;
    let memory_bytes = memory(args)?;
    let sizes = if args.value_size.is_empty() {
        let is_sustained = args.op == [EngineOpArg::Sustained];
        vec![ValueSize::Fixed(if is_sustained {
            SUSTAINED_VALUE_BYTES
        } else {
            DEFAULT_VALUE_BYTES
        })]
    } else {
        args.value_size.clone()
    };
    let (length, rounds, warmup) = lengths::resolve(&with_length(&args.length), 1, MOST_ROUNDS)?;
    let rounds = match args.length.rounds {
        Some(_) => rounds,
        None => lengths::rounds_for_several(rounds, largest_class(&choices, &classes)),
    };
    let base = Plan {
        rounds,
        warmup,
        protocol: Protocol::Resp3,
        ..Plan::bare(&args.choices, around)
    };
    let mut stages = Vec::new();
    for &durability in &classes {
        let targets = targets(&choices, durability, args.dir.as_ref(), cache, memory_bytes);
        for size in sizes.iter().filter(|_| !targets.is_empty()) {
            let stage = Plan {
                targets: targets.clone(),
                cases: cases(args, around, durability, size, length, cache)?,
                ..base.clone()
            };
            check_memory(&stage, 1, around)?;
            stages.push(stage);
        }
    }
    let left_out = left_out(&choices, &classes);
    if stages.is_empty() {
        return Err(Failure::usage(format!(
            "None of the engines has the requested durability. {}",
            left_out.join(" ")
        )));
    }
    Ok(EnginesPlan {
        base: with_all(base, &stages),
        stages,
        reference,
        cache,
        memory_bytes,
        left_out,
        is_thorough: args.thorough || !args.durability.is_empty(),
    })
}

/// Number of engines in the class with the most of them.
fn largest_class(choices: &[Choice], classes: &[Durability]) -> usize {
    let engines = |durability: &Durability| {
        let choices = choices.iter();
        let able = choices.filter(|choice| choice.lacks(*durability).is_none());
        able.filter(|choice| **choice != Choice::Null).count()
    };
    classes.iter().map(engines).max().unwrap_or(0)
}

/// The subset of `choices` that has the durability.
fn targets(
    choices: &[Choice],
    durability: Durability,
    dir: Option<&PathBuf>,
    cache: Option<CacheLimits>,
    memory_bytes: u64,
) -> Vec<Target> {
    let able = choices
        .iter()
        .filter(|choice| choice.lacks(durability).is_none());
    able.map(|choice| {
        Target::Engine(Engine {
            choice: choice.clone(),
            durability,
            dir: dir.cloned(),
            cache,
            memory_bytes: Some(memory_bytes),
        })
    })
    .collect()
}

/// `base` with the targets of all stages, each once, and all cases.
fn with_all(mut base: Plan, stages: &[Plan]) -> Plan {
    for stage in stages {
        for target in &stage.targets {
            let name = target.to_string();
            if base.targets.iter().all(|known| known.to_string() != name) {
                base.targets.push(target.clone());
            }
        }
        base.cases.extend(stage.cases.iter().cloned());
    }
    base
}

/// The requested length, or ten blocks of 50 ms by default.
fn with_length(args: &LengthArgs) -> LengthArgs {
    let is_open = args.ops.is_none() && args.duration.is_none();
    LengthArgs {
        ops: args.ops,
        duration: args
            .duration
            .or(is_open.then_some(EnginesArgs::DEFAULT_LENGTH)),
        warmup: args.warmup,
        rounds: args.rounds,
    }
}

fn choices(args: &EnginesArgs, around: &Surroundings) -> Result<Vec<Choice>, Failure> {
    let mut choices: Vec<Choice> = Vec::new();
    for text in &args.engines {
        let choice = Choice::parse(text)?;
        if choices
            .iter()
            .any(|known| known.to_string() == choice.to_string())
        {
            return Err(Failure::usage(format!("ENGINE `{text}`: named twice.")));
        }
        choices.push(choice);
    }
    if choices.is_empty() && args.workload == Some(EngineWorkloadArg::Writeup) {
        let names = writeup::ENGINES.into_iter();
        return names.map(Choice::parse).collect();
    }
    if choices.is_empty() {
        let built_in = Kind::ALL.iter().filter(|(_, kind)| kind.is_built_in());
        choices.extend(built_in.map(|(_, kind)| Choice::Embedded(*kind, None)));
        if around.has_redis_server && args.op != [EngineOpArg::Scan] {
            for name in ["redis", "redis-unix", "embedded"] {
                choices.push(Choice::parse(name)?);
            }
        }
    }
    Ok(choices)
}

/// The engine that the others are compared with. It moves to the front, because comparisons are with the first
/// target.
fn reference(args: &EnginesArgs, choices: &mut Vec<Choice>) -> Result<String, Failure> {
    let place_of = |name: &str| choices.iter().position(|choice| choice.to_string() == name);
    let place = match &args.reference {
        None => place_of("redis").unwrap_or(0),
        Some(name) => place_of(name).ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(ToString::to_string).collect();
            Failure::usage(format!(
                "--reference {name}: not among the engines that are measured ({}).",
                names.join(", ")
            ))
        })?,
    };
    let reference = choices.remove(place);
    let name = reference.to_string();
    choices.insert(0, reference);
    Ok(name)
}

/// The budget of the caches.
fn memory(args: &EnginesArgs) -> Result<u64, Failure> {
    match args.memory {
        Some(0) => Err(Failure::usage("--memory 0B: must be at least 1B.")),
        Some(bytes) if i64::try_from(bytes).is_err() => Err(Failure::usage(format!(
            "--memory {}: too large.",
            bytes_text(bytes)
        ))),
        bytes => Ok(bytes.unwrap_or(DEFAULT_MEMORY_BYTES)),
    }
}

fn classes(args: &EnginesArgs) -> Result<Vec<Durability>, Failure> {
    let mut classes = Vec::new();
    for text in &args.durability {
        let class = Durability::parse(text)
            .map_err(|why| Failure::usage(format!("--durability: {why}.")))?;
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    if classes.is_empty() {
        classes.extend(DEFAULT_CLASSES);
    }
    Ok(classes)
}

/// A sentence for each engine that lacks classes.
fn left_out(choices: &[Choice], classes: &[Durability]) -> Vec<String> {
    let mut sentences = Vec::new();
    for choice in choices {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for class in classes {
            let Some(reason) = choice.lacks(*class) else {
                continue;
            };
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, classes)) => classes.push(class.to_string()),
                None => reasons.push((reason, vec![class.to_string()])),
            }
        }
        for (reason, classes) in reasons {
            let classes = classes.join(" and ");
            sentences.push(format!("{choice} is left out of {classes}: {reason}."));
        }
    }
    sentences
}

/// The cases of a stage, in the order of execution: removing keys comes last.
fn cases(
    args: &EnginesArgs,
    around: &Surroundings,
    durability: Durability,
    size: &ValueSize,
    length: Length,
    cache: Option<CacheLimits>,
) -> Result<Vec<Case>, Failure> {
    let default_keys = cache.map_or(DEFAULT_KEYS, |cache| cache.keys);
    let keys = keys(args.keys.unwrap_or(default_keys))?;
    let batch = args.batch.unwrap_or(DEFAULT_BATCH);
    if !(2..=MOST_BATCH).contains(&batch) {
        return Err(Failure::usage(format!(
            "--batch {batch}: from 2 to {MOST_BATCH}, because batches are prepared in memory."
        )));
    }
    if let Some(threads) = args.threads.filter(|threads| *threads > MOST_THREADS) {
        return Err(Failure::usage(format!(
            "--threads {threads}: at most {MOST_THREADS}."
        )));
    }
    let key_dist = args
        .key_dist
        .as_ref()
        .map_or(KeyDist::Uniform, |dist| dist.over(keys));
    KeyPicker::new(&key_dist, keys)
        .map_err(|error| Failure::usage(format!("--key-dist over {keys} keys: {error}.")))?;
    let is_whole = args.thorough || cache.is_some();
    let wanted = |op: &&EngineOpArg| match &args.op[..] {
        [] if is_whole => !matches!(op, EngineOpArg::Sustained | EngineOpArg::Scan),
        [] => DEFAULT_OPS.contains(op),
        named => named.contains(op),
    };
    let ops = EngineOpArg::value_variants().iter().filter(wanted);
    ops.map(|op| {
        let shape = Shape::of(*op, batch, cache.map(|cache| cache.ttl));
        let threads = args
            .threads
            .unwrap_or_else(|| default_threads(*op, around.cores));
        let at_once = u64::from(threads) * u64::from(shape.batch.unwrap_or(1));
        if removes(*op) && at_once > keys {
            return Err(Failure::usage(format!(
                "--op {}: removes {at_once} keys at once (--threads times --batch), more than --keys {keys}.",
                shape.workload.name.replace(' ', "-"),
            )));
        }
        Ok(Case {
            name: shape.workload.name.clone(),
            workload: shape.workload,
            connections: threads,
            threads,
            pipeline: 1,
            batch: shape.batch,
            pacing: Pacing::Closed,
            length: match op {
                EngineOpArg::Sustained => Length::Ops(SUSTAINED_TIMES * keys),
                _ => length,
            },
            keys,
            key_dist: key_dist.clone(),
            value_size: value_size(size.clone())?,
            value_data: ValueData::Random,
            verify: false,
            codec: None,
            durability: Some(durability),
        })
    })
    .collect()
}

impl EnginesPlan {
    /// Whether memory, disk and recovery of the engines of `stage` are measured: by default once for each engine, in the
    /// first class that has files if it has any.
    pub(crate) fn takes_footprints(&self, stage: &Plan) -> bool {
        let class = |stage: &Plan| stage.cases.first().and_then(|case| case.durability);
        let mut stages = self.stages.iter();
        let durable = stages.find(|stage| class(stage) != Some(Durability::Memory));
        self.is_thorough || class(stage) == durable.map_or(class(stage), class)
    }

    /// Bytes of all keys and values, at the largest value size.
    pub(crate) fn live_bytes(&self) -> u64 {
        let cases = self.stages.iter().filter_map(|stage| stage.cases.first());
        let bytes = cases.map(|case| {
            let key_bytes = case.prefix("").len() as u64 + RUN_ID_AND_DIGITS;
            case.keys
                .saturating_mul(key_bytes.saturating_add(case.value_size.max()))
        });
        bytes.max().unwrap_or(0)
    }

    /// Names of the engines in which every single read opens a transaction.
    pub(crate) fn opening_transactions(&self) -> Vec<String> {
        let opens = |target: &&Target| matches!(target, Target::Engine(engine) if engine.choice.opens_transaction_per_read());
        let targets = self.base.targets.iter().filter(opens);
        targets.map(ToString::to_string).collect()
    }

    /// The plan in the form of the record.
    pub(crate) fn to_json(&self) -> Value {
        self.describe().into_json()
    }

    /// The description of the plan.
    pub(crate) fn describe(&self) -> Description {
        let mut out = Description::default();
        out.entry("command", "engines");
        let stages = self
            .stages
            .iter()
            .map(|stage| describe_stage(stage, &mut out));
        let stages: Vec<Value> = stages.collect();
        out.entry("stages", stages);
        out.section("All stages");
        if let Some(case) = self.base.cases.first() {
            let length = match case.length {
                Length::Ops(ops) => format!("{} operations", count_text(ops)),
                Length::Time(time) => duration_text(time),
            };
            out.entry("keys", case.keys);
            out.entry("key_dist", key_dist_text(&case.key_dist));
            out.line(format!(
                "{} keys, {}; {length} for each operation and engine",
                count_text(case.keys),
                key_dist_text(&case.key_dist),
            ));
        }
        out.entry("workload", self.cache.map(|_| "writeup"));
        out.line_of(self.cache.map(|cache| {
            format!(
                "each engine is a cache of {} keys, which live for {}",
                count_text(cache.keys),
                duration_text(cache.ttl)
            )
        }));
        out.entry("rounds", self.base.rounds);
        out.entry("reference", self.reference.as_str());
        out.entry("seed", self.base.seed);
        out.line(format!(
            "{} rounds with the engines in random order, compared with {}; seed {}",
            self.base.rounds, self.reference, self.base.seed
        ));
        out.entry("memory_bytes", self.memory_bytes);
        out.line(format!(
            "{} for the cache of each of redb, fjall, RocksDB and SQLite",
            bytes_text(self.memory_bytes)
        ));
        let live_bytes = self.live_bytes();
        out.line_of((live_bytes <= self.memory_bytes).then(|| {
            format!(
                "keys and values of {} fit into it; {} makes them 4 times as much",
                words::bytes(live_bytes),
                exceeded_budget(live_bytes)
            )
        }));
        let dir = self.dir().map(|dir| dir.display().to_string());
        out.line_of(dir.as_ref().map(|dir| format!("files in {dir}")));
        out.entry("dir", dir);
        out.entry("left_out", self.left_out.clone());
        for sentence in &self.left_out {
            out.line(sentence);
        }
        out.takes(self.estimate());
        out
    }

    /// The expected duration: all blocks, and loading and footprints of every engine.
    fn estimate(&self) -> Option<Estimate> {
        let stages = self.stages.iter().map(|stage| {
            let engines = stage.targets.len() as u32;
            let keys = stage.cases.iter().map(|case| case.keys).max().unwrap_or(0);
            let loading = LOADING_PER_KEY * u32::try_from(keys).unwrap_or(u32::MAX);
            let has_footprint = |target: &&Target| matches!(target, Target::Engine(engine) if engine.choice.has_footprint());
            let footprints = match self.takes_footprints(stage) {
                true => stage.targets.iter().filter(has_footprint).count() as u32,
                false => 0,
            };
            let footprint = FOOTPRINT + loading * FOOTPRINT_LOADS;
            let other = Estimate::of_work(loading * engines + footprint * footprints);
            Some(stage.estimate()?.and(other))
        });
        let all = stages.collect::<Option<Vec<Estimate>>>()?;
        all.into_iter().reduce(Estimate::and)
    }

    /// The directory for the files of engines that do not name their own.
    fn dir(&self) -> Option<&PathBuf> {
        self.base.targets.iter().find_map(|target| match target {
            Target::Engine(engine) => engine.dir.as_ref(),
            _ => None,
        })
    }
}

/// Adds a section for a stage, and returns its value for the record.
fn describe_stage(stage: &Plan, out: &mut Description) -> Value {
    let targets: Vec<String> = stage.targets.iter().map(ToString::to_string).collect();
    let first = stage.cases.first();
    let class = first.and_then(|case| case.durability);
    let class = class.map_or_else(String::new, |class| class.to_string());
    let size = first.map_or_else(String::new, |case| value_size_text(&case.value_size));
    out.section(format!("Durability {class}, values of {size}"));
    out.line(targets.join(", "));
    for case in &stage.cases {
        let batch = case
            .batch
            .map_or_else(String::new, |batch| format!(" of {batch}"));
        let threads = match case.threads {
            1 => String::new(),
            threads => format!(", {threads} threads"),
        };
        out.line(format!("{}{batch}{threads}", case.name));
    }
    json!({ "targets": targets, "durability": class, "value_size": size })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn resolved(words: &[&str]) -> Result<EnginesPlan, Failure> {
        let words = ["loadline", "engines"].iter().chain(words);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Engines(args) => resolve(&args, &Surroundings::of_tests()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_engine_gets_the_memory_budget() {
        for (words, bytes) in [
            (&["map", "store"][..], 256 << 20),
            (&["map", "store", "--memory", "16MiB"], 16 << 20),
        ] {
            let plan = resolved(words).unwrap();
            assert_eq!(plan.to_json()["memory_bytes"], bytes);
            for target in plan.stages.iter().flat_map(|stage| &stage.targets) {
                let Target::Engine(engine) = target else {
                    panic!("{target}");
                };
                assert_eq!(engine.memory_bytes, Some(bytes));
            }
        }
    }

    #[test]
    fn plan_says_how_data_exceed_the_budget() {
        let plan = resolved(&["map", "redb"]).unwrap();
        let line = plan.describe().to_text();
        let option = exceeded_budget(plan.live_bytes());
        assert!(
            line.contains(&format!("fit into it; {option} makes")),
            "{line}"
        );
        let words: Vec<&str> = ["map", "redb"]
            .into_iter()
            .chain(option.split(' '))
            .collect();
        let plan = resolved(&words).unwrap();
        let times = plan.live_bytes() as f64 / plan.memory_bytes as f64;
        assert!((3.9..4.1).contains(&times), "{times}");
        assert!(!plan.describe().to_text().contains("fit into it"));
        assert_eq!(plan.opening_transactions(), ["redb"]);
    }

    #[test]
    fn scan_is_for_engines_of_this_process() {
        let plan = resolved(&["--op", "scan"]).unwrap();
        let is_server =
            |target: &Target| matches!(target, Target::Engine(engine) if engine.choice.is_server());
        assert!(!plan.base.targets.iter().any(is_server));
        let whole = resolved(&["store", "--thorough"]).unwrap();
        assert!(whole.base.cases.iter().all(|case| case.name != "scan"));
        let failure = resolved(&["store", "redis", "--op", "get,scan"]).unwrap_err();
        assert!(failure.to_string().contains("--op scan"), "{failure}");
    }

    /// A default run took 83 and 85 s on two CPUs, with the engines of a default build and redis-server.
    #[test]
    fn estimate_of_the_default_run_is_right_within_30_percent() {
        let names = ["map", "store", "heed", "redb", "fjall"];
        let servers = ["redis", "redis-unix", "embedded"];
        let plan = resolved(&[&names[..], &servers[..]].concat()).unwrap();
        let estimate = plan.estimate().unwrap().most;
        let took = Duration::from_secs(84);
        let share = estimate.as_secs_f64() / took.as_secs_f64();
        assert!((0.8..1.25).contains(&share), "{estimate:?}");
    }

    #[test]
    fn estimate_has_footprints_of_engines_that_have_one_only() {
        let time = |name| {
            resolved(&[name, "--durability", "process"])
                .unwrap()
                .estimate()
                .unwrap()
        };
        let footprint = time("store").most - time("redis-unix").most;
        assert!(footprint >= FOOTPRINT, "{footprint:?}");
    }

    #[test]
    fn threads_are_those_of_every_operation_if_given() {
        let threads = |words: &[&str]| {
            let plan = resolved(&[&["map", "--thorough"], words].concat()).unwrap();
            let cases = plan.base.cases.iter();
            cases.map(|case| case.threads).collect::<Vec<_>>()
        };
        // Single operations, batches, then those that are concurrent by default.
        assert_eq!(threads(&[]), [1, 1, 1, 1, 1, 1, 2, 2, 2]);
        assert_eq!(threads(&["--threads", "3"]), [3; 9]);
        let words = ["map", "--op", "batch-delete", "--threads", "3", "--keys"];
        let removing = |keys| resolved(&[&words[..], &[keys]].concat());
        assert!(removing("300").is_ok());
        let failure = removing("299").unwrap_err().to_string();
        assert!(failure.contains("removes 300 keys at once"), "{failure}");
    }

    #[test]
    fn memory_budget_of_zero_is_refused() {
        let failure = resolved(&["map", "--memory", "0B"]).unwrap_err();
        assert!(failure.to_string().contains("--memory 0B"), "{failure}");
    }
}
