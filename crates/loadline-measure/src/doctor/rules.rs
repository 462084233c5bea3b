//! The rules. Each examines the evidence and returns a diagnosis or nothing.

use super::flaw::{ActivityFlaw, Diagnosis, LoadFlaw, ResultFlaw};
use super::{Evidence, Severity, Throttled, flow};
use crate::metric::Metric;

/// With fewer clock readings in a block, the clock's own cost affects the result.
pub const CLOCK_READS: u64 = 1_000;

/// All rules about one case.
pub(super) const RULES: [fn(&Evidence) -> Option<Diagnosis>; 18] = [
    connection_per_operation,
    counts_differ,
    generator_bound,
    late_starts,
    contention,
    throttled,
    too_few_samples,
    error_replies,
    reads_miss,
    server_busy_elsewhere,
    other_clients,
    network_limit,
    block_too_short,
    no_steady_state,
    overloaded,
    flow::stall,
    flow::steal,
    flow::slow_machine,
];

/// The share of a CPU above which a thread cannot be on time.
const BUSY: f64 = 0.8;
/// The largest difference between the counts of both sides, as a share of the operations.
const COUNT_SLACK: f64 = 0.001;
/// The most calls of an undeclared command that are ignored.
const UNDECLARED: u64 = 20;
/// The smallest share of the time without waiting from which a thread's load can be judged.
const LEAST_CHANCE: f64 = 0.05;
/// The smallest speed-up of a null server that shows the server is the bottleneck.
const NULL_SPEEDUP: f64 = 1.5;
/// The largest share of the reported p99 that can be the generator's own lag.
const LAG_SHARE: f64 = 0.1;
/// The share of the time that tasks can wait for a CPU without a finding.
const PRESSURE: f64 = 0.1;
/// The share of the time that generator and server can wait for a CPU without a finding.
const RUN_QUEUE_WAIT: f64 = 0.05;
/// The share of its speed above which a network device can be the limit. Headers and gaps between frames take up to 5 %.
const NETWORK: f64 = 0.8;
/// The largest share of misses among reads that should hit.
const MISSES: f64 = 0.01;
/// The shortest reliable block.
const BLOCK_NS: u64 = 50_000_000;
/// The share of the time in stalls from which they explain growing response times.
const STALLED: f64 = 0.05;
/// The growth of the response time within a block that shows an endless queue, also as a multiple of the
/// service time.
const GROWTH: f64 = 2.0;

fn connection_per_operation(seen: &Evidence) -> Option<Diagnosis> {
    let opened = seen.observed.connections_opened?;
    let (ops, expected) = (seen.ops, seen.connections);
    // Reconnecting and Loadline's own queries take a few connections; a connection per operation takes as
    // many as there are operations.
    let most = expected
        .saturating_mul(2)
        .saturating_add(ops / 100)
        .saturating_add(20);
    let flaw = LoadFlaw::ConnectionPerOperation {
        opened,
        ops,
        expected,
    };
    (opened > most).then(|| seen.diagnosis(Severity::Critical, flaw))
}

fn counts_differ(seen: &Evidence) -> Option<Diagnosis> {
    let differs = |server_ops: &u64| {
        seen.ops.abs_diff(*server_ops) as f64 / seen.ops.max(1) as f64 > COUNT_SLACK
    };
    let server_ops = seen.observed.server_ops.filter(differs);
    // Ignore another user's health checks.
    let least = UNDECLARED.max((seen.ops as f64 * COUNT_SLACK) as u64);
    let undeclared = seen.observed.undeclared.iter();
    let undeclared: Vec<(String, u64)> = undeclared
        .filter(|(_, count)| *count > least)
        .cloned()
        .collect();
    (server_ops.is_some() || !undeclared.is_empty()).then(|| {
        let flaw = LoadFlaw::CountsDiffer {
            ops: seen.ops,
            server_ops,
            undeclared,
        };
        seen.diagnosis(Severity::Critical, flaw)
    })
}

fn generator_bound(seen: &Evidence) -> Option<Diagnosis> {
    let waited = seen.observed.run_queue_wait;
    let busy = seen
        .generator_busy
        .zip(seen.server_busy)
        .filter(|(generator, server)| {
            of_its_chance(*generator, waited) > BUSY
                && of_its_chance(*server, seen.observed.server_wait) < BUSY
        });
    let null_speedup = seen.observed.null_speedup;
    let null_speedup = null_speedup.filter(|times| *times < NULL_SPEEDUP);
    let bound = LoadFlaw::GeneratorBound {
        busy,
        waited: waited.filter(|waited| *waited > RUN_QUEUE_WAIT),
        null_speedup,
    };
    (busy.is_some() || null_speedup.is_some()).then(|| seen.diagnosis(Severity::Warning, bound))
}

/// The share of the time in which a thread ran, without the time it waited for a CPU: on a machine short of
/// CPUs, a thread that is always busy does not reach 80 % of one.
fn of_its_chance(busy: f64, waited: Option<f64>) -> f64 {
    busy / (1.0 - waited.unwrap_or(0.0)).max(LEAST_CHANCE)
}

fn late_starts(seen: &Evidence) -> Option<Diagnosis> {
    let (lag_ns, response_ns) = (seen.lag?.p99?, seen.response.p99?);
    let late = LoadFlaw::LateStarts {
        lag_ns,
        response_ns,
    };
    (lag_ns as f64 / response_ns.max(1) as f64 > LAG_SHARE)
        .then(|| seen.diagnosis(Severity::Warning, late))
}

/// The quota of the server or of the generator, which looks like contention: it waits although CPUs are free. Both can
/// be in one control group, so only one of them is named.
fn throttled(seen: &Evidence) -> Option<Diagnosis> {
    let limit = |periods: Option<Throttled>| periods.filter(Throttled::is_limit);
    let server = limit(seen.observed.server_throttled).map(ActivityFlaw::Throttled);
    let generator = || limit(seen.observed.generator_throttled);
    let flaw = server.or_else(|| generator().map(ActivityFlaw::GeneratorThrottled))?;
    Some(seen.diagnosis(Severity::Warning, flaw))
}

fn network_limit(seen: &Evidence) -> Option<Diagnosis> {
    let network = seen.observed.network.clone();
    let network = network.filter(|network| network.used as f64 > NETWORK * network.speed as f64)?;
    Some(seen.diagnosis(Severity::Warning, ActivityFlaw::NetworkLimit(network)))
}

fn contention(seen: &Evidence) -> Option<Diagnosis> {
    // Tasks that a quota stops wait for a CPU too, but for none that others use.
    let pressure = seen.observed.cpu_pressure.filter(|share| *share > PRESSURE);
    let pressure = pressure.filter(|_| !seen.observed.is_throttled());
    let waited = seen
        .observed
        .run_queue_wait
        .unwrap_or(0.0)
        .max(seen.observed.server_wait.unwrap_or(0.0));
    let waited = Some(waited).filter(|share| *share > RUN_QUEUE_WAIT);
    let contention = ActivityFlaw::Contention { pressure, waited };
    (pressure.is_some() || waited.is_some()).then(|| seen.diagnosis(Severity::Warning, contention))
}

fn too_few_samples(seen: &Evidence) -> Option<Diagnosis> {
    let response = &seen.response;
    let needs = [
        (Metric::P50, response.p50, 200),
        (Metric::P99, response.p99, 10_000),
        (Metric::P999, response.p999, 100_000),
    ];
    let missing = needs.into_iter().filter(|(_, value, _)| value.is_none());
    let missing: Vec<(Metric, u64)> = missing
        .map(|(metric, _, needed)| (metric, needed))
        .collect();
    let count = response.count;
    (!missing.is_empty())
        .then(|| seen.diagnosis(Severity::Info, ResultFlaw::TooFewSamples { count, missing }))
}

fn error_replies(seen: &Evidence) -> Option<Diagnosis> {
    (seen.errors > 0).then(|| {
        let failed = ResultFlaw::ErrorReplies {
            errors: seen.errors,
            ops: seen.ops,
            main_error: seen.main_error.clone(),
        };
        seen.diagnosis(Severity::Critical, failed)
    })
}

fn reads_miss(seen: &Evidence) -> Option<Diagnosis> {
    let hits = seen
        .hit_ratio
        .filter(|hits| seen.reads_should_hit && *hits < 1.0 - MISSES)?;
    Some(seen.diagnosis(Severity::Warning, ResultFlaw::ReadsMiss(hits)))
}

fn server_busy_elsewhere(seen: &Evidence) -> Option<Diagnosis> {
    let observed = &seen.observed;
    let evicted_keys = observed.evicted_keys.unwrap_or(0);
    let swapped_bytes = observed.swapped_bytes.unwrap_or(0);
    let is_idle = observed.persistence.is_empty() && evicted_keys == 0 && swapped_bytes == 0;
    (!is_idle).then(|| {
        let work = ActivityFlaw::ServerBusyElsewhere {
            persistence: observed.persistence.clone(),
            evicted_keys,
            swapped_bytes,
        };
        seen.diagnosis(Severity::Warning, work)
    })
}

fn other_clients(seen: &Evidence) -> Option<Diagnosis> {
    let clients = seen.observed.other_clients.filter(|clients| *clients > 0)?;
    Some(seen.diagnosis(Severity::Warning, ActivityFlaw::OtherClients(clients)))
}

fn block_too_short(seen: &Evidence) -> Option<Diagnosis> {
    let short = seen.shortest_block_ns.filter(|ns| *ns < BLOCK_NS);
    let few = seen
        .observed
        .clock_reads
        .filter(|reads| *reads < CLOCK_READS);
    let flaw = short.map(ResultFlaw::ShortBlock);
    let flaw = flaw.or(few.map(ResultFlaw::FewClockReads))?;
    Some(seen.diagnosis(Severity::Warning, flaw))
}

fn no_steady_state(seen: &Evidence) -> Option<Diagnosis> {
    (seen.steady == Some(false))
        .then(|| seen.diagnosis(Severity::Warning, ResultFlaw::NoSteadyState))
}

fn overloaded(seen: &Evidence) -> Option<Diagnosis> {
    let planned = seen.planned?;
    let not_sent = seen.not_sent.unwrap_or(0);
    let queued = seen
        .response
        .mean
        .zip(seen.service.mean)
        .map(|(response, service)| response / service.max(1.0));
    let stalled_ns: u64 = seen.stalls.iter().map(|stall| stall.length_ns).sum();
    let stalled = stalled_ns as f64 / seen.measured_ns.max(1) as f64;
    let growth = seen.response_growth.filter(|growth| {
        *growth > GROWTH && queued.is_some_and(|times| times > GROWTH) && stalled < STALLED
    });
    // A busy machine or a slow generator keeps a rate from being reached, too.
    let is_server = seen
        .server_busy
        .is_some_and(|busy| of_its_chance(busy, seen.observed.server_wait) > BUSY);
    let flaw = match not_sent {
        0 => LoadFlaw::Growing {
            growth: growth?,
            is_server,
        },
        // Operations queue during a stall at any rate.
        _ if not_sent as f64 <= planned as f64 * stalled => LoadFlaw::HeldBack {
            not_sent,
            planned,
            stalled_ns,
        },
        _ => LoadFlaw::NeverSent {
            not_sent,
            planned,
            is_server,
        },
    };
    Some(seen.diagnosis(Severity::Critical, flaw))
}
