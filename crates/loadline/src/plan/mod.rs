//! Resolves arguments into a plan: targets, cases and lengths, with every default filled in. Invalid
//! combinations are refused here with the reason, before any connection is made.

mod agents;
mod bounds;
mod bundle;
mod capacity;
mod clean;
mod clients;
mod description;
mod doctor;
mod engines;
mod estimate;
mod failover;
mod judge;
mod lengths;
mod limits;
mod link;
mod modes;
mod outputs;
mod path;
mod proof;
mod run_id;
mod scenario;
mod schedule;
mod show;
mod targets;
mod tiers;

use std::path::PathBuf;
use std::time::Duration;

use loadline_load::keys::{KeyDist, KeyPicker};
use loadline_load::pacing::{ArrivalProcess, Pacing, Stop};
use loadline_load::values::{ValueData, ValueSize};
use loadline_resp::Protocol;
use rand::RngExt;
use rustix::thread::{CapabilitySet, capabilities};

use crate::args::{
    ArrivalsArg, ChoiceArgs, ConnectionArgs, LoadArgs, RunArgs, TlsArgs, ValueDataArg,
};
use crate::codec::Codec;
use crate::exit::Failure;
use crate::files;
use crate::fingerprint;
use crate::secret::Secret;
use crate::spelling::{Durability, Server, Target};
use crate::suggest;
use crate::units::key_dist_text;
use crate::workload::{self, Bundle, Definition};

pub(crate) use agents::{
    Group, Membership, SharedPlan, check_run_name, check_shown_coordinator, resolve_group,
    resolve_membership,
};
use bounds::{check_memory, connections, keys, threads, value_size, window};
pub(crate) use capacity::{CapacityPlan, resolve as resolve_capacity};
pub(crate) use clean::resolve as resolve_clean;
pub(crate) use clients::{
    ClientsPlan, Driver, DriverMode, FAULTS, Op, drivers_called, fault_script, known_drivers,
    resolve as resolve_clients,
};
pub(crate) use description::Description;
pub(crate) use doctor::{DoctorPlan, resolve as resolve_doctor};
pub(crate) use engines::{EnginesPlan, resolve as resolve_engines};
pub(crate) use estimate::Estimate;
pub(crate) use failover::{FailoverPlan, TrialPlan, resolve as resolve_failover};
pub(crate) use judge::{
    resolve_compare, resolve_proof, resolve_run, resolve_single_run, workload_hash,
};
pub(crate) use lengths::Length;
pub(crate) use limits::limits;
pub(crate) use link::LinkPlan;
pub(crate) use modes::{Mode, ModesPlan, resolve as resolve_modes};
pub(crate) use outputs::Outputs;
pub(crate) use path::{PathShape, measuring_trips};
pub(crate) use proof::{Usual, UsualWork, slowed, working_plan};
pub(crate) use run_id::{is_run_id, new_run_id};
pub(crate) use scenario::{case_name, scenario};
pub(crate) use schedule::{BlockEnd, Placement, RoundParts, RoundsEnd, Schedule};
pub(crate) use tiers::{
    Arm, ArmOp, CacheLoad, Flawed, Setup, Source, TierGroup, TierOp, TierPlace, TierStage,
    TiersPlan, resolve as resolve_tiers,
};

const DEFAULT_BATCH: u32 = 10;
/// The pipeline of the last default case.
const LAST_PIPELINE: u32 = 16;
const MOST_BATCH: u32 = 1_000;
const MOST_ROUNDS: u32 = 10_000;
/// Operations after which a block has enough, per operation in flight on a connection: operations that are
/// in flight together have similar times.
const ENOUGH_OPERATIONS: u64 = 4_000;
const LONGEST_LATENCY: Duration = Duration::from_secs(10);
const HIGHEST_RATE: u64 = 1_000_000_000;

/// A run, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The targets, in the order of reports.
    pub(crate) targets: Vec<Target>,
    /// Round-trip time added to the path of each.
    pub(crate) latency: Duration,
    /// Other properties of the path.
    pub(crate) path: PathShape,
    /// The cases, which are measured on each target.
    pub(crate) cases: Vec<Case>,
    /// Blocks per case and target; the minimum if the schedule requires a precision.
    pub(crate) rounds: u32,
    /// Layout of the rounds.
    pub(crate) schedule: Schedule,
    /// Warm-up before the first round of each case and target; not measured.
    pub(crate) warmup: Duration,
    /// Seed of all random choices.
    pub(crate) seed: u64,
    /// Version of the protocol.
    pub(crate) protocol: Protocol,
    /// Settings of encrypted connections.
    pub(crate) tls: TlsFiles,
    /// Whether servers that hold keys are measured.
    pub(crate) allow_non_empty: bool,
    /// The directory that keeps the profiles of counted passes.
    pub(crate) profiles: Option<PathBuf>,
    /// The running server whose settings the targets get.
    pub(crate) settings_of: Option<Server>,
}

/// One scenario: what is sent and how.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Its name in reports.
    pub(crate) name: String,
    /// The commands and their data.
    pub(crate) workload: Definition,
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    /// Operations in flight on each connection.
    pub(crate) pipeline: u32,
    /// Keys per command of MGET and MSET, if the workload has such commands.
    pub(crate) batch: Option<u32>,
    pub(crate) pacing: Pacing,
    /// Per target, over all rounds.
    pub(crate) length: Length,
    pub(crate) keys: u64,
    pub(crate) key_dist: KeyDist,
    pub(crate) value_size: ValueSize,
    pub(crate) value_data: ValueData,
    /// Whether the values read are checked.
    pub(crate) verify: bool,
    /// The encoding of values, if they are objects.
    pub(crate) codec: Option<Codec>,
    /// The durability of writes, if the case compares engines. Each thread then calls its engine, one call after
    /// the other.
    pub(crate) durability: Option<Durability>,
}

/// Certificates and keys of encrypted connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Trusted certificates, in place of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The client certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// Whether any server certificate is accepted.
    pub(crate) insecure: bool,
}

impl TlsFiles {
    fn given(args: &TlsArgs) -> Self {
        Self {
            ca: args.tls_ca.clone(),
            identity: args.tls_cert.clone().zip(args.tls_key.clone()),
            insecure: args.tls_insecure,
        }
    }
}

/// Facts about the machine that a plan depends on in addition to the arguments.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// CPUs that this process can use.
    pub(crate) cores: u32,
    /// Whether a redis-server is found on PATH.
    pub(crate) has_redis_server: bool,
    /// The password in the environment.
    pub(crate) password: Option<Secret>,
    /// Whether this process can mount a file system.
    pub(crate) may_mount: bool,
    /// Free memory in bytes, if it is known.
    pub(crate) memory_bytes: Option<u64>,
    /// Random default seed.
    pub(crate) entropy: u64,
    /// The bundles of cases that `--workload` can name.
    pub(crate) bundles: &'static [Bundle],
}

impl Surroundings {
    /// Detects the environment of a plan that can use `bundles`.
    pub(crate) fn detect(bundles: &'static [Bundle]) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            has_redis_server: files::find_program("redis-server".as_ref()).is_some(),
            password: Secret::from_environment(),
            may_mount: capabilities(None)
                .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN)),
            memory_bytes: fingerprint::spare_memory(),
            entropy: rand::rng().random(),
            bundles,
        }
    }

    /// The environment of plans in tests.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Self {
        Self {
            cores: 2,
            has_redis_server: true,
            password: None,
            may_mount: true,
            memory_bytes: Some(8 << 30),
            entropy: 7,
            bundles: &[],
        }
    }

    /// The bundle called `name`, in upper or lower case.
    fn bundle(&self, name: &str) -> Option<&'static Bundle> {
        let mut bundles = self.bundles.iter();
        bundles.find(|bundle| bundle.name.eq_ignore_ascii_case(name))
    }
}

impl Plan {
    /// A plan without targets and cases, over a direct path, in one round: the base for the plan of each command.
    fn bare(choices: &ChoiceArgs, around: &Surroundings) -> Self {
        Self {
            targets: Vec::new(),
            latency: Duration::ZERO,
            path: PathShape::default(),
            cases: Vec::new(),
            rounds: 1,
            schedule: Schedule::PLAIN,
            warmup: Duration::ZERO,
            seed: choices.seed.unwrap_or(around.entropy),
            protocol: Protocol::Resp2,
            tls: TlsFiles::default(),
            allow_non_empty: choices.allow_non_empty,
            profiles: None,
            settings_of: None,
        }
    }

    /// The most rounds of a case.
    pub(crate) fn most_rounds(&self) -> u32 {
        self.rounds + self.schedule.more_rounds()
    }

    /// The end of the block of `case` in `round`, counted from 0.
    pub(crate) fn block(&self, case: &Case, round: u32) -> Stop {
        let mut stop = case.block(round, self.rounds);
        let rules = &case.workload.rules;
        if self.schedule.blocks == BlockEnd::Enough
            && rules.is_plain()
            && case.pacing == Pacing::Closed
        {
            let enough = ENOUGH_OPERATIONS * u64::from(case.pipeline);
            stop.ops = Some(stop.ops.map_or(enough, |ops| ops.min(enough)));
        }
        stop
    }

    /// The first round of `generation`, counted from 0, and the one after its last. The rounds that
    /// depend on the precision are the last generation's.
    pub(crate) fn rounds_of(&self, generation: u32) -> (u32, u32) {
        let generations = self.schedule.generations;
        let start = |generation: u32| self.rounds * generation / generations;
        if generation + 1 == generations {
            (start(generation), self.most_rounds())
        } else {
            (start(generation), start(generation + 1))
        }
    }
}

impl Case {
    /// The end of the block of `round`, counted from 0: the blocks add up to the whole length.
    pub(crate) fn block(&self, round: u32, rounds: u32) -> Stop {
        self.length.block(round, rounds)
    }

    /// The prefix of the case's keys in the run `run_id`.
    pub(crate) fn prefix(&self, run_id: &str) -> String {
        format!("{}{}:", run_prefix(run_id), self.workload.space)
    }

    /// Whether operations run one at a time are representative of the case: a reply is awaited before the next
    /// operation is sent, no prepared state is used up, and no exact number of operations was requested.
    pub(crate) fn has_tail(&self) -> bool {
        let rules = &self.workload.rules;
        matches!(self.length, Length::Time(_))
            && self.pacing == Pacing::Closed
            && self.pipeline == 1
            && rules.is_plain()
    }

    /// The commands that a server sees while its blocks run, in capitals.
    pub(crate) fn executes(&self) -> Vec<String> {
        let mut commands = self.workload.executes();
        if self.durability.is_some() {
            // Batches, and the writes that restore removed keys.
            commands.extend(["MGET", "MSET"].map(Into::into));
        }
        commands
    }

    /// Operations in flight over all connections.
    pub(crate) fn in_flight(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.pipeline)
    }
}

/// The prefix of all keys of all runs.
pub(crate) const KEYS: &str = "loadline:";

/// The prefix of all keys that the run `run_id` writes.
pub(crate) fn run_prefix(run_id: &str) -> String {
    format!("{KEYS}{run_id}:")
}

/// Resolves the arguments of `loadline run`.
///
/// # Errors
/// A usage error for an invalid value or combination, a bad file for a workload or password file that cannot
/// be read.
pub(crate) fn resolve(args: &RunArgs, around: &Surroundings) -> Result<Plan, Failure> {
    let targets = targets::resolve(&args.targets, &args.connection, around)?;
    let (latency, path) = targets::path_to(&args.load, &targets)?;
    targets::refuse_for_calls(&args.load, &targets)?;
    let bundle = bundle::asked(args, &targets, around)?;
    let workloads = match bundle {
        Some(bundle) => {
            let cases = bundle.definitions().into_iter();
            cases.map(|case| (case, None)).collect()
        }
        None => workloads(
            &args.load,
            targets.iter().all(|target| !target.is_in_process()),
            around,
        )?,
    };
    let measured = targets.len() * workloads.len();
    let (length, rounds, warmup) = lengths::resolve(&args.length, measured, MOST_ROUNDS)?;
    // The cases of a bundle have their own rules, and over a long path, which a running server can have, a short
    // block has too few operations.
    let is_near = latency.is_zero() && path.is_plain() && targets.iter().all(Target::is_started);
    let precise = lengths::rounds_until_precise(&args.length, length)
        .filter(|_| targets.len() > 1 && is_near && bundle.is_none());
    let cases = workloads
        .into_iter()
        .map(|(workload, pipeline)| case(args, around, workload, pipeline, length))
        .collect::<Result<Vec<_>, _>>()?;
    if args.data.verify && !cases.iter().any(|case| case.verify) {
        return Err(Failure::usage(
            "--verify: checks values that are read, but none of the cases reads a stored value, as get and hget do.",
        ));
    }
    // The schedule of a single target has no pauses in which a reference could run.
    let is_one_schedule = targets.len() == 1
        && cases
            .iter()
            .all(|case| matches!(case.pacing, Pacing::Open { .. }));
    let parts = match is_one_schedule {
        true => RoundParts::Blocks,
        false => RoundParts::Reference,
    };
    let plan = Plan {
        targets,
        latency,
        path,
        cases,
        rounds: precise.unwrap_or(rounds),
        schedule: Schedule {
            end: match precise {
                Some(_) => RoundsEnd::OncePrecise,
                None => RoundsEnd::Planned,
            },
            parts,
            ..Schedule::PLAIN
        },
        warmup,
        protocol: protocol(&args.connection, Protocol::Resp2),
        tls: TlsFiles::given(&args.connection.tls),
        ..Plan::bare(&args.data.choices, around)
    };
    check_memory(&plan, 1, around)?;
    Ok(plan)
}

fn protocol(connection: &ConnectionArgs, default: Protocol) -> Protocol {
    match connection.resp {
        Some(3) => Protocol::Resp3,
        Some(_) => Protocol::Resp2,
        None => default,
    }
}

/// The workloads, each with a pipeline if it is a default case that has one; only targets that are reached
/// over a wire have pipelines.
fn workloads(
    load: &LoadArgs,
    wire: bool,
    around: &Surroundings,
) -> Result<Vec<(Definition, Option<u32>)>, Failure> {
    let batch = load.traffic.batch.unwrap_or(DEFAULT_BATCH);
    if batch > MOST_BATCH {
        let why = format!(
            "at most {MOST_BATCH} keys in one command, because the server blocks other clients while it runs"
        );
        return Err(Failure::invalid("--batch", "count", batch, why));
    }
    let built_in = |name: &str| {
        workload::named(name, batch).expect("the default cases are built-in workloads")
    };
    let mut cases: Vec<(Definition, Option<u32>)> = Vec::new();
    if !load.traffic.command.is_empty() {
        let commands = Definition::from_commands(&load.traffic.command)
            .map_err(|why| Failure::usage(format!("--command {why}")))?;
        cases.push((commands, None));
    }
    for (index, name) in load.workload.iter().enumerate() {
        cases.push((chosen(name, batch, index, around)?, None));
    }
    if cases.is_empty() {
        cases.extend(["get", "set", "getset-70-30"].map(|name| (built_in(name), None)));
        if wire && load.traffic.pipeline.is_none() && load.in_flight.is_none() {
            cases.push((built_in("get"), Some(LAST_PIPELINE)));
        }
    }
    if load.traffic.batch.is_some() && !cases.iter().any(|(workload, _)| is_batched(workload)) {
        return Err(Failure::usage(
            "--batch: applies to mget and mset, but neither is among the cases.",
        ));
    }
    Ok(cases)
}

fn chosen(
    name: &str,
    batch: u32,
    index: usize,
    around: &Surroundings,
) -> Result<Definition, Failure> {
    if let Some(definition) = workload::named(name, batch) {
        return Ok(definition);
    }
    if name.to_ascii_lowercase().ends_with(".toml") {
        return workload::from_file(name.as_ref(), format!("file{index}"));
    }
    let bundles = || around.bundles.iter().map(|bundle| bundle.name);
    let known = || workload::NAMES.into_iter().chain(bundles());
    Err(unknown_workload(
        name,
        known(),
        ", or a file whose name ends in .toml",
    ))
}

/// The refusal of a workload that is neither among `known` nor `further`: with a suggestion if it resembles one of
/// them, otherwise with the list.
fn unknown_workload(
    name: &str,
    known: impl Iterator<Item = &'static str> + Clone,
    further: &str,
) -> Failure {
    Failure::usage(match suggest::closest(name, known.clone()) {
        Some(meant) => format!("--workload: unknown workload `{name}`; did you mean `{meant}`?"),
        None => format!(
            "--workload: unknown workload `{name}`: expected {}{further}.",
            known.collect::<Vec<_>>().join(", ")
        ),
    })
}

fn is_batched(workload: &Definition) -> bool {
    matches!(workload.name.as_str(), "mget" | "mset")
}

fn case(
    args: &RunArgs,
    around: &Surroundings,
    workload: Definition,
    pipeline: Option<u32>,
    length: Length,
) -> Result<Case, Failure> {
    if workload.rules.bundle.is_some() {
        return Ok(bundle::case(args, workload, length));
    }
    let (load, data) = (&args.load, &args.data);
    let connections = connections(load)?;
    let keys = keys(data.keys.unwrap_or(workload.keys))?;
    let key_dist = data
        .key_dist
        .as_ref()
        .map_or_else(|| workload.key_dist.clone(), |dist| dist.over(keys));
    KeyPicker::new(&key_dist, keys).map_err(|error| {
        let why = format!("over {keys} keys, {error}");
        Failure::invalid(
            "--key-dist",
            "key distribution",
            key_dist_text(&key_dist),
            why,
        )
    })?;
    let name = match pipeline {
        Some(pipeline) => format!("{}, pipeline {pipeline}", workload.name),
        None => workload.name.clone(),
    };
    Ok(Case {
        name,
        connections,
        threads: threads(load.traffic.threads, connections, around.cores)?,
        pipeline: pipeline.map_or_else(|| window(load, connections), Ok)?,
        batch: is_batched(&workload).then(|| load.traffic.batch.unwrap_or(DEFAULT_BATCH)),
        pacing: pacing(load.rate, load.arrivals)?,
        length,
        keys,
        key_dist,
        value_size: value_size(
            data.value_size
                .clone()
                .unwrap_or_else(|| workload.value_size.clone()),
        )?,
        value_data: match data.value_data {
            Some(ValueDataArg::Compressible) => ValueData::Compressible,
            Some(ValueDataArg::Random) | None => ValueData::Random,
        },
        verify: data.verify && workload.can_be_verified(),
        codec: None,
        durability: None,
        workload,
    })
}

fn pacing(rate: Option<u64>, arrivals: Option<ArrivalsArg>) -> Result<Pacing, Failure> {
    let Some(rate) = rate else {
        return Ok(Pacing::Closed);
    };
    if !(1..=HIGHEST_RATE).contains(&rate) {
        let why = format!("expected 1 to {HIGHEST_RATE} operations per second");
        return Err(Failure::invalid("--rate", "rate", rate, why));
    }
    let arrivals = match arrivals {
        Some(ArrivalsArg::Poisson) => ArrivalProcess::Poisson,
        Some(ArrivalsArg::Uniform) | None => ArrivalProcess::Uniform,
    };
    Ok(Pacing::Open {
        rate: rate as f64,
        arrivals,
    })
}

#[cfg(test)]
mod tests;
