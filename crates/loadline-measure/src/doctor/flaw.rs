//! Flaws with their figures. `loadline-report` writes the sentences about them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{NetworkUse, Rule, Severity, Throttled};
use crate::metric::Metric;
use crate::record::{CpuPauses, Link, Stall, StallCause};

/// A flaw that a rule found.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The flaw, with its figures.
    pub flaw: Flaw,
    /// The severity.
    pub severity: Severity,
    /// The subject of the finding, such as "embedded, get". Empty if it concerns the whole run.
    pub scope: String,
}

impl Diagnosis {
    pub(super) fn new(scope: &str, severity: Severity, flaw: impl Into<Flaw>) -> Self {
        Self {
            flaw: flaw.into(),
            severity,
            scope: scope.to_owned(),
        }
    }

    /// The rule that found it.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.flaw.rule()
    }
}

/// Defines [`Flaw`] over its groups, each of which knows the rules of its flaws.
macro_rules! flaws {
    ($($(#[$doc:meta])* $group:ident($flaw:ident),)+) => {
        /// A flaw of the benchmark, with the figures that show it.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Flaw {
            $($(#[$doc])* $group($flaw),)+
        }

        impl Flaw {
            /// The rule that finds it.
            #[must_use]
            pub fn rule(&self) -> Rule {
                match self {
                    $(Self::$group(flaw) => flaw.rule(),)+
                }
            }
        }

        $(impl From<$flaw> for Flaw {
            fn from(flaw: $flaw) -> Self {
                Self::$group(flaw)
            }
        })+
    };
}

flaws! {
    /// The load: connections, counts, the generator, a rate.
    Load(LoadFlaw),
    /// The results: samples, blocks, replies.
    Result(ResultFlaw),
    /// Other activity of the server or its machine.
    Activity(ActivityFlaw),
    /// The course of a measurement.
    Flow(FlowFlaw),
    /// The machine, the settings of the server, or the path between them.
    Setup(SetupFlaw),
    /// The nodes of a cluster.
    Cluster(ClusterFlaw),
    /// A comparison of engines.
    Engines(EnginesFlaw),
    /// A pair of measurements.
    Pair(PairFlaw),
    /// Several load generators.
    Agents(AgentsFlaw),
    /// Evidence that could not be read.
    NotExamined(NotExamined),
}

/// The nodes of a cluster, by what each of them answered.
pub type Grouped = BTreeMap<String, Vec<String>>;

/// A flaw of the load: connections, counts, the generator, and a rate that was not kept.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadFlaw {
    /// The server accepted about as many connections as there were operations.
    ConnectionPerOperation {
        /// Connections that the server accepted.
        opened: u64,
        /// Operations of the generator.
        ops: u64,
        /// Connections of the scenario, over all rounds.
        expected: u64,
    },
    /// Generator and server counted different operations.
    CountsDiffer {
        /// Operations that the generator counted.
        ops: u64,
        /// Operations that the server counted, if that is another number.
        server_ops: Option<u64>,
        /// Commands that the workload does not declare, with their counts.
        undeclared: Vec<(String, u64)>,
    },
    /// The generator was the limit.
    GeneratorBound {
        /// Shares of a CPU that the generator's busiest thread and the server used, if they show it.
        busy: Option<(f64, f64)>,
        /// Share of the time in which the generator waited for a CPU, if it is large.
        waited: Option<f64>,
        /// Operations per second on a null server over those on this one, if they show it.
        null_speedup: Option<f64>,
    },
    /// The generator started operations late.
    LateStarts {
        /// 99th percentile of the lag.
        lag_ns: u64,
        /// 99th percentile of the response time.
        response_ns: u64,
    },
    /// Operations of an open loop that were not sent because of stalls.
    HeldBack {
        /// Operations that were not sent.
        not_sent: u64,
        /// Operations that the schedule held.
        planned: u64,
        /// Time in stalls.
        stalled_ns: u64,
    },
    /// Operations of an open loop that were not sent.
    NeverSent {
        /// Operations that were not sent.
        not_sent: u64,
        /// Operations that the schedule held.
        planned: u64,
        /// Whether the server was the limit.
        is_server: bool,
    },
    /// Response times of an open loop that grew within a block.
    Growing {
        /// The median at the end of a block over that at its beginning.
        growth: f64,
        /// Whether the server was the limit.
        is_server: bool,
    },
}

/// A flaw of the results: samples, blocks and replies.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultFlaw {
    /// Too few samples for percentiles.
    TooFewSamples {
        /// Samples.
        count: u64,
        /// Percentiles, each with the number of samples that it needs.
        missing: Vec<(Metric, u64)>,
    },
    /// The duration of the shortest block, in nanoseconds.
    ShortBlock(u64),
    /// The fewest clock readings in a block.
    FewClockReads(u64),
    /// No steady state.
    NoSteadyState,
    /// Operations failed.
    ErrorReplies {
        /// Failed operations.
        errors: u64,
        /// All operations.
        ops: u64,
        /// The most frequent error.
        main_error: Option<String>,
    },
    /// Reads that should find something did not: the share of those that did.
    ReadsMiss(f64),
}

/// Other activity of the server or its machine.
#[derive(Debug, Clone, PartialEq)]
pub enum ActivityFlaw {
    /// The CPU quota of the server's control group stopped it.
    Throttled(Throttled),
    /// The CPU quota of the load generator's control group stopped it.
    GeneratorThrottled(Throttled),
    /// A network device of the load generator was near its speed.
    NetworkLimit(NetworkUse),
    /// Tasks waited for a CPU.
    Contention {
        /// Share of the time in which tasks of the machine waited, if it is large.
        pressure: Option<f64>,
        /// Share of the time in which generator or server waited, if it is large.
        waited: Option<f64>,
    },
    /// The server did other work.
    ServerBusyElsewhere {
        /// Persistence that it has on, such as "appendonly yes".
        persistence: Vec<String>,
        /// Keys that it evicted.
        evicted_keys: u64,
        /// Bytes of its memory that are swapped out.
        swapped_bytes: u64,
    },
    /// The number of other clients that used the server.
    OtherClients(u64),
}

/// A flaw of the course of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowFlaw {
    /// No reply arrived, or no call returned, for a while.
    Stalls {
        /// The longest stall.
        longest: Stall,
        /// Whether the generator's threads execute the operations themselves.
        is_in_process: bool,
        /// The number of stalls.
        count: usize,
        /// The length of all stalls.
        total_ns: u64,
        /// Their share of the measured time.
        share: f64,
        /// The number of stalls of each known cause.
        causes: Vec<(StallCause, usize)>,
    },
    /// The host took CPU time.
    Steal {
        /// Share of the CPU time that the host took.
        stolen: Option<f64>,
        /// Pauses of this machine's CPUs, and their share of the time.
        paused: Option<(CpuPauses, f64)>,
    },
    /// The machine was slow in some of the rounds.
    SlowRounds(SlowRounds),
    /// The machine was slower than during the runs of a baseline.
    SlowerThanBaseline {
        /// Runs of the baseline.
        runs: u64,
        /// An echo over that of the best run.
        echo: f64,
        /// CPU time per operation over that of the best run.
        cpu: f64,
    },
}

/// The speed of the rounds of a case, compared with the best of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SlowRounds {
    /// Rounds in which the machine was slow.
    pub slow: usize,
    /// All rounds.
    pub rounds: usize,
    /// The echo of the slowest round over that of the best; `None` without an echo.
    pub echo: Option<f64>,
    /// CPU time per operation in the slowest round over that in the best.
    pub cpu: f64,
}

/// A flaw of a setup.
#[derive(Debug, Clone, PartialEq)]
pub enum SetupFlaw {
    /// Transparent huge pages are always on.
    HugePages,
    /// The CPU frequency governor, which is not `performance`.
    Governor(String),
    /// The clock is slow to read.
    SlowClock {
        /// The kernel's clock source.
        source: Option<String>,
        /// The time of a reading, if it was too long.
        read_ns: Option<f64>,
    },
    /// Every write waits for the disk.
    SyncOnEveryWrite,
    /// The server is close to its memory limit.
    MemoryLimit {
        /// Memory that it uses, in bytes.
        used: u64,
        /// The limit, in bytes.
        limit: u64,
        /// The policy of eviction, if known.
        policy: Option<String>,
    },
    /// Server and generator are in different sessions, among which the scheduler shares CPUs.
    Autogroup,
    /// Generator and server have more busy threads than the machine has CPUs.
    TooFewCpus {
        /// CPUs of the machine.
        cores: u64,
        /// Threads of the generator.
        generator_threads: u64,
        /// Threads of the server.
        io_threads: u64,
    },
    /// The limit of the output buffers of normal clients, as in the setting.
    OutputLimit(String),
    /// Every command is watched.
    Watched {
        /// Connections that receive every command.
        monitors: u64,
        /// Whether the slow log has every command.
        is_logged: bool,
    },
    /// Round trips on an idle connection vary.
    Jitter {
        /// Their median.
        p50_ns: u64,
        /// Their 99th percentile.
        p99_ns: u64,
    },
    /// The control group allows fewer CPUs than threads are busy.
    Quota {
        /// CPUs that it allows.
        quota_cores: f64,
        /// Busy threads.
        busy_threads: u64,
    },
    /// The path takes longer than the server.
    Distance {
        /// The median round trip on an idle connection.
        idle_ns: u64,
        /// The part of it that the server takes.
        server_ns: u64,
    },
    /// A link adds more latency than it should.
    LinkOff(Box<Link>),
}

/// A difference between the nodes of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusterFlaw {
    /// Versions of the program, each with its nodes.
    Versions(Grouped),
    /// Settings that differ among masters: the name, and each value with its nodes.
    Settings(Vec<(String, Grouped)>),
    /// Uneven numbers of slots.
    Slots {
        /// The master with the most slots, and their number.
        most: (String, u64),
        /// The master with the fewest slots, and their number.
        least: (String, u64),
    },
    /// Nodes that slots are moving to or from, with the number of these slots.
    Moving(Vec<(String, u64)>),
}

/// A flaw of a comparison of engines.
#[derive(Debug, Clone, PartialEq)]
pub enum EnginesFlaw {
    /// A class of durability syncs to a file system that keeps its files in memory.
    InMemory {
        /// The directory.
        dir: String,
        /// The file system.
        file_system: String,
    },
    /// A class of durability syncs, and a sync is too fast for a device that keeps data.
    FastSync {
        /// The directory.
        dir: String,
        /// The time of a write with fdatasync.
        sync_ns: u64,
    },
    /// Loadline was built without optimisation.
    DebugBuild,
    /// The data beside the memory that can hold it.
    CachedReads {
        /// Bytes of all keys and values.
        live_bytes: u64,
        /// Memory that the page cache can take.
        spare_memory_bytes: Option<u64>,
        /// Budget for the cache of each engine that has one.
        memory_bytes: Option<u64>,
    },
    /// Engines in this process beside servers.
    AcrossASocket {
        /// Engines in this process.
        called: Vec<String>,
        /// Servers behind a socket.
        served: Vec<String>,
        /// The socket's share of the time of a read on the first of these.
        socket_share: Option<f64>,
    },
    /// Batches beside single operations: one operation, on each engine.
    BatchBesideSingle(Vec<Batched>),
}

/// An operation of an engine in batches beside the same operation alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Batched {
    /// The engine.
    pub subject: String,
    /// The operation.
    pub operation: String,
    /// Operations in a batch.
    pub batch: u64,
    /// Time per operation in a batch over that of one alone.
    pub ratio: f64,
}

/// A flaw of a pair of measurements.
#[derive(Debug, Clone, PartialEq)]
pub enum PairFlaw {
    /// The names of the conditions that differ.
    ArmsDiffer(Vec<&'static str>),
    /// Hits took longer than misses.
    HitSlowerThanMiss {
        /// The time of a hit over that of a miss.
        ratio: f64,
        /// Its lower bound.
        at_least: f64,
        /// The reason.
        reason: HitReason,
    },
    /// More work took about the same time.
    TimeStaysFlat {
        /// The smaller amount of work.
        small: Work,
        /// The larger amount.
        large: Work,
    },
}

/// A flaw of several load generators that ran one plan.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentsFlaw {
    /// One agent answered fewer operations than the others, in a closed loop.
    SlowerRate {
        /// Its rank.
        agent: u64,
        /// Its operations per second.
        own: f64,
        /// The median of the others.
        others: f64,
    },
    /// One agent had longer response times than the others, in an open loop.
    SlowerTimes {
        /// Its rank.
        agent: u64,
        /// Its median response time.
        own_ns: f64,
        /// The median of those of the others.
        others_ns: f64,
    },
    /// Agents ran on one machine.
    OneHost {
        /// Their ranks.
        agents: Vec<u64>,
        /// Their threads.
        threads: u64,
        /// CPUs of the machine.
        cores: Option<u64>,
    },
    /// The share of the time in which all agents measured, of that in which any of them did.
    Apart(f64),
    /// The clock of an agent is known less exactly than the median response time.
    Clock {
        /// The rank of the agent whose clock is known least exactly.
        agent: u64,
        /// The largest possible error of its clock.
        bound_ns: u64,
        /// The median response time of all agents.
        p50_ns: u64,
    },
}

/// The reason why hits took longer than misses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HitReason {
    /// Misses were error replies.
    Errors {
        /// Error replies.
        errors: u64,
        /// All misses.
        ops: u64,
    },
    /// Replies to hits are larger.
    Payload {
        /// Bytes of the reply to a hit.
        hit: f64,
        /// Bytes of the reply to a miss.
        miss: f64,
    },
    /// Neither.
    Unknown,
}

/// An amount of work and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Operations or other units.
    pub units: u64,
    /// The duration in nanoseconds.
    pub duration_ns: u64,
}

/// A command that a server refused, and the rules that need its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotExamined {
    /// The subject that uses the server.
    pub subject: String,
    /// The command that was refused, such as `CONFIG GET`.
    pub command: String,
    /// The error of the server.
    pub reason: String,
    /// The rules that could not be applied in full.
    pub rules: Vec<Rule>,
}

impl LoadFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::ConnectionPerOperation { .. } => Rule::ConnectionPerOperation,
            Self::CountsDiffer { .. } => Rule::CountsDiffer,
            Self::GeneratorBound { .. } => Rule::GeneratorBound,
            Self::LateStarts { .. } => Rule::LateStarts,
            Self::HeldBack { .. } | Self::NeverSent { .. } | Self::Growing { .. } => {
                Rule::Overloaded
            }
        }
    }
}

impl ResultFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::TooFewSamples { .. } => Rule::TooFewSamples,
            Self::ShortBlock(_) | Self::FewClockReads(_) => Rule::BlockTooShort,
            Self::NoSteadyState => Rule::NoSteadyState,
            Self::ErrorReplies { .. } => Rule::ErrorReplies,
            Self::ReadsMiss(_) => Rule::ReadsMiss,
        }
    }
}

impl ActivityFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::Throttled(_) | Self::GeneratorThrottled(_) => Rule::Quota,
            Self::NetworkLimit(_) => Rule::NetworkLimit,
            Self::Contention { .. } => Rule::Contention,
            Self::ServerBusyElsewhere { .. } => Rule::ServerBusyElsewhere,
            Self::OtherClients(_) => Rule::OtherClients,
        }
    }
}

impl FlowFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::Stalls { .. } => Rule::Stall,
            Self::Steal { .. } => Rule::Steal,
            Self::SlowRounds(_) | Self::SlowerThanBaseline { .. } => Rule::SlowMachine,
        }
    }
}

impl SetupFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::HugePages => Rule::HugePages,
            Self::Governor(_) => Rule::Governor,
            Self::SlowClock { .. } => Rule::SlowClock,
            Self::SyncOnEveryWrite => Rule::SyncOnEveryWrite,
            Self::MemoryLimit { .. } => Rule::MemoryLimit,
            Self::Autogroup => Rule::Autogroup,
            Self::TooFewCpus { .. } => Rule::TooFewCpus,
            Self::OutputLimit(_) => Rule::OutputLimit,
            Self::Watched { .. } => Rule::Watched,
            Self::Jitter { .. } => Rule::Jitter,
            Self::Quota { .. } => Rule::Quota,
            Self::Distance { .. } => Rule::Distance,
            Self::LinkOff(_) => Rule::LinkOff,
        }
    }
}

impl ClusterFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::Versions(_) => Rule::ClusterVersions,
            Self::Settings(_) => Rule::ClusterSettings,
            Self::Slots { .. } => Rule::ClusterSlots,
            Self::Moving(_) => Rule::ClusterMoving,
        }
    }
}

impl EnginesFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::InMemory { .. } | Self::FastSync { .. } => Rule::SyncWithoutDisk,
            Self::DebugBuild => Rule::DebugBuild,
            Self::CachedReads { .. } => Rule::CachedReads,
            Self::AcrossASocket { .. } => Rule::AcrossASocket,
            Self::BatchBesideSingle(_) => Rule::BatchBesideSingle,
        }
    }
}

impl PairFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::ArmsDiffer(_) => Rule::ArmsDiffer,
            Self::HitSlowerThanMiss { .. } => Rule::HitSlowerThanMiss,
            Self::TimeStaysFlat { .. } => Rule::TimeStaysFlat,
        }
    }
}

impl AgentsFlaw {
    fn rule(&self) -> Rule {
        match self {
            Self::SlowerRate { .. } | Self::SlowerTimes { .. } => Rule::SlowerAgent,
            Self::OneHost { .. } => Rule::AgentsOnOneHost,
            Self::Apart(_) => Rule::AgentsApart,
            Self::Clock { .. } => Rule::AgentClocks,
        }
    }
}

impl NotExamined {
    fn rule(&self) -> Rule {
        Rule::NotExamined
    }
}

impl Work {
    /// The units of `larger` as a multiple of these.
    #[must_use]
    pub fn growth(&self, larger: &Self) -> f64 {
        larger.units as f64 / self.units.max(1) as f64
    }

    /// The time of `larger` as a multiple of this.
    #[must_use]
    pub fn time_growth(&self, larger: &Self) -> f64 {
        larger.duration_ns as f64 / self.duration_ns.max(1) as f64
    }
}
