use std::time::Instant;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::{Part, difference, merge};
use crate::Error;
use crate::doctor::{AgentsFlaw, Diagnosis, Flaw, Rule, Severity};
use crate::histogram::Histogram;
use crate::record::{
    Case, Cost, Environment, Finding, Histograms, Membership, Pacing, Record, RoundHistograms,
    RoundSummary, Run, ServerEnvironment, Stall, SubjectKind,
};

const SECOND: u64 = 1_000_000_000;
const ROUND_NS: u64 = SECOND;
const START: u64 = 1_700_000_000 * SECOND;

/// The case of one recorder that saw the response times `rounds`, of a run that began at `start`.
fn case(rounds: &[Vec<u64>], start: u64) -> Case {
    let mut whole = Histogram::new();
    let mut kept = Histograms::default();
    let mut summaries = Vec::new();
    for (times, index) in rounds.iter().zip(0..) {
        let mut histogram = Histogram::new();
        times.iter().for_each(|ns| histogram.record(*ns));
        whole.merge(&histogram);
        let text = histogram.encode();
        kept.rounds.push(RoundHistograms {
            service_time: text.clone(),
            response_time: text,
            lag: None,
        });
        summaries.push(RoundSummary {
            ops: times.len() as u64,
            start_unix_ns: Some(start + index * ROUND_NS),
            duration_ns: ROUND_NS,
            throughput_ops_per_s: times.len() as f64,
            response_time_ns_mean: histogram.summary().mean,
            response_time_ns_p50: histogram.summary().p50,
            response_time_ns_p99: histogram.summary().p99,
            ..RoundSummary::default()
        });
    }
    kept.service_time = whole.encode();
    kept.response_time = whole.encode();
    let mut case = Case {
        ops: whole.count(),
        duration_ns: rounds.len() as u64 * ROUND_NS,
        throughput_ops_per_s: whole.count() as f64 / rounds.len() as f64,
        response_time_ns: whole.summary(),
        service_time_ns: whole.summary(),
        steady: true,
        rounds: summaries,
        histograms: kept,
        ..Case::default()
    };
    case.subject.name = "db".into();
    case.subject.kind = SubjectKind::Server;
    case.scenario.workload = "get".into();
    (case.scenario.connections, case.scenario.threads) = (50, 1);
    case.scenario.keys = 1_000;
    case
}

/// The record of the agent `name` with that case.
fn part(name: &str, case: Case) -> Part {
    let run = Run {
        id: format!("run-{name}"),
        started_at: format!("2026-02-03T04:05:0{}Z", name.len()),
        version: "0.1.0".into(),
        plan: json!({ "targets": ["redis://db"], "seed": name.len(), "cases": [{ "pipeline": 1 }] }),
        duration_ns: Some(10 * SECOND),
        ..Run::default()
    };
    let environment = Environment {
        boot_id: Some(format!("boot-{name}")),
        cores: Some(2),
        servers: vec![ServerEnvironment {
            subject: "db".into(),
            version: Some("7.0.15".into()),
            run_id: Some("c0ffee".into()),
            ..ServerEnvironment::default()
        }],
        ..Environment::default()
    };
    let mut record = Record::new(run, environment);
    record.cases.push(case);
    Part {
        name: format!("{name}.json"),
        record,
    }
}

fn two() -> [Part; 2] {
    let times = |ns: u64| vec![vec![ns; 300]; 5];
    [
        part("a", case(&times(1_000), START)),
        part("bb", case(&times(2_000), START)),
    ]
}

fn rules(found: &[Diagnosis]) -> Vec<Rule> {
    found.iter().map(Diagnosis::rule).collect()
}

fn refusal(parts: &[Part]) -> String {
    match merge(parts, Run::default()) {
        Err(error @ Error::Unmergeable(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The merged histograms have the same bits as those of one recorder of all operations.
    #[test]
    fn merge_of_agents_equals_one_recorder(
        agents in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(0..=1_u64 << 43, 0..40), 3),
            2..6,
        ),
    ) {
        let one_recorder: Vec<Vec<u64>> = (0..3)
            .map(|round| agents.iter().flat_map(|agent| agent[round].clone()).collect())
            .collect();
        let expected = case(&one_recorder, START);
        let parts: Vec<Part> = agents
            .iter()
            .zip(1..)
            .map(|(rounds, number)| part(&"x".repeat(number), case(rounds, START)))
            .collect();
        let merged = merge(&parts, Run::default()).unwrap().record;
        let found = &merged.cases[0];
        prop_assert_eq!(&found.histograms, &expected.histograms);
        prop_assert_eq!(found.response_time_ns, expected.response_time_ns);
        prop_assert_eq!(found.service_time_ns, expected.service_time_ns);
        prop_assert_eq!(found.ops, expected.ops);
        prop_assert_eq!(found.duration_ns, expected.duration_ns);
        prop_assert_eq!(found.throughput_ops_per_s, expected.throughput_ops_per_s);
        for (round, expected) in found.rounds.iter().zip(&expected.rounds) {
            prop_assert_eq!(round, expected);
        }
        let of_agents: u64 = merged.agents.iter().map(|agent| agent.cases[0].ops).sum();
        prop_assert_eq!(of_agents, found.ops);
    }
}

#[test]
fn load_of_all_agents_is_added_up() {
    let mut parts = two();
    for (part, errors) in parts.iter_mut().zip([1, 2]) {
        let case = &mut part.record.cases[0];
        case.scenario.pacing = Pacing::Rate(300.0);
        case.errors = [("OOM".to_owned(), errors), (format!("E{errors}"), 4)].into();
        (case.planned, case.not_sent) = (Some(1_500), Some(errors));
        case.warmup_ns = errors;
        case.cost = Cost {
            client_cpu_ns_per_op: Some(errors as f64),
            server_cpu_ns_per_op: Some(10.0),
            ..Cost::default()
        };
    }
    let merged = merge(&parts, Run::default()).unwrap().record;
    let case = &merged.cases[0];
    assert_eq!(case.scenario.pacing, Pacing::Rate(600.0));
    let scenario = &case.scenario;
    assert_eq!(
        (scenario.connections, scenario.threads, scenario.keys),
        (100, 2, 2_000)
    );
    let errors = [("E1", 4), ("E2", 4), ("OOM", 3)].map(|(kind, count)| (kind.to_owned(), count));
    assert_eq!(case.errors, errors.into());
    assert_eq!(
        (case.planned, case.not_sent, case.warmup_ns),
        (Some(3_000), Some(3), 2)
    );
    assert_eq!((case.ops, case.throughput_ops_per_s), (3_000, 600.0));
    // Both saw the same CPU time of the one server.
    assert_eq!(case.cost.server_cpu_ns_per_op, Some(5.0));
    assert_eq!(case.cost.client_cpu_ns_per_op, Some(1.5));
    let of_agent: Vec<_> = merged
        .agents
        .iter()
        .map(|agent| (agent.rank, agent.run.as_str(), agent.cases[0].errors))
        .collect();
    assert_eq!(of_agent, [(0, "run-a", 5), (1, "run-bb", 6)]);
    assert_eq!(merged.run.started_at, "2026-02-03T04:05:01Z");
    // Properties in which the machines differ are in the part of each.
    assert_eq!(
        (merged.environment.cores, &merged.environment.boot_id),
        (Some(2), &None)
    );
    assert_eq!(
        merged.agents[1].environment.boot_id.as_deref(),
        Some("boot-bb")
    );
}

#[test]
fn stalls_keep_their_agent() {
    let mut parts = two();
    for (part, length_ns) in parts.iter_mut().zip([7, 9]) {
        part.record.cases[0].stalls = vec![Stall {
            length_ns,
            ..Stall::default()
        }];
    }
    let merged = merge(&parts, Run::default()).unwrap().record;
    let stalls: Vec<_> = merged.cases[0]
        .stalls
        .iter()
        .map(|stall| (stall.agent, stall.length_ns))
        .collect();
    assert_eq!(stalls, [(Some(0), 7), (Some(1), 9)]);
    let of_agents: Vec<_> = merged
        .agents
        .iter()
        .map(|agent| (agent.cases[0].stalls, agent.cases[0].longest_stall_ns))
        .collect();
    assert_eq!(of_agents, [(1, Some(7)), (1, Some(9))]);
}

/// Operations per second of the time in which any agent measured, so that runs one after the other do not add up.
#[test]
fn rate_of_agents_that_measured_apart_is_not_the_sum_of_theirs() {
    let times = || vec![vec![1_000; 300]; 5];
    for (delay_ns, rate, severity) in [
        (0, 600.0, None),
        (SECOND / 10, 3_000.0 / 5.1, None),
        (SECOND / 2, 3_000.0 / 5.5, Some(Severity::Warning)),
        (4 * SECOND, 3_000.0 / 9.0, Some(Severity::Critical)),
        (20 * SECOND, 300.0, Some(Severity::Critical)),
    ] {
        let parts = [
            part("a", case(&times(), START)),
            part("bb", case(&times(), START + delay_ns)),
        ];
        let merged = merge(&parts, Run::default()).unwrap();
        let case = &merged.record.cases[0];
        assert!(
            (case.throughput_ops_per_s / rate - 1.0).abs() < 1e-9,
            "{delay_ns}: {}",
            case.throughput_ops_per_s
        );
        let apart = merged
            .found
            .iter()
            .find(|found| found.rule() == Rule::AgentsApart);
        // 4.9 s of 5.1 s are 96 %.
        assert_eq!(apart.map(|found| found.severity), severity, "{delay_ns}");
    }
}

#[test]
fn agent_slower_than_the_others_is_found() {
    let fast = || case(&vec![vec![1_000; 400]; 5], START);
    let slow = || case(&vec![vec![1_000; 310]; 5], START);
    let found = |third: Case| {
        let parts = [part("a", fast()), part("bb", third), part("ccc", fast())];
        merge(&parts, Run::default()).unwrap().found
    };
    assert!(!rules(&found(fast())).contains(&Rule::SlowerAgent));
    let flaws = found(slow());
    let flaw = flaws
        .iter()
        .find(|found| found.rule() == Rule::SlowerAgent)
        .unwrap();
    let expected = AgentsFlaw::SlowerRate {
        agent: 1,
        own: 310.0,
        others: 400.0,
    };
    assert_eq!(
        (&flaw.flaw, flaw.scope.as_str()),
        (&Flaw::Agents(expected), "db, get")
    );

    // The schedule decides about the rate of an open loop.
    let open = |ns: u64| {
        let mut case = case(&vec![vec![ns; 400]; 5], START);
        case.scenario.pacing = Pacing::Rate(400.0);
        case
    };
    let parts = [
        part("a", open(1_000)),
        part("bb", open(1_000)),
        part("ccc", open(1_300)),
    ];
    let flaws = merge(&parts, Run::default()).unwrap().found;
    let flaw = flaws
        .into_iter()
        .find(|found| found.rule() == Rule::SlowerAgent)
        .unwrap();
    let Flaw::Agents(AgentsFlaw::SlowerTimes {
        agent: 2,
        own_ns,
        others_ns,
    }) = flaw.flaw
    else {
        panic!("{flaw:?}")
    };
    assert!(own_ns > 1.25 * others_ns, "{own_ns} {others_ns}");
}

#[test]
fn agents_on_one_machine_are_found_by_its_boot() {
    for (threads, severity) in [(1, Severity::Info), (2, Severity::Warning)] {
        let mut parts = two();
        for part in &mut parts {
            part.record.environment.boot_id = Some("same".into());
            part.record.cases[0].scenario.threads = threads;
        }
        let found = merge(&parts, Run::default()).unwrap().found;
        let shared = found
            .iter()
            .find(|found| found.rule() == Rule::AgentsOnOneHost)
            .unwrap();
        let expected = AgentsFlaw::OneHost {
            agents: vec![0, 1],
            threads: 2 * threads,
            cores: Some(2),
        };
        assert_eq!(
            (&shared.flaw, shared.severity),
            (&Flaw::Agents(expected), severity)
        );
    }
    let apart = merge(&two(), Run::default()).unwrap().found;
    assert!(!rules(&apart).contains(&Rule::AgentsOnOneHost));
}

#[test]
fn agents_with_cpus_of_their_own_share_a_machine_and_agents_on_one_cpu_crowd_it() {
    for (cpus, agents, cores) in [
        (["0", "1", "2-3"], vec![0, 1, 2], Some(4)),
        (["0", "1", "1"], vec![1, 2], Some(1)),
        (["0-1", "1", "1"], vec![0, 1, 2], Some(2)),
        // Not a list, so the number of CPUs counts.
        (["0", "1", "1-"], vec![0, 1, 2], Some(2)),
    ] {
        let mut parts: Vec<Part> = ["a", "bb", "ccc"]
            .map(|name| part(name, case(&[vec![1_000; 300]], START)))
            .into();
        for (part, cpus) in parts.iter_mut().zip(cpus) {
            let environment = &mut part.record.environment;
            environment.boot_id = Some("same".into());
            environment.cpus = Some(cpus.into());
        }
        let found = merge(&parts, Run::default()).unwrap().found;
        let mut shared = found
            .iter()
            .filter(|found| found.rule() == Rule::AgentsOnOneHost);
        let crowded = agents.len() as u64 > cores.unwrap_or(0);
        let expected = AgentsFlaw::OneHost {
            threads: agents.len() as u64,
            agents,
            cores,
        };
        let severity = if crowded {
            Severity::Warning
        } else {
            Severity::Info
        };
        let first = shared.next().unwrap();
        assert_eq!(
            (&first.flaw, first.severity),
            (&Flaw::Agents(expected), severity),
            "{cpus:?}"
        );
        assert_eq!(shared.next(), None);
    }
}

#[test]
fn clock_that_is_known_less_exactly_than_the_median_is_found() {
    for (bound_ns, is_found) in [(900, false), (40_000, true)] {
        let mut parts = two();
        for (part, rank) in parts.iter_mut().zip(0..) {
            part.record.run.agent = Some(Membership {
                rank,
                agents: 2,
                clock_bound_ns: bound_ns * rank,
                ..Membership::default()
            });
        }
        let merged = merge(&parts, Run::default()).unwrap();
        let p50_ns = merged.record.cases[0].response_time_ns.p50.unwrap();
        let found = merged
            .found
            .into_iter()
            .find(|found| found.rule() == Rule::AgentClocks);
        let expected = AgentsFlaw::Clock {
            agent: 1,
            bound_ns,
            p50_ns,
        };
        let expected = is_found.then_some(Flaw::Agents(expected));
        assert_eq!(found.map(|found| found.flaw), expected);
    }
}

#[test]
fn limits_of_an_agent_are_kept_with_its_number() {
    let mut parts = two();
    let limit = |rule| Finding {
        rule,
        severity: Severity::Warning,
        scope: "db, get".into(),
        evidence: "it is at its limit".into(),
        what_to_do: String::new(),
    };
    let limits = [Rule::Quota, Rule::NetworkLimit].map(limit);
    parts[1].record.doctor.extend(limits);
    let merged = merge(&parts, Run::default()).unwrap().record;
    let found: Vec<(&Rule, &str)> = merged
        .doctor
        .iter()
        .map(|found| (&found.rule, found.scope.as_str()))
        .collect();
    let scope = "agent 1, db, get";
    assert_eq!(found, [(&Rule::Quota, scope), (&Rule::NetworkLimit, scope)]);
}

#[test]
fn findings_of_agents_are_kept_where_other_agents_do_not_cause_them() {
    let finding = |rule: Rule, evidence: &str| Finding {
        rule,
        severity: Severity::Warning,
        scope: "db, get".into(),
        evidence: evidence.into(),
        what_to_do: String::new(),
    };
    let mut parts = two();
    for (part, own) in parts.iter_mut().zip(["20 %", "90 %"]) {
        part.record.doctor = vec![
            finding(Rule::Governor, "powersave"),
            finding(Rule::GeneratorBound, own),
            // The server counts both.
            finding(Rule::CountsDiffer, "twice as many"),
            // Those of no load generator.
            finding(Rule::OtherClients, "3"),
            // The merged case has more samples.
            finding(Rule::TooFewSamples, "1500"),
        ];
    }
    let merged = merge(&parts, Run::default()).unwrap();
    let kept: Vec<_> = merged
        .record
        .doctor
        .iter()
        .map(|found| {
            (
                found.rule.clone(),
                found.scope.as_str(),
                found.evidence.as_str(),
            )
        })
        .collect();
    assert_eq!(
        kept,
        [
            (Rule::Governor, "db, get", "powersave"),
            (Rule::GeneratorBound, "agent 0, db, get", "20 %"),
            (Rule::OtherClients, "db, get", "3"),
            (Rule::GeneratorBound, "agent 1, db, get", "90 %"),
        ]
    );
    assert!(rules(&merged.found).contains(&Rule::TooFewSamples));
}

#[test]
fn run_that_one_agent_did_not_finish_is_cut_short() {
    let mut parts = two();
    assert!(!merge(&parts, Run::default()).unwrap().record.run.cut_short);
    parts[1].record.run.cut_short = true;
    let rounds = &mut parts[1].record.cases[0];
    rounds.rounds.truncate(2);
    rounds.histograms.rounds.truncate(2);
    let merged = merge(&parts, Run::default()).unwrap().record;
    assert!(merged.run.cut_short);
    let ops: Vec<u64> = merged.cases[0]
        .rounds
        .iter()
        .map(|round| round.ops)
        .collect();
    assert_eq!(ops, [600, 600, 300, 300, 300]);
}

#[test]
fn records_that_did_not_measure_the_same_are_refused_with_the_difference() {
    let with = |change: &dyn Fn(&mut Record)| {
        let mut parts = two();
        change(&mut parts[1].record);
        refusal(&parts)
    };
    type Change = fn(&mut Record);
    let table: [(Change, &str); 12] = [
        (
            |of| of.run.id = "run-a".into(),
            "a.json and bb.json are the same run, run-a; give each record once.",
        ),
        (
            |of| of.run.version = "0.2.0".into(),
            "run.version is 0.1.0 in a.json and 0.2.0 in bb.json",
        ),
        (
            |of| of.run.plan["cases"][0]["pipeline"] = 16.into(),
            "run.plan.cases[0].pipeline is 1 in a.json and 16 in bb.json",
        ),
        (
            |of| of.run.plan["targets"][0] = "redis://other".into(),
            "run.plan.targets[0] is \"redis://db\" in a.json",
        ),
        (
            |of| of.run.plan["keys"] = 5.into(),
            "run.plan.keys is null in a.json and 5 in bb.json",
        ),
        (
            |of| of.environment.servers[0].run_id = Some("beef".into()),
            "the server's db.run_id is \"c0ffee\" in a.json and \"beef\" in bb.json",
        ),
        (
            |of| of.environment.servers.clear(),
            "the number of servers is 1 in a.json and 0 in bb.json",
        ),
        (
            |of| of.cases[0].scenario.key_dist = "zipf:0.99".into(),
            "cases[0].scenario.key_dist",
        ),
        (
            |of| of.cases[0].subject.kind = SubjectKind::Embedded,
            "bb.json measured db, which it started itself",
        ),
        (
            |of| of.cases[0].rounds[1].start_unix_ns = None,
            "bb.json does not say when its rounds began",
        ),
        (
            |of| of.cases[0].histograms.rounds.clear(),
            "bb.json does not hold the histograms of all rounds",
        ),
        (
            |of| of.cases.clear(),
            "bb.json holds no cases of `loadline run`",
        ),
    ];
    for (change, expected) in table {
        let said = with(&change);
        assert!(
            said.starts_with(&format!("These records cannot be merged: {expected}")),
            "{said}\n{expected}"
        );
    }
}

#[test]
fn records_that_are_no_parts_of_a_merge_are_refused() {
    let [one, mut other] = two();
    let mut second = other.record.cases[0].clone();
    second.subject.name = "other".into();
    other.record.cases.push(second);
    let said = refusal(&[one, other]);
    assert!(said.contains("bb.json compares db with other"), "{said}");
    let [one, other] = two();
    assert!(refusal(std::slice::from_ref(&one)).contains("two or more"));
    let merged = merge(&[one.clone(), other], Run::default()).unwrap();
    let again = Part {
        name: "m.json".into(),
        record: merged.record,
    };
    assert!(refusal(&[again, one]).contains("m.json is a merge already"));
}

#[test]
fn server_that_hides_its_process_from_one_agent_is_no_difference() {
    let mut parts = two();
    parts[1].record.environment.servers[0].run_id = None;
    assert!(merge(&parts, Run::default()).is_ok());
}

#[test]
fn merged_record_is_read_as_it_was_written() {
    let merged = merge(&two(), Run::default()).unwrap().record;
    let json = merged.to_json_pretty().unwrap();
    assert_eq!(Record::from_json(json.as_bytes()).unwrap(), merged);
}

/// The same, of the agent `rank` of two, whose clock is behind that of the coordinator by `behind_ns`.
fn member(name: &str, rank: u64, case: Case, behind_ns: i64) -> Part {
    let mut part = part(name, case);
    part.record.run.agent = Some(Membership {
        group: "nightly-7".to_owned(),
        rank,
        agents: 2,
        clock_offset_ns: behind_ns,
        clock_bound_ns: 70_000,
    });
    part
}

#[test]
fn records_of_a_group_have_their_ranks_and_the_clock_of_the_coordinator() {
    let times = [vec![1_000; 300], vec![1_000; 300]];
    let late = START + 5 * SECOND;
    let one = member("b", 1, case(&times, late), -5 * SECOND as i64);
    let zero = member("a", 0, case(&times, START), 0);
    let merged = merge(&[one, zero], Run::default()).unwrap();
    let agents = &merged.record.agents;
    let ranks: Vec<(u64, &str)> = agents.iter().map(|one| (one.rank, &*one.run)).collect();
    assert_eq!(ranks, [(0, "run-a"), (1, "run-b")]);
    assert!(agents.iter().all(|one| one.cases[0].start_unix_ns == START));
    assert!(agents.iter().all(|one| one.clock_bound_ns == Some(70_000)));
    assert_eq!(merged.record.cases[0].duration_ns, 2 * ROUND_NS);
}

#[test]
fn targets_that_a_group_compared_are_merged_one_by_one() {
    let times = |ns: u64| case(&vec![vec![ns; 300]; 5], START);
    let of_both = |name: &str, rank| {
        let mut part = member(name, rank, times(1_000), 0);
        let mut other = times(3_000 + rank);
        other.subject.name = "other".into();
        part.record.cases.push(other);
        part
    };
    let parts = [of_both("a", 0), of_both("bb", 1)];
    let merged = merge(&parts, Run::default()).unwrap().record;
    let found: Vec<_> = merged
        .cases
        .iter()
        .map(|case| (case.subject.name.as_str(), case.ops, case.rounds.len()))
        .collect();
    assert_eq!(found, [("db", 3_000, 5), ("other", 3_000, 5)]);
    let mut swapped = parts;
    swapped[1].record.cases.swap(0, 1);
    let said = refusal(&swapped);
    assert!(
        said.contains("cases[0].subject.name is db in a.json"),
        "{said}"
    );
}

#[test]
fn record_of_the_agent_that_is_left_is_a_merge_of_one() {
    let lone = member("b", 1, case(&[vec![1_000; 300]], START), 0);
    let merged = merge(&[lone], Run::default()).unwrap();
    let [agent] = &merged.record.agents[..] else {
        panic!("{:?}", merged.record.agents)
    };
    assert_eq!((agent.rank, merged.record.cases[0].ops), (1, 300));
}

/// Times of each round.
const TIMES: usize = 500;

/// Parts as many agents make them: five rounds of times around a millisecond, with a long tail.
fn many(agents: u64) -> Vec<Part> {
    let mut rng = SmallRng::seed_from_u64(agents);
    let part = |rank: u64| {
        let mut time = || {
            let shares: f64 = (0..6).map(|_| rng.random::<f64>()).sum();
            (1_000_000.0 * (shares - 3.0).exp()) as u64
        };
        let rounds = (0..5).map(|_| (0..TIMES).map(|_| time()).collect());
        let mut part = part("x", case(&rounds.collect::<Vec<_>>(), START));
        part.name = format!("{rank}.json");
        part.record.run.id = format!("run-{rank}");
        part.record.run.plan["seed"] = rank.into();
        part.record.environment.boot_id = Some(format!("boot-{rank}"));
        part
    };
    (0..agents).map(part).collect()
}

/// Prints how long it takes.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test that measures")]
fn parts_of_many_agents_are_merged_to_the_histogram_of_one_recorder() {
    let is_long = std::env::var_os("LOADLINE_LONG").is_some_and(|value| value == "1");
    let counts: &[u64] = if is_long { &[256, 1_000] } else { &[16] };
    for agents in counts {
        let parts = many(*agents);
        let texts = parts
            .iter()
            .map(|part| serde_json::to_string(&part.record).unwrap());
        let texts: Vec<String> = texts.collect();
        let begun = Instant::now();
        let read = texts.iter().zip(&parts).map(|(text, part)| Part {
            name: part.name.clone(),
            record: Record::from_json(text.as_bytes()).unwrap(),
        });
        let read: Vec<Part> = read.collect();
        let read_in = begun.elapsed();
        let merged = merge(&read, Run::default()).unwrap().record;
        println!(
            "{agents} records of {} bytes: read in {read_in:?}, merged in {:?}",
            texts[0].len(),
            begun.elapsed() - read_in
        );
        let mut one = Histogram::new();
        for part in &parts {
            let own = part.record.cases[0].response_histogram().unwrap();
            one.merge(&own.unwrap());
        }
        assert_eq!(one.count(), agents * 5 * TIMES as u64);
        let merged = &merged.cases[0].histograms.response_time;
        assert_eq!(merged, &one.encode());
    }
}

proptest! {
    /// Comparing with a few records finds the same as comparing every two, whatever the agents know of the servers.
    #[test]
    fn difference_of_any_two_records_is_found(
        agents in prop::collection::vec(
            (
                prop::array::uniform2(prop::option::weighted(0.5, prop::bool::weighted(0.8))),
                prop::collection::vec(prop::bool::weighted(0.97), 1..4),
            ),
            2..6,
        ),
    ) {
        let usual = part("x", case(&[vec![1_000; 3]], START));
        let parts: Vec<Part> = agents.iter().zip(0..).map(|((processes, cases), number)| {
            let mut part = usual.clone();
            part.record.run.id = format!("run-{number}");
            let servers = &mut part.record.environment.servers;
            servers.push(servers[0].clone());
            for (server, process) in servers.iter_mut().zip(processes) {
                let id = |is_usual: bool| if is_usual { "c0ffee" } else { "decaf" };
                server.run_id = process.map(|is_usual| id(is_usual).to_owned());
            }
            let case = part.record.cases.remove(0);
            for is_usual in cases {
                let mut case = case.clone();
                case.scenario.pipeline = if *is_usual { 1 } else { 16 };
                part.record.cases.push(case);
            }
            part
        }).collect();
        let differ = |one: &Part, other: &Part| difference::compare(one, other).is_err();
        let any_two = parts.iter().any(|one| parts.iter().any(|other| differ(one, other)));
        prop_assert_eq!(difference::check_all(&parts).is_err(), any_two);
    }
}
