//! A comparison of engines.

use loadline_measure::Record;
use loadline_measure::engines::{Allocations, Engines, Footprint, Operation};
use loadline_measure::record::{Answer, Case, RoundSummary, SubjectKind, ValueBytes};

use super::{PIPE, TERMINAL, fixture};
use crate::{TextOptions, html, markdown, text};

fn case(subject: &str, workload: &str, class: &str, throughput: f64) -> Case {
    let mut case = fixture::case(subject, workload, 1, throughput);
    case.subject.kind = match subject {
        "redis" => SubjectKind::SpawnedServer,
        "store" => SubjectKind::Store,
        "null" => SubjectKind::NullServer,
        _ => SubjectKind::Engine,
    };
    let scenario = &mut case.scenario;
    scenario.mode = "call".into();
    scenario.durability = Some(class.to_owned());
    if workload.starts_with("batch") {
        scenario.batch = 100;
    }
    if workload.starts_with("concurrent") {
        scenario.threads = 2;
    }
    case.ops = (throughput * 3.0) as u64;
    case
}

/// Four engines of two classes, one of which is missing in the second.
fn engines_of(record: &mut Record) -> &mut Engines {
    match &mut record.answer {
        Answer::Engines(engines) => engines,
        other => panic!("{other:?}"),
    }
}

pub(super) fn record() -> Record {
    let operations = ["put", "get", "batch get", "concurrent 70/30"];
    let classes = [("process", 1.0), ("always", 0.01)];
    let engines = [
        ("redis", 20_000.0),
        ("store", 2_000_000.0),
        ("fjall", 400_000.0),
        ("null", 26_000.0),
    ];
    let mut record = fixture::record(Vec::new());
    for (class, pace) in classes {
        for workload in operations {
            let first = record.cases.len();
            for (name, throughput) in engines {
                if (name, class) != ("fjall", "always") {
                    record
                        .cases
                        .push(case(name, workload, class, throughput * pace));
                }
            }
            for other in first + 1..record.cases.len() {
                fixture::compare(&mut record, first, other);
            }
        }
    }
    let footprint = |name: &str| Footprint {
        subject: name.to_owned(),
        durability: "process".to_owned(),
        keys: 100_000,
        live_bytes: 14_300_000,
        logical_bytes: 28_600_000,
        memory_bytes: Some(30 << 20),
        disk_bytes: Some(40 << 20),
        written_bytes: Some(60 << 20),
        open_ns: Some(42_000_000),
        opens: 3,
        lost: Some(0),
        allocations: (name != "redis").then_some(Allocations {
            get: 0.0,
            put: 1.02,
            delete: 0.5,
        }),
    };
    let footprints: Vec<Footprint> = ["redis", "store", "fjall"].map(footprint).into();
    record.answer = Answer::Engines(Engines {
        reference: "redis".to_owned(),
        memory_bytes: Some(256 << 20),
        live_bytes: Some(14_300_000),
        transaction_per_read: vec!["fjall".to_owned()],
        operations: Operation::of_cases(&record.cases),
        is_writeup: true,
        footprints,
        ..Engines::default()
    });
    record
}

/// Figures that no axis can hold, and names that try to be more than text.
pub(super) fn hostile() -> Record {
    let mut record = record();
    let hostile = "<script>alert(1)</script>\u{1b}[31m\u{202e}".repeat(4);
    for (place, case) in record.cases.iter_mut().enumerate() {
        match place % 4 {
            0 => case.duration_ns = 0,
            1 => (case.ops, case.duration_ns) = (0, u64::MAX),
            2 => case.subject.name.clone_from(&hostile),
            _ => case.scenario.durability = Some(hostile.clone()),
        }
    }
    let engines = engines_of(&mut record);
    engines.operations[0] = hostile.as_str().into();
    engines.footprints[0].subject = hostile;
    record
}

/// One plot for each operation, with a row for each engine and class.
#[test]
fn every_operation_has_a_plot_by_engine_and_class() {
    let page = html(&record());
    for operation in [
        "put",
        "get",
        "batch get of 100",
        "concurrent 70/30, 2 threads",
    ] {
        let caption = format!("<figcaption>{operation}, 64 B values: time per operation");
        assert_eq!(page.matches(&caption).count(), 1, "{operation}");
    }
    for (row, plots) in [
        ("store, process: 500 ns", 4),
        ("store, always: 50.0 us", 4),
        ("fjall, process: 2.50 us", 4),
        ("fjall, always", 0),
    ] {
        let title = format!("<title>{row}");
        assert_eq!(page.matches(&title).count(), plots, "{row}");
    }
    assert!(page.contains(">always</span>"), "the colours have a key");
    // A page of all tables and plots is as tall as twenty screens.
    let mut folded = page.split("<summary>").skip(1);
    for heading in [
        "Durability process",
        "Durability always",
        "Time per operation",
    ] {
        assert!(
            folded.next().is_some_and(|part| part.starts_with(heading)),
            "{heading}"
        );
    }
    // Text has the needs without an empty place for the plots.
    for text in [text(&record(), &TERMINAL), markdown(&record())] {
        assert!(!text.contains("time per operation"), "{text}");
    }
}

/// One note for the class that fjall is in, below its single reads.
#[test]
fn reads_that_open_a_transaction_stand_beside_the_batch() {
    let report = text(&record(), &PIPE);
    let note = "each get opens a transaction; 100 in one take";
    assert_eq!(report.matches(note).count(), 1, "{report}");
    assert!(report.contains("; caches of 256 MiB"), "{report}");
}

/// Data that fit into the caches are no reason for more words.
#[test]
fn heading_says_how_many_times_the_data_exceed_the_caches() {
    let mut record = record();
    assert!(!markdown(&record).contains("exceeded"));
    engines_of(&mut record).memory_bytes = Some(14_300_000 / 4);
    let report = markdown(&record);
    let heading = "; caches of 3.41 MiB, exceeded 4.00x by the data";
    assert!(report.contains(heading), "{report}");
    engines_of(&mut record).live_bytes = None;
    assert!(!markdown(&record).contains("exceeded"));
}

#[test]
fn no_coordinate_of_a_hostile_record_is_out_of_this_world() {
    let page = html(&hostile());
    assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
}

/// A row can be quoted without the heading above it.
#[test]
fn every_row_names_its_class() {
    let mut record = record();
    let rows = record.cases.len() + engines_of(&mut record).footprints.len();
    let named = |report: &str, begin: &str, middle: &str| {
        let classes = ["process", "always"].map(|class| format!("{middle}{class} "));
        let is_row = |line: &&str| {
            let names = ["redis", "store", "fjall", "null"];
            let name = |name: &&str| line.starts_with(&format!("{begin}{name} "));
            names.iter().any(name)
        };
        let found: Vec<&str> = report.lines().filter(is_row).collect();
        for row in &found {
            assert!(classes.iter().any(|class| row.contains(class)), "{row}");
        }
        found.len()
    };
    assert_eq!(named(&text(&record, &PIPE), "", " "), rows);
    assert_eq!(named(&markdown(&record), "| ", "| "), rows);
    let page = html(&record);
    let cells: usize = ["process", "always"]
        .map(|class| page.matches(&format!(">{class}</td>")).count())
        .iter()
        .sum();
    assert_eq!(cells, rows);
}

/// The tail is in the way where no engine makes room.
#[test]
fn tail_is_shown_for_sustained_writes() {
    let mut record = record();
    let head = |record: &Record| {
        let wide = TextOptions { width: 100, ..PIPE };
        let text = text(record, &wide);
        let head = text.lines().find(|line| line.starts_with("engine "));
        head.unwrap().to_owned()
    };
    assert!(!head(&record).contains("p99/p50"));
    engines_of(&mut record).operations[0] = Operation::SustainedPut;
    assert!(head(&record).contains("p99/p50"));
}

/// Of every server over TCP, and of nothing else.
#[test]
fn row_of_a_server_says_which_share_is_the_socket() {
    let text = text(&record(), &PIPE);
    let said = text.matches("the socket takes 75.").count();
    assert_eq!(said, 2 * 4, "{text}");
    assert!(text.contains("The claims of the write-up"), "{text}");
    assert!(text.contains("p99/p50"), "{text}");
}

fn timed(name: &str, workload: &str, class: &str, ns: &[u64]) -> Case {
    let mut case = case(name, workload, class, 1.0);
    if name == "embedded" {
        case.subject.kind = SubjectKind::Embedded;
    }
    let round = |ns: &u64| RoundSummary {
        ops: 1_000,
        duration_ns: ns * 1_000,
        throughput_ops_per_s: 1e9 / *ns as f64,
        ..RoundSummary::default()
    };
    case.rounds = ns.iter().map(round).collect();
    (case.ops, case.duration_ns) = (1_000 * ns.len() as u64, ns.iter().sum::<u64>() * 1_000);
    case.throughput_ops_per_s = case.ops as f64 / case.duration_ns as f64 * 1e9;
    case
}

/// The text of a record of these cases, without line breaks.
fn said(cases: Vec<Case>, footprints: Vec<Footprint>, is_writeup: bool) -> String {
    let mut record = fixture::record(cases);
    record.answer = Answer::Engines(Engines {
        operations: Operation::of_cases(&record.cases),
        footprints,
        is_writeup,
        ..Engines::default()
    });
    let text = text(&record, &PIPE);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_said(text: &str, sentences: &[&str]) {
    for sentence in sentences {
        assert!(text.contains(sentence), "{sentence}: {text}");
    }
}

/// An engine without files has no part in durable writes, and is never compared with one that syncs.
#[test]
fn needs_name_an_engine_where_the_rounds_tell() {
    let text = said(
        vec![
            timed("store", "put", "process", &[500; 12]),
            timed("heed", "put", "process", &[1_500; 12]),
            timed("store", "put", "always", &[100_000; 12]),
            timed("heed", "put", "always", &[90_000, 120_000].repeat(6)),
            timed("map", "put", "memory", &[50; 12]),
            timed("map", "get", "memory", &[50; 12]),
        ],
        Vec::new(),
        false,
    );
    assert_said(
        &text,
        &[
            "Fastest durable writes: process: store with 500 ns per operation, 3.00 times [3.00, 3.00] as fast as heed; always: inconclusive between store and heed.",
            "Fastest reads: memory: map with 50 ns per operation, alone in its class.",
        ],
    );
    assert!(!text.contains("The claims"), "{text}");
}

#[test]
fn needs_count_engines_that_are_level_and_name_sizes_that_differ() {
    let uneven = [90_000, 120_000].repeat(6);
    let mut cases: Vec<Case> = ["store", "heed", "redb", "fjall", "sqlite"]
        .map(|engine| timed(engine, "put", "always", &uneven))
        .into();
    let level = "always: inconclusive between store, heed and 3 others.";
    assert_said(&said(cases.clone(), Vec::new(), false), &[level]);
    let mut large = timed("store", "put", "always", &uneven);
    large.scenario.value_bytes = ValueBytes::Fixed(1_024);
    cases.push(large);
    let sizes = [
        "always, 64 B values: inconclusive",
        "always, 1 KiB values: store",
    ];
    assert_said(&said(cases, Vec::new(), false), &sizes);
}

#[test]
fn needs_say_what_a_server_costs() {
    let told = |redis: &[u64]| {
        let cases = vec![
            timed("redis", "get", "memory", redis),
            timed("null", "get", "memory", &[45_000, 46_000].repeat(6)),
        ];
        said(cases, Vec::new(), false)
    };
    let server =
        "Redis is the right answer where several processes or machines share the data: redis takes";
    let share = "per read, of which about 91.0 % is the socket and not the engine.";
    assert_said(&told(&[50_000; 12]), &[server, share]);
    let none = "per read, which cannot be told apart from the time of a null server.";
    assert_said(&told(&[46_000, 45_000].repeat(6)), &[none]);
}

#[test]
fn claims_of_the_write_up_say_what_is_behind_a_socket() {
    let text = said(
        vec![
            timed("redis", "put", "memory", &[50_000; 12]),
            timed("store", "put", "memory", &[500; 12]),
            timed("embedded", "put", "memory", &[40_000; 12]),
            timed("null", "put", "memory", &[45_000; 12]),
            timed("redis", "put", "always", &[200_000; 12]),
            timed("store", "put", "always", &[100_000; 12]),
        ],
        Vec::new(),
        true,
    );
    assert_said(
        &text,
        &[
            "claims PUT 1.59x and GET 2.33x over Redis",
            "neither ratio compares the engines",
            "memory, both sides: our store in the process over Redis across a socket: PUT 100.00 times [100.00, 100.00]. The socket is 90.0 % of the time of PUT.",
            "memory, both sides, both across a socket: our server over Redis: PUT 1.25 times [1.25, 1.25].",
            "always, both sides: our store in the process over Redis across a socket: PUT 2.00 times [2.00, 2.00].",
        ],
    );
}

#[test]
fn needs_ignore_differences_that_do_not_matter() {
    let footprint = |name: &str, disk: u64, open: u64| Footprint {
        subject: name.into(),
        durability: "process".into(),
        live_bytes: 1_000,
        disk_bytes: Some(disk),
        open_ns: Some(open),
        ..Footprint::default()
    };
    let footprints = vec![
        footprint("store", 1_200, 2_000_000),
        footprint("heed", 1_210, 500_000),
        footprint("redb", 1_900, 900_000),
    ];
    assert_said(
        &said(Vec::new(), footprints, false),
        &[
            "Smallest on disk: process, 1000 B of data: no difference that matters between store and heed (1.20 bytes per live byte).",
            "Fastest to open: process, 1000 B of data: heed with 500 us.",
        ],
    );
}
