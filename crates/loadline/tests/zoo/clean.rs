//! Runs without a flaw, on a machine that may have others.

use std::collections::BTreeMap;

use loadline_measure::Record;
use loadline_measure::record::{Rule, Severity};

use crate::alone;
use crate::commands::measured;
use crate::util::Dir;

/// Rules that a busy machine breaks, and no benchmark. They are false findings unless the record shows that
/// the machine was busy. Replies that came together while the generator waited share a reading of the
/// clock, of which there are then too few (LL011), and a reading takes longer where a neighbour shares
/// the core (LL020).
const OF_THE_MACHINE: [Rule; 7] = [
    Rule::GeneratorBound,
    Rule::LateStarts,
    Rule::BlockTooShort,
    Rule::NoSteadyState,
    Rule::Overloaded,
    Rule::SlowClock,
    Rule::Stall,
];
/// Rules that show that the machine was busy.
const BUSY: [Rule; 3] = [Rule::Contention, Rule::Steal, Rule::SlowMachine];
/// The workloads: shapes that have no flaw, at a rate that both sides carry with ease.
const SHAPES: [&[&str]; 6] = [
    &["embedded", "--workload", "get"],
    &[
        "embedded",
        "--workload",
        "getset-70-30",
        "--value-size",
        "1KiB",
    ],
    &["spawn:redis-server", "--workload", "set"],
    &["spawn:redis-server", "--workload", "get", "--resp", "3"],
    &["spawn:redis-server", "--workload", "hget"],
    &["spawn:redis-server", "--command", "INCR {key}"],
];

/// Each shape twice, or four times.
fn runs() -> usize {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    SHAPES.len() * if is_long { 4 } else { 2 }
}

#[test]
fn clean_runs_find_nothing() {
    let _alone = alone();
    let dir = Dir::new();
    let (mut busy, mut excused) = (0, BTreeMap::<String, u32>::new());
    let runs = runs();
    for run in 0..runs {
        let common = [
            "--rate 8k --connections 4 --threads 1 --keys 1k",
            "--duration 600ms --rounds 3 --warmup 50ms",
        ];
        let common = common.iter().flat_map(|words| words.split(' '));
        let words: Vec<&str> = SHAPES[run % SHAPES.len()]
            .iter()
            .copied()
            .chain(common)
            .collect();
        let record = measured(&dir, &words);
        check_figures(run, &record);
        let is_busy = record
            .doctor
            .iter()
            .any(|finding| BUSY.contains(&finding.rule));
        busy += usize::from(is_busy);
        for finding in &record.doctor {
            let by_machine = is_busy && OF_THE_MACHINE.contains(&finding.rule);
            if by_machine {
                *excused.entry(finding.rule.to_string()).or_default() += 1;
            }
            assert!(
                finding.severity == Severity::Info || BUSY.contains(&finding.rule) || by_machine,
                "run {run}: {finding:#?}"
            );
        }
    }
    println!(
        "{runs} clean runs without a false finding; the machine was busy in {busy} of them, which led to {excused:?}"
    );
}

/// Checks that hold on a busy machine too: every operation of the schedule is accounted for, none failed, every
/// read found its key, and all parts of the record count the same operations.
fn check_figures(run: usize, record: &Record) {
    let case = &record.cases[0];
    assert_eq!(record.errors(), 0, "run {run}");
    let (planned, not_sent) = (case.planned.unwrap(), case.not_sent.unwrap());
    assert_eq!(planned, 4_800, "run {run}");
    assert_eq!(case.ops + not_sent, planned, "run {run}");
    assert_eq!(case.hit_ratio.unwrap_or(1.0), 1.0, "run {run}");
    assert_eq!(case.response_time_ns.count, case.ops, "run {run}");
    let by_round: u64 = case.rounds.iter().map(|round| round.ops).sum();
    let by_interval: u64 = case.series.iter().map(|interval| interval.ops).sum();
    assert_eq!((by_round, by_interval), (case.ops, case.ops), "run {run}");
    for (response, service) in [
        (case.response_time_ns.p50, case.service_time_ns.p50),
        (case.response_time_ns.p99, case.service_time_ns.p99),
    ] {
        assert!(response >= service, "run {run}: {response:?} {service:?}");
    }
    let longest = case.stalls.iter().map(|stall| stall.length_ns).max();
    assert!(
        longest <= case.response_time_ns.max,
        "run {run}: {longest:?}"
    );
}
