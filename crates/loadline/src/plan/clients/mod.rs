//! `loadline clients`: which drivers call which server, by which operations.

mod budget;
mod estimate;
mod faults;
mod manifest;
mod ops;
mod untimed;

use std::path::Path;
use std::slice;
use std::time::Duration;

use loadline_load::keys::KeyDist;
use loadline_load::pacing::Pacing;
use loadline_load::values::{ValueData, ValueSize};
use loadline_measure::clients::{Gate, Side};
use serde_json::json;

use super::bounds::check_memory;
use super::description::Description;
use super::{
    Case, Length, MOST_ROUNDS, Placement, Plan, Schedule, Surroundings, lengths, pacing, path,
    targets,
};
use crate::args::{ClientsArgs, LengthArgs, OpArg};
use crate::exit::Failure;
use crate::spelling::{Address, Target};
use crate::suggest;
use crate::units::{count_text, duration_text, nanoseconds, value_size_text};
use crate::workload;

pub(crate) use faults::{FAULTS, fault_script};
pub(crate) use manifest::{Driver, DriverMode};
use manifest::{directory, drivers, given, in_folder};
pub(crate) use ops::Op;

const DEFAULT_OPS: [&str; 5] = [
    "get",
    "set",
    "pipeline-10",
    "pipeline-100",
    "multiplexed-64",
];
const DEFAULT_REFERENCE: &str = "redis-py";
const DEFAULT_KEYS: u64 = 1_000;
/// Drivers hold the keys in memory.
const MOST_KEYS: u64 = 1_000_000;
const DEFAULT_VALUE_BYTES: u64 = 64;
const LARGEST_VALUE_BYTES: u64 = 1 << 20;
/// Time per operation and client: ten blocks of 100 ms.
const DEFAULT_LENGTH: Duration = Duration::from_secs(1);
/// Compilers at run time need longer than the warm-up of a server.
const DEFAULT_WARMUP: Duration = Duration::from_millis(500);
const MOST_OPS: usize = 32;
/// Time limit of a call that waits during a fault: the default, and the maximum. The longest default time
/// limits of clients are a minute.
const PATIENCE: Duration = Duration::from_secs(8);
const MOST_PATIENCE: Duration = Duration::from_secs(600);

/// A comparison of clients, resolved.
#[derive(Debug, Clone)]
pub(crate) struct ClientsPlan {
    /// The common part of all runs: the target, and a case for each operation.
    pub(crate) base: Plan,
    /// The operations, as many as there are cases.
    pub(crate) ops: Vec<Op>,
    pub(crate) drivers: Vec<Driver>,
    /// The versions of the protocol.
    pub(crate) resp: Vec<u8>,
    /// The driver that the others are compared with.
    pub(crate) reference: String,
    pub(crate) gates: Vec<Gate>,
    /// Whether the drivers were named, so that none of them can be left out.
    pub(crate) is_chosen: bool,
    /// Whether clients are also run with faults.
    pub(crate) with_faults: bool,
    /// Whether the memory of connections is measured.
    pub(crate) with_connections: bool,
    /// Time limit of a call that waits during a fault.
    pub(crate) patience: Duration,
    /// Sentences about drivers that are not measured.
    pub(crate) left_out: Vec<String>,
}

/// Resolves what was typed, with the drivers in a directory.
///
/// # Errors
/// A usage error for what cannot be, and that a driver which was named is not installed.
pub(crate) fn resolve(
    args: &ClientsArgs,
    known: Vec<Driver>,
    around: &Surroundings,
) -> Result<ClientsPlan, Failure> {
    let target = target(args, around)?;
    let ops = operations(&args.ops)?;
    let is_chosen = !args.only.is_empty();
    let (drivers, mut left_out) = chosen(args, known)?;
    let drivers = able(args, &target, drivers, &mut left_out)?;
    let reference = reference(args, &drivers)?;
    let mut resp = args.resp.clone();
    resp.sort_unstable();
    resp.dedup();
    if resp.is_empty() {
        resp.push(2);
    }
    let time = args.duration.unwrap_or(DEFAULT_LENGTH);
    let asked = LengthArgs {
        ops: None,
        duration: Some(time),
        warmup: args.warmup.or(Some(DEFAULT_WARMUP.min(time / 2))),
        rounds: args.rounds,
    };
    let (length, rounds, warmup) = lengths::resolve(&asked, 1, MOST_ROUNDS)?;
    let is_started = target.is_started();
    let latency = path::latency(args.latency.as_deref().unwrap_or("0"))?;
    if target.is_cluster() && !latency.is_zero() {
        return Err(Failure::usage(
            "--latency: clients learn the addresses of the nodes from the cluster, so there is no link to them.",
        ));
    }
    let cases = ops.iter().map(|op| case(args, *op, length));
    let base = Plan {
        targets: vec![target],
        latency,
        cases: cases.collect::<Result<_, _>>()?,
        rounds,
        warmup,
        schedule: Schedule {
            placement: Placement::pinned_if(is_started),
            ..Schedule::PLAIN
        },
        ..Plan::bare(&args.choices, around)
    };
    check_memory(&base, 1, around)?;
    let plan = ClientsPlan {
        base,
        ops,
        drivers,
        resp,
        reference,
        gates: Vec::new(),
        is_chosen,
        with_faults: is_started && !args.no_faults,
        with_connections: is_started,
        patience: patience(args)?,
        left_out,
    }
    .within_a_minute(args);
    let plan = match args.conformance {
        Some(_) => plan,
        None => plan.without_untimed()?,
    };
    let gates = args.gate.iter().map(|text| plan.gate(text));
    Ok(ClientsPlan {
        gates: gates.collect::<Result<_, _>>()?,
        ..plan
    })
}

/// Time limit of a call that waits during a fault: at least that of the longest run with a fault.
fn patience(args: &ClientsArgs) -> Result<Duration, Failure> {
    let asked = args.patience.unwrap_or(PATIENCE);
    if asked < PATIENCE || asked > MOST_PATIENCE {
        return Err(Failure::usage(format!(
            "--patience: from {} to {}.",
            duration_text(PATIENCE),
            duration_text(MOST_PATIENCE)
        )));
    }
    Ok(asked)
}

/// A server or cluster that drivers can reach: by TCP and without TLS, by default a redis-server if one is found.
fn target(args: &ClientsArgs, around: &Surroundings) -> Result<Target, Failure> {
    let mut target = match &args.target {
        Some(text) => Target::parse(text)?,
        None if around.has_redis_server => Target::Spawn("redis-server".into()),
        None => Target::Embedded,
    };
    let is_fit = match &target {
        Target::Server(server) => !server.tls && matches!(server.address, Address::Tcp { .. }),
        Target::Cluster(seeds) => seeds.iter().all(|seed| !seed.tls),
        Target::Embedded | Target::Spawn(_) | Target::SpawnCluster(_) => true,
        _ => false,
    };
    if !is_fit {
        return Err(Failure::usage(format!(
            "{target}: drivers call a server or a cluster by its address, over TCP without TLS; use redis://, spawn:, embedded, cluster:// or spawn-cluster:."
        )));
    }
    targets::log_in(slice::from_mut(&mut target), &args.login, around)?;
    Ok(target)
}

fn operations(texts: &[String]) -> Result<Vec<Op>, Failure> {
    let defaults = DEFAULT_OPS.map(String::from);
    let texts = if texts.is_empty() { &defaults } else { texts };
    let mut ops = Vec::new();
    for text in texts {
        let op =
            Op::parse(text).map_err(|why| Failure::invalid("--ops", "operation", text, why))?;
        if !ops.contains(&op) {
            ops.push(op);
        }
    }
    if ops.len() > MOST_OPS {
        return Err(Failure::usage(format!(
            "--ops: at most {MOST_OPS} operations."
        )));
    }
    Ok(ops)
}

/// The drivers that are measured, and sentences about those that are not installed.
fn chosen(args: &ClientsArgs, known: Vec<Driver>) -> Result<(Vec<Driver>, Vec<String>), Failure> {
    if args.only.is_empty() {
        let (drivers, missing): (Vec<_>, Vec<_>) =
            known.into_iter().partition(Driver::is_installed);
        if let Some(given) = missing.iter().find(|driver| driver.is_given) {
            return Err(given.not_installed());
        }
        if drivers.is_empty() {
            let others = "No driver of another client is installed, so only the client of this project is measured. \
                `cargo xtask drivers --install` in a checkout of Loadline installs those of 20 others, such as redis-py and go-redis; --driver DIR measures one of your own.";
            return Ok((vec![Driver::built_in()?], vec![others.to_owned()]));
        }
        let missing: Vec<&str> = missing.iter().map(|driver| driver.name.as_str()).collect();
        let sentence = (!missing.is_empty()).then(|| {
            format!(
                "Not installed, so not measured: {}; `cargo xtask drivers --install` installs them.",
                missing.join(", ")
            )
        });
        return Ok((drivers, sentence.into_iter().collect()));
    }
    let mut drivers: Vec<Driver> = Vec::new();
    let given = known.iter().filter(|driver| driver.is_given);
    let given: Vec<String> = given.map(|driver| driver.name.clone()).collect();
    for name in args.only.iter().chain(&given) {
        let driver = find("--only", name, &known)?;
        if !driver.is_installed() {
            return Err(driver.not_installed());
        }
        if drivers.iter().all(|chosen| chosen.name != *name) {
            drivers.push(driver.clone());
        }
    }
    Ok((drivers, Vec::new()))
}

/// An ability that not every driver has.
#[derive(Debug, Clone, Copy)]
enum Need {
    Rate,
    Cluster,
}

impl Need {
    fn is_met(self, driver: &Driver) -> bool {
        match self {
            Self::Rate => driver.rate || !driver.is_timed(),
            Self::Cluster => driver.cluster || !driver.is_timed(),
        }
    }
}

/// The drivers that can do what is asked for; sentences about the others.
fn able(
    args: &ClientsArgs,
    target: &Target,
    mut drivers: Vec<Driver>,
    left_out: &mut Vec<String>,
) -> Result<Vec<Driver>, Failure> {
    let is_chosen = !args.only.is_empty() || args.conformance.is_some();
    let is_asked = |need: &Need| match need {
        Need::Rate => args.rate.is_some(),
        Need::Cluster => target.is_cluster(),
    };
    for need in [Need::Rate, Need::Cluster].into_iter().filter(is_asked) {
        let (able, unable): (Vec<_>, Vec<_>) =
            drivers.into_iter().partition(|driver| need.is_met(driver));
        drivers = able;
        let names: Vec<String> = unable.into_iter().map(|driver| driver.name).collect();
        if names.is_empty() {
            continue;
        }
        let verb = if names.len() == 1 { "does" } else { "do" };
        let what = match need {
            Need::Rate => "a rate (--rate)",
            Need::Cluster => "clusters",
        };
        let sentence = format!("{} {verb} not support {what}", names.join(", "));
        if is_chosen || drivers.is_empty() {
            return Err(Failure::usage(format!("{sentence}.")));
        }
        left_out.push(format!("Left out: {sentence}."));
    }
    Ok(drivers)
}

fn find<'d>(flag: &str, name: &str, known: &'d [Driver]) -> Result<&'d Driver, Failure> {
    let found = known.iter().find(|driver| driver.name == name);
    found.ok_or_else(|| {
        let names = known.iter().map(|driver| driver.name.as_str());
        let hint = suggest::hint(name, names);
        let hint = if hint.is_empty() {
            "; `loadline clients --list` lists them.".to_owned()
        } else {
            hint
        };
        Failure::usage(format!("{flag}: unknown driver `{name}`{hint}"))
    })
}

/// A driver that a flag names among those that are measured.
fn measured<'d>(flag: &str, name: &str, drivers: &'d [Driver]) -> Result<&'d Driver, Failure> {
    let found = drivers.iter().find(|driver| driver.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = drivers.iter().map(|driver| driver.name.as_str()).collect();
        Failure::usage(format!(
            "{flag}: `{name}` is not among the drivers that are measured: {}.\n`loadline clients --list` lists all drivers, and whether they are installed.",
            names.join(", ")
        ))
    })
}

fn reference(args: &ClientsArgs, drivers: &[Driver]) -> Result<String, Failure> {
    if let Some(name) = &args.reference {
        let driver = measured("--reference", name, drivers)?;
        if !driver.is_timed() {
            let why = "it has only runs with faults";
            return Err(Failure::invalid("--reference", "driver", name, why));
        }
        return Ok(driver.name.clone());
    }
    let usual = drivers
        .iter()
        .find(|driver| driver.name == DEFAULT_REFERENCE);
    let usual = usual.or_else(|| drivers.iter().find(|driver| driver.is_timed()));
    Ok(usual.unwrap_or(&drivers[0]).name.clone())
}

fn case(args: &ClientsArgs, op: Op, length: Length) -> Result<Case, Failure> {
    let keys = args.keys.unwrap_or(DEFAULT_KEYS);
    if keys > MOST_KEYS {
        let why = format!("at most {MOST_KEYS}, because every driver holds them in memory");
        return Err(Failure::invalid("--keys", "count", keys, why));
    }
    let value_size = args
        .value_size
        .clone()
        .unwrap_or(ValueSize::Fixed(DEFAULT_VALUE_BYTES));
    if !matches!(value_size, ValueSize::Fixed(1..=LARGEST_VALUE_BYTES)) {
        let why = "drivers check one size, from 1B to 1MiB";
        let text = value_size_text(&value_size);
        return Err(Failure::invalid("--value-size", "size", text, why));
    }
    let name = match op.workload() {
        OpArg::Get => "get",
        OpArg::Set => "set",
    };
    let is = |mode| op.mode == mode;
    Ok(Case {
        name: op.to_string(),
        workload: workload::named(name, 1).expect("get and set are built in"),
        connections: if is(DriverMode::Pool) { op.size } else { 1 },
        threads: 1,
        pipeline: if is(DriverMode::Pipeline) { op.size } else { 1 },
        batch: None,
        pacing: pacing(args.rate, None)?,
        length,
        keys,
        key_dist: KeyDist::Uniform,
        value_size,
        value_data: ValueData::Random,
        verify: false,
        codec: None,
        durability: None,
    })
}

impl ClientsPlan {
    /// The rate of an open loop.
    pub(crate) fn rate(&self) -> Option<u64> {
        match self.base.cases[0].pacing {
            Pacing::Closed => None,
            Pacing::Open { rate, .. } => Some(rate as u64),
        }
    }

    /// Reads a gate, both of whose rows are measured.
    fn gate(&self, text: &str) -> Result<Gate, Failure> {
        let gate: Gate = text
            .parse()
            .map_err(|why| Failure::usage(format!("--gate: {why}.")))?;
        for side in [&gate.left, &gate.right] {
            self.check_side(text, side)?;
        }
        Ok(gate)
    }

    fn check_side(&self, text: &str, side: &Side) -> Result<(), Failure> {
        let refused = |why: String| Failure::invalid("--gate", "claim", text, why);
        let driver = measured("--gate", &side.driver, &self.drivers)?;
        let names: Vec<String> = self.ops.iter().map(Op::to_string).collect();
        let Some(place) = names.iter().position(|name| *name == side.op) else {
            return Err(refused(format!(
                "`{}` is not measured: expected one of {}",
                side.op,
                names.join(", ")
            )));
        };
        let mode = self.ops[place].mode;
        if !driver.modes.contains(&mode) {
            return Err(refused(format!("{} has no mode {mode}", driver.name)));
        }
        let able: Vec<u64> = self.protocols(driver).map(u64::from).collect();
        match side.resp {
            Some(resp) if !able.contains(&resp) => Err(refused(format!(
                "{} is not measured with RESP{resp}",
                driver.name
            ))),
            None if able.len() > 1 => Err(refused(format!(
                "{} is measured with RESP2 and RESP3; write {side}@2 or {side}@3",
                driver.name
            ))),
            None if able.is_empty() => Err(refused(format!(
                "{} does not have the protocol that is measured",
                driver.name
            ))),
            _ => Ok(()),
        }
    }

    /// The versions of the protocol that a driver is measured with.
    pub(crate) fn protocols(&self, driver: &Driver) -> impl Iterator<Item = u8> {
        self.resp
            .iter()
            .copied()
            .filter(|resp| driver.resp.contains(resp))
    }

    /// All that the plan says about itself.
    pub(crate) fn describe(&self) -> Description {
        let mut out = Description::default();
        out.entry("command", "clients");
        let target = self.base.targets[0].to_string();
        out.section("Server");
        out.entry("targets", vec![target.clone()]);
        out.line(target);
        out.section("Clients");
        let drivers: Vec<String> = self
            .drivers
            .iter()
            .map(|driver| driver.name.clone())
            .collect();
        out.line(drivers.join(", "));
        out.entry("drivers", drivers);
        out.entry("reference", self.reference.as_str());
        out.line(format!("compared with {}", self.reference));
        out.entry("resp", self.resp.clone());
        let resp: Vec<String> = self.resp.iter().map(|resp| format!("RESP{resp}")).collect();
        out.line(resp.join(" and "));
        out.entry("left_out", self.left_out.clone());
        for sentence in &self.left_out {
            out.line(sentence);
        }
        self.describe_operations(&mut out);
        out.entry("faults", self.with_faults);
        let scripts = FAULTS.iter().filter(|_| self.with_faults);
        let scripts = scripts.map(|(fault, time)| {
            let (fault, script) = (fault.to_string(), fault_script(fault));
            json!({ "fault": fault, "duration_ns": nanoseconds(*time), "script": script })
        });
        out.entry("fault_scripts", scripts.collect::<Vec<_>>());
        out.entry("patience_ns", nanoseconds(self.patience));
        out.line_of(self.with_faults.then(|| {
            format!(
                "then a short run of each client with each fault, and up to {} for a call that waits",
                duration_text(self.patience)
            )
        }));
        let gates: Vec<String> = self.gates.iter().map(Gate::to_string).collect();
        for gate in &gates {
            out.line(format!("judged  {gate}"));
        }
        out.entry("gates", gates);
        out.takes(self.estimate());
        out
    }

    fn describe_operations(&self, out: &mut Description) {
        out.section("Operations");
        let ops: Vec<String> = self.ops.iter().map(Op::to_string).collect();
        out.line(ops.join(", "));
        out.entry("operations", ops);
        let case = &self.base.cases[0];
        let length = match case.length {
            Length::Ops(ops) => format!("{} operations", count_text(ops)),
            Length::Time(time) => duration_text(time),
        };
        out.entry("keys", case.keys);
        out.entry("value_size", value_size_text(&case.value_size));
        out.line(format!(
            "{} keys of {}; {length} for each operation and client",
            count_text(case.keys),
            value_size_text(&case.value_size)
        ));
        out.entry("rounds", self.base.rounds);
        out.entry("warmup_ns", nanoseconds(self.base.warmup));
        out.entry("latency_ns", nanoseconds(self.base.latency));
        out.entry("seed", self.base.seed);
        out.line(format!(
            "{} rounds with the clients in random order; a warm-up of {} or until steady; seed {}",
            self.base.rounds,
            duration_text(self.base.warmup),
            self.base.seed
        ));
        out.entry("rate", self.rate());
        let rate = self
            .rate()
            .map(|rate| format!("open loop, {} operations per second", count_text(rate)));
        out.line_of(rate);
        let latency = (!self.base.latency.is_zero()).then(|| {
            format!(
                "{} added to every round trip",
                duration_text(self.base.latency)
            )
        });
        out.line_of(latency);
    }
}

/// All drivers: those of the tree, and those whose folders are named, which need no tree.
///
/// # Errors
/// If there is no tree although it is needed, a manifest is not valid, or two clients have the same name.
pub(crate) fn known_drivers(args: &ClientsArgs) -> Result<Vec<Driver>, Failure> {
    let mut known = match directory(args.drivers.as_deref()) {
        Ok(dir) => drivers(&dir)?,
        Err(_) if args.drivers.is_none() && !args.list => Vec::new(),
        Err(failure) => return Err(failure),
    };
    for folder in &args.driver {
        for driver in given(folder)? {
            if known.iter().any(|other| other.name == driver.name) {
                return Err(Failure::bad_file(format!(
                    "{}: another folder has a client `{}`; give it another name in its driver.toml.",
                    folder.display(),
                    driver.name
                )));
            }
            known.push(driver);
        }
    }
    Ok(known)
}

/// The drivers that a name or a folder stands for, which `flag` names.
///
/// # Errors
/// If there is none of that name, or its manifest is not valid.
pub(crate) fn drivers_called(
    flag: &str,
    asked: &str,
    dir: Option<&Path>,
) -> Result<Vec<Driver>, Failure> {
    let path = Path::new(asked);
    if path.is_dir() {
        let folder = path
            .canonicalize()
            .map_err(|error| Failure::unavailable(format!("{asked}: {error}.")))?;
        return in_folder(&folder);
    }
    let known = drivers(&directory(dir)?)?;
    find(flag, asked, &known).map(|driver| vec![driver.clone()])
}

#[cfg(test)]
mod tests;
