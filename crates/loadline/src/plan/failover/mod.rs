//! The plan of `loadline failover`: servers, faults, and the load around each of them.

mod clients;
mod limits;
mod replicas;
mod scripts;
mod watched;

use std::path::PathBuf;
use std::time::Duration;

use loadline_client::pool;
use loadline_link::script::Script;
use loadline_measure::Limit;
use loadline_measure::failover::{Fault, Kind, MinReplicas, ReadFrom, Topology, Wait};
use serde_json::{Value, json};

use super::description::Description;
use super::{Driver, Estimate, Outputs, Plan, Surroundings, TlsFiles};
use crate::args::{FailoverArgs, FailoverWorkload};
use crate::exit::Failure;
use crate::files::Output;
use crate::spelling::{Durability, Target};
use crate::units::{count_text, duration_text, nanoseconds};

const DEFAULT_RATE: u64 = 2_000;
/// The kinds of write.
const DEFAULT_OPERATIONS: [Kind; 2] = [Kind::Set, Kind::Incr];
/// Faults that must be named, so that the others take less than a minute.
const NOT_BY_DEFAULT: [Fault; 9] = [
    Fault::HalfOpen,
    Fault::Refused,
    Fault::SlowClose,
    Fault::Loading,
    Fault::SlotsMoved,
    Fault::FullDisk,
    Fault::ReadOnly,
    Fault::MaxClients,
    Fault::ReplicaLoss,
];
/// The most writes per second of a driver, which pauses for 5 ms between two.
const DRIVER_RATE: u64 = 200;
/// Repetitions of a fault if clients are compared, so that the spread shows.
const COMPARED_ROUNDS: u32 = 5;
/// Every operation is kept in memory until the audit.
const MOST_RATE: u64 = 100_000;
const DEFAULT_WRITERS: u32 = 6;
const MOST_WRITERS: u32 = 1_000;
/// Every repetition starts servers, and its course is kept in the record.
const MOST_ROUNDS: u32 = 100;
const DEFAULT_PROGRAM: &str = "redis-server";
/// The only interval of a redis-server.
const EVERY_SECOND: Durability = Durability::Interval(Duration::from_secs(1));
/// The load before a fault.
const LEAD: Duration = Duration::from_millis(500);
/// The shortest and the longest load after a fault.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(600);
/// Auditing a load, and writes that wait for their timeout after it.
const AUDIT: Duration = Duration::from_millis(200);
/// The time to start servers.
const START: Duration = Duration::from_millis(300);
const START_CLUSTER: Duration = Duration::from_millis(2_500);
const START_SENTINEL: Duration = Duration::from_millis(4_500);

/// Faults around a load, resolved.
#[derive(Debug, Clone)]
pub(crate) struct FailoverPlan {
    /// The common part of all runs. It has a target if servers that run already are observed.
    pub(crate) base: Plan,
    pub(crate) topology: Topology,
    /// The server program.
    pub(crate) program: PathBuf,
    /// The clients that are compared; empty if loadline-client alone writes.
    pub(crate) clients: Vec<Driver>,
    pub(crate) rate: u64,
    pub(crate) writers: u32,
    /// The kinds of write, which take turns.
    pub(crate) operations: Vec<Kind>,
    /// The pool of the writers; `None` if they share one connection.
    pub(crate) pool: Option<pool::Limits>,
    /// The WAIT after each write.
    pub(crate) wait: Option<Wait>,
    /// The replicas without which a master refuses writes.
    pub(crate) min_replicas: Option<MinReplicas>,
    /// The servers that answer reads; `None` without reads.
    pub(crate) reads: Option<ReadFrom>,
    pub(crate) limits: Vec<Limit>,
    /// The file of the events.
    pub(crate) history: Option<Output>,
    pub(crate) trials: Vec<TrialPlan>,
}

/// One fault, with the load around it.
#[derive(Debug, Clone)]
pub(crate) struct TrialPlan {
    pub(crate) fault: Fault,
    pub(crate) durability: Durability,
    /// The faults of the path, if the fault is one of them.
    pub(crate) script: Option<Script>,
    /// Load before the fault.
    pub(crate) lead: Duration,
    /// Load after the beginning of the fault.
    pub(crate) after: Duration,
    /// The time for which a server is stopped or cut off.
    pub(crate) stopped: Duration,
    /// Whether it uses the servers of the trial before, all of which still do what they did at their start.
    pub(crate) goes_on: bool,
}

/// Resolves the arguments of `loadline failover`.
///
/// # Errors
/// A usage error for an invalid value or combination.
pub(crate) fn resolve(args: &FailoverArgs, around: &Surroundings) -> Result<FailoverPlan, Failure> {
    let watched = watched::resolve(args, around)?;
    let topology = match &watched {
        Some(target) => watched::kind_of(target),
        None => topology(args.topology.as_deref())?,
    };
    if topology == Topology::Embedded && args.server.is_some() {
        return Err(Failure::usage(
            "--server: `embedded` is our own server; use another topology for a program.",
        ));
    }
    let clients = clients::resolve(&args.client, &topology)?;
    let (rate, writers) = load(args)?;
    let (writes, rounds) = match clients[..] {
        [] => (scripts::ours(writes(rate, LEAD)), 1),
        _ => (scripts::OF_DRIVER, COMPARED_ROUNDS),
    };
    let rounds = args.rounds.unwrap_or(rounds);
    let wait = replicas::wait(args.wait.as_deref(), &topology)?;
    // Those of the manager are the defaults of the client: 2 to 10. A WAIT is about the writes of its connection, and holds it up.
    let has_pool = args.workload == Some(FailoverWorkload::Manager) || wait.is_some();
    let pool = has_pool.then(pool::Limits::default);
    let mut base = Plan::bare(&args.choices, around);
    base.tls = TlsFiles::given(&args.tls);
    base.targets.extend(watched.clone());
    let trials = match watched {
        Some(_) => vec![watched::trial(args)],
        None => {
            let faults = faults(&args.fault, &topology, !args.client.is_empty(), around)?;
            trials(args, &topology, &base, writes, repeated(rounds, &faults)?)?
        }
    };
    Ok(FailoverPlan {
        base,
        program: args
            .server
            .clone()
            .unwrap_or_else(|| DEFAULT_PROGRAM.into()),
        rate,
        writers,
        operations: match clients[..] {
            [] => operations(&args.operations, wait)?,
            _ => vec![Kind::Incr],
        },
        clients,
        reads: reads(args.reads.as_deref(), &topology)?,
        history: history(args)?,
        limits: limits::resolve(&args.limits, pool.is_some(), &trials)?,
        pool,
        wait,
        min_replicas: replicas::min_replicas(args.min_replicas.as_deref(), &topology, &trials)?,
        topology: match watched {
            Some(target) => Topology::from(target.to_string().as_str()),
            None => topology,
        },
        trials,
    })
}

/// Every fault of every round, on servers that are started.
fn trials(
    args: &FailoverArgs,
    topology: &Topology,
    base: &Plan,
    writes: scripts::Writes,
    faults: Vec<(u64, Fault)>,
) -> Result<Vec<TrialPlan>, Failure> {
    let is_compared = !args.client.is_empty();
    let classes = classes(args, topology)?;
    let mut trials: Vec<TrialPlan> = Vec::new();
    for (round, fault) in faults {
        // Other faults leave the process alive, so that nothing has to survive on disk.
        let classes = match fault {
            Fault::Kill => &classes[..],
            Fault::Loading => &[Durability::Process],
            // With `always`, a redis-server ends, and without a file it needs no disk.
            Fault::FullDisk => &[EVERY_SECOND],
            _ => &classes[..1],
        };
        for durability in classes {
            trials.push(TrialPlan {
                script: scripts::of(&fault, base.seed.wrapping_add(round), writes),
                lead: LEAD,
                after: args
                    .duration
                    .unwrap_or_else(|| default_after(&fault, topology, is_compared)),
                stopped: stopped(&fault, topology),
                goes_on: !needs_its_own(&fault)
                    && trials.last().is_some_and(|before| {
                        before.leaves_servers_alone() && before.durability == *durability
                    }),
                durability: *durability,
                fault: fault.clone(),
            });
        }
    }
    Ok(trials)
}

/// The file of the events.
fn history(args: &FailoverArgs) -> Result<Option<Output>, Failure> {
    let history = args.history.clone().map(Output::from);
    if let Some(history) = &history {
        Outputs::resolve(&args.results.outputs)?.check_with(history)?;
    }
    Ok(history)
}

/// The kinds of write.
fn operations(words: &[String], wait: Option<Wait>) -> Result<Vec<Kind>, Failure> {
    if words.is_empty() {
        return Ok(DEFAULT_OPERATIONS.to_vec());
    }
    let mut kinds: Vec<Kind> = chosen("--operations", "operation", words, Kind::ALL)?;
    if wait.is_none() {
        return Ok(kinds);
    }
    if words.iter().any(|word| word == Kind::Watch.as_str()) {
        return Err(Failure::usage(
            "--operations watch: WAIT must be in the same request as the write, and EXEC follows a read.",
        ));
    }
    kinds.retain(|kind| *kind != Kind::Watch);
    Ok(kinds)
}

/// The servers that answer reads.
fn reads(text: Option<&str>, topology: &Topology) -> Result<Option<ReadFrom>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let is_alone = matches!(topology, Topology::Standalone | Topology::Embedded);
    match ReadFrom::from(text) {
        ReadFrom::Other(_) => Err(Failure::invalid(
            "--reads",
            "value",
            text,
            "expected master or replica",
        )),
        ReadFrom::Replica if is_alone => Err(Failure::usage(format!(
            "--reads replica: `{topology}` has no replica."
        ))),
        known => Ok(Some(known)),
    }
}

/// The rate, and the number of writers.
fn load(args: &FailoverArgs) -> Result<(u64, u32), Failure> {
    let (rate, writers) = match args.client[..] {
        [] => (DEFAULT_RATE, DEFAULT_WRITERS),
        _ => (DRIVER_RATE, 1),
    };
    let rate = args.rate.unwrap_or(rate);
    let writers = args.writers.unwrap_or(writers);
    if !(1..=MOST_WRITERS).contains(&writers) {
        let why = format!("expected 1 to {MOST_WRITERS}");
        return Err(Failure::invalid("--writers", "number", writers, why));
    }
    if rate > MOST_RATE {
        let why = format!(
            "at most {}, because every write is audited",
            count_text(MOST_RATE)
        );
        return Err(Failure::invalid("--rate", "rate", count_text(rate), why));
    }
    if let Some(time) = args
        .duration
        .filter(|time| !(SHORTEST..=LONGEST).contains(time))
    {
        let why = format!(
            "from {} to {}",
            duration_text(SHORTEST),
            duration_text(LONGEST)
        );
        return Err(Failure::invalid(
            "--duration",
            "duration",
            duration_text(time),
            why,
        ));
    }
    Ok((rate, writers))
}

fn topology(text: Option<&str>) -> Result<Topology, Failure> {
    let Some(text) = text else {
        return Ok(Topology::Standalone);
    };
    match Topology::from(text) {
        Topology::Other(_) => Err(Failure::invalid(
            "TOPOLOGY",
            "topology",
            text,
            "expected standalone, replica, sentinel, cluster or embedded, which are started for the run",
        )),
        known => Ok(known),
    }
}

/// Whether it needs servers that were started for it: in a path that can be cut off, with data, or with a disk of their own.
fn needs_its_own(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Partition | Fault::Lag | Fault::Loading | Fault::FullDisk
    )
}

fn faults(
    words: &[String],
    topology: &Topology,
    is_compared: bool,
    around: &Surroundings,
) -> Result<Vec<Fault>, Failure> {
    let why_not = |fault: &Fault| match fault {
        Fault::FullDisk if !around.may_mount => {
            Some("needs a small file system, which only root may mount (CAP_SYS_ADMIN)")
        }
        _ => why_not(fault, topology, is_compared),
    };
    let known = Fault::ALL.iter().filter(|fault| **fault != Fault::Observed);
    let mut known: Vec<Fault> = known.cloned().collect();
    let is_all = words.iter().any(|word| word == "all");
    if is_all || words.is_empty() {
        known.retain(|fault| why_not(fault).is_none());
        known.retain(|fault| is_all || !NOT_BY_DEFAULT.contains(fault));
        return Ok(known);
    }
    let faults: Vec<Fault> = chosen("--fault", "fault", words, &known)?;
    let refused = faults.iter().find_map(|fault| {
        let why = why_not(fault)?;
        Some(Failure::usage(format!(
            "--fault {fault}: `{topology}` {why}."
        )))
    });
    refused.map_or(Ok(faults), Err)
}

/// The reason why a topology cannot have a fault.
fn why_not(fault: &Fault, topology: &Topology, is_compared: bool) -> Option<&'static str> {
    let is_alone = matches!(topology, Topology::Standalone | Topology::Embedded);
    let moves = matches!(topology, Topology::Sentinel | Topology::Cluster);
    match fault {
        Fault::Reset
        | Fault::Cut
        | Fault::BlackHole
        | Fault::HalfOpen
        | Fault::Refused
        | Fault::SlowClose
        | Fault::Partition
            if is_compared && moves =>
        {
            Some(
                "leads clients to addresses without the fault proxy; use it without --client, or use standalone",
            )
        }
        Fault::Planned | Fault::Partition if is_alone => {
            Some("has no replica that could become the master")
        }
        Fault::ReplicaLoss if is_alone => Some("has no replica"),
        Fault::Loading if *topology != Topology::Standalone => {
            Some("has no server that answers while it reads its data; use standalone")
        }
        Fault::SlotsMoved if *topology != Topology::Cluster => Some("has no slots; use cluster"),
        // Our own server reserves the room of its log ahead.
        Fault::FullDisk if *topology != Topology::Standalone => {
            Some("needs no room on a disk for its writes; use standalone")
        }
        Fault::ReadOnly if !matches!(topology, Topology::Standalone | Topology::Replica) => {
            Some("has no master that a command turns into a replica; use standalone or replica")
        }
        // Sentinels could not reach the master either, and would replace it.
        Fault::MaxClients if matches!(topology, Topology::Sentinel | Topology::Embedded) => {
            Some("cannot have it alone; use standalone, replica or cluster")
        }
        Fault::Lag if *topology != Topology::Replica => {
            Some("has no proxy between a master and its replica alone; use replica")
        }
        _ => None,
    }
}

/// Every fault in each round, with the number of the round. Rounds follow one another, so that a slow change of the machine
/// reaches all faults.
fn repeated(rounds: u32, faults: &[Fault]) -> Result<Vec<(u64, Fault)>, Failure> {
    if !(1..=MOST_ROUNDS).contains(&rounds) {
        let why = format!("expected 1 to {MOST_ROUNDS}");
        return Err(Failure::invalid("--rounds", "number", rounds, why));
    }
    let rounds = (0..u64::from(rounds))
        .flat_map(|round| faults.iter().map(move |fault| (round, fault.clone())));
    Ok(rounds.collect())
}

/// The words of an option, each once; all that are known for `all`.
fn chosen<T: Clone + PartialEq + for<'w> From<&'w str> + std::fmt::Display>(
    option: &str,
    noun: &str,
    words: &[String],
    known: &[T],
) -> Result<Vec<T>, Failure> {
    if words.iter().any(|word| word == "all") {
        return Ok(known.to_vec());
    }
    let mut chosen = Vec::new();
    for word in words {
        let value = T::from(word.as_str());
        if !known.contains(&value) {
            let known: Vec<String> = known.iter().map(T::to_string).collect();
            let why = format!("expected {} or all", known.join(", "));
            return Err(Failure::invalid(option, noun, word, why));
        }
        if !chosen.contains(&value) {
            chosen.push(value);
        }
    }
    Ok(chosen)
}

/// The durability of the servers, for each trial that ends one.
fn classes(args: &FailoverArgs, topology: &Topology) -> Result<Vec<Durability>, Failure> {
    let is_fixed = matches!(
        topology,
        Topology::Replica | Topology::Sentinel | Topology::Cluster
    );
    if is_fixed && !args.durability.is_empty() {
        return Err(Failure::usage(format!(
            "--durability: the servers of `{topology}` keep their data in memory, because another one takes over."
        )));
    }
    let mut classes = Vec::new();
    for text in &args.durability {
        let class = Durability::parse(text)
            .map_err(|why| Failure::usage(format!("--durability: {why}.")))?;
        let is_redis = *topology == Topology::Standalone;
        match class {
            Durability::Interval(_) if is_redis && class != EVERY_SECOND => {
                return Err(Failure::usage(format!(
                    "--durability {text}: a redis-server has only interval:1s (everysec)."
                )));
            }
            class if classes.contains(&class) => {}
            class => classes.push(class),
        }
    }
    if classes.is_empty() {
        classes.extend(match topology {
            Topology::Standalone => &[Durability::Memory, EVERY_SECOND][..],
            Topology::Embedded => &[Durability::Process],
            _ => &[Durability::Memory],
        });
    }
    Ok(classes)
}

/// The writes of `time`.
fn writes(rate: u64, time: Duration) -> u64 {
    (rate as f64 * time.as_secs_f64()).ceil() as u64
}

/// The time that the client and the servers take to recover, and some more.
fn default_after(fault: &Fault, topology: &Topology, is_compared: bool) -> Duration {
    let seconds = match (fault, topology) {
        // Longer than the default time limits of several clients, which are 5 s.
        (Fault::BlackHole | Fault::HalfOpen, _) if is_compared => 7,
        (Fault::Stop | Fault::Partition, Topology::Sentinel) => 8,
        (Fault::Kill | Fault::Stop, Topology::Sentinel | Topology::Cluster)
        | (Fault::Partition, Topology::Cluster) => 6,
        (Fault::ReadOnly | Fault::MaxClients | Fault::Refused, _)
        | (Fault::SlowClose | Fault::SlotsMoved, _) => 3,
        (Fault::Kill | Fault::Stop | Fault::BlackHole | Fault::HalfOpen | Fault::Planned, _)
        | (Fault::Partition | Fault::Loading | Fault::FullDisk, _) => 4,
        _ => 2,
    };
    Duration::from_secs(seconds)
}

/// A replica takes over in less than this.
fn stopped(fault: &Fault, topology: &Topology) -> Duration {
    match (fault, topology) {
        (Fault::MaxClients | Fault::SlotsMoved, _) => Duration::from_secs(1),
        (_, Topology::Sentinel) => Duration::from_secs(5),
        (_, Topology::Cluster) => Duration::from_secs(3),
        _ => Duration::from_secs(1),
    }
}

impl FailoverPlan {
    /// The servers that run already, if they are observed.
    pub(crate) fn watched(&self) -> Option<&Target> {
        self.base.targets.first()
    }

    /// The time that it takes.
    fn time(&self) -> Duration {
        let start = match self.topology {
            Topology::Cluster => START_CLUSTER,
            Topology::Sentinel => START_SENTINEL,
            _ => START,
        };
        let time = |trial: &TrialPlan| {
            let start = if trial.goes_on { Duration::ZERO } else { start };
            start + trial.lead + trial.after + AUDIT
        };
        self.trials.iter().map(time).sum()
    }

    /// The load in words.
    fn load(&self, kinds: &[&str]) -> String {
        let (kinds, seed) = (kinds.join(", ").to_uppercase(), self.base.seed);
        if !self.clients.is_empty() {
            let clients = self.clients.iter().map(|driver| driver.name.as_str());
            let clients = clients.collect::<Vec<_>>().join(", ");
            return format!(
                "one {kinds} after the other of each client, with a pause of 5 ms: {clients}; seed {seed}"
            );
        }
        let wait = self.wait.map_or_else(String::new, |wait| {
            let time = duration_text(Duration::from_nanos(wait.timeout_ns));
            format!(", each with WAIT {}:{time},", wait.replicas)
        });
        let pool = match self.pool {
            Some(pool) => format!(" with a pool of {} to {} connections", pool.min, pool.max),
            None if self.wait.is_some() => " with a connection of each writer".to_owned(),
            None => String::new(),
        };
        format!(
            "{} writes per second ({kinds}) of {} writers{wait} through one loadline-client{pool}, seed {seed}",
            count_text(self.rate),
            self.writers,
        )
    }

    /// The plan in the form of the record.
    pub(crate) fn to_json(&self) -> Value {
        self.describe().into_json()
    }

    /// The description of the plan.
    pub(crate) fn describe(&self) -> Description {
        let mut out = Description::default();
        out.entry("command", "failover");
        out.entry("topology", self.topology.as_str());
        out.entry("program", self.program.display().to_string());
        out.entry("rate", self.rate);
        out.entry("writers", self.writers);
        let kinds: Vec<&str> = self.operations.iter().map(Kind::as_str).collect();
        out.entry("operations", kinds.clone());
        let drivers = self.clients.iter().map(|driver| driver.name.clone());
        out.entry("drivers", drivers.collect::<Vec<_>>());
        out.entry("pool", self.pool.map(|pool| [pool.min, pool.max]));
        out.entry("wait", json!(self.wait));
        out.entry("min_replicas", json!(self.min_replicas));
        out.entry("reads", json!(self.reads));
        let limits: Vec<String> = self.limits.iter().map(ToString::to_string).collect();
        out.entry("limits", limits.clone());
        out.entry("seed", self.base.seed);
        let scripts = self.trials.iter().filter_map(|trial| {
            let script = trial.script.as_ref()?;
            let time = nanoseconds(trial.lead + trial.after);
            Some(json!({ "fault": trial.fault, "duration_ns": time, "script": script }))
        });
        out.entry("fault_scripts", scripts.collect::<Vec<_>>());
        out.entry(
            "trials",
            self.trials
                .iter()
                .map(TrialPlan::to_json)
                .collect::<Vec<_>>(),
        );
        out.takes(Some(Estimate::about(self.time())));
        out.section("Servers");
        out.line(match &self.topology {
            Topology::Embedded => "embedded: our own server".to_owned(),
            target if self.watched().is_some() => format!("{target}, which runs already"),
            _ => format!("{}: {}", self.topology, self.program.display()),
        });
        if let Some(min) = self.min_replicas {
            let lag = duration_text(Duration::from_nanos(min.max_lag_ns));
            let (name, lag_name) = ("min-replicas-to-write", "min-replicas-max-lag");
            out.line(format!("{name} {}, {lag_name} {lag}", min.replicas));
        }
        out.section("Load");
        out.line(self.load(&kinds));
        if let Some(from) = &self.reads {
            out.line(format!(
                "as many reads ({from}), each of the last acknowledged write of its writer"
            ));
        }
        out.section("Faults");
        for trial in &self.trials {
            out.line(format!(
                "{}, durability {}: after {}, then {} of load",
                trial.fault,
                trial.durability,
                duration_text(trial.lead),
                duration_text(trial.after)
            ));
        }
        if !limits.is_empty() {
            out.section("Limits");
            limits.into_iter().for_each(|limit| out.line(limit));
        }
        out
    }
}

impl TrialPlan {
    /// Whether the fault proxy causes the fault, at a write.
    pub(crate) fn begins_at_a_write(&self) -> bool {
        self.script.as_ref().is_some_and(Script::counts_messages)
    }

    /// Whether each server still does afterwards what it did before.
    fn leaves_servers_alone(&self) -> bool {
        !matches!(
            self.fault,
            Fault::Kill
                | Fault::Stop
                | Fault::Planned
                | Fault::Partition
                | Fault::Lag
                | Fault::ReadOnly
                | Fault::ReplicaLoss
                | Fault::Loading
                | Fault::SlotsMoved
                | Fault::FullDisk
        )
    }

    /// Whether it lasts for a given time.
    fn has_length(&self) -> bool {
        matches!(
            self.fault,
            Fault::Stop
                | Fault::Partition
                | Fault::Lag
                | Fault::ReadOnly
                | Fault::MaxClients
                | Fault::SlotsMoved
                | Fault::FullDisk
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "fault": self.fault,
            "durability": self.durability.to_string(),
            "lead_ns": nanoseconds(self.lead),
            "after_ns": nanoseconds(self.after),
            "goes_on": self.goes_on,
            "stopped_ns": self.has_length().then(|| nanoseconds(self.stopped)),
        })
    }
}

#[cfg(test)]
mod tests;
