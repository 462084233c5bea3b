//! What `loadline modes` is asked for: the sweep over modes, operations, counts and latencies.

use std::fmt;
use std::time::Duration;

use crate::args::{CodecArg, ModeArg, ModesArgs, OpArg};
use crate::codec::{self, Codec};
use crate::exit::Failure;
use crate::plan::{Plan, Surroundings, lengths, outputs::Outputs};
use crate::target::{Server, Target};
use crate::units::{self, duration_text};
use crate::workload::{self, Definition};

use super::{Case, Length, PathShape, Schedule, TlsFiles, path};
use loadline_load::keys::KeyDist;
use loadline_load::pacing::Pacing;
use loadline_load::values::{ValueData, ValueSize};
use loadline_resp::Protocol;

const DEFAULT_COUNTS: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const DEFAULT_LATENCIES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(100),
];
const DEFAULT_BUDGET: Duration = Duration::from_secs(1);
const DEFAULT_BATCH: u32 = 100;
const DEFAULT_IN_FLIGHT: u32 = 100;
const DEFAULT_KEYS: u64 = 10_000;
const MOST_KEYS: u64 = 10_000_000;
const DEFAULT_VALUE_BYTES: u64 = 64;
/// Where values are objects.
const DEFAULT_OBJECT_BYTES: u64 = 512;
const LARGEST_VALUE_BYTES: u64 = 1 << 20;
const MOST_BATCH: u32 = 100_000;
const MOST_COUNT: u64 = 1_000_000_000;
const DEFAULT_SIZES: [u32; 13] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000,
];

/// A way to call a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One operation after the other.
    Sync,
    /// Many tasks that share one connection.
    Async,
    /// Many commands in one write.
    Pipeline,
    /// One command for many keys: MGET, MSET.
    Batch,
    /// Many commands between MULTI and EXEC.
    Transaction,
    /// One script over many keys.
    Script,
}

impl Mode {
    /// Redis commands that it needs beside the operation itself.
    pub(crate) fn needs(self, workload: &Definition) -> Vec<String> {
        let names: Vec<&str> = match self {
            Self::Sync | Self::Async | Self::Pipeline => Vec::new(),
            Self::Batch => workload.for_many_keys().into_iter().collect(),
            Self::Transaction => vec!["MULTI", "EXEC"],
            Self::Script => vec!["EVALSHA", "EVAL"],
        };
        names.into_iter().map(Into::into).collect()
    }

    /// Why no server can be called so, where none can.
    pub(crate) fn lacks_form(self, workload: &Definition) -> Option<String> {
        (self == Self::Batch && workload.for_many_keys().is_none()).then(|| {
            format!(
                "Redis has no command that is {} for many keys",
                workload.name
            )
        })
    }

    /// The name in the record and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Async => "async",
            Self::Pipeline => "pipeline",
            Self::Batch => "batch",
            Self::Transaction => "transaction",
            Self::Script => "script",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A sweep, resolved.
#[derive(Debug, Clone)]
pub(crate) struct ModesPlan {
    /// What belongs to every run; its cases are the operations.
    pub(crate) base: Plan,
    pub(crate) modes: Vec<Mode>,
    /// Operations per cell, ascending.
    pub(crate) counts: Vec<u64>,
    pub(crate) latencies: Vec<Duration>,
    /// Operations per call of the modes that have several.
    pub(crate) batch: u32,
    /// The sizes among which the best batch is looked for, ascending.
    pub(crate) sizes: Vec<u32>,
    /// Tasks of the mode async.
    pub(crate) in_flight: u32,
    /// The most time that one cell is measured for.
    pub(crate) budget: Duration,
    /// Whether all keys have one hash tag, so that a cluster has them in one slot.
    pub(crate) hash_tag: bool,
}

/// Resolves what was typed.
///
/// # Errors
/// A usage error for what cannot be.
pub(crate) fn resolve(args: &ModesArgs, around: &Surroundings) -> Result<ModesPlan, Failure> {
    let target = target(args, around)?;
    if args.hash_tag && !target.is_cluster() {
        return Err(Failure::usage(format!(
            "--hash-tag: {target} is no cluster, and has no slots."
        )));
    }
    let latencies = latencies(args, &target)?;
    let mut counts = args.ops.clone();
    if counts.is_empty() {
        counts = DEFAULT_COUNTS.to_vec();
    }
    counts.sort_unstable();
    counts.dedup();
    if let Some(count) = counts.iter().find(|count| **count > MOST_COUNT) {
        return Err(Failure::usage(format!(
            "--ops {count}: more than {MOST_COUNT} operations are not possible."
        )));
    }
    let batch = args.batch.unwrap_or(DEFAULT_BATCH);
    let in_flight = args.in_flight.unwrap_or(DEFAULT_IN_FLIGHT);
    let mut sizes = args.sizes.clone();
    if sizes.is_empty() {
        sizes = DEFAULT_SIZES.to_vec();
    }
    sizes.sort_unstable();
    sizes.dedup();
    let largest = sizes.last().copied().unwrap_or(1);
    for (flag, value) in [
        ("--batch", batch),
        ("--in-flight", in_flight),
        ("--sizes", largest),
    ] {
        if value > MOST_BATCH {
            return Err(Failure::usage(format!(
                "{flag} {value}: more than {MOST_BATCH} are not possible."
            )));
        }
    }
    let budget = args.budget.unwrap_or(DEFAULT_BUDGET);
    if budget < Duration::from_millis(10) {
        return Err(Failure::usage(
            "--budget: a cell needs at least 10ms to be measured.",
        ));
    }
    let modes = modes(&args.mode);
    let cases = cases(args)?;
    for case in &cases {
        let lacking: Vec<String> = modes
            .iter()
            .filter_map(|mode| mode.lacks_form(&case.workload))
            .collect();
        if lacking.len() == modes.len() {
            return Err(Failure::usage(format!(
                "--mode batch: {}; name another mode as well.",
                lacking.join(" and ")
            )));
        }
    }
    Ok(ModesPlan {
        base: base(args, around, target, cases)?,
        modes,
        counts,
        latencies,
        batch,
        sizes,
        in_flight,
        budget,
        hash_tag: args.hash_tag,
    })
}

fn base(
    args: &ModesArgs,
    around: &Surroundings,
    target: Target,
    cases: Vec<Case>,
) -> Result<Plan, Failure> {
    Ok(Plan {
        targets: vec![target],
        // The sweep puts a link of its own into the path, one for each latency.
        latency: Duration::ZERO,
        path: PathShape::resolve(args.jitter.as_deref(), args.bandwidth.as_deref(), args.link)?,
        cases,
        rounds: lengths::MODES_ROUNDS,
        schedule: Schedule::PLAIN,
        warmup: Duration::ZERO,
        seed: args.seed.unwrap_or(around.entropy),
        protocol: Protocol::Resp3,
        tls: TlsFiles::default(),
        allow_non_empty: args.allow_non_empty,
        outputs: Outputs::resolve(&args.outputs)?,
    })
}

/// Without a TARGET a redis-server where one is found, since only that has scripts.
fn target(args: &ModesArgs, around: &Surroundings) -> Result<Target, Failure> {
    let mut target = match &args.target {
        Some(text) => Target::parse(text)?,
        None if around.has_redis_server => Target::Spawn("redis-server".into()),
        None => Target::Embedded,
    };
    if target.is_in_process() {
        return Err(Failure::usage(format!(
            "{target}: call modes are ways to call a server, and this target is none."
        )));
    }
    if let Target::Cluster(seeds) = &mut target {
        for Server { login, .. } in seeds {
            login.password = login.password.take().or_else(|| around.password.clone());
        }
    }
    if let Target::Server(server) = &mut target {
        if server.tls {
            return Err(Failure::usage(format!(
                "{server}: call modes are measured without TLS; name the server as redis:// or unix://."
            )));
        }
        let login = &mut server.login;
        login.password = login.password.take().or_else(|| around.password.clone());
    }
    Ok(target)
}

fn latencies(args: &ModesArgs, target: &Target) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::new();
    for text in &args.latency {
        latencies.push(path::latency(text)?);
    }
    if target.is_cluster() {
        if args.jitter.is_some() || args.bandwidth.is_some() {
            return Err(Failure::usage(format!(
                "--jitter, --bandwidth: no link leads to {target}, since the client follows the addresses \
                 that its nodes name; leave them out."
            )));
        }
        if latencies.iter().any(|latency| !latency.is_zero()) {
            return Err(Failure::usage(format!(
                "--latency: none can be added on the way to {target}, since its nodes name each other's \
                 addresses and the client follows them; leave it out, or say --latency 0."
            )));
        }
        latencies = vec![Duration::ZERO];
    }
    if latencies.is_empty() {
        latencies = DEFAULT_LATENCIES.to_vec();
    }
    latencies.sort_unstable();
    latencies.dedup();
    Ok(latencies)
}

fn modes(asked: &[ModeArg]) -> Vec<Mode> {
    let all = [
        ModeArg::Sync,
        ModeArg::Async,
        ModeArg::Pipeline,
        ModeArg::Batch,
        ModeArg::Transaction,
        ModeArg::Script,
    ];
    let mode = |asked: ModeArg| match asked {
        ModeArg::Sync => Mode::Sync,
        ModeArg::Async => Mode::Async,
        ModeArg::Pipeline => Mode::Pipeline,
        ModeArg::Batch => Mode::Batch,
        ModeArg::Transaction => Mode::Transaction,
        ModeArg::Script => Mode::Script,
    };
    chosen(asked, &all).into_iter().map(mode).collect()
}

/// What was asked for, each once, or else everything.
fn chosen<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    let wanted = |item: &&T| asked.is_empty() || asked.contains(item);
    all.iter().filter(wanted).copied().collect()
}

/// Every operation with every codec.
fn cases(args: &ModesArgs) -> Result<Vec<Case>, Failure> {
    let names: Vec<String> = if args.workload.is_empty() {
        let ops = chosen(&args.op, &[OpArg::Get, OpArg::Set]);
        ops.iter()
            .map(|op| match op {
                OpArg::Get => "get".into(),
                OpArg::Set => "set".into(),
            })
            .collect()
    } else {
        args.workload.clone()
    };
    let mut codecs: Vec<Option<Codec>> = Vec::new();
    for codec in &args.codec {
        let codec = match codec {
            CodecArg::Raw => None,
            CodecArg::Json => Some(Codec::Json),
            CodecArg::Msgpack => Some(Codec::Msgpack),
            CodecArg::Protobuf => Some(Codec::Protobuf),
        };
        if !codecs.contains(&codec) {
            codecs.push(codec);
        }
    }
    if codecs.is_empty() {
        codecs.push(None);
    }
    let mut cases: Vec<Case> = Vec::new();
    for name in &names {
        let definition = definition(name)?;
        if cases
            .iter()
            .any(|case| case.workload.name == definition.name)
        {
            continue;
        }
        for codec in &codecs {
            cases.push(case(args, definition.clone(), *codec)?);
        }
    }
    Ok(cases)
}

fn definition(name: &str) -> Result<Definition, Failure> {
    let named = workload::named(name, 1).filter(Definition::is_one_call);
    named.ok_or_else(|| {
        let possible: Vec<&str> = workload::NAMES
            .into_iter()
            .filter(|name| workload::named(name, 1).is_some_and(|one| one.is_one_call()))
            .collect();
        Failure::usage(format!(
            "--workload {name}: call modes take built-in workloads of one command on one key: {}.",
            possible.join(", ")
        ))
    })
}

fn case(args: &ModesArgs, mut workload: Definition, codec: Option<Codec>) -> Result<Case, Failure> {
    let keys = args.keys.unwrap_or(DEFAULT_KEYS.min(workload.keys));
    let with_codec = args.codec.iter().any(|codec| *codec != CodecArg::Raw);
    let default_bytes = if with_codec {
        DEFAULT_OBJECT_BYTES
    } else {
        DEFAULT_VALUE_BYTES
    };
    let value_size = args
        .value_size
        .clone()
        .unwrap_or(ValueSize::Fixed(default_bytes));
    if keys > MOST_KEYS || value_size.max() > LARGEST_VALUE_BYTES {
        return Err(Failure::usage(format!(
            "--keys and --value-size: at most {MOST_KEYS} keys and values of 1MiB are possible here."
        )));
    }
    let mut name = workload.name.clone();
    if let Some(codec) = codec {
        check_objects(&workload, &value_size)?;
        name = format!("{name} ({codec})");
        workload.space = format!("{}-{codec}", workload.space);
    }
    if args.hash_tag {
        workload.space = format!("{{one}}:{}", workload.space);
    }
    Ok(Case {
        name,
        workload,
        connections: 1,
        threads: 1,
        pipeline: 1,
        batch: None,
        pacing: Pacing::Closed,
        length: Length::Ops(1),
        keys,
        key_dist: KeyDist::Uniform,
        value_size,
        value_data: ValueData::Random,
        verify: false,
        codec,
    })
}

/// Whether the values of a workload can be objects of this size.
fn check_objects(workload: &Definition, size: &ValueSize) -> Result<(), Failure> {
    if workload.for_many_keys().is_none() {
        return Err(Failure::usage(format!(
            "--codec: only the values of get and set can be objects, and {} is neither.",
            workload.name
        )));
    }
    match size {
        ValueSize::Fixed(bytes) if *bytes >= codec::SMALLEST_BYTES => Ok(()),
        _ => Err(Failure::usage(format!(
            "--value-size {}: with a codec, objects have one size, of at least {} bytes as JSON.",
            units::value_size_text(size),
            codec::SMALLEST_BYTES
        ))),
    }
}

impl ModesPlan {
    /// How long a cell may take, and how long it would take in full: one operation after the other
    /// takes a round trip each. What is in one write takes one together.
    pub(crate) fn longest(&self) -> (Duration, Duration) {
        let cells = self.modes.len() * self.base.cases.len() * self.counts.len();
        let search = 2 * self.sizes.len() * self.base.cases.len();
        let most = self.budget
            * u32::try_from((cells + search) * self.latencies.len()).unwrap_or(u32::MAX);
        let most_ops = self.counts.last().copied().unwrap_or(0);
        let slowest = self.latencies.last().copied().unwrap_or_default();
        let ns = slowest.as_nanos().saturating_mul(u128::from(most_ops));
        (
            most,
            Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)),
        )
    }

    /// The sweep as a person reads it.
    pub(crate) fn to_text(&self) -> String {
        let (most, slowest) = self.longest();
        let mut text = format!(
            "The plan; nothing was touched.\n\nTarget\n  {}\n\n",
            self.base.targets[0]
        );
        for (name, value) in self.lines() {
            text += &format!("  {name:<14} {value}\n");
        }
        text += &format!(
            "  {:<14} up to {:.0} s\n",
            "in all",
            most.as_secs_f64().ceil()
        );
        if slowest > most {
            text += &format!(
                "  Measured in full, the slowest cell alone would take {:.1} h.\n",
                slowest.as_secs_f64() / 3_600.0
            );
        }
        text
    }

    fn lines(&self) -> [(&'static str, String); 7] {
        let modes: Vec<&str> = self.modes.iter().map(|mode| mode.name()).collect();
        let cases: Vec<&str> = self
            .base
            .cases
            .iter()
            .map(|case| case.name.as_str())
            .collect();
        let counts: Vec<String> = self
            .counts
            .iter()
            .map(|count| units::count_text(*count))
            .collect();
        let latencies: Vec<String> = self
            .latencies
            .iter()
            .map(|time| duration_text(*time))
            .collect();
        let path = match self.base.path.text() {
            text if text.is_empty() => text,
            text => format!(", {text}"),
        };
        [
            ("modes", modes.join(", ")),
            ("operations", cases.join(", ")),
            ("counts", counts.join(", ")),
            ("added latency", latencies.join(", ")),
            (
                "path",
                format!("link {}{path}", self.base.path.class_name()),
            ),
            (
                "per call",
                format!(
                    "{} operations; async has {} in flight",
                    self.batch, self.in_flight
                ),
            ),
            (
                "per cell",
                format!(
                    "up to {}; what takes longer is extrapolated and marked",
                    duration_text(self.budget)
                ),
            ),
        ]
    }

    /// The sweep as it stands in the record.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let ns = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        serde_json::json!({
            "command": "modes",
            "targets": [self.base.targets[0].to_string()],
            "modes": self.modes.iter().map(|mode| mode.name()).collect::<Vec<_>>(),
            "operations": self.base.cases.iter().map(|case| case.name.clone()).collect::<Vec<_>>(),
            "counts": self.counts,
            "latencies_ns": self.latencies.iter().map(ns).collect::<Vec<_>>(),
            "value_size": self.base.cases.first().map(|case| units::value_size_text(&case.value_size)),
            "path": self.base.path.to_json(),
            "batch": self.batch,
            "sizes": self.sizes,
            "in_flight": self.in_flight,
            "budget_ns": ns(&self.budget),
            "seed": self.base.seed,
            "hash_tag": self.hash_tag,
        })
    }

    /// Why calls in `mode` are not possible on this target, where its keys are what is in the way.
    pub(crate) fn splits(&self, mode: Mode) -> Option<String> {
        let of_one_slot = matches!(mode, Mode::Transaction | Mode::Script);
        let apart = self.base.targets[0].is_cluster() && !self.hash_tag;
        (of_one_slot && apart).then(|| {
            "its keys are in different slots of the cluster; --hash-tag puts them into one".into()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use loadline_link::link::Class;

    use super::*;
    use crate::args::{Cli, Command};

    fn plan(words: &[&str]) -> Result<ModesPlan, String> {
        let words = ["loadline", "modes"].iter().chain(words);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Modes(args) = cli.command else {
            unreachable!("the command is modes")
        };
        let around = Surroundings {
            cores: 2,
            has_redis_server: true,
            password: None,
            entropy: 1,
        };
        resolve(&args, &around).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_cluster_is_called_without_added_latency_and_in_one_slot_on_demand() {
        let plain = plan(&["cluster://a:1,b:2"]).unwrap();
        assert_eq!(plain.latencies, [Duration::ZERO]);
        assert!(plain.splits(Mode::Script).is_some() && plain.splits(Mode::Batch).is_none());
        let tagged = plan(&["spawn-cluster:redis-server", "--hash-tag"]).unwrap();
        assert!(tagged.splits(Mode::Script).is_none());
        assert!(tagged.base.cases[0].prefix("run").contains(":{one}:"));
        let refused = plan(&["cluster://a:1", "--latency", "0,10ms"]).unwrap_err();
        assert!(refused.contains("none can be added"), "{refused}");
        let refused = plan(&["redis://a:1", "--hash-tag"]).unwrap_err();
        assert!(refused.contains("is no cluster"), "{refused}");
    }

    #[test]
    fn nothing_said_is_the_whole_sweep() {
        let plan = plan(&[]).unwrap();
        assert_eq!((plan.modes.len(), plan.base.cases.len()), (6, 2));
        assert_eq!(plan.counts, DEFAULT_COUNTS);
        assert_eq!(plan.latencies, DEFAULT_LATENCIES);
        assert!(plan.to_text().contains("27.8 h"), "{}", plan.to_text());
        assert!(plan.longest().0 <= Duration::from_secs(600));
    }

    #[test]
    fn each_part_of_the_sweep_can_be_named() {
        let words = [
            "embedded",
            "--mode",
            "sync,batch",
            "--op",
            "set",
            "--ops",
            "1k,100",
            "--latency",
            "1ms",
            "--latency",
            "0",
            "--link",
            "l4",
            "--batch",
            "8",
            "--sizes",
            "16,1,16",
        ];
        let plan = plan(&words).unwrap();
        assert_eq!(plan.modes, [Mode::Sync, Mode::Batch]);
        assert_eq!(plan.counts, [100, 1_000]);
        assert_eq!(plan.latencies, [Duration::ZERO, Duration::from_millis(1)]);
        assert_eq!((plan.batch, plan.base.path.class), (8, Some(Class::L4)));
        assert_eq!(plan.base.cases[0].name, "set");
        assert_eq!(plan.sizes, [1, 16]);
    }

    #[test]
    fn every_operation_is_called_with_every_codec() {
        let plan = plan(&["--op", "get", "--codec", "raw,json,json"]).unwrap();
        let cases: Vec<_> = plan
            .base
            .cases
            .iter()
            .map(|case| {
                (
                    case.name.as_str(),
                    case.workload.space.as_str(),
                    &case.value_size,
                )
            })
            .collect();
        let size = &ValueSize::Fixed(DEFAULT_OBJECT_BYTES);
        assert_eq!(
            cases,
            [("get", "string", size), ("get (json)", "string-json", size)]
        );
    }

    #[test]
    fn other_operations_have_names_and_their_own_keys() {
        let plan = plan(&["--workload", "incr,HGET,smembers"]).unwrap();
        let cases: Vec<_> = plan
            .base
            .cases
            .iter()
            .map(|case| (case.name.as_str(), case.keys))
            .collect();
        assert_eq!(
            cases,
            [("incr", 10_000), ("hget", 10_000), ("smembers", 1_000)]
        );
        assert!(plan.to_text().contains("incr, hget, smembers"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (words, reason) in [
            (&["ram"][..], "is none"),
            (&["rediss://h"], "without TLS"),
            (&["--latency", "10"], "unit"),
            (&["--latency", "1h"], "not possible"),
            (&["--mode", "telepathy"], "telepathy"),
            (&["--ops", "0"], "at least 1"),
            (&["--batch", "1M"], "not possible"),
            (&["--sizes", "1,1M"], "not possible"),
            (&["--budget", "1ms"], "at least 10ms"),
            (&["--value-size", "1GiB"], "1MiB"),
            (&["--jitter", "1ms", "--link", "netem"], "overtake"),
            (&["--bandwidth", "10"], "needs a unit"),
            (&["cluster://a:1", "--jitter", "1ms"], "no link leads"),
            (&["--codec", "xml"], "xml"),
            (&["--codec", "json", "--value-size", "64B"], "at least 192"),
            (
                &["--codec", "json", "--value-size", "1KiB..2KiB"],
                "one size",
            ),
            (&["--codec", "json", "--workload", "incr"], "neither"),
            (
                &["--workload", "ycsb-a"],
                "one command on one key: get, set",
            ),
            (&["--workload", "mget"], "one command on one key"),
            (&["--workload", "nope"], "one command on one key"),
            (
                &["--workload", "incr", "--mode", "batch"],
                "no command that is incr",
            ),
            (&["--workload", "incr", "--op", "get"], "--op"),
        ] {
            let refusal = plan(words).expect_err("it cannot be");
            assert!(refusal.contains(reason), "{words:?}: {refusal}");
        }
    }
}
