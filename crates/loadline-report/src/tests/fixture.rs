//! Made-up records. Their figures follow from formulas, so that the same record comes out each time.

use loadline_measure::compare::{Rules, paired};
use loadline_measure::corrected::{Sample, correct};
use loadline_measure::doctor::{self, Evidence, Observed};
use loadline_measure::metric::Direction;
use loadline_measure::record::{
    Arrivals, Bounds, Case, Comparison, Cost, Environment, Histograms, Interval, Noise, Pacing,
    Record, RoundSummary, Run, Scenario, ServerEnvironment, Subject, SubjectKind, ValueBytes,
};
use loadline_measure::{Histogram, outliers};

/// Response times as a server has them: a bulk around `typical_ns` and a tail of three decades.
fn times(typical_ns: f64, samples: u64) -> Histogram {
    let mut histogram = Histogram::new();
    for step in 0..1_000_u32 {
        let q = (f64::from(step) + 0.5) / 1_000.0;
        let bulk = 0.8 + 0.35 * q;
        let tail = 0.02 * ((1.0 - q).powf(-0.8) - 1.0);
        histogram.record_n((typical_ns * (bulk + tail)) as u64, samples / 1_000);
    }
    histogram
}

/// Twelve rounds around a throughput, each off by up to 4 %.
fn rounds(throughput: f64, phase: usize) -> Vec<RoundSummary> {
    let noise = [
        0.01, -0.02, 0.04, 0.0, -0.03, 0.02, -0.01, 0.03, 0.0, -0.04, 0.01, 0.02,
    ];
    (0..12)
        .map(|round| {
            let throughput_ops_per_s = (throughput * (1.0 + noise[(round + phase) % 12])).round();
            RoundSummary {
                ops: (throughput_ops_per_s / 4.0) as u64,
                duration_ns: 250_000_000,
                throughput_ops_per_s,
                response_time_ns_p50: Some((50e9 / throughput_ops_per_s) as u64),
                ..RoundSummary::default()
            }
        })
        .collect()
}

pub(super) fn case(subject: &str, workload: &str, pipeline: u64, throughput: f64) -> Case {
    let response = times(50e9 * pipeline as f64 / throughput, 400_000);
    let rounds = rounds(throughput, subject.len());
    let rates: Vec<f64> = rounds
        .iter()
        .map(|round| round.throughput_ops_per_s)
        .collect();
    Case {
        subject: Subject {
            name: subject.to_owned(),
            kind: SubjectKind::Server,
            target: subject.to_owned(),
            version: None,
        },
        scenario: Scenario {
            workload: workload.to_owned(),
            mode: "wire".into(),
            connections: 50,
            threads: 1,
            pipeline,
            batch: 1,
            keys: 100_000,
            key_dist: "uniform".to_owned(),
            value_bytes: ValueBytes::Fixed(64),
            resp: 2,
            ..Scenario::default()
        },
        ops: 400_000,
        duration_ns: 3_000_000_000,
        throughput_ops_per_s: throughput,
        response_time_ns: response.summary(),
        service_time_ns: response.summary(),
        hit_ratio: Some(1.0),
        steady: true,
        warmup_ns: 500_000_000,
        outliers: outliers::count(&rates),
        rounds,
        histograms: Histograms {
            response_time: response.encode(),
            ..Histograms::default()
        },
        cost: Cost {
            client_cpu_ns_per_op: Some(0.6e9 / throughput),
            server_cpu_ns_per_op: Some(0.93e9 / throughput),
            ..Cost::default()
        },
        ..Case::default()
    }
}

pub(super) fn record(cases: Vec<Case>) -> Record {
    let run = Run {
        id: "7f3a91".to_owned(),
        started_at: "2026-02-03T04:05:06Z".to_owned(),
        command: "loadline run".to_owned(),
        version: "0.1.0".to_owned(),
        seed: 42,
        duration_ns: Some(31_200_000_000),
        ..Run::default()
    };
    let environment = Environment {
        cpu_model: Some("Example CPU 3.0 GHz".to_owned()),
        cores: Some(2),
        memory_bytes: Some(8 << 30),
        kernel: Some("Linux 6.1.0".to_owned()),
        virtualization: Some("container".to_owned()),
        noise: Noise {
            cpu_pressure: Some(0.043),
            ..Noise::default()
        },
        ..Environment::default()
    };
    Record {
        cases,
        findings: Vec::new(),
        judgement: None,
        ..Record::new(run, environment)
    }
}

/// One target, two workloads, nothing to complain about.
pub(super) fn one_target() -> Record {
    let mut record = record(vec![
        case("embedded", "get", 1, 118_240.0),
        case("embedded", "set", 1, 109_000.0),
    ]);
    record
        .findings
        .push("embedded carried 118240 operations per second of get.".to_owned());
    record
}

/// Two targets, of which the second is better with pipelining and worse without.
pub(super) fn two_targets() -> Record {
    let redis = "spawn:redis-server";
    let mut record = record(vec![
        case("embedded", "get", 1, 118_240.0),
        case(redis, "get", 1, 98_000.0),
        case("embedded", "get", 16, 640_000.0),
        case(redis, "get", 16, 908_000.0),
    ]);
    for (subject, name, version) in [
        ("embedded", "Loadline", "0.1.0"),
        (redis, "Redis", "7.0.15"),
    ] {
        record.environment.servers.push(ServerEnvironment {
            subject: subject.to_owned(),
            name: Some(name.to_owned()),
            version: Some(version.to_owned()),
            ..ServerEnvironment::default()
        });
    }
    compare(&mut record, 0, 1);
    compare(&mut record, 2, 3);
    record.findings = vec![
        "embedded carried 640000 operations per second of get, pipeline 16.".to_owned(),
        "spawn:redis-server carried 908000 operations per second of get, pipeline 16, where its CPU was 98 % busy, so the server was the limit.".to_owned(),
    ];
    record
}

/// The same with the course of its rounds, in which a server stalled once.
pub(super) fn over_time() -> Record {
    let mut record = two_targets();
    for (number, case) in record.cases.iter_mut().enumerate() {
        let intervals = (0..24_u64).map(|place| {
            let stalled = place == 9 && number == 1;
            let p50 = 420_000 + 15_000 * ((place * 7 + number as u64) % 5);
            Interval {
                round: place / 2,
                start_ns: place % 2 * 100_000_000,
                ops: 11_000,
                errors: if stalled { 40 } else { 0 },
                p50: Some(p50),
                p99: Some(if stalled { 95_000_000 } else { 2 * p50 }),
            }
        });
        case.series = intervals.collect();
    }
    record
}

/// Two targets on a busy host: operations one at a time, of which some waited for a CPU.
pub(super) fn contended() -> Record {
    let mut record = record(vec![
        case("embedded", "get", 1, 118_240.0),
        case("spawn:redis-server", "get", 1, 98_000.0),
    ]);
    // One in fifty waited 4 ms; the second has too few operations for a p99.
    for (case, operations) in record.cases.iter_mut().zip([24_800, 2_480]) {
        let sample = |number: u64| {
            let wait_ns = if number.is_multiple_of(50) {
                4_000_000
            } else {
                0
            };
            Sample {
                response_ns: 60_000 + 36 * (number % 1_000) + wait_ns,
                wait_ns,
            }
        };
        let samples: Vec<Sample> = (0..operations).map(sample).collect();
        case.tail = Some((&correct(&samples)).into());
    }
    record
}

/// Everything that can go wrong at once: errors, misses, few samples, no steady state, cut short.
pub(super) fn troubled() -> Record {
    let mut troubled = case("embedded", "hget", 1, 5_430.0);
    troubled.response_time_ns = times(9e6, 5_000).summary();
    troubled.histograms = Histograms::default();
    troubled.ops = 5_000;
    troubled.errors = [
        ("WRONGTYPE".to_owned(), 12),
        ("connection lost".to_owned(), 1),
    ]
    .into();
    troubled.hit_ratio = Some(0.631);
    troubled.steady = false;
    troubled.cost = Cost {
        client_cpu_ns_per_op: Some(8_210.0),
        ..Cost::default()
    };
    troubled.rounds.truncate(2);
    let mut record = record(vec![troubled]);
    record.doctor = crate::findings(doctor::examine(&Evidence::of_case(
        &record.cases[0],
        Observed::default(),
    )));
    record.run.cut_short = true;
    record
}

/// An open loop at a rate that the target does not carry.
pub(super) fn open_loop() -> Record {
    let mut open = case("embedded", "get", 1, 9_990.0);
    let (response, service, mut lag) =
        (times(9e6, 400_000), times(60e3, 400_000), Histogram::new());
    lag.record_n(1_900, 300_000);
    lag.record_n(14_000, 100_000);
    open.scenario.pacing = Pacing::Rate(10_000.0);
    open.scenario.arrivals = Some(Arrivals::Poisson);
    open.planned = Some(400_400);
    open.not_sent = Some(400);
    open.histograms.response_time = response.encode();
    open.histograms.service_time = service.encode();
    open.response_time_ns = response.summary();
    open.service_time_ns = service.summary();
    open.lag_ns = Some(lag.summary());
    let mut record = record(vec![open]);
    record.doctor = crate::findings(doctor::examine(&Evidence::of_case(
        &record.cases[0],
        Observed::default(),
    )));
    record
}

/// Strings that try to be more than text, in every place that has one.
pub(super) fn hostile() -> Record {
    let evil = "</td><script>alert(1)</script>\x1b[31m|`,\"=1\n\u{202e}]]>&'";
    let long = "=n".to_owned() + &"a".repeat(198);
    let mut record = record(vec![
        case(evil, evil, 1, 1_000.0),
        case(&long, evil, 1, 2_000.0),
        case("x", &long, 1, 10.0),
    ]);
    compare(&mut record, 0, 1);
    record.comparisons[0].evidence = evil.to_owned();
    let other = Comparison {
        metric: evil.to_owned(),
        ..record.comparisons[0].clone()
    };
    record.comparisons.push(other);
    for text in [
        &mut record.run.id,
        &mut record.run.version,
        &mut record.run.started_at,
        &mut record.run.command,
    ] {
        evil.clone_into(text);
    }
    record.environment.cpu_model = Some(evil.to_owned());
    record.environment.servers.push(ServerEnvironment {
        subject: evil.to_owned(),
        name: Some(long.clone()),
        ..ServerEnvironment::default()
    });
    record.cases[0].errors.insert(evil.to_owned(), 3);
    record.cases[0].scenario.key_dist = evil.to_owned();
    record.cases[1].scenario.key_dist = evil.to_owned();
    record.cases[1].histograms.response_time = "not a histogram".to_owned();
    record.cases[2].throughput_ops_per_s = f64::MAX;
    record.cases[2].rounds[0].throughput_ops_per_s = f64::MAX;
    record.cases[2].rounds[1].throughput_ops_per_s = -1.0;
    record.cases[2].response_time_ns.p50 = Some(u64::MAX);
    record.cases[2].hit_ratio = Some(-1e300);
    record.doctor = crate::findings(doctor::examine(&Evidence::of_case(
        &record.cases[0],
        Observed::default(),
    )));
    record.findings = vec![evil.to_owned(), long];
    record
}

/// A record in which nothing was measured.
pub(super) fn empty() -> Record {
    record(Vec::new())
}

pub(super) fn compare(record: &mut Record, a: usize, b: usize) {
    type Of = fn(&RoundSummary) -> f64;
    let metrics: [(&str, Direction, Of); 2] = [
        ("throughput_ops_per_s", Direction::MoreIsBetter, |round| {
            round.throughput_ops_per_s
        }),
        ("response_time_ns_p50", Direction::LessIsBetter, |round| {
            round.response_time_ns_p50.unwrap() as f64
        }),
    ];
    for (metric, direction, of) in metrics {
        let [one, other] = [a, b].map(|case| {
            record.cases[case]
                .rounds
                .iter()
                .map(of)
                .collect::<Vec<f64>>()
        });
        let paired = paired(&one, &other, direction, &Rules::default()).unwrap();
        record.comparisons.push(Comparison {
            a,
            b,
            metric: metric.to_owned(),
            direction,
            ratio: paired.ratio,
            interval: paired.interval.map(|(lo, hi)| Bounds { lo, hi }),
            minimum_detectable_effect: paired.minimum_detectable_effect,
            rounds: paired.rounds as u64,
            verdict: paired.verdict,
            evidence: crate::paired_evidence(&paired, None, None),
        });
    }
}
