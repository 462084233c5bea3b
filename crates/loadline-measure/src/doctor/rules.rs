//! The rules. Each examines the evidence and returns a finding or nothing.

use super::{Evidence, Finding, Rule, Severity, flow, percent};
use crate::words;

/// With fewer clock readings in a block, the clock's own cost affects the result.
pub const CLOCK_READS: u64 = 1_000;

/// All rules about one case.
pub(super) const RULES: [fn(&Evidence) -> Option<Finding>; 17] = [
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
/// The largest share of misses among reads that should hit.
const MISSES: f64 = 0.01;
/// The shortest reliable block.
const BLOCK_NS: u64 = 50_000_000;
/// The growth of the response time within a block that shows an endless queue, also as a multiple of the
/// service time.
/// The share of the time in stalls from which they explain growing response times.
const STALLED: f64 = 0.05;
const GROWTH: f64 = 2.0;

fn connection_per_operation(seen: &Evidence) -> Option<Finding> {
    let opened = seen.observed.connections_opened?;
    // Reconnecting and Loadline's own queries take a few connections; a connection per operation takes as
    // many as there are operations.
    let expected = seen
        .connections
        .saturating_mul(2)
        .saturating_add(seen.ops / 100)
        .saturating_add(20);
    (opened > expected).then(|| {
        seen.finding(
            Rule::ConnectionPerOperation,
            Severity::Critical,
            format!(
                "The server accepted {opened} connections during {} operations; expected {}.",
                seen.ops, seen.connections,
            ),
            "Keep connections open between operations; this run mostly measured connecting.",
        )
    })
}

fn counts_differ(seen: &Evidence) -> Option<Finding> {
    let differs = |server_ops: &u64| {
        seen.ops.abs_diff(*server_ops) as f64 / seen.ops.max(1) as f64 > COUNT_SLACK
    };
    let counted = seen.observed.server_ops.filter(differs).map(|server_ops| {
        let share = seen.ops.abs_diff(server_ops) as f64 / seen.ops.max(1) as f64;
        format!(
            "The generator counted {} operations and the server {server_ops}, a difference of {}.",
            seen.ops,
            percent(share),
        )
    });
    // Ignore another user's health checks.
    let least = UNDECLARED.max((seen.ops as f64 * COUNT_SLACK) as u64);
    let extra: Vec<String> = seen
        .observed
        .undeclared
        .iter()
        .filter(|(_, count)| *count > least)
        .map(|(name, count)| format!("{count} {}", name.to_ascii_uppercase()))
        .collect();
    let extra = (!extra.is_empty()).then(|| {
        format!(
            "In addition to {} operations, the server executed {}, which the workload does not declare.",
            seen.ops,
            extra.join(" and "),
        )
    });
    let evidence: Vec<String> = counted.into_iter().chain(extra).collect();
    (!evidence.is_empty()).then(|| {
        seen.finding(Rule::CountsDiffer, Severity::Critical,
            evidence.join(" "),
            "Look for setup inside the measured time, for retries, and for other users of the server.",
        )
    })
}

fn generator_bound(seen: &Evidence) -> Option<Finding> {
    let busy = seen
        .generator_busy
        .zip(seen.server_busy)
        .filter(|(generator, server)| {
            of_its_chance(*generator, seen.observed.run_queue_wait) > BUSY
                && of_its_chance(*server, seen.observed.server_wait) < BUSY
        });
    let near = seen
        .observed
        .null_speedup
        .filter(|times| *times < NULL_SPEEDUP);
    let busy = busy.map(|(generator, server)| {
        let waited = match seen.observed.run_queue_wait.filter(|waited| *waited > RUN_QUEUE_WAIT) {
            Some(waited) => format!(" (and waited for one {} of the time)", percent(waited)),
            None => String::new(),
        };
        format!(
            "The busiest thread of the generator used {} of a CPU{waited} while the server used {}: the generator was the bottleneck.",
            percent(generator),
            percent(server),
        )
    });
    let near = near.map(|times| {
        format!("A null server was only {times:.2} times as fast under the same load.")
    });
    let evidence: Vec<String> = busy.into_iter().chain(near).collect();
    (!evidence.is_empty()).then(|| {
        seen.finding(Rule::GeneratorBound, Severity::Warning,
            evidence.join(" "),
            "Give the generator more threads (--threads) or CPUs; the measured throughput is a lower bound for the server.",
        )
    })
}

/// The share of the time in which a thread ran, without the time it waited for a CPU: on a machine short of
/// CPUs, a thread that is always busy does not reach 80 % of one.
fn of_its_chance(busy: f64, waited: Option<f64>) -> f64 {
    busy / (1.0 - waited.unwrap_or(0.0)).max(LEAST_CHANCE)
}

fn late_starts(seen: &Evidence) -> Option<Finding> {
    let (lag, response) = (seen.lag?.p99?, seen.response.p99?);
    let share = lag as f64 / response.max(1) as f64;
    (share > LAG_SHARE).then(|| {
        seen.finding(Rule::LateStarts, Severity::Warning, format!(
            "The generator itself started operations late: the p99 of its lag is {}, which is {} of the reported p99 of {}.",
            words::duration(lag as f64), percent(share), words::duration(response as f64),
        ), "Lower --rate, add --threads, or give the generator a CPU of its own.")
    })
}

/// The server's own quota, which looks like contention: it waits although CPUs are free.
fn throttled(seen: &Evidence) -> Option<Finding> {
    let periods = seen
        .observed
        .server_throttled
        .filter(super::Throttled::is_limit)?;
    Some(seen.finding(
        Rule::Quota,
        Severity::Warning,
        format!(
            "The CPU quota of the server's control group stopped it in {} of {} periods: the quota is the server's limit, and the waits are in its tail.",
            periods.throttled, periods.periods
        ),
        "Give the server more CPU time (cpu.max or cpu.cfs_quota_us of its control group, the CPU limit of its container), or report the figures as those of this quota.",
    ))
}

fn contention(seen: &Evidence) -> Option<Finding> {
    // Tasks that a quota stops wait for a CPU too, but for none that others use.
    let pressure = seen.observed.cpu_pressure.filter(|share| *share > PRESSURE);
    let pressure = pressure.filter(|_| !seen.is_throttled());
    let waited = seen
        .observed
        .run_queue_wait
        .unwrap_or(0.0)
        .max(seen.observed.server_wait.unwrap_or(0.0));
    let waiting = Some(waited).filter(|share| *share > RUN_QUEUE_WAIT);
    let evidence = match (pressure, waiting) {
        (None, None) => return None,
        (Some(pressure), None) => format!(
            "Tasks waited for a CPU {} of the time (pressure stall).",
            percent(pressure)
        ),
        (None, Some(waiting)) => format!(
            "Generator or server waited for a CPU {} of their time.",
            percent(waiting)
        ),
        (Some(pressure), Some(waiting)) => format!(
            "Tasks waited for a CPU {} of the time (pressure stall), generator or server {} of theirs.",
            percent(pressure),
            percent(waiting),
        ),
    };
    let advice = "Stop other programs on this machine, or pin server and generator to separate CPUs. Tails include scheduling delays. A ratio is quoted only where A against A, in the same rounds, would be level within 20 %.";
    Some(seen.finding(Rule::Contention, Severity::Warning, evidence, advice))
}

fn too_few_samples(seen: &Evidence) -> Option<Finding> {
    let (count, response) = (seen.response.count, &seen.response);
    let needs = [
        ("p50", response.p50, 200),
        ("p99", response.p99, 10_000),
        ("p99.9", response.p999, 100_000),
    ];
    let missing: Vec<String> = needs
        .iter()
        .filter(|(_, value, _)| value.is_none())
        .map(|(name, _, needed)| format!("{name} (needs {needed})"))
        .collect();
    (!missing.is_empty()).then(|| {
        seen.finding(
            Rule::TooFewSamples,
            Severity::Info,
            format!("{count} samples are too few for {}.", missing.join(", ")),
            "Run longer (--duration, --ops, --rounds) if you need that percentile.",
        )
    })
}

fn error_replies(seen: &Evidence) -> Option<Finding> {
    (seen.errors > 0).then(|| {
        let share = percent(seen.errors as f64 / seen.ops.max(1) as f64);
        let kind = seen
            .main_error
            .as_ref()
            .map(|kind| format!(", most of them {kind}"))
            .unwrap_or_default();
        seen.finding(
            Rule::ErrorReplies,
            Severity::Critical,
            format!(
                "{} of {} operations ({share}) failed{kind}.",
                seen.errors, seen.ops,
            ),
            "Fix the cause before using the times: error replies are often faster than real ones.",
        )
    })
}

fn reads_miss(seen: &Evidence) -> Option<Finding> {
    let hits = seen
        .hit_ratio
        .filter(|hits| seen.reads_should_hit && *hits < 1.0 - MISSES)?;
    Some(seen.finding(Rule::ReadsMiss, Severity::Warning,
        format!("Only {} of the reads found their key.", percent(hits),),
        "Load the key space before measuring, and check whether keys expire or are evicted; a miss costs less than a hit.",
    ))
}

fn server_busy_elsewhere(seen: &Evidence) -> Option<Finding> {
    let mut active = Vec::new();
    if !seen.observed.persistence.is_empty() {
        active.push(format!(
            "it persists ({})",
            seen.observed.persistence.join(", ")
        ));
    }
    if let Some(keys) = seen.observed.evicted_keys.filter(|keys| *keys > 0) {
        active.push(format!("it evicted {keys} keys"));
    }
    if let Some(bytes) = seen.observed.swapped_bytes.filter(|bytes| *bytes > 0) {
        active.push(format!("{bytes} bytes of its memory are swapped out"));
    }
    (!active.is_empty()).then(|| {
        seen.finding(
            Rule::ServerBusyElsewhere,
            Severity::Warning,
            format!("The server did other work as well: {}.", active.join("; "),),
            "Disable it for the measurement, or state with the figures that it was enabled.",
        )
    })
}

fn other_clients(seen: &Evidence) -> Option<Finding> {
    let clients = seen.observed.other_clients.filter(|clients| *clients > 0)?;
    Some(seen.finding(
        Rule::OtherClients,
        Severity::Warning,
        format!(
            "{clients} other {} active on the server during the run.",
            if clients == 1 {
                "client was"
            } else {
                "clients were"
            },
        ),
        "Measure a server that has no other users.",
    ))
}

fn block_too_short(seen: &Evidence) -> Option<Finding> {
    let short = seen.shortest_block_ns.filter(|ns| *ns < BLOCK_NS);
    let few = seen
        .observed
        .clock_reads
        .filter(|reads| *reads < CLOCK_READS);
    let evidence = match (short, few) {
        (None, None) => return None,
        (Some(ns), _) => format!(
            "The shortest block took {:.1} ms; results of blocks below 50 ms are unreliable.",
            ns as f64 / 1e6
        ),
        (None, Some(reads)) => format!(
            "A block read the clock only {reads} times; results with fewer than {CLOCK_READS} readings are unreliable."
        ),
    };
    Some(seen.finding(
        Rule::BlockTooShort,
        Severity::Warning,
        evidence,
        "Give each block more time (--duration) or more operations (--ops).",
    ))
}

fn no_steady_state(seen: &Evidence) -> Option<Finding> {
    (seen.steady == Some(false)).then(|| {
        seen.finding(
            Rule::NoSteadyState,
            Severity::Warning,
            "No steady state: the medians kept shifting during the warm-up or over the rounds."
                .to_owned(),
            "Warm up longer (--warmup), and look for growth: memory, key space, clock speed.",
        )
    })
}

/// Operations that were not sent because of stalls.
fn unsent_for_stalls(seen: &Evidence, not_sent: u64, planned: u64, stalled_ns: u64) -> Finding {
    seen.finding(
        Rule::Overloaded,
        Severity::Critical,
        format!(
            "After stalls of {} in total, {not_sent} of {planned} planned operations ({}) were never sent: the percentiles are lower bounds.",
            words::duration(stalled_ns as f64),
            percent(not_sent as f64 / planned.max(1) as f64),
        ),
        "Look for the cause of the stalls (LL037), and repeat the run without them.",
    )
}

fn overloaded(seen: &Evidence) -> Option<Finding> {
    let planned = seen.planned?;
    let not_sent = seen.not_sent.unwrap_or(0);
    let queued = seen
        .response
        .mean
        .zip(seen.service.mean)
        .map(|(response, service)| response / service.max(1.0));
    let stalled_ns: u64 = seen.stalls.iter().map(|stall| stall.length_ns).sum();
    let stalled = stalled_ns as f64 / seen.measured_ns.max(1) as f64;
    // Operations queue during a stall at any rate.
    if not_sent > 0 && not_sent as f64 <= planned as f64 * stalled {
        return Some(unsent_for_stalls(seen, not_sent, planned, stalled_ns));
    }
    let growth = seen.response_growth.filter(|growth| {
        *growth > GROWTH && queued.is_some_and(|times| times > GROWTH) && stalled < STALLED
    });
    // A busy machine or a slow generator keeps a rate from being reached, too.
    let is_server = seen
        .server_busy
        .is_some_and(|busy| of_its_chance(busy, seen.observed.server_wait) > BUSY);
    let limit = if is_server {
        "The rate exceeds the capacity of the target"
    } else {
        "The rate was not kept"
    };
    let evidence = match (not_sent, growth) {
        (0, None) => return None,
        (0, Some(growth)) => {
            format!("{limit}: the median response time grew {growth:.1}-fold within a block.",)
        }
        _ => format!(
            "{limit}: {not_sent} of {planned} planned operations ({}) were never sent.",
            percent(not_sent as f64 / planned.max(1) as f64),
        ),
    };
    Some(seen.finding(
        Rule::Overloaded,
        Severity::Critical,
        evidence,
        "Lower --rate: these response times are those of a queue that keeps growing.",
    ))
}
