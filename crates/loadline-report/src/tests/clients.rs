//! A comparison of client libraries.

use loadline_measure::Record;
use loadline_measure::clients::{Behaviour, ClientRow, Clients, Ending, Fault, Operations};
use loadline_measure::record::{Answer, Mode, Pacing, SubjectKind};

use super::{TERMINAL, fixture};
use crate::{html, markdown, text};

/// Two clients in two operations, and what they do when a reply is cut off.
fn clients_of(record: &mut Record) -> &mut Clients {
    match &mut record.answer {
        Answer::Clients(clients) => clients,
        other => panic!("{other:?}"),
    }
}

pub(super) fn record() -> Record {
    let mut record = fixture::record(Vec::new());
    let mut clients = Clients {
        reference: "redis-py".to_owned(),
        ..Clients::default()
    };
    for pipeline in [1, 100] {
        let first = record.cases.len();
        for (name, driver, rate) in [
            ("redis-py 8.1.0", "redis-py", 8_000.0),
            ("redis-py 8.1.0 hiredis", "redis-py.hiredis", 10_400.0),
        ] {
            let mut case = fixture::case(name, "get", pipeline, rate * pipeline as f64);
            case.subject.kind = SubjectKind::Client;
            case.scenario.mode = if pipeline > 1 {
                Mode::Pipeline
            } else {
                Mode::Sync
            };
            clients.rows.push(ClientRow {
                case: record.cases.len(),
                driver: driver.to_owned(),
                language: "Python".to_owned(),
                runtime: "CPython 3.11.7".to_owned(),
                counted: Some(case.ops),
                is_valid: true,
                commands_per_read: Some(pipeline as f64),
                max_rss_bytes: 32 << 20,
                gc_share: Some(0.01),
                system_calls_per_op: Some(2.0 / pipeline as f64),
            });
            case.cost.client_bytes_per_connection = Some(9_216.0);
            case.cost.server_bytes_per_connection = Some(22_528.0);
            record.cases.push(case);
        }
        fixture::compare(&mut record, first, first + 1);
    }
    clients.behaviour = vec![Behaviour {
        subject: "redis-py 8.1.0".to_owned(),
        driver: "redis-py".to_owned(),
        fault: Fault::ReplyCut,
        operations: Operations {
            acknowledged: 200,
            ..Operations::default()
        },
        faults: 10,
        executed_twice: Some(10),
        lost: Some(0),
        longest_call_ns: Some(2_000_000),
        max_rss_bytes: Some(33 << 20),
        ending: Ending::Well,
        ..Behaviour::default()
    }];
    record.answer = Answer::Clients(clients);
    record
}

/// Figures that contradict each other, and names that try to be more than text.
pub(super) fn hostile() -> Record {
    let mut record = record();
    let hostile = "<script>alert(1)</script>\u{1b}[31m\u{202e}".repeat(4);
    record.cases[1].subject.name.clone_from(&hostile);
    let clients = clients_of(&mut record);
    clients.rows[0].is_valid = false;
    clients.rows[0].counted = Some(u64::MAX);
    clients.rows[1].case = usize::MAX;
    clients.rows[2].commands_per_read = Some(f64::MAX);
    let behaviour = &mut clients.behaviour[0];
    behaviour.subject.clone_from(&hostile);
    behaviour.fault = Fault::from(hostile.as_str());
    behaviour.ending = Ending::from(hostile.as_str());
    behaviour.lost = Some(u64::MAX);
    behaviour.cause = Some(hostile);
    record
}

#[test]
fn operation_is_a_group_and_the_advice_is_the_verdict() {
    let record = record();
    for text in [text(&record, &TERMINAL), markdown(&record)] {
        for part in [
            "get in pipelines of 100",
            "redis-py 8.1.0 hiredis",
            "vs redis-py",
            "When something fails",
            "10 of 10",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert_eq!(text.matches("For users of redis-py").count(), 2, "{text}");
    }
    // A terminal is too narrow for all columns.
    let wide = markdown(&record);
    assert!(
        wide.contains("| calls/op | memory | memory/conn |"),
        "{wide}"
    );
    assert!(wide.contains("| 2 | 32 MiB | 9 KiB+22 KiB |"), "{wide}");
}

/// Two clients at a rate that one of them does not keep.
#[test]
fn open_loop_shows_all_its_times_and_what_was_not_called() {
    let mut record = record();
    for case in &mut record.cases {
        case.scenario.pacing = Pacing::Rate(5_000.0);
        case.lag_ns = Some(case.response_time_ns);
        case.not_sent = Some(0);
    }
    record.cases[1].not_sent = Some(123);
    for text in [text(&record, &TERMINAL), markdown(&record), html(&record)] {
        for part in [
            "service p99",
            "lag p99",
            "123 operations that were due were not called",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}

#[test]
fn row_whose_counts_differ_says_so() {
    let text = text(&hostile(), &TERMINAL);
    assert!(text.contains("invalid: the client reported"), "{text}");
    assert!(text.contains("were never executed"), "{text}");
    assert!(!html(&hostile()).contains("<script>alert"));
}

#[test]
fn names_that_end_differently_are_not_cut_to_the_same() {
    let mut record = record();
    for pair in record.cases.chunks_mut(2) {
        for (case, end) in pair.iter_mut().zip(["off", "on"]) {
            case.subject.name = format!("redis-rb 4.8.0 hiredis with yjit {end}");
        }
    }
    let text = text(&record, &TERMINAL);
    for end in ["off", "on"] {
        let name = format!("redis-rb 4.8.0 hiredis with yjit {end} ");
        let rows = text.lines().filter(|line| line.starts_with(&name));
        assert_eq!(rows.count(), 2, "{name}:\n{text}");
    }
    assert!(text.contains("keys, 64 B values\n"), "{text}");
}

#[test]
fn faults_are_the_second_sentence_of_the_verdict() {
    let text = text(&record(), &TERMINAL);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict = text.split("By operation").next().unwrap();
    assert!(
        verdict.contains(". With faults, redis-py 8.1.0 executed writes twice."),
        "{verdict}"
    );
}

#[test]
fn client_that_still_waits_at_the_end_has_no_longest_call() {
    let mut record = record();
    let clients = clients_of(&mut record);
    clients.behaviour[0].ending = Ending::Waiting;
    clients.behaviour[0].longest_call_ns = Some(8_000_000_000);
    let text = text(&record, &TERMINAL);
    assert!(
        text.contains("over 8.00 s") && text.contains("waiting"),
        "{text}"
    );
    assert!(!text.contains("hung"), "{text}");
}

#[test]
fn crashed_client_shows_its_cause_and_the_limit_it_ran_with() {
    let mut record = record();
    let clients = clients_of(&mut record);
    let one = &mut clients.behaviour[0];
    one.fault = Fault::HugeBulk;
    one.ending = Ending::Crashed;
    one.cause = Some("fatal error: out of memory".to_owned());
    let text = text(&record, &TERMINAL);
    assert!(
        text.contains("a reply that declares 10 GiB, with an address space of 8 GiB"),
        "{text}"
    );
    assert!(text.contains("fatal error: out of memory"), "{text}");
}

/// Names that have more words than there is room for go on in the next line.
#[test]
fn long_names_are_wrapped_and_never_cut_to_the_same() {
    let mut record = record();
    let names = [
        "redis-py 8.1.0 asyncio",
        "redis-py 8.1.0 asyncio hiredis with everything else that is on",
    ];
    for pair in record.cases.chunks_mut(2) {
        for (case, name) in pair.iter_mut().zip(names) {
            case.subject.name = name.to_owned();
        }
    }
    let text = text(&record, &TERMINAL);
    let table = text.split("Clients, ").nth(1).unwrap();
    assert!(
        !table.split("When something").next().unwrap().contains("~"),
        "{text}"
    );
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("else that is on"), "{text}");
}
