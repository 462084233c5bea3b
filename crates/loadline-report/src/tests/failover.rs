//! The fate of writes while servers fail.

use std::collections::BTreeMap;

use loadline_measure::Record;
use loadline_measure::failover::{
    Audit, Clocks, Failover, Fault, Gap, Kind, LeftOut, Loss, PoolSize, PoolUse, ReadFrom, Reads,
    Stale, Timeline, Topology, Trial, Wait, WriteId,
};
use loadline_measure::record::Answer;

use super::{TERMINAL, fixture};
use crate::{html, markdown, text};

const MS: u64 = 1_000_000;

fn audit(kind: Kind, loss: Option<Loss>, twice: Option<u64>) -> Audit {
    Audit {
        kind,
        sent: 1_000,
        acknowledged: 990,
        loss,
        ambiguous: 8,
        ambiguous_there: 5,
        unconfirmed: 0,
        unconfirmed_there: 0,
        refused: 2,
        refused_there: 0,
        announced: 0,
        twice,
    }
}

fn clocks(outage_ms: u64, is_open: bool) -> Clocks {
    Clocks {
        fault_ns: 500 * MS,
        end_ns: 2_000 * MS,
        fault_end_ns: None,
        has_pool: false,
        pool_recovery_ns: None,
        recovery_ns: Some((outage_ms + 100) * MS),
        detection_ns: Some(MS / 2),
        ready_ns: Some(outage_ms * MS / 2),
        first_write_ns: (!is_open).then_some(outage_ms * MS),
        outage: Some(Gap {
            writer: 1,
            from_ns: 500 * MS,
            to_ns: (500 + outage_ms) * MS,
            is_open,
        }),
    }
}

/// Intervals of 50 ms, five of them without an acknowledgement, and a burst behind them.
fn course() -> Timeline {
    let is_out = |place: &usize| (10..15).contains(place);
    let counts = |of: fn(usize) -> u64| (0..40).map(of).collect::<Vec<u64>>();
    let time = |ns: fn(usize) -> u64| {
        let times = (0..40).map(|place| (!is_out(&place)).then(|| ns(place)));
        times.collect::<Vec<_>>()
    };
    Timeline {
        interval_ns: 50 * MS,
        acknowledged: counts(|place| match place {
            10..15 => 0,
            15 => 300,
            _ => 100,
        }),
        errors: [
            (
                "connection".to_owned(),
                counts(|place| u64::from(place == 10) * 7),
            ),
            (
                "timeout".to_owned(),
                counts(|place| u64::from(place == 12) * 3),
            ),
        ]
        .into(),
        response_p50_ns: time(|_| MS / 5),
        response_max_ns: time(|place| if place == 15 { 240 * MS } else { MS }),
    }
}

/// A server that loses writes when it is killed, and a client that repeats writes whose reply was cut.
pub(super) fn record() -> Record {
    let id = |writer, sequence| WriteId { writer, sequence };
    let loss = Loss {
        count: 120,
        first: id(0, 3),
        last: id(1, 80),
        from_ns: 100 * MS,
        to_ns: 499 * MS,
    };
    let kill = Trial {
        client: None,
        fault: Fault::Kill,
        durability: "memory".to_owned(),
        faults: 1,
        audits: vec![
            audit(Kind::Set, Some(loss), None),
            audit(Kind::Incr, None, Some(0)),
        ],
        clocks: clocks(240, false),
        errors: [("timeout".to_owned(), 3), ("connection".to_owned(), 7)].into(),
        timeline: course(),
        reads: None,
        pool: None,
    };
    let cut = Trial {
        fault: Fault::Cut,
        durability: "memory".to_owned(),
        faults: 10,
        audits: vec![
            audit(Kind::Set, None, None),
            audit(Kind::Incr, None, Some(4)),
        ],
        clocks: clocks(3, false),
        ..Trial::default()
    };
    let mut record = fixture::record(Vec::new());
    record.answer = Answer::Failover(Failover {
        topology: Topology::Standalone,
        client: "loadline-client".to_owned(),
        clients: BTreeMap::new(),
        rate: 2_000,
        writers: 6,
        pool: None,
        wait: None,
        min_replicas: None,
        reads: None,
        trials: vec![kill, cut],
        left_out: Vec::new(),
    });
    record
}

/// The longest sentence: losses with several faults, and figures of many digits.
pub(super) fn lossy() -> Record {
    let mut record = record();
    if let Answer::Failover(answer) = &mut record.answer {
        let mut trial = answer.trials[0].clone();
        trial.durability = "interval:1s".to_owned();
        trial.clocks.outage = Some(Gap {
            to_ns: 12_070 * MS,
            is_open: true,
            ..Gap::default()
        });
        let audit = &mut trial.audits[0];
        audit.acknowledged = 123_450;
        audit.ambiguous = 12_345;
        if let Some(loss) = &mut audit.loss {
            loss.count = 12_345;
        }
        answer.trials = vec![trial; 8];
    }
    record
}

/// Figures that contradict each other, and names that try to be more than text.
pub(super) fn hostile() -> Record {
    let mut record = record();
    let hostile = "<script>alert(1)</script>\u{1b}[31m\u{202e}".repeat(4);
    if let Answer::Failover(answer) = &mut record.answer {
        answer.client = hostile.clone();
        answer.topology = hostile.as_str().into();
        answer.rate = u64::MAX;
        let trial = &mut answer.trials[0];
        trial.fault = hostile.as_str().into();
        trial.timeline.interval_ns = u64::MAX;
        trial.timeline.acknowledged = vec![u64::MAX; 3];
        trial.timeline.errors = [(hostile.clone(), vec![u64::MAX; 9])].into();
        trial.errors = [(hostile, u64::MAX)].into();
        let hostile = &mut answer.trials[1].timeline;
        hostile.interval_ns = 1;
        hostile.acknowledged = vec![0, u64::MAX];
        hostile.response_p50_ns = vec![Some(0), None, Some(u64::MAX)];
        let trial = &mut answer.trials[0];
        trial.audits[0].acknowledged = 0;
        trial.audits[1].ambiguous = u64::MAX;
        trial.clocks.outage = Some(Gap {
            from_ns: u64::MAX,
            ..Gap::default()
        });
    }
    record
}

/// Two clients in two repetitions of two faults. One repeats the writes whose reply was cut, and waits without end.
pub(super) fn compared() -> Record {
    let mut record = record();
    if let Answer::Failover(answer) = &mut record.answer {
        answer.client = String::new();
        answer.clients = [("one", "one 1.0"), ("two", "two 2.0 fast")]
            .map(|(driver, name)| (driver.to_owned(), name.to_owned()))
            .into();
        let run = |client: &str, fault: Fault, outage_ms, is_open, twice| Trial {
            client: Some(client.to_owned()),
            faults: if fault == Fault::Cut { 10 } else { 1 },
            fault,
            audits: vec![audit(Kind::Incr, None, Some(twice))],
            clocks: clocks(outage_ms, is_open),
            errors: [("timeout".to_owned(), 8)].into(),
            ..Trial::default()
        };
        answer.trials = vec![
            run("one", Fault::Cut, 3, false, 10),
            run("two", Fault::Cut, 4, false, 0),
            run("one", Fault::BlackHole, 1_500, true, 0),
            run("two", Fault::BlackHole, 1_000, false, 1),
            run("one", Fault::Cut, 5, false, 9),
            run("two", Fault::Cut, 4, false, 0),
            run("one", Fault::BlackHole, 1_500, true, 0),
            run("two", Fault::BlackHole, 1_100, false, 0),
        ];
    }
    record
}

#[test]
fn clients_are_compared_by_fault_with_their_spread_and_in_words() {
    let report = one_line(&text(&compared(), &TERMINAL));
    for part in [
        "standalone: one (19 of 20) repeated INCRs whose reply was cut, and two none; the longest outage was at \
         least 1.50 s (one: black-hole); no acknowledged write was lost.",
        "one: one 1.0; two: two 2.0 fast.",
        "one 0 8 2 19 of 20 500 us 4.00 ms (3.00 ms to 5.00 ms)",
        "two 0 8 2 0 of 20 500 us 4.00 ms",
        "one 0 8 2 0 500 us at least 1.50 s",
        "one 1.0 repeated 19 of 20 INCRs whose reply was cut.",
        "two 2.0 fast repeated none of 20 INCRs whose reply was cut.",
        "one 1.0, black-hole: had no write acknowledged after the fault in 2 of 2 repetitions.",
        "two 2.0 fast, black-hole: executed 1 write twice.",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
}

#[test]
fn client_without_a_result_has_a_row_that_says_so() {
    let mut record = compared();
    if let Answer::Failover(answer) = &mut record.answer {
        let left_out = |client: &str, fault: &str| LeftOut {
            client: client.to_owned(),
            fault: fault.to_owned(),
        };
        answer.left_out = vec![
            left_out("one", "cut"),
            left_out("three", "cut"),
            left_out("three", "cut"),
        ];
    }
    let decoded = Record::from_json(record.to_json_pretty().unwrap().as_bytes()).unwrap();
    assert_eq!(decoded.answer, record.answer);
    let report = one_line(&text(&record, &TERMINAL));
    for part in [
        "two 0 8 2 0 of 20 500 us 4.00 ms three - - - - - left out black-hole:",
        "one 1.0, cut: left out of 1 of 3 repetitions.",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
}

/// A name that is cut would be that of both rows of a client.
#[test]
fn recommended_settings_are_named_in_a_narrow_terminal() {
    let mut record = compared();
    if let Answer::Failover(answer) = &mut record.answer {
        let driver = "redis-client.recommended";
        answer.clients = [(driver.to_owned(), "redis-client 1.0 recommended".to_owned())].into();
        for trial in &mut answer.trials {
            trial.client = Some(driver.to_owned());
        }
    }
    let report = text(&record, &TERMINAL);
    assert!(
        report.contains("\nredis-client,") && !report.contains('~'),
        "{report}"
    );
    let report = one_line(&report);
    assert!(report.contains(" recommended "), "{report}");
}

/// A text without its line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn first_sentence_is_the_outage_and_the_losses() {
    let report = text(&record(), &TERMINAL);
    let first = one_line(report.split("\n\n").next().unwrap());
    assert_eq!(
        first,
        "standalone: no write of a writer was acknowledged for 240 ms at most (kill); acknowledged writes \
         were lost: 120 of 1980 with kill, memory; the outcome of 32 was unknown, and 4 were executed twice."
    );
}

#[test]
fn losses_with_several_faults_are_counted_and_the_worst_is_named() {
    let report = text(&lossy(), &TERMINAL);
    let first = one_line(report.split("\n\n").next().unwrap());
    let part = "8 of 8 faults lost acknowledged writes, at most 12345 of";
    assert!(
        first.contains(part) && first.contains("(kill, interval:1s)"),
        "{first}"
    );
}

#[test]
fn tables_hold_the_audit_and_the_clocks() {
    let report = text(&record(), &TERMINAL);
    for part in [
        "kill, memory: the server ends with SIGKILL and is started again",
        "lost: from write 3 of writer 0 (called 400 ms before the fault) to write 80 of writer 1 (acknowledged 1.00 ms before the fault)",
        "errors: connection (7), timeout (3)",
        "cut: a connection ends 10 times after a write was executed and before its reply",
    ] {
        assert!(one_line(&report).contains(part), "{part}\n{report}");
    }
    let page = html(&record());
    assert!(
        page.contains("first write") && page.contains("240 ms"),
        "{page}"
    );
    assert!(markdown(&record()).contains("| INCR |"));
}

#[test]
fn unconfirmed_writes_are_named_with_the_losses_that_they_would_be() {
    let mut record = record();
    if let Answer::Failover(answer) = &mut record.answer {
        answer.wait = Some(Wait {
            replicas: 1,
            timeout_ns: 100 * MS,
        });
        let audit = &mut answer.trials[1].audits[1];
        (audit.unconfirmed, audit.unconfirmed_there) = (7, 4);
    }
    let report = one_line(&text(&record, &TERMINAL));
    for part in [
        "2k per second, each with a WAIT for 1 replica up to 100 ms in one request, through",
        "WAIT: too few replicas confirmed 7 executed writes, counted as unknown. Without WAIT, they would be acked, and 3 of them lost",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
}

#[test]
fn stale_reads_and_announced_gaps_are_counted() {
    let mut record = record();
    if let Answer::Failover(answer) = &mut record.answer {
        answer.reads = Some(ReadFrom::Replica);
        answer.trials[0].audits[0].announced = 5;
        let stale = Stale {
            count: 12,
            oldest_ns: 900 * MS,
            ..Stale::default()
        };
        for (trial, stale) in answer.trials.iter_mut().zip([Some(stale), None]) {
            trial.reads = Some(Reads {
                sent: 1_000,
                answered: 990,
                failed: 10,
                stale,
            });
        }
    }
    let report = text(&record, &TERMINAL);
    for part in [
        "executed twice; 12 of 1980 reads were stale.",
        "5 acknowledged messages not received, in gaps that the client announced",
        "Reads from the replica, of the last acknowledged write of each writer",
        "fault sent answered stale oldest failed kill, memory 1000 990 12 900 ms 10 cut 1000 990 0 - 10",
    ] {
        assert!(one_line(&report).contains(part), "{part}\n{report}");
    }
}

#[test]
fn leaked_connections_and_calls_out_of_turn_are_named() {
    let mut record = record();
    let clean = one_line(&text(&record, &TERMINAL));
    assert!(!clean.contains("leaked"), "{clean}");
    if let Answer::Failover(answer) = &mut record.answer {
        answer.pool = Some(PoolSize { min: 2, max: 10 });
        let used = PoolUse {
            waited: 1_234,
            out_of_turn: 1,
            leaked: Some(3),
            memory_before_bytes: Some(20 << 20),
            memory_after_bytes: Some(21 << 20),
        };
        answer.trials[0].pool = Some(used);
        answer.trials[1].pool = Some(PoolUse {
            out_of_turn: 0,
            leaked: None,
            ..used
        });
    }
    let report = one_line(&text(&record, &TERMINAL));
    for part in [
        "4 were executed twice; the pool leaked 3 connections; the pool served 1 call out of turn.",
        "kill, memory 1234 1 3 20 MiB 21 MiB cut 1234 0 - 20 MiB 21 MiB",
        "leaked: connections that the server still had after the load",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
}

#[test]
fn outage_that_outlasts_the_load_is_a_lower_bound() {
    let mut record = record();
    if let Answer::Failover(answer) = &mut record.answer {
        answer.trials.truncate(1);
        answer.trials[0].clocks = clocks(700, true);
    }
    let report = text(&record, &TERMINAL);
    assert!(report.contains("at least 700 ms (kill"), "{report}");
    assert!(report.contains("none"), "{report}");
}

#[test]
fn time_line_shows_the_outage_the_burst_behind_it_and_the_events() {
    let drawn = "\
kill, memory (50.0 ms per column)
acked         ▃▃▃▃▃▃▃▃▃▃     █▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃ up to 6.00k
connection              █                              up to 140
timeout                   █                            up to 60
median        ▁▁▁▁▁▁▁▁▁▁     ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ 200 us to 200 us
longest       ▁▁▁▁▁▁▁▁▁▁     █▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ 1.00 ms to 240 ms
                        ^ fault
                          ^ ready
                            ^ first write
";
    let report = text(&record(), &TERMINAL);
    assert!(report.contains(drawn), "{report}");
    let plain = drawn.replace('▃', "-").replace('█', "@").replace('▁', ".");
    let report = text(&record(), &super::PIPE);
    assert!(report.contains(&plain), "{report}");
}

#[test]
fn page_has_a_picture_of_the_course_with_its_values() {
    let page = html(&record());
    let (_, figure) = page.split_once("<figcaption>kill, memory").unwrap();
    let (figure, _) = figure.split_once("</figure>").unwrap();
    for part in [
        "writes per second",
        "errors per second",
        ">fault</text>",
        "<title>connection: 140 errors per second from 500 ms on</title>",
        "<summary>Values</summary>",
        "<td>240 ms</td>",
    ] {
        assert!(figure.contains(part), "{part}\n{figure}");
    }
    // The writes of 35 intervals, and errors in two.
    assert_eq!(figure.matches("<rect").count(), 37);
}
