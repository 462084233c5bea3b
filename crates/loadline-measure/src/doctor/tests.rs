use super::*;
use crate::metric::Metric;
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
            ..CpuPauses::default()
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
            generator_throttled: None,
            network: None,
            persistence: Vec::new(),
            evicted_keys: Some(0),
            swapped_bytes: Some(0),
            other_clients: Some(0),
            clock_reads: Some(4_000),
            steal: Some(0.002),
        },
    }
}

/// The diagnoses after one change.
fn after(change: impl FnOnce(&mut Evidence)) -> Vec<Diagnosis> {
    let mut evidence = clean();
    change(&mut evidence);
    examine(&evidence)
}

/// The only flaw after one change, and its rule.
fn flaw_after(change: impl FnOnce(&mut Evidence)) -> (String, Flaw) {
    let [found] = <[Diagnosis; 1]>::try_from(after(change)).unwrap();
    (found.rule().to_string(), found.flaw)
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

/// The flaw of those stalls.
fn stalls(all: &[Stall], share: f64, causes: &[(StallCause, usize)]) -> Flaw {
    let flaw = FlowFlaw::Stalls {
        longest: all[0].clone(),
        is_in_process: false,
        count: all.len(),
        total_ns: all.iter().map(|stall| stall.length_ns).sum(),
        share,
        causes: causes.to_vec(),
    };
    flaw.into()
}

#[test]
fn rules_about_the_flow_fire_on_their_evidence_and_no_other_does() {
    let pauses = clean().cpu_pauses.unwrap();
    let rounds = clean().slow_rounds.unwrap();
    let two = [short(3, StallCause::Generator), short(0, StallCause::Host)];
    let steal = |stolen, paused| Flaw::from(FlowFlaw::Steal { stolen, paused });
    let frozen_once = [(StallCause::Server, 1)];
    let both = [(StallCause::Generator, 1), (StallCause::Host, 1)];
    let longest = CpuPauses {
        longest_ns: 25_000_000,
        ..pauses
    };
    let total = CpuPauses {
        total_ns: 240_000_000,
        ..pauses
    };
    let some = SlowRounds { slow: 5, ..rounds };
    let all = SlowRounds {
        slow: 24,
        echo: None,
        ..rounds
    };
    let table: [(&str, Change, Flaw); 7] = [
        (
            "LL037",
            |e| e.stalls = vec![frozen()],
            stalls(&[frozen()], 1.0 / 6.0, &frozen_once),
        ),
        (
            "LL037",
            |e| e.stalls = vec![short(0, StallCause::Host), short(3, StallCause::Generator)],
            stalls(&two, 50.0 / 6_000.0, &both),
        ),
        (
            "LL035",
            |e| e.observed.steal = Some(0.04),
            steal(Some(0.04), None),
        ),
        (
            "LL035",
            |e| e.cpu_pauses.as_mut().unwrap().longest_ns = 25_000_000,
            steal(None, Some((longest, 0.005))),
        ),
        (
            "LL035",
            |e| e.cpu_pauses.as_mut().unwrap().total_ns = 240_000_000,
            steal(None, Some((total, 0.02))),
        ),
        (
            "LL036",
            |e| e.slow_rounds.as_mut().unwrap().slow = 5,
            FlowFlaw::SlowRounds(some).into(),
        ),
        (
            "LL036",
            |e| {
                let rounds = e.slow_rounds.as_mut().unwrap();
                (rounds.slow, rounds.echo) = (24, None);
            },
            FlowFlaw::SlowRounds(all).into(),
        ),
    ];
    for (rule, change, flaw) in table {
        assert_eq!(flaw_after(change), (rule.to_owned(), flaw));
    }
}

#[test]
fn rules_about_counts_and_the_generator_fire_on_their_evidence_and_no_other_does() {
    let counts = |server_ops, undeclared: &[(&str, u64)]| LoadFlaw::CountsDiffer {
        ops: 200_000,
        server_ops,
        undeclared: undeclared
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
    };
    let bound = |busy, null_speedup| LoadFlaw::GeneratorBound {
        busy,
        waited: None,
        null_speedup,
    };
    let table: [(&str, Change, LoadFlaw); 6] = [
        (
            "LL001",
            |e| e.observed.connections_opened = Some(199_000),
            LoadFlaw::ConnectionPerOperation {
                opened: 199_000,
                ops: 200_000,
                expected: 500,
            },
        ),
        (
            "LL002",
            |e| e.observed.server_ops = Some(200_201),
            counts(Some(200_201), &[]),
        ),
        (
            "LL002",
            |e| e.observed.undeclared = vec![("set".to_owned(), 200_000), ("del".to_owned(), 201)],
            counts(None, &[("set", 200_000), ("del", 201)]),
        ),
        (
            "LL002",
            |e| {
                e.observed.server_ops = Some(100_000);
                e.observed.undeclared = vec![("set".to_owned(), 100_000)];
            },
            counts(Some(100_000), &[("set", 100_000)]),
        ),
        (
            "LL003",
            |e| e.observed.null_speedup = Some(1.49),
            bound(None, Some(1.49)),
        ),
        (
            "LL003",
            |e| (e.generator_busy, e.server_busy) = (Some(0.97), Some(0.4)),
            bound(Some((0.97, 0.4)), None),
        ),
    ];
    for (rule, change, flaw) in table {
        assert_eq!(flaw_after(change), (rule.to_owned(), flaw.into()));
    }
}

#[test]
fn rules_about_a_rate_fire_on_their_evidence_and_no_other_does() {
    let growing = |is_server| LoadFlaw::Growing {
        growth: 8.0,
        is_server,
    };
    let table: [(&str, Change, LoadFlaw); 4] = [
        (
            "LL004",
            |e| e.lag.as_mut().unwrap().p99 = Some(24_000),
            LoadFlaw::LateStarts {
                lag_ns: 24_000,
                response_ns: 100_000,
            },
        ),
        (
            "LL013",
            |e| e.not_sent = Some(500),
            LoadFlaw::NeverSent {
                not_sent: 500,
                planned: 200_000,
                is_server: true,
            },
        ),
        (
            "LL013",
            |e| {
                slow_service(e);
                e.response_growth = Some(8.0);
            },
            growing(true),
        ),
        (
            "LL013",
            |e| {
                slow_service(e);
                (e.response_growth, e.server_busy) = (Some(8.0), None);
            },
            growing(false),
        ),
    ];
    for (rule, change, flaw) in table {
        assert_eq!(flaw_after(change), (rule.to_owned(), flaw.into()));
    }
}

#[test]
fn rules_about_results_fire_on_their_evidence_and_no_other_does() {
    let missing = |count, missing: &[(Metric, u64)]| ResultFlaw::TooFewSamples {
        count,
        missing: missing.to_vec(),
    };
    let table: [(&str, Change, ResultFlaw); 7] = [
        (
            "LL006",
            |e| e.response.p999 = None,
            missing(200_000, &[(Metric::P999, 100_000)]),
        ),
        (
            "LL006",
            |e| {
                (e.response.p50, e.response.p99, e.response.p999) = (None, None, None);
                e.response.count = 150;
            },
            missing(
                150,
                &[
                    (Metric::P50, 200),
                    (Metric::P99, 10_000),
                    (Metric::P999, 100_000),
                ],
            ),
        ),
        (
            "LL007",
            |e| (e.errors, e.main_error) = (20, Some("WRONGTYPE".to_owned())),
            ResultFlaw::ErrorReplies {
                errors: 20,
                ops: 200_000,
                main_error: Some("WRONGTYPE".to_owned()),
            },
        ),
        (
            "LL008",
            |e| e.hit_ratio = Some(0.63),
            ResultFlaw::ReadsMiss(0.63),
        ),
        (
            "LL011",
            |e| e.shortest_block_ns = Some(49_000_000),
            ResultFlaw::ShortBlock(49_000_000),
        ),
        (
            "LL011",
            |e| e.observed.clock_reads = Some(999),
            ResultFlaw::FewClockReads(999),
        ),
        (
            "LL012",
            |e| e.steady = Some(false),
            ResultFlaw::NoSteadyState,
        ),
    ];
    for (rule, change, flaw) in table {
        assert_eq!(flaw_after(change), (rule.to_owned(), flaw.into()));
    }
}

#[test]
fn rules_about_activity_fire_on_their_evidence_and_no_other_does() {
    let contention = |pressure, waited| ActivityFlaw::Contention { pressure, waited };
    let work =
        |persistence: &[&str], evicted_keys, swapped_bytes| ActivityFlaw::ServerBusyElsewhere {
            persistence: persistence.iter().map(|&kind| kind.to_owned()).collect(),
            evicted_keys,
            swapped_bytes,
        };
    let table: [(&str, Change, ActivityFlaw); 7] = [
        (
            "LL005",
            |e| e.observed.cpu_pressure = Some(0.5),
            contention(Some(0.5), None),
        ),
        (
            "LL005",
            |e| e.observed.run_queue_wait = Some(0.06),
            contention(None, Some(0.06)),
        ),
        (
            "LL005",
            |e| (e.observed.cpu_pressure, e.observed.run_queue_wait) = (Some(0.5), Some(0.06)),
            contention(Some(0.5), Some(0.06)),
        ),
        (
            "LL005",
            |e| e.observed.server_wait = Some(0.07),
            contention(None, Some(0.07)),
        ),
        (
            "LL009",
            |e| e.observed.persistence = vec!["appendonly yes".to_owned()],
            work(&["appendonly yes"], 0, 0),
        ),
        (
            "LL009",
            |e| (e.observed.evicted_keys, e.observed.swapped_bytes) = (Some(5), Some(4_096)),
            work(&[], 5, 4_096),
        ),
        (
            "LL010",
            |e| e.observed.other_clients = Some(3),
            ActivityFlaw::OtherClients(3),
        ),
    ];
    for (rule, change, flaw) in table {
        assert_eq!(flaw_after(change), (rule.to_owned(), flaw.into()));
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
    let rules: Vec<Rule> = found.iter().map(Diagnosis::rule).collect();
    assert_eq!(rules, [Rule::GeneratorBound, Rule::Contention]);
    let bound = LoadFlaw::GeneratorBound {
        busy: Some((0.5, 0.2)),
        waited: Some(0.45),
        null_speedup: None,
    };
    assert_eq!(found[0].flaw, bound.into());
    // One that rests whenever it gets a CPU is short of CPUs, and not of speed.
    let resting = after(|e| {
        (e.generator_busy, e.observed.run_queue_wait) = (Some(0.15), Some(0.73));
        (e.server_busy, e.observed.server_wait) = (Some(0.05), Some(0.3));
    });
    assert_eq!(resting[0].rule(), Rule::Contention);
    let starved = after(|e| {
        (e.generator_busy, e.observed.run_queue_wait) = (Some(0.5), Some(0.45));
        (e.server_busy, e.observed.server_wait) = (Some(0.5), Some(0.4));
    });
    assert_eq!(starved[0].rule(), Rule::Contention);
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
        (finding.rule().as_str(), finding.severity),
        ("LL014", Severity::Critical)
    );
    assert_eq!(finding.scope, "embedded, get compared with redis, get");
    let differ = |names: &[&'static str]| Flaw::from(PairFlaw::ArmsDiffer(names.to_vec()));
    assert_eq!(finding.flaw, differ(&["pipeline", "value size"]));
    // Calls in this process have no wire, so only the work must be alike.
    let mut called = case();
    called.scenario.connections = 0;
    called.scenario.mode = "call".into();
    called.scenario.in_flight = Some(1);
    assert_eq!(arms_differ(&a, &called), None);
    called.scenario.keys += 1;
    assert_eq!(arms_differ(&a, &called).unwrap().flaw, differ(&["keys"]));
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
    let is_server = |server_busy: Option<f64>, server_wait: Option<f64>| {
        let found = after(|seen| {
            (seen.not_sent, seen.server_busy) = (Some(500), server_busy);
            seen.observed.server_wait = server_wait;
        });
        let mut flaws = found.into_iter().map(|found| found.flaw);
        flaws.any(|flaw| {
            matches!(
                flaw,
                Flaw::Load(LoadFlaw::NeverSent {
                    is_server: true,
                    ..
                })
            )
        })
    };
    assert!(is_server(Some(0.95), None));
    assert!(
        is_server(Some(0.5), Some(0.45)),
        "busy whenever it had a CPU"
    );
    assert!(!is_server(Some(0.13), Some(0.2)));
    assert!(!is_server(None, None));
}

/// The server stopped for one of six seconds: a lower rate would not have helped.
#[test]
fn operations_that_a_stall_kept_back_are_told_from_those_of_a_rate_that_is_too_high() {
    let found_after = |not_sent| {
        let found = after(|seen| {
            seen.stalls = vec![frozen()];
            seen.not_sent = Some(not_sent);
        });
        let mut found = found.into_iter();
        found
            .find(|found| found.rule() == Rule::Overloaded)
            .unwrap()
            .flaw
    };
    let kept_back = LoadFlaw::HeldBack {
        not_sent: 5_464,
        planned: 200_000,
        stalled_ns: 1_000_000_000,
    };
    assert_eq!(found_after(5_464), kept_back.into());
    // More than was due during the stalls.
    let flaw = found_after(60_000);
    assert!(
        matches!(flaw, Flaw::Load(LoadFlaw::NeverSent { .. })),
        "{flaw:?}"
    );
}

#[test]
fn stall_of_a_call_in_this_process_is_told_from_one_of_a_server() {
    for (kind, expected) in [
        (SubjectKind::Engine, true),
        (SubjectKind::Store, true),
        (SubjectKind::Application, true),
        (SubjectKind::Server, false),
    ] {
        let mut case = Case {
            stalls: vec![short(0, StallCause::Server)],
            ..Case::default()
        };
        case.subject.kind = kind;
        let found = examine(&Evidence::of_case(&case, Observed::default()));
        let mut flaws = found.into_iter().map(|found| found.flaw);
        let in_process = flaws.find_map(|flaw| match flaw {
            Flaw::Flow(FlowFlaw::Stalls { is_in_process, .. }) => Some(is_in_process),
            _ => None,
        });
        assert_eq!(in_process, Some(expected));
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
        let found = found.filter(|found| [Rule::Quota, Rule::Contention].contains(&found.rule()));
        found.collect::<Vec<Diagnosis>>()
    };
    let found = found_by(51);
    let throttled = Throttled {
        periods: 76,
        throttled: 51,
    };
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].rule(), Rule::Quota);
    assert_eq!(found[0].flaw, ActivityFlaw::Throttled(throttled).into());
    assert_eq!(found_by(3)[0].rule(), Rule::Contention);
}

#[test]
fn limits_of_the_load_generator_are_found() {
    let found = |observed: Observed| {
        let evidence = Evidence::of_scope(String::new(), 0, observed);
        let found = rules::RULES.iter().filter_map(|rule| rule(&evidence));
        let found = found.filter(|found| found.rule() != Rule::TooFewSamples);
        found.map(|found| found.flaw).collect::<Vec<Flaw>>()
    };
    let periods = |throttled| Throttled {
        periods: 76,
        throttled,
    };
    let quota = |server, generator| Observed {
        server_throttled: Some(periods(server)),
        generator_throttled: Some(periods(generator)),
        ..Observed::default()
    };
    let own = ActivityFlaw::GeneratorThrottled(periods(51)).into();
    assert_eq!(found(quota(3, 51)), [own]);
    // They can be in one control group.
    let server = ActivityFlaw::Throttled(periods(50)).into();
    assert_eq!(found(quota(50, 51)), [server]);
    assert_eq!(found(quota(3, 3)), []);

    let network = |used| NetworkUse {
        device: "eth0".to_owned(),
        speed: 125_000_000,
        used,
    };
    let of = |used| Observed {
        network: Some(network(used)),
        ..Observed::default()
    };
    assert_eq!(found(of(100_000_000)), []);
    let limit = ActivityFlaw::NetworkLimit(network(101_000_000)).into();
    assert_eq!(found(of(101_000_000)), [limit]);
}
