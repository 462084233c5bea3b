//! Flaws of the benchmark itself: numbered rules, each a pure function of the evidence.
//!
//! A rule yields a [`Diagnosis`] with its figures. `loadline-report` writes it as a [`Finding`] of a record, in words.
//!
//! A rule without evidence reports nothing; if a server refuses a command, [`NotExamined`] names the affected
//! rules. Rule numbers are stable; a removed rule leaves a gap.

mod agents;
mod blind;
mod cluster;
mod engines;
mod flaw;
mod flow;
mod pairs;
mod rule;
mod rules;
mod setup;
mod since;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::histogram::LatencySummary;
use crate::record::{Case, CpuPauses, Stall, SubjectKind};

pub use agents::{examine_agents, examine_hosts};
pub use cluster::{ClusterNode, examine_cluster};
pub use engines::{Directory, EnginesSetup, batched, examine_engines};
pub use flaw::{
    ActivityFlaw, AgentsFlaw, Batched, ClusterFlaw, Diagnosis, EnginesFlaw, Flaw, FlowFlaw,
    Grouped, HitReason, LoadFlaw, NotExamined, PairFlaw, ResultFlaw, SetupFlaw, SlowRounds, Work,
};
pub use pairs::{arms_differ, hit_beside_miss, time_stays_flat};
pub use rule::{Class, Rule};
pub use rules::CLOCK_READS;
pub use setup::{CLOCK_READ_NS, SETTINGS, Setup, examine_link, examine_setup};
pub use since::slower_than_baseline;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the figures are valid.
    Info,
    /// The figures need care.
    Warning,
    /// The figures do not mean what they seem to.
    Critical,
}

/// A flaw that was found, as a record tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule that found it, such as `LL003`.
    pub rule: Rule,
    /// The severity.
    pub severity: Severity,
    /// The subject of the finding, such as "embedded, get". Empty if it concerns the whole run.
    #[serde(default)]
    pub scope: String,
    /// The evidence, with numbers.
    pub evidence: String,
    /// Advice.
    pub what_to_do: String,
}

/// Observations of a server and its machine beside the blocks of a case. Values that were not observed are `None` or
/// empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Connections that the server accepted during the case.
    pub connections_opened: Option<u64>,
    /// Operations that the server counted during the case, of the kinds that the workload declares.
    pub server_ops: Option<u64>,
    /// Commands that the server counted during the case and the workload does not declare, with their counts;
    /// Loadline's own queries are excluded.
    pub undeclared: Vec<(String, u64)>,
    /// Operations per second on a null server, over those on this one.
    pub null_speedup: Option<f64>,
    /// Share of the time in which tasks of the machine waited for a CPU.
    pub cpu_pressure: Option<f64>,
    /// Share of the time in which the generator was runnable and waited for a CPU.
    pub run_queue_wait: Option<f64>,
    /// Share of the time in which the server did, if it runs on the same machine.
    pub server_wait: Option<f64>,
    /// Number of times that the CPU quota of the server's control group stopped it, if it runs on the same machine.
    pub server_throttled: Option<Throttled>,
    /// Number of times that the CPU quota of the generator's control group stopped it.
    pub generator_throttled: Option<Throttled>,
    /// Use of the network device on the way to the server that was closest to its speed.
    pub network: Option<NetworkUse>,
    /// Persistence that the server has on, such as "appendonly yes".
    pub persistence: Vec<String>,
    /// Keys that the server evicted during the run.
    pub evicted_keys: Option<u64>,
    /// Memory of the server that is swapped out.
    pub swapped_bytes: Option<u64>,
    /// Other clients that were active on the server during the run.
    pub other_clients: Option<u64>,
    /// The fewest clock readings in a block.
    pub clock_reads: Option<u64>,
    /// Share of the machine's CPU time taken by its host.
    pub steal: Option<f64>,
}

/// The evidence of one case: its figures, and the observations of its server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// The subject of the findings, such as "embedded, get".
    scope: String,
    /// Whether the generator's threads execute the operations themselves, without a server.
    is_in_process: bool,
    /// Operations that the generator counted.
    ops: u64,
    /// Connections of the scenario, over all rounds.
    connections: u64,
    /// Share of one CPU that the busiest thread of the generator worked on; waiting awake is no work.
    generator_busy: Option<f64>,
    /// Share of one CPU that the server used.
    server_busy: Option<f64>,
    /// Lag of the generator: lateness of the starts of operations (open loop).
    lag: Option<LatencySummary>,
    /// Response times.
    response: LatencySummary,
    /// Service times.
    service: LatencySummary,
    /// Failed operations.
    errors: u64,
    /// The most frequent error.
    main_error: Option<String>,
    /// Share of the reads that found something.
    hit_ratio: Option<f64>,
    /// Whether the reads should find something.
    reads_should_hit: bool,
    /// The shortest block.
    shortest_block_ns: Option<u64>,
    /// Whether the case reached a steady state.
    steady: Option<bool>,
    /// Operations that the schedule held (open loop).
    planned: Option<u64>,
    /// Scheduled operations that were never sent.
    not_sent: Option<u64>,
    /// Median response time at the end of a block over that at its beginning (open loop).
    response_growth: Option<f64>,
    /// The measured time of the case, over all rounds.
    measured_ns: u64,
    /// Stalls that are long enough to report.
    stalls: Vec<Stall>,
    /// Pauses of this machine's CPUs.
    cpu_pauses: Option<CpuPauses>,
    /// The speed of the rounds, compared with the best of them.
    slow_rounds: Option<SlowRounds>,
    /// Observations of the server and the machine.
    observed: Observed,
}

/// Use of a network device of the load generator, by all programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkUse {
    /// The name of the device.
    pub device: String,
    /// The speed that it states, in bytes per second in each direction.
    pub speed: u64,
    /// Bytes per second in the busier direction.
    pub used: u64,
}

/// Periods of a control group with a CPU quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which the group had something to run.
    pub periods: u64,
    /// Those of them in which it used up its quota and was stopped.
    pub throttled: u64,
}

impl Throttled {
    /// The periods of two stretches of time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            periods: self.periods.saturating_add(other.periods),
            throttled: self.throttled.saturating_add(other.throttled),
        }
    }

    /// Whether the quota stopped the group in more than a tenth of the periods.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.throttled > 0 && self.throttled.saturating_mul(10) > self.periods
    }
}

impl Observed {
    /// Whether the CPU quota of the server's control group stopped it often enough to be the limit.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.server_throttled.is_some_and(|seen| seen.is_limit())
    }
}

impl Evidence {
    /// The evidence of something that is not a case, such as a node of a cluster. `scope` is the subject of the findings,
    /// such as "embedded, get", and `ops` the number of operations that the generator counted.
    #[must_use]
    pub fn of_scope(scope: String, ops: u64, observed: Observed) -> Self {
        Self {
            scope,
            ops,
            observed,
            ..Self::default()
        }
    }

    /// The evidence of a case.
    #[must_use]
    pub fn of_case(case: &Case, observed: Observed) -> Self {
        let main_error = case.errors.iter().max_by_key(|(_, count)| **count);
        Self {
            scope: scope(case),
            is_in_process: matches!(
                case.subject.kind,
                SubjectKind::Engine | SubjectKind::Store | SubjectKind::Application
            ),
            ops: case.ops,
            connections: case
                .scenario
                .connections
                .saturating_mul(case.rounds.len().max(1) as u64),
            generator_busy: case.client_cpu_busy,
            server_busy: case.server_cpu_busy,
            lag: case.lag_ns,
            response: case.response_time_ns,
            service: case.service_time_ns,
            errors: case.error_count(),
            main_error: main_error.map(|(kind, _)| kind.clone()),
            hit_ratio: case.hit_ratio,
            reads_should_hit: case.hit_ratio.is_some(),
            shortest_block_ns: case.rounds.iter().map(|round| round.duration_ns).min(),
            steady: Some(case.steady),
            planned: case.planned,
            not_sent: case.not_sent,
            response_growth: case.is_open_loop().then(|| growth(case)).flatten(),
            measured_ns: case.duration_ns,
            stalls: flow::long_stalls(case),
            cpu_pauses: case.cpu_pauses,
            slow_rounds: SlowRounds::of(case),
            observed,
        }
    }

    fn diagnosis(&self, severity: Severity, flaw: impl Into<Flaw>) -> Diagnosis {
        Diagnosis::new(&self.scope, severity, flaw)
    }
}

/// Applies all rules to the evidence of one case; the most severe findings come first.
#[must_use]
pub fn examine(evidence: &Evidence) -> Vec<Diagnosis> {
    let mut found: Vec<Diagnosis> = rules::RULES
        .iter()
        .filter_map(|rule| rule(evidence))
        .collect();
    found.sort_by_key(|diagnosis| std::cmp::Reverse(diagnosis.severity));
    found
}

/// The scope of findings about a case.
/// The words that identify its case: `redis, put, process`.
#[must_use]
pub fn scope(case: &Case) -> String {
    let scope = format!("{}, {}", case.subject.name, case.scenario.workload);
    match &case.scenario.durability {
        None => scope,
        Some(class) => format!("{scope}, {class}"),
    }
}

/// The growth of the median response time within a block: the last interval over the first, as a median over
/// the rounds.
fn growth(case: &Case) -> Option<f64> {
    let rounds = case.series.chunk_by(|one, next| one.round == next.round);
    let ratios: Vec<f64> = rounds
        .filter_map(|intervals| {
            let mut medians = intervals.iter().filter_map(|interval| interval.p50);
            let (first, last) = (medians.next()?, medians.next_back()?);
            Some(last as f64 / first.max(1) as f64)
        })
        .collect();
    crate::quantile::median(&ratios)
}
