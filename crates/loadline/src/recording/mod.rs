//! Converts measured blocks into the record: cases, comparisons, findings.

mod tiers;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use loadline_load::outcome::Outcome;
use loadline_load::pacing::Pacing;
use loadline_load::pauses::Pause;
use loadline_load::runner::Measured;
use loadline_load::stall::MOST_STALLS;
use loadline_measure::compare::{self, Paired, Rules};
use loadline_measure::corrected::Corrected;
use loadline_measure::doctor::{self, Class, Evidence, Finding, Observed};
use loadline_measure::histogram::Histogram;
use loadline_measure::record::{
    self, Bounds, Comparison, Cost, CpuPauses, Histograms, Interval, Percentiles, Record,
    RoundHistograms, RoundSummary, Scenario, Stall, StallCause, Subject, SubjectKind, Surroundings,
    Tail, TailSummary,
};
use loadline_measure::{Error, Metric, outliers, steady};
use loadline_report::{findings, paired_evidence};

use crate::exit::Failure;
use crate::plan::{Case, Plan, scenario};
use crate::spelling::{Choice, Kind, Target};
use crate::systems::Opened;
use crate::units::nanoseconds;

pub(crate) use tiers::{CacheRan, LoadRan, NO_TIER, RanArm, TierFacts, conclude_tiers};

/// The origin of the operations of a case.
pub(crate) struct Origin<'o> {
    pub(crate) subject: Subject,
    /// The target, of which the conditions of the case depend.
    pub(crate) target: &'o Target,
    /// Threads that called it.
    pub(crate) threads: u64,
    /// Whether nothing is in the path, so that a stall has a cause on this machine.
    pub(crate) is_direct: bool,
    /// Whether the CPU quota of the target's control group was its limit.
    pub(crate) is_throttled: bool,
}

impl<'o> Origin<'o> {
    fn of(target: &'o Opened, case: &Case, around: &Observed) -> Self {
        Self {
            subject: subject(target),
            target: &target.target,
            threads: target.threads(case),
            is_direct: target.link().is_none()
                && target
                    .server()
                    .is_none_or(crate::spelling::Server::is_local)
                && !target.target.is_cluster(),
            is_throttled: around.is_throttled(),
        }
    }
}

/// The case of one target, from its blocks; there is at least one. `around` was observed outside the blocks.
pub(crate) fn case(
    case: &Case,
    plan: &Plan,
    target: &Opened,
    measured: &Measured,
    around: &Observed,
) -> record::Case {
    case_of(case, plan, Origin::of(target, case, around), measured)
}

/// The case of `origin`, from its blocks; there is at least one.
pub(crate) fn case_of(
    case: &Case,
    plan: &Plan,
    origin: Origin<'_>,
    measured: &Measured,
) -> record::Case {
    let blocks = &measured.blocks;
    let sum = |of: fn(&Outcome) -> u64| blocks.iter().map(of).sum::<u64>();
    let ops = sum(|block| block.ops);
    let duration: Duration = blocks.iter().map(|block| block.duration).sum();
    let response = merged(blocks, |block| &block.response);
    let service = merged(blocks, |block| &block.service);
    let lag = merged(blocks, |block| &block.lag);
    let open = matches!(case.pacing, Pacing::Open { .. });
    let reads = sum(|block| block.reads);
    let nils = sum(|block| block.nils);
    let rounds: Vec<RoundSummary> = (blocks.iter())
        .map(|block| round_summary(block, origin.threads))
        .collect();
    let throughputs: Vec<f64> = rounds
        .iter()
        .map(|round| round.throughput_ops_per_s)
        .collect();
    let throughput = ops as f64 / duration.as_secs_f64().max(1e-9);
    let mean_ns = response.summary().mean;
    let server_cpu: Option<Duration> = blocks.iter().map(|block| block.target.cpu).sum();
    let busiest: Option<Duration> = blocks.iter().map(|block| block.target.busiest).sum();
    record::Case {
        subject: origin.subject,
        scenario: Scenario {
            threads: origin.threads,
            ..scenario(case, plan, origin.target)
        },
        ops,
        errors: errors(blocks),
        planned: open.then(|| blocks.iter().filter_map(|block| block.planned).sum()),
        not_sent: open.then(|| sum(|block| block.not_sent)),
        percentiles: open.then(|| percentiles(blocks)),
        duration_ns: nanoseconds(duration),
        throughput_ops_per_s: throughput,
        response_time_ns: response.summary(),
        service_time_ns: service.summary(),
        lag_ns: open.then(|| lag.summary()),
        hit_ratio: (reads > 0).then(|| 1.0 - nils.min(reads) as f64 / reads as f64),
        steady: measured.steady.unwrap_or(true) && !steady::drifts(&throughputs),
        warmup_ns: nanoseconds(measured.warmup),
        little: mean_ns.map(|mean| throughput * mean / 1e9),
        // A subject in this process runs in the generator's own threads, and so does a client.
        client_cpu_busy: (!origin.target.is_in_process() && case.workload.rules.job.is_none())
            .then(|| {
                blocks
                    .iter()
                    .map(|block| block.generator.busiest)
                    .fold(0.0, f64::max)
            }),
        // A target of several servers is as busy as the busiest of them.
        server_cpu_busy: busiest.map(|cpu| cpu.as_secs_f64() / duration.as_secs_f64().max(1e-9)),
        outliers: outliers::count(&throughputs),
        rounds,
        histograms: histograms(blocks, &response, &service, open.then_some(&lag)),
        series: series(blocks),
        stalls: stalls(blocks, origin.is_direct, origin.is_throttled),
        cpu_pauses: cpu_pauses(blocks),
        tail: tail(blocks),
        cost: cost(blocks, ops, server_cpu),
        work: None,
        client_work: None,
        parts_ns: record::Parts {
            server: server_time(blocks),
            ..record::Parts::default()
        },
    }
}

pub(crate) fn subject(target: &Opened) -> Subject {
    let kind = match target.target {
        Target::Embedded | Target::Slowed(_) => SubjectKind::Embedded,
        Target::Spawn(_) | Target::SpawnSentinel(_) => SubjectKind::SpawnedServer,
        Target::Server(_) | Target::Sentinel(_) => SubjectKind::Server,
        Target::Cluster(_) => SubjectKind::Cluster,
        Target::SpawnCluster(_) => SubjectKind::SpawnedCluster,
        Target::Engine(ref engine) => match &engine.choice {
            Choice::Embedded(Kind::Store, _) => SubjectKind::Store,
            Choice::Embedded(..) => SubjectKind::Engine,
            Choice::Spawned { socket: true, .. } => SubjectKind::SpawnedOnSocket,
            Choice::Spawned { socket: false, .. } => SubjectKind::SpawnedServer,
            Choice::Served => SubjectKind::Embedded,
            Choice::Null => SubjectKind::NullServer,
        },
    };
    let version = ["loadline_version", "valkey_version", "redis_version"]
        .into_iter()
        .find_map(|name| target.said(name));
    Subject {
        name: target.name.clone(),
        kind,
        target: target.name.clone(),
        version: target.engine_version().or(version.map(Into::into)),
    }
}

fn merged(blocks: &[Outcome], of: fn(&Outcome) -> &Histogram) -> Histogram {
    let mut all = Histogram::new();
    for block in blocks {
        all.merge(of(block));
    }
    all
}

/// Whether every operation of the schedule was sent and answered.
fn percentiles(blocks: &[Outcome]) -> Percentiles {
    let unanswered = |(kind, _): (&str, u64)| kind == "UNANSWERED";
    let is_short = |block: &Outcome| block.not_sent > 0 || block.errors.iter().any(unanswered);
    match blocks.iter().any(is_short) {
        true => Percentiles::AtLeast,
        false => Percentiles::Exact,
    }
}

fn errors(blocks: &[Outcome]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (kind, count) in blocks.iter().flat_map(|block| block.errors.iter()) {
        *all.entry(kind.to_owned()).or_default() += count;
    }
    all
}

/// The summary of a block of a generator with `threads` threads.
fn round_summary(block: &Outcome, threads: u64) -> RoundSummary {
    let response = block.response.summary();
    let share = |waited: Duration| waited.as_secs_f64() / block.duration.as_secs_f64().max(1e-9);
    RoundSummary {
        ops: block.ops,
        errors: block.errors.total(),
        start_unix_ns: block.began.and_then(since_epoch),
        duration_ns: nanoseconds(block.duration),
        throughput_ops_per_s: block.throughput(),
        response_time_ns_mean: response.mean,
        response_time_ns_p50: response.p50,
        response_time_ns_p99: response.p99,
        client_cpu_ns_per_op: per_op(block.generator.cpu, block.ops),
        server_cpu_ns_per_op: block.target.cpu.and_then(|cpu| per_op(cpu, block.ops)),
        client_cpu_wait: (block.generator.run_wait).map(|waited| share(waited) / threads as f64),
        server_cpu_wait: block.target.run_wait.map(share),
        reference_ns_p50: None,
        tail: block.tail.as_ref().and_then(TailSummary::of),
    }
}

/// Nanoseconds since 1970; `None` for a clock that shows an earlier time.
fn since_epoch(time: SystemTime) -> Option<u64> {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .map(nanoseconds)
}

/// The operations run one at a time of all blocks; `None` without any.
fn tail(blocks: &[Outcome]) -> Option<Tail> {
    let mut all = Corrected::default();
    for times in blocks.iter().filter_map(|block| block.tail.as_ref()) {
        all.merge(times);
    }
    (all.count() > 0).then(|| Tail::from(&all))
}

/// Adds the speed of the reference to each round of `entry`.
pub(crate) fn refer(entry: &mut record::Case, reference: &[Outcome]) {
    for (round, block) in entry.rounds.iter_mut().zip(reference) {
        round.reference_ns_p50 = block.response.value_at(0.5);
    }
}

fn histograms(
    blocks: &[Outcome],
    response: &Histogram,
    service: &Histogram,
    lag: Option<&Histogram>,
) -> Histograms {
    let rounds = blocks.iter().map(|block| RoundHistograms {
        service_time: block.service.encode(),
        response_time: block.response.encode(),
        lag: lag.is_some().then(|| block.lag.encode()),
    });
    Histograms {
        service_time: service.encode(),
        response_time: response.encode(),
        lag: lag.map(Histogram::encode),
        rounds: rounds.collect(),
    }
}

fn series(blocks: &[Outcome]) -> Vec<Interval> {
    let intervals = blocks.iter().enumerate().flat_map(|(round, block)| {
        block.series.iter().map(move |interval| Interval {
            round: round as u64,
            start_ns: nanoseconds(interval.start),
            ops: interval.ops,
            errors: interval.errors,
            p50: interval.p50,
            p99: interval.p99,
        })
    });
    intervals.collect()
}

/// The longest stalls of all blocks, in order of time, each with its cause.
fn stalls(blocks: &[Outcome], is_direct: bool, is_throttled: bool) -> Vec<Stall> {
    let of_block = |(round, block): (usize, &Outcome)| {
        let around = Surroundings {
            is_direct,
            watched_in_real_time: block.pauses.as_ref().is_some_and(|pauses| pauses.real_time),
            is_throttled,
        };
        let stalls = block.stalls.iter().map(move |stall| {
            let stall = Stall {
                agent: None,
                round: round as u64,
                start_ns: nanoseconds(stall.start),
                length_ns: nanoseconds(stall.length),
                in_flight: stall.in_flight,
                generator_ns: nanoseconds(stall.generator),
                paused_ns: nanoseconds(stall.paused),
                server_wait_ns: stall.target_wait.map(nanoseconds),
                cause: StallCause::default(),
            };
            Stall {
                cause: StallCause::of(&stall, &around),
                ..stall
            }
        });
        stalls.collect::<Vec<_>>()
    };
    let mut stalls: Vec<Stall> = blocks.iter().enumerate().flat_map(of_block).collect();
    stalls.sort_by_key(|stall| std::cmp::Reverse(stall.length_ns));
    stalls.truncate(MOST_STALLS);
    stalls.sort_by_key(|stall| (stall.round, stall.start_ns));
    stalls
}

/// The pauses of all blocks, as far as they lie within their block: a watcher may end after it.
fn cpu_pauses(blocks: &[Outcome]) -> Option<CpuPauses> {
    let mut all: Option<CpuPauses> = None;
    for block in blocks {
        let Some(pauses) = &block.pauses else {
            continue;
        };
        let within = |pause: &Pause| {
            let end = (pause.start + pause.length).min(block.duration);
            nanoseconds(end.saturating_sub(pause.start))
        };
        let lengths = || pauses.list.iter().map(within).filter(|length| *length > 0);
        let cpus = pauses.cpus as u64;
        let all = all.get_or_insert(CpuPauses {
            real_time: true,
            others_ns: Some(0),
            stolen_ns: Some(0),
            ..CpuPauses::default()
        });
        // Waits and CPU time are known only for a server on this machine.
        let server = block.target.run_wait.and(block.target.cpu);
        let own = block.generator.cpu + server.unwrap_or_default();
        let others = pauses.busy.map(|busy| busy.saturating_sub(own));
        for (sum, time) in [
            (&mut all.others_ns, others),
            (&mut all.stolen_ns, pauses.stolen),
        ] {
            *sum = sum.zip(time).map(|(sum, time)| sum + nanoseconds(time));
        }
        all.cpus = all.cpus.max(cpus);
        all.real_time &= pauses.real_time;
        all.count += lengths().count() as u64;
        all.total_ns += lengths()
            .sum::<u64>()
            .min(nanoseconds(block.duration) * cpus);
        all.longest_ns = all.longest_ns.max(lengths().max().unwrap_or(0));
    }
    all
}

fn cost(blocks: &[Outcome], ops: u64, server_cpu: Option<Duration>) -> Cost {
    let bytes = |of: fn(&Outcome) -> u64| {
        (ops > 0).then(|| blocks.iter().map(of).sum::<u64>() as f64 / ops as f64)
    };
    Cost {
        client_cpu_ns_per_op: per_op(blocks.iter().map(|block| block.generator.cpu).sum(), ops),
        server_cpu_ns_per_op: server_cpu.and_then(|cpu| per_op(cpu, ops)),
        bytes_in_per_op: bytes(|block| block.bytes_in),
        bytes_out_per_op: bytes(|block| block.bytes_out),
        allocations_per_op: None,
        encoded_value_bytes: None,
        client_bytes_per_connection: mean(blocks, |block| block.memory.client_bytes_per_connection),
        server_bytes_per_connection: mean(blocks, |block| block.memory.server_bytes_per_connection),
    }
}

/// The mean over the blocks; `None` if a block does not have it.
fn mean(blocks: &[Outcome], of: fn(&Outcome) -> Option<f64>) -> Option<f64> {
    let sum: f64 = blocks.iter().map(of).sum::<Option<f64>>()?;
    (!blocks.is_empty()).then(|| sum / blocks.len() as f64)
}

/// The execution time reported by the server, per command that it counted.
fn server_time(blocks: &[Outcome]) -> Option<u64> {
    let execution: Duration = blocks
        .iter()
        .map(|block| block.target.execution)
        .sum::<Option<_>>()?;
    let commands: u64 = blocks
        .iter()
        .map(|block| block.target.commands)
        .sum::<Option<_>>()?;
    nanoseconds(execution).checked_div(commands)
}

fn per_op(cpu: Duration, ops: u64) -> Option<f64> {
    (ops > 0).then(|| cpu.as_nanos() as f64 / ops as f64)
}

/// Applies the doctor's rules to the measurement of a case; `around` was observed outside the blocks.
pub(crate) fn examine(
    entry: &record::Case,
    case: &Case,
    measured: &Measured,
    around: Observed,
) -> Vec<Finding> {
    let counted: Option<u64> = measured
        .blocks
        .iter()
        .map(|block| block.target.commands)
        .sum();
    // Where an operation is several commands, the server's count is no count of operations.
    let single = case
        .workload
        .operations
        .iter()
        .all(|operation| operation.lines().count() == 1);
    let clock_reads = || measured.blocks.iter().map(|block| block.clock_reads);
    let observed = Observed {
        server_ops: counted.filter(|_| single),
        run_queue_wait: entry.client_cpu_wait(),
        server_wait: entry.server_cpu_wait(),
        connections_opened: measured
            .blocks
            .iter()
            .map(|block| block.target.connections)
            .sum(),
        // A window of an open loop can lie in a stall.
        clock_reads: match entry.is_open_loop() {
            true => clock_reads()
                .sum::<u64>()
                .checked_div(measured.blocks.len() as u64),
            false => clock_reads().min(),
        },
        ..around
    };
    findings(doctor::examine(&Evidence::of_case(entry, observed)))
}

/// Notes what could not be examined on `target`, once.
pub(crate) fn note_refusals(record: &mut Record, target: &mut Opened) {
    for refused in target.not_examined() {
        if !record.not_examined.contains(&refused) {
            record.doctor.extend(findings([refused.diagnosis()]));
            record.not_examined.push(refused);
        }
    }
}

/// Refuses a record whose operations failed, since times of failed operations measure nothing.
///
/// # Errors
/// The number of failures by kind.
pub(crate) fn refuse_errors(record: &Record) -> Result<(), Failure> {
    let errors = record.errors();
    if errors == 0 {
        return Ok(());
    }
    let kinds: Vec<String> = record
        .cases
        .iter()
        .flat_map(|case| {
            case.errors.iter().map(|(kind, count)| {
                format!(
                    "{count} {kind} in {}, {}",
                    case.subject.name, case.scenario.workload
                )
            })
        })
        .collect();
    Err(Failure::unavailable(format!(
        "{errors} operations failed: {}.\nThe figures count them, so they are no measure of success.",
        kinds.join("; ")
    )))
}

/// The doctor's findings about the replies of a case: errors or misses.
pub(crate) fn examine_errors(entry: &record::Case) -> Vec<Finding> {
    let found = doctor::examine(&Evidence::of_case(entry, Observed::default()));
    let mut found = findings(found);
    found.retain(|finding| finding.rule.class() == Class::Replies);
    found
}

/// The metrics that are compared. Of the tails, the corrected one: other processes dominate the raw ones.
pub(crate) const COMPARED: [Metric; 4] = [
    Metric::Throughput,
    Metric::P50,
    Metric::CorrectedP99,
    Metric::ServerCpu,
];

/// Compares case `b` with case `a` of the record, round by round.
///
/// # Errors
/// If the rounds cannot be compared.
pub(crate) fn compare(record: &mut Record, a: usize, b: usize) -> Result<(), Error> {
    let mut compared = Vec::new();
    for metric in COMPARED {
        let (a, b) = (&record.cases[a], &record.cases[b]);
        let pairs = metric.of_pairs(a, b).filter(|_| metric.is_published(a, b));
        if let Some((one, other)) = pairs {
            let paired = compare::paired(&one, &other, metric.direction(), &Rules::default())?;
            compared.push((metric, paired));
        }
    }
    let mut family: Vec<Paired> = compared.iter().map(|(_, paired)| *paired).collect();
    compare::correct_for_several(&mut family, Rules::default().alpha);
    for ((metric, _), paired) in compared.into_iter().zip(family) {
        record.comparisons.push(Comparison {
            a,
            b,
            metric: metric.key().into(),
            direction: metric.direction(),
            ratio: paired.ratio,
            interval: paired.interval.map(|(lo, hi)| Bounds { lo, hi }),
            minimum_detectable_effect: paired.minimum_detectable_effect,
            rounds: paired.rounds as u64,
            verdict: paired.verdict,
            evidence: paired_evidence(
                &paired,
                metric.of_case(&record.cases[a]),
                metric.of_case(&record.cases[b]),
            ),
        });
    }
    record.doctor.extend(findings(doctor::arms_differ(
        &record.cases[a],
        &record.cases[b],
    )));
    Ok(())
}
