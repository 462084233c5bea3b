use super::*;
use crate::gate::{Gap, Grounds, RowVerdict};
use crate::record::{Environment, Record, RoundSummary, Run, Subject};

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

/// Rates of rounds that differ so much that no other client is separated from them.
fn uneven(about: f64) -> [f64; 10] {
    std::array::from_fn(|round| about * if round % 2 == 0 { 0.6 } else { 1.8 })
}

#[test]
fn advice_stays_in_the_language_and_names_the_best_of_all() {
    let (record, mut clients) = measured();
    let advice = clients.advice(&record.cases).unwrap();
    let other = |gain: &Option<Gain>| gain.as_ref().map(|gain| gain.other);
    assert_eq!((advice.own, other(&advice.within)), (0, Some(1)));
    assert_eq!((advice.others, other(&advice.beyond)), (1, Some(2)));
    let best = clients.best(&record.cases);
    assert_eq!(best[0].cases, [0, 1, 2]);
    assert_eq!(best[0].speed.as_ref().unwrap().cases, [2]);
    clients.rows[1].is_valid = false;
    clients.rows[2].is_valid = false;
    assert_eq!(clients.advice(&record.cases), None);
    assert_eq!(clients.best(&record.cases)[0].cases, [0]);
}

#[test]
fn own_client_is_last_among_those_that_rounds_do_not_separate() {
    let (mut record, mut clients) = measured();
    record.cases.push(case("redis-rs 1", rates(890.0), 310.0));
    clients.rows.push(row(3, "redis-rs", "Rust"));
    record.cases[2] = case("loadline-client", uneven(900.0), 300.0);
    let best = clients.best(&record.cases);
    let front = best[0].speed.as_ref().unwrap();
    assert_eq!(front.cases, [3, 2]);
    assert!(front.lowest < front.highest);
    let beyond = clients.advice(&record.cases).unwrap().beyond.unwrap();
    assert_eq!((beyond.other, &beyond.level[..]), (3, &[2][..]));
}

#[test]
fn gate_is_judged_on_the_bound() {
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
    let judged = judge(&pair("3.0"));
    let Grounds::Ratio {
        ratio,
        bounds: (lo, hi),
        rounds: 10,
        factor: 3.0,
    } = judged.evidence
    else {
        panic!("{judged:?}");
    };
    for value in [ratio, lo, hi] {
        assert!((value - 3.1).abs() < 1e-3, "{value}");
    }
    let unknown = judge("redis-py.get >= 2 * redis-py.pipeline-100");
    assert_eq!(unknown.verdict, RowVerdict::Inconclusive);
    assert_eq!(unknown.evidence, Grounds::Gap(Gap::NoRow));
    let other = judge("loadline.pipeline-100@2 >= redis-py.pipeline-100");
    assert_eq!(other.verdict, RowVerdict::Inconclusive);
}

#[test]
fn invalid_row_passes_no_gate() {
    let (record, mut clients) = measured();
    clients.rows[1].is_valid = false;
    let gate: Gate = "redis-py.hiredis.get >= 1 * redis-py.get".parse().unwrap();
    let row = gate.judge(&record, &clients, |scenario| scenario.workload.clone());
    assert_eq!(row.verdict, RowVerdict::Inconclusive);
    assert!(
        matches!(row.evidence, Grounds::OtherOperations(_)),
        "{row:?}"
    );
}

#[test]
fn invalid_gate_is_refused() {
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
