use loadline_measure::clients::{Behaviour, ClientRow, Ending, Fault};
use loadline_measure::record::{
    Case, Environment, Mode, Pacing, Record, RoundSummary, Run, Scenario, Subject,
};

use super::*;

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

/// The sentences: those for each operation, for the users of the reference, about all languages, and about faults.
struct Shown {
    best: Vec<String>,
    advice: String,
    beyond: String,
    faults: String,
}

fn shown(record: &Record, clients: &Clients) -> Shown {
    let said = Sentences::of(&record.cases, clients);
    Shown {
        best: said.best,
        advice: said.advice.unwrap_or_default(),
        beyond: said.beyond.unwrap_or_default(),
        faults: said.faults.unwrap_or_default(),
    }
}

#[test]
fn advice_stays_in_the_language_and_best_is_best_of_all() {
    let (record, clients) = measured();
    let said = shown(&record, &clients);
    assert_eq!(
        said.advice,
        "For users of redis-py 1: get in pipelines of 100 is 3.10 times [3.10, 3.10] as fast with redis-py 1 hiredis, and the server's CPU time is the same."
    );
    assert_eq!(
        said.beyond,
        "Best of all languages: get in pipelines of 100 is 9.00 times [9.00, 9.00] as fast with loadline-client (Rust), and the server's CPU time is the same."
    );
    assert_eq!(
        said.best,
        [
            "get in pipelines of 100: fastest is loadline-client with 908 operations per second; least CPU time by loadline-client with 300 ns per operation."
        ]
    );
}

/// Rates of rounds that differ by so much from round to round that no other client is separated from them.
fn uneven(about: f64) -> [f64; 10] {
    std::array::from_fn(|round| about * if round % 2 == 0 { 0.6 } else { 1.8 })
}

#[test]
fn unproven_gain_is_not_advised() {
    let (mut record, mut clients) = measured();
    record.cases[1] = case("redis-py 1 hiredis", uneven(110.0), 3_000.0);
    let said = shown(&record, &clients);
    assert_eq!(
        said.advice,
        "For users of redis-py 1: no other client in Python was shown to be faster (1 was measured)."
    );
    assert!(said.beyond.contains("(Rust)"), "{}", said.beyond);
    // The best of all may be one of the language.
    record.cases[1] = case("redis-py 1 hiredis", rates(310.0), 3_000.0);
    clients.rows[2].is_valid = false;
    let said = shown(&record, &clients);
    assert!(said.advice.contains("redis-py 1 hiredis"));
    assert_eq!(said.beyond, "");
    // Where no other client of the language was measured, nothing is said about it but that.
    clients.rows[1].is_valid = false;
    clients.rows[2].is_valid = true;
    let said = shown(&record, &clients);
    assert_eq!(
        said.advice,
        "For users of redis-py 1: no other client in Python was measured."
    );
}

/// Where rounds do not separate clients, the sentences begin with no client of ours, and name all.
#[test]
fn own_client_does_not_lead_where_nothing_is_separated() {
    let (mut record, mut clients) = measured();
    record.cases.push(case("redis-rs 1", rates(890.0), 310.0));
    clients.rows.push(row(3, "redis-rs", "Rust"));
    record.cases[2] = case("loadline-client", uneven(900.0), 300.0);
    let said = shown(&record, &clients);
    assert!(
        said.best[0].starts_with(
            "get in pipelines of 100: no client was shown to be the fastest: redis-rs 1 and loadline-client are not separated, with "
        ),
        "{:?}",
        said.best
    );
    assert!(
        said.beyond.starts_with("Best of all languages: get in pipelines of 100 is 8.90 times [8.90, 8.90] as fast with redis-rs 1 (Rust; not separated from loadline-client)"),
        "{}",
        said.beyond
    );
}

fn behaviour(driver: &str, fault: Fault) -> Behaviour {
    Behaviour {
        subject: driver.into(),
        driver: driver.into(),
        fault,
        executed_twice: Some(0),
        lost: Some(0),
        ..Behaviour::default()
    }
}

#[test]
fn faults_are_one_sentence_with_counts_of_clients() {
    let (record, mut clients) = measured();
    let said = shown(&record, &clients);
    assert_eq!(said.faults, "");
    for driver in ["a", "b", "c", "d", "e"] {
        for fault in [Fault::ReplyCut, Fault::Away, Fault::Frozen] {
            clients.behaviour.push(behaviour(driver, fault));
        }
    }
    let said = shown(&record, &clients);
    assert_eq!(
        said.faults,
        "With faults, none of 5 clients executed a write twice, lost an acknowledged one, crashed, or waited for a reply when the run ended."
    );
    // A client that does so with two faults is one client.
    for place in [0, 1, 3] {
        clients.behaviour[place].executed_twice = Some(3);
    }
    clients.behaviour[14].ending = Ending::Waiting;
    clients.behaviour[14].longest_call_ns = Some(7_940_000_000);
    clients.behaviour[13].ending = Ending::Crashed;
    clients.behaviour[12].lost = Some(1);
    let said = shown(&record, &clients);
    assert_eq!(
        said.faults,
        "With faults, 2 of 5 clients executed writes twice (a and b), 1 of 5 lost acknowledged writes (e), 1 of 5 crashed on away (e), and 1 of 5 waited over 7.94 s for a reply (e)."
    );
}

#[test]
fn faults_of_a_client_alone_are_not_counted() {
    let (record, mut clients) = measured();
    clients.behaviour = vec![behaviour("a", Fault::Away), behaviour("a", Fault::Frozen)];
    let said = shown(&record, &clients);
    assert_eq!(
        said.faults,
        "With faults, a executed no write twice, lost no acknowledged one, did not crash, and waited for no reply when the run ended."
    );
    clients.behaviour[0].executed_twice = Some(3);
    clients.behaviour[1].ending = Ending::Crashed;
    let said = shown(&record, &clients);
    assert_eq!(
        said.faults,
        "With faults, a executed writes twice and crashed on frozen."
    );
}

#[test]
fn answer_at_a_rate_is_a_time() {
    let (mut record, clients) = measured();
    for (case, ns) in record.cases.iter_mut().zip([90_000, 40_000, 70_000]) {
        case.scenario.pacing = Pacing::Rate(100.0);
        case.response_time_ns.p50 = Some(ns);
        for round in &mut case.rounds {
            round.response_time_ns_p50 = Some(ns);
        }
    }
    let said = shown(&record, &clients);
    assert!(
        said.best[0].starts_with(
            "get in pipelines of 100: soonest is redis-py 1 hiredis with a median response time of 40"
        ),
        "{:?}",
        said.best
    );
    assert_eq!(said.advice, "");
}

#[test]
fn invalid_row_is_in_no_sentence() {
    let (record, mut clients) = measured();
    clients.rows[2].is_valid = false;
    clients.rows[1].is_valid = false;
    let said = shown(&record, &clients);
    assert_eq!(said.advice, "");
    assert_eq!(
        said.best,
        [
            "get in pipelines of 100: redis-py 1 with 101 operations per second and 9.00 us of CPU time per operation."
        ]
    );
}
