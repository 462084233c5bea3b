//! A comparison of engines.

use loadline_measure::Record;
use loadline_measure::engines::{Allocations, Engines, Footprint, SUSTAINED_PUT, needs, writeup};
use loadline_measure::record::{Answer, Case, SubjectKind};

use super::{PIPE, TERMINAL, fixture};
use crate::{TextOptions, html, markdown, text};

fn case(subject: &str, workload: &str, class: &str, throughput: f64) -> Case {
    let mut case = fixture::case(subject, workload, 1, throughput);
    case.subject.kind = match subject {
        "redis" => SubjectKind::SpawnedServer,
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
        needs: needs(&record.cases, &footprints),
        writeup: writeup(&record.cases),
        footprints,
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
    engines.needs.push(hostile.clone());
    engines.writeup.push(hostile.clone());
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
fn the_tail_is_shown_for_sustained_writes() {
    let mut record = record();
    let head = |record: &Record| {
        let wide = TextOptions { width: 100, ..PIPE };
        let text = text(record, &wide);
        let head = text.lines().find(|line| line.starts_with("engine "));
        head.unwrap().to_owned()
    };
    assert!(!head(&record).contains("p99/p50"));
    record.cases[0].scenario.workload = SUSTAINED_PUT.to_owned();
    assert!(head(&record).contains("p99/p50"));
}

/// Of every server over TCP, and of nothing else.
#[test]
fn the_row_of_a_server_says_which_share_is_the_socket() {
    let text = text(&record(), &PIPE);
    let said = text.matches("the socket takes 75.").count();
    assert_eq!(said, 2 * 4, "{text}");
    assert!(text.contains("The claims of the write-up"), "{text}");
    assert!(text.contains("p99/p50"), "{text}");
}
