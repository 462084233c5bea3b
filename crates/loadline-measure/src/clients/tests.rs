use super::*;
use crate::gate::RowVerdict;
use crate::record::{Environment, Pacing, Record, RoundSummary, Run, Subject};

/// A case with throughputs and CPU times by round.
fn case(name: &str, rates: [f64; 10], cpu_ns: f64) -> Case {
    let round = |rate: f64| RoundSummary {
        ops: 1_000,
        throughput_ops_per_s: rate,
        client_cpu_ns_per_op: Some(cpu_ns * (1.0 + rate / 1e9)),
        server_cpu_ns_per_op: Some(1_000.0),
        ..RoundSummary::default()
    };
    let mut case = Case {
        subject: Subject {
            name: name.into(),
            ..Subject::default()
        },
        scenario: Scenario {
            workload: "get".into(),
            mode: Mode::Pipeline,
            pipeline: 100,
            resp: 3,
            ..Scenario::default()
        },
        throughput_ops_per_s: rates.iter().sum::<f64>() / 10.0,
        rounds: rates.into_iter().map(round).collect(),
        ..Case::default()
    };
    case.cost.client_cpu_ns_per_op = Some(cpu_ns);
    case
}

fn rates(about: f64) -> [f64; 10] {
    std::array::from_fn(|round| about * (1.0 + 0.002 * round as f64))
}

fn row(case: usize, driver: &str, language: &str) -> ClientRow {
    ClientRow {
        case,
        driver: driver.into(),
        language: language.into(),
        is_valid: true,
        ..ClientRow::default()
    }
}

fn measured() -> (Record, Clients) {
    let mut record = Record::new(Run::default(), Environment::default());
    record.cases = vec![
        case("redis-py 1", rates(100.0), 9_000.0),
        case("redis-py 1 hiredis", rates(310.0), 3_000.0),
        case("loadline-client", rates(900.0), 300.0),
    ];
    let clients = Clients {
        reference: "redis-py".into(),
        rows: vec![
            row(0, "redis-py", "Python"),
            row(1, "redis-py.hiredis", "Python"),
            row(2, "loadline", "Rust"),
        ],
        ..Clients::default()
    };
    (record, clients)
}

#[test]
fn the_advice_stays_in_the_language_and_the_best_is_the_best_of_all() {
    let (record, mut clients) = measured();
    clients.conclude(&record.cases);
    assert_eq!(
        clients.advice,
        "For users of redis-py 1: get in pipelines of 100 is 3.10 times as fast with redis-py 1 hiredis, and the server's CPU time is the same. \
         The best of all languages is a client in Rust: get in pipelines of 100 is 9.00 times as fast with loadline-client, and the server's CPU time is the same."
    );
    assert_eq!(
        clients.best,
        [
            "get in pipelines of 100: loadline-client with 908 operations per second; least CPU time by loadline-client with 300 ns per operation."
        ]
    );
}

#[test]
fn a_client_of_another_language_is_named_as_one() {
    let (record, mut clients) = measured();
    clients.rows[1].is_valid = false;
    clients.conclude(&record.cases);
    assert_eq!(
        clients.advice,
        "For users of redis-py 1: no other client in Python is faster here. \
         The best of all languages is a client in Rust: get in pipelines of 100 is 9.00 times as fast with loadline-client, and the server's CPU time is the same."
    );
    // The best of all may be one of the language.
    clients.rows[1].is_valid = true;
    clients.rows[2].is_valid = false;
    clients.conclude(&record.cases);
    assert!(
        clients
            .advice
            .ends_with("redis-py 1 hiredis, and the server's CPU time is the same."),
        "{}",
        clients.advice
    );
}

#[test]
fn at_a_rate_the_answer_is_a_time() {
    let (mut record, mut clients) = measured();
    for (case, ns) in record.cases.iter_mut().zip([90_000, 40_000, 70_000]) {
        case.scenario.pacing = Pacing::Rate(100.0);
        case.response_time_ns.p50 = Some(ns);
        for round in &mut case.rounds {
            round.response_time_ns_p50 = Some(ns);
        }
    }
    clients.conclude(&record.cases);
    assert!(
        clients.best[0].starts_with(
            "get in pipelines of 100: redis-py 1 hiredis with a median response time of 40"
        ),
        "{:?}",
        clients.best
    );
    assert_eq!(clients.advice, "");
}

#[test]
fn a_row_whose_counts_differ_is_in_no_sentence() {
    let (record, mut clients) = measured();
    clients.rows[2].is_valid = false;
    clients.rows[1].is_valid = false;
    clients.conclude(&record.cases);
    assert_eq!(clients.advice, "");
    assert!(clients.best[0].starts_with("get in pipelines of 100: redis-py 1 with"));
}

#[test]
fn a_gate_is_judged_on_the_bound() {
    let (record, clients) = measured();
    let name = |scenario: &Scenario| format!("pipeline-{}", scenario.pipeline);
    let judge = |text: &str| {
        let gate: Gate = text.parse().unwrap();
        gate.judge(&record, &clients, name)
    };
    let pair =
        |factor| format!("redis-py.hiredis.pipeline-100 >= {factor} * redis-py.pipeline-100");
    assert_eq!(judge(&pair("3.0")).verdict, RowVerdict::Equivalent);
    assert_eq!(judge(&pair("3.2")).verdict, RowVerdict::Critical);
    assert_eq!(
        judge(&pair("3.0")).evidence,
        "3.100 [3.100, 3.100] in 10 rounds; at least 3 is required"
    );
    let unknown = judge("redis-py.get >= 2 * redis-py.pipeline-100");
    assert_eq!(unknown.verdict, RowVerdict::Inconclusive);
    assert_eq!(unknown.evidence, "one of the rows was not measured");
    let other = judge("loadline.pipeline-100@2 >= redis-py.pipeline-100");
    assert_eq!(other.verdict, RowVerdict::Inconclusive);
}

#[test]
fn an_invalid_row_passes_no_gate() {
    let (record, mut clients) = measured();
    clients.rows[1].is_valid = false;
    let gate: Gate = "redis-py.hiredis.get >= 1 * redis-py.get".parse().unwrap();
    let row = gate.judge(&record, &clients, |scenario| scenario.workload.clone());
    assert_eq!(row.verdict, RowVerdict::Inconclusive);
    assert!(row.evidence.contains("counted other operations"), "{row:?}");
}

#[test]
fn a_gate_that_cannot_be_is_refused() {
    let long = "1".repeat(400);
    for text in [
        "",
        "a.get",
        "a.get > b.get",
        "a.get >= x * b.get",
        "a.get >= 0 * b.get",
        "a.get >= -1 * b.get",
        "a.get >= NaN * b.get",
        "get >= 1 * b.get",
        "a.get@4 >= b.get",
        &format!("a.get >= {long} * b.get"),
    ] {
        assert!(text.parse::<Gate>().is_err(), "{text}");
    }
    let gate: Gate = " redis-rb.hiredis.get@3>=1.28*redis-rb.get@2 "
        .parse()
        .unwrap();
    assert_eq!(
        gate.to_string(),
        "redis-rb.hiredis.get@3 >= 1.28 * redis-rb.get@2"
    );
}
