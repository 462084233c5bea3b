use super::*;
use crate::record::{
    CpuPauses, Interval, Pacing, RoundSummary, Scenario, Stall, StallCause, Subject, SubjectKind,
    ValueBytes,
};

type Change = fn(&mut Evidence);

/// A case about which there is nothing to say.
fn clean() -> Evidence {
    let times = LatencySummary {
        count: 200_000,
        mean: Some(50_000.0),
        p50: Some(45_000),
        p99: Some(100_000),
        p999: Some(300_000),
        ..LatencySummary::default()
    };
    Evidence {
        scope: "embedded, get".to_owned(),
        is_in_process: false,
        ops: 200_000,
        connections: 500,
        generator_busy: Some(0.6),
        server_busy: Some(0.95),
        lag: Some(LatencySummary {
            p99: Some(9_000),
            ..times
        }),
        response: times,
        service: times,
        errors: 0,
        main_error: None,
        hit_ratio: Some(1.0),
        reads_should_hit: true,
        shortest_block_ns: Some(60_000_000),
        steady: Some(true),
        planned: Some(200_000),
        not_sent: Some(0),
        response_growth: Some(1.1),
        measured_ns: 6_000_000_000,
        stalls: Vec::new(),
        cpu_pauses: Some(CpuPauses {
            cpus: 2,
            real_time: true,
            count: 30,
            total_ns: 60_000_000,
            longest_ns: 8_000_000,
        }),
        slow_rounds: Some(SlowRounds {
            slow: 1,
            rounds: 24,
            echo: Some(1.4),
            cpu: 1.3,
        }),
        observed: Observed {
            connections_opened: Some(502),
            server_ops: Some(200_100),
            undeclared: vec![("ping".to_owned(), 200)],
            null_speedup: Some(1.5),
            cpu_pressure: Some(0.05),
            run_queue_wait: Some(0.02),
            server_wait: Some(0.02),
            server_throttled: None,
            persistence: Vec::new(),
            evicted_keys: Some(0),
            swapped_bytes: Some(0),
            other_clients: Some(0),
            clock_reads: Some(4_000),
            steal: Some(0.002),
        },
    }
}

/// The findings after one change: numbers of the rules and the evidence.
fn after(change: impl FnOnce(&mut Evidence)) -> Vec<(String, String)> {
    let mut evidence = clean();
    change(&mut evidence);
    examine(&evidence)
        .into_iter()
        .map(|finding| (finding.rule.to_string(), finding.evidence))
        .collect()
}

fn slow_service(evidence: &mut Evidence) {
    evidence.service.mean = Some(10_000.0);
}

#[test]
fn clean_case_has_no_findings() {
    assert_eq!(examine(&clean()), []);
}

#[test]
fn unexamined_facts_give_no_finding() {
    let full = LatencySummary {
        p50: Some(1),
        p99: Some(1),
        p999: Some(1),
        ..LatencySummary::default()
    };
    assert_eq!(
        examine(&Evidence {
            response: full,
            ..Evidence::default()
        }),
        []
    );
}

/// A server that was frozen for a second.
fn frozen() -> Stall {
    Stall {
        round: 0,
        start_ns: 2_400_000_000,
        length_ns: 1_000_000_000,
        in_flight: 9_870,
        cause: StallCause::Server,
        ..Stall::default()
    }
}

fn short(round: u64, cause: StallCause) -> Stall {
    Stall {
        round,
        start_ns: 40_000_000,
        length_ns: 25_000_000,
        in_flight: 20,
        cause,
        ..Stall::default()
    }
}

/// A rule, the change that makes it fire, and what it then says.
const FIRES: [(&str, Change, &str); 32] = [
    (
        "LL037",
        |e| e.stalls = vec![frozen()],
        "No reply arrived for 1.00 s, from 2.40 s into round 1, with 9870 operations in flight: the server did not answer.",
    ),
    (
        "LL037",
        |e| e.stalls = vec![short(0, StallCause::Host), short(3, StallCause::Generator)],
        "In total, 2 stalls took 50.0 ms (0.83 % of the time); by cause: 1 generator, 1 host.",
    ),
    (
        "LL037",
        |e| e.stalls = vec![short(2, StallCause::ServerOrPath)],
        "from 40.0 ms into round 3, with 20 operations in flight: the server or the path to it did not deliver",
    ),
    (
        "LL035",
        |e| e.observed.steal = Some(0.04),
        "The host took 4 % of the CPU time (steal).",
    ),
    (
        "LL035",
        |e| e.cpu_pauses.as_mut().unwrap().longest_ns = 25_000_000,
        "did not run 0.50 % of the time: 30 pauses, the longest 25.0 ms",
    ),
    (
        "LL035",
        |e| e.cpu_pauses.as_mut().unwrap().total_ns = 240_000_000,
        "did not run 2 % of the time",
    ),
    (
        "LL036",
        |e| e.slow_rounds.as_mut().unwrap().slow = 5,
        "slow in 5 of 24 rounds: an echo took up to 1.40x its best and an operation took up to 1.30x the CPU time",
    ),
    (
        "LL036",
        |e| {
            let rounds = e.slow_rounds.as_mut().unwrap();
            (rounds.slow, rounds.echo) = (24, None);
        },
        "slow in 24 of 24 rounds: an operation took",
    ),
    (
        "LL001",
        |e| e.observed.connections_opened = Some(199_000),
        "accepted 199000 connections during 200000 operations; expected 500",
    ),
    (
        "LL002",
        |e| e.observed.server_ops = Some(200_201),
        "counted 200000 operations and the server 200201, a difference of 0.10 %",
    ),
    (
        "LL002",
        |e| e.observed.server_ops = Some(100_000),
        "a difference of 50 %",
    ),
    (
        "LL002",
        |e| e.observed.undeclared = vec![("set".to_owned(), 200_000), ("del".to_owned(), 201)],
        "executed 200000 SET and 201 DEL, which the workload does not declare",
    ),
    (
        "LL002",
        |e| {
            e.observed.server_ops = Some(100_000);
            e.observed.undeclared = vec![("set".to_owned(), 100_000)];
        },
        "a difference of 50 %. In addition to 200000 operations, the server executed 100000 SET",
    ),
    (
        "LL003",
        |e| e.observed.null_speedup = Some(1.49),
        "null server was only 1.49 times as fast",
    ),
    (
        "LL003",
        |e| (e.generator_busy, e.server_busy) = (Some(0.97), Some(0.4)),
        "used 97 % of a CPU while the server used 40 %",
    ),
    (
        "LL004",
        |e| e.lag.as_mut().unwrap().p99 = Some(24_000),
        "is 24.0 us, which is 24 % of the reported p99 of 100 us",
    ),
    (
        "LL005",
        |e| e.observed.cpu_pressure = Some(0.5),
        "waited for a CPU 50 % of the time (pressure stall)",
    ),
    (
        "LL005",
        |e| e.observed.run_queue_wait = Some(0.06),
        "Generator or server waited for a CPU 6 %",
    ),
    (
        "LL005",
        |e| (e.observed.cpu_pressure, e.observed.run_queue_wait) = (Some(0.5), Some(0.06)),
        "50 % of the time (pressure stall), generator or server 6 %",
    ),
    (
        "LL005",
        |e| e.observed.server_wait = Some(0.07),
        "Generator or server waited for a CPU 7 %",
    ),
    (
        "LL006",
        |e| e.response.p999 = None,
        "200000 samples are too few for p99.9 (needs 100000)",
    ),
    (
        "LL007",
        |e| (e.errors, e.main_error) = (20, Some("WRONGTYPE".to_owned())),
        "20 of 200000 operations (0.01 %) failed, most of them WRONGTYPE",
    ),
    (
        "LL008",
        |e| e.hit_ratio = Some(0.63),
        "Only 63 % of the reads",
    ),
    (
        "LL009",
        |e| e.observed.persistence = vec!["appendonly yes".to_owned()],
        "it persists (appendonly yes)",
    ),
    (
        "LL009",
        |e| (e.observed.evicted_keys, e.observed.swapped_bytes) = (Some(5), Some(4_096)),
        "it evicted 5 keys; 4096 bytes of its memory are swapped out",
    ),
    (
        "LL010",
        |e| e.observed.other_clients = Some(1),
        "1 other client was active",
    ),
    (
        "LL011",
        |e| e.shortest_block_ns = Some(49_000_000),
        "took 49.0 ms",
    ),
    (
        "LL011",
        |e| e.observed.clock_reads = Some(999),
        "only 999 times",
    ),
    ("LL012", |e| e.steady = Some(false), "No steady state"),
    (
        "LL013",
        |e| e.not_sent = Some(500),
        "500 of 200000 planned operations (0.25 %) were never sent",
    ),
    (
        "LL013",
        |e| {
            slow_service(e);
            e.response_growth = Some(8.0);
        },
        "grew 8.0-fold",
    ),
    (
        "LL010",
        |e| e.observed.other_clients = Some(3),
        "3 other clients were active",
    ),
];

#[test]
fn every_rule_fires_on_its_evidence_and_no_other_does() {
    for (rule, change, evidence) in FIRES {
        let found = after(change);
        assert_eq!(found.len(), 1, "{rule}: {found:?}");
        assert_eq!(found[0].0, rule);
        assert!(
            found[0].1.contains(evidence),
            "{} should say {evidence}",
            found[0].1
        );
    }
}

#[test]
fn rules_are_silent_up_to_their_limits() {
    let table: [Change; 13] = [
        |e| {
            (e.generator_busy, e.server_busy, e.observed.server_wait) =
                (Some(0.97), Some(0.78), Some(0.03));
        },
        |e| e.observed.connections_opened = Some(1_000),
        |e| e.observed.server_ops = Some(200_200),
        |e| e.observed.server_ops = None,
        |e| (e.generator_busy, e.server_busy) = (Some(0.97), Some(0.97)),
        |e| e.lag.as_mut().unwrap().p99 = Some(10_000),
        |e| e.observed.cpu_pressure = Some(0.1),
        |e| (e.hit_ratio, e.reads_should_hit) = (Some(0.5), false),
        |e| e.hit_ratio = Some(0.99),
        |e| e.shortest_block_ns = Some(50_000_000),
        |e| e.steady = None,
        |e| e.response_growth = Some(8.0),
        |e| {
            slow_service(e);
            e.response_growth = Some(1.9);
        },
    ];
    for (row, change) in table.into_iter().enumerate() {
        assert_eq!(after(change), [], "row {row}");
    }
}

#[test]
fn generator_that_waits_for_a_cpu_is_the_limit_too() {
    let found = after(|e| {
        (e.generator_busy, e.observed.run_queue_wait) = (Some(0.5), Some(0.45));
        (e.server_busy, e.observed.server_wait) = (Some(0.2), Some(0.1));
    });
    let rules: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(rules, ["LL003", "LL005"]);
    assert!(
        found[0].1.contains(
            "used 50 % of a CPU (and waited for one 45 % of the time) while the server used 20 %"
        ),
        "{}",
        found[0].1
    );
    // One that rests whenever it gets a CPU is short of CPUs, and not of speed.
    let resting = after(|e| {
        (e.generator_busy, e.observed.run_queue_wait) = (Some(0.15), Some(0.73));
        (e.server_busy, e.observed.server_wait) = (Some(0.05), Some(0.3));
    });
    assert_eq!(resting[0].0, "LL005");
    let starved = after(|e| {
        (e.generator_busy, e.observed.run_queue_wait) = (Some(0.5), Some(0.45));
        (e.server_busy, e.observed.server_wait) = (Some(0.5), Some(0.4));
    });
    assert_eq!(starved[0].0, "LL005");
}

#[test]
fn single_error_is_not_called_none() {
    let found = after(|e| (e.errors, e.ops, e.observed.server_ops) = (1, 50_000_000, None));
    assert_eq!(found[0].1, "1 of 50000000 operations (<0.01 %) failed.");
}

#[test]
fn all_missing_percentiles_stand_in_one_finding() {
    let found = after(|e| {
        (
            e.response.p50,
            e.response.p99,
            e.response.p999,
            e.response.count,
        ) = (None, None, None, 150);
    });
    assert_eq!(
        found[0].1,
        "150 samples are too few for p50 (needs 200), p99 (needs 10000), p99.9 (needs 100000)."
    );
}

#[test]
fn gravest_findings_come_first() {
    let mut evidence = clean();
    evidence.response.p999 = None;
    evidence.steady = Some(false);
    evidence.errors = 1;
    let severities: Vec<Severity> = examine(&evidence)
        .into_iter()
        .map(|finding| finding.severity)
        .collect();
    assert_eq!(
        severities,
        [Severity::Critical, Severity::Warning, Severity::Info]
    );
}

fn case() -> Case {
    Case {
        subject: Subject {
            name: "embedded".to_owned(),
            ..Subject::default()
        },
        scenario: Scenario {
            workload: "get".to_owned(),
            pacing: Pacing::Rate(1_000.0),
            connections: 50,
            ..Scenario::default()
        },
        ops: 1_000,
        errors: [("MOVED".to_owned(), 2), ("OOM".to_owned(), 7)].into(),
        client_cpu_busy: Some(0.5),
        hit_ratio: Some(0.5),
        not_sent: Some(4),
        planned: Some(1_004),
        rounds: [70, 60, 80]
            .map(|ms| RoundSummary {
                duration_ns: ms * 1_000_000,
                ..RoundSummary::default()
            })
            .into(),
        ..Case::default()
    }
}

#[test]
fn case_tells_what_it_knows() {
    let evidence = Evidence::of_case(&case(), Observed::default());
    assert_eq!(evidence.scope, "embedded, get");
    assert_eq!(
        (evidence.ops, evidence.connections, evidence.errors),
        (1_000, 150, 9)
    );
    assert_eq!(evidence.main_error.as_deref(), Some("OOM"));
    assert_eq!(
        (evidence.shortest_block_ns, evidence.steady),
        (Some(60_000_000), Some(false))
    );
    assert_eq!(
        (evidence.planned, evidence.not_sent),
        (Some(1_004), Some(4))
    );
    assert_eq!(
        (evidence.generator_busy, evidence.hit_ratio),
        (Some(0.5), Some(0.5))
    );
}

#[test]
fn growth_is_the_median_over_the_rounds() {
    let mut case = case();
    let interval = |round, p50| Interval {
        round,
        p50,
        ..Interval::default()
    };
    case.series = vec![
        interval(0, Some(10)),
        interval(0, Some(15)),
        interval(0, Some(30)),
        interval(1, None),
        interval(1, Some(10)),
        interval(1, Some(40)),
        interval(2, Some(10)),
        interval(2, Some(90)),
        interval(3, Some(10)),
    ];
    assert_eq!(
        Evidence::of_case(&case, Observed::default()).response_growth,
        Some(4.0)
    );
    case.scenario.pacing = Pacing::Closed;
    assert_eq!(
        Evidence::of_case(&case, Observed::default()).response_growth,
        None
    );
}

#[test]
fn arms_that_differ_are_named_and_others_are_not() {
    let a = case();
    let mut b = case();
    b.subject.name = "redis".to_owned();
    b.scenario.threads = 4;
    assert_eq!(arms_differ(&a, &b), None);
    b.scenario.pipeline = 16;
    b.scenario.value_bytes = ValueBytes::Fixed(1_024);
    let finding = arms_differ(&a, &b).unwrap();
    assert_eq!(
        (finding.rule.as_str(), finding.severity),
        ("LL014", Severity::Critical)
    );
    assert_eq!(finding.scope, "embedded, get compared with redis, get");
    assert_eq!(
        finding.evidence,
        "The two were measured under different conditions: pipeline, value size."
    );
    // Calls in this process have no wire, so only the work must be alike.
    let mut called = case();
    called.scenario.connections = 0;
    called.scenario.mode = "call".into();
    called.scenario.in_flight = Some(1);
    assert_eq!(arms_differ(&a, &called), None);
    called.scenario.keys += 1;
    assert!(
        arms_differ(&a, &called)
            .unwrap()
            .evidence
            .ends_with(": keys.")
    );
}

#[test]
fn stall_that_decides_about_the_tail_is_a_warning() {
    for (stalls, severity) in [
        (vec![frozen()], Severity::Warning),
        (vec![short(0, StallCause::Host)], Severity::Info),
        (vec![short(0, StallCause::Host); 3], Severity::Warning),
    ] {
        let found = examine(&Evidence { stalls, ..clean() });
        assert_eq!(found[0].severity, severity, "{found:?}");
    }
}

/// A null server's rate, reached by neither: the server waited for a CPU, or had time to spare.
#[test]
fn only_a_busy_server_is_called_too_slow_for_a_rate() {
    let said = |server_busy: Option<f64>, server_wait: Option<f64>| {
        let seen = Evidence {
            not_sent: Some(500),
            server_busy,
            observed: Observed {
                server_wait,
                ..clean().observed
            },
            ..clean()
        };
        let found = examine(&seen);
        let of_rate = found.iter().find(|found| found.rule == Rule::Overloaded);
        of_rate
            .unwrap()
            .evidence
            .contains("exceeds the capacity of the target")
    };
    assert!(said(Some(0.95), None));
    assert!(said(Some(0.5), Some(0.45)), "busy whenever it had a CPU");
    assert!(!said(Some(0.13), Some(0.2)));
    assert!(!said(None, None));
}

/// The server stopped for one of six seconds: a lower rate would not have helped.
#[test]
fn operations_that_a_stall_kept_back_do_not_advise_a_lower_rate() {
    let found_after = |not_sent| {
        let found = examine(&Evidence {
            stalls: vec![frozen()],
            not_sent: Some(not_sent),
            ..clean()
        });
        let found = found
            .into_iter()
            .find(|found| found.rule == Rule::Overloaded);
        found.expect("operations were not sent")
    };
    let kept_back = found_after(5_464);
    assert_eq!(
        kept_back.evidence,
        "After stalls of 1.00 s in total, 5464 of 200000 planned operations (3 %) were never sent: the percentiles are lower bounds."
    );
    assert!(!kept_back.what_to_do.contains("--rate"), "{kept_back:?}");
    // More than was due during the stalls.
    let overloaded = found_after(60_000);
    assert!(overloaded.what_to_do.contains("Lower --rate"));
}

/// There is no server, and the thread that calls is the generator.
#[test]
fn stall_of_a_call_in_this_process_does_not_name_a_server_or_a_generator() {
    for kind in [
        SubjectKind::Engine,
        SubjectKind::Store,
        SubjectKind::Application,
    ] {
        for (cause, what, advice) in [
            (StallCause::Server, "the call itself", "a checkpoint"),
            (StallCause::Generator, "waited for a CPU", "other programs"),
        ] {
            let mut case = Case {
                stalls: vec![short(0, cause)],
                ..Case::default()
            };
            case.subject.kind = kind.clone();
            let found = examine(&Evidence::of_case(&case, Observed::default()));
            let stall = found
                .iter()
                .find(|found| found.rule == Rule::Stall)
                .unwrap();
            let text = format!("{} {}", stall.evidence, stall.what_to_do);
            assert!(text.starts_with("No call returned for"), "{text}");
            assert!(text.contains(what) && text.contains(advice), "{text}");
            assert!(
                !text.contains("server") && !text.contains("enerator"),
                "{text}"
            );
        }
    }
}

#[test]
fn stall_is_long_beside_the_fastest_operation() {
    let mut case = Case {
        stalls: vec![frozen(), short(1, StallCause::Server)],
        ..Case::default()
    };
    case.stalls[1].length_ns = 9_999_999;
    case.response_time_ns.min = Some(45_000);
    assert_eq!(
        Evidence::of_case(&case, Observed::default()).stalls,
        [frozen()]
    );
    // An overloaded server has a long median, and stalls all the same.
    case.response_time_ns.p50 = Some(900_000_000);
    assert_eq!(
        Evidence::of_case(&case, Observed::default()).stalls,
        [frozen()]
    );
    // Where every operation takes 400 ms, a second is no stall.
    case.response_time_ns.min = Some(400_000_000);
    assert_eq!(Evidence::of_case(&case, Observed::default()).stalls, []);
}

#[test]
fn rounds_are_slow_where_echo_and_cpu_time_agree() {
    let round = |echo: Option<u64>, cpu: f64| RoundSummary {
        reference_ns_p50: echo,
        client_cpu_ns_per_op: Some(cpu),
        server_cpu_ns_per_op: Some(2.0 * cpu),
        ..RoundSummary::default()
    };
    let slow = |rounds: Vec<RoundSummary>| {
        let case = Case {
            rounds,
            ..Case::default()
        };
        Evidence::of_case(&case, Observed::default())
            .slow_rounds
            .map(|found| found.slow)
    };
    let with_echo = [
        (100, 10.0),
        (140, 10.5),
        (100, 14.0),
        (140, 14.0),
        (105, 10.2),
    ];
    let rounds = with_echo.map(|(echo, cpu)| round(Some(echo), cpu));
    assert_eq!(slow(rounds.to_vec()), Some(1));
    assert_eq!(slow(rounds[..4].to_vec()), None, "too few rounds");
    let without = [10.0, 11.0, 14.9, 15.1, 10.0].map(|cpu| round(None, cpu));
    assert_eq!(slow(without.to_vec()), Some(1));
}

#[test]
fn quota_of_the_server_is_its_limit_and_no_contention() {
    let seen = |throttled| Observed {
        cpu_pressure: Some(0.6),
        server_throttled: Some(Throttled {
            periods: 76,
            throttled,
        }),
        ..Observed::default()
    };
    let found_by = |throttled| {
        let found = rules::RULES
            .iter()
            .filter_map(|rule| rule(&Evidence::of_scope(String::new(), 0, seen(throttled))));
        let found = found.filter(|found| [Rule::Quota, Rule::Contention].contains(&found.rule));
        found.collect::<Vec<Finding>>()
    };
    let found = found_by(51);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].rule, Rule::Quota);
    assert!(
        found[0].evidence.contains("in 51 of 76 periods"),
        "{found:?}"
    );
    assert_eq!(found_by(3)[0].rule, Rule::Contention);
}
