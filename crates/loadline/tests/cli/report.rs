//! `loadline report` shows a stored record again.

use loadline_measure::Record;
use loadline_measure::record::{Case, Environment, Run, Scenario, Subject};

use crate::util::Dir;

fn record() -> Record {
    let run = Run {
        id: "k3v9x0ab".into(),
        started_at: "2026-01-02T03:04:05Z".into(),
        command: "loadline run redis://ann:***@db:6379".into(),
        version: "0.1.0".into(),
        seed: 42,
        ..Run::default()
    };
    let subject = Subject {
        name: "db".into(),
        kind: "server".into(),
        target: "redis://ann:***@db:6379".into(),
        version: Some("7.0.15".into()),
    };
    let scenario = Scenario {
        workload: "getset-70-30".into(),
        mode: "wire".into(),
        connections: 50,
        threads: 1,
        pipeline: 1,
        keys: 100_000,
        key_dist: "uniform".into(),
        resp: 2,
        ..Scenario::default()
    };
    let mut record = Record::new(run, Environment::default());
    record.cases.push(Case {
        subject,
        scenario,
        ops: 123_456,
        duration_ns: 1_000_000_000,
        throughput_ops_per_s: 123_456.0,
        ..Case::default()
    });
    record
}

#[test]
fn stored_record_is_shown_in_every_form() {
    let dir = Dir::new();
    dir.write("run.json", &record().to_json_pretty().unwrap());
    let text = dir.run(&["report", "run.json"]).succeeded();
    assert!(
        text.contains("getset-70-30") && text.contains("db"),
        "{text}"
    );
    // A pipe has neither colours nor the pictures of a terminal.
    assert!(text.is_ascii(), "{text}");
    let files = [
        "--markdown",
        "r.md",
        "--html",
        "r.html",
        "--csv",
        "r.csv",
        "--junit",
        "r.xml",
    ];
    assert_eq!(
        dir.run(&[&["report", "run.json", "--quiet"], &files[..]].concat())
            .succeeded(),
        ""
    );
    for (name, mark) in [
        ("r.md", "|"),
        ("r.html", "<html"),
        ("r.csv", ","),
        ("r.xml", "<?xml"),
    ] {
        let written = dir.read(name);
        assert!(
            written.contains(mark) && written.contains("getset-70-30"),
            "{name}:\n{written}"
        );
    }
}

#[test]
fn standard_output_holds_one_form_and_nothing_else() {
    let dir = Dir::new();
    dir.write("run.json", &record().to_json_pretty().unwrap());
    let json = dir.run(&["report", "run.json", "--json", "-"]).succeeded();
    assert_eq!(Record::from_json(json.as_bytes()).unwrap(), record());
    dir.run(&["report", "run.json", "--json", "-", "--csv", "-"])
        .failed(64, "standard output");
}

#[test]
fn malformed_record_is_refused() {
    let dir = Dir::new();
    for (text, reason) in [
        ("", "JSON"),
        ("{}", "schema"),
        ("not json", "JSON"),
        ("{\"schema\": \"loadline.record/2\"}", "loadline.record/2"),
        ("{\"schema\": \"someone.else/1\"}", "someone.else"),
        ("{\"schema\": \"loadline.record/1\"}", "run"),
    ] {
        dir.write("run.json", text);
        dir.run(&["report", "run.json"]).failed(65, reason);
    }
}
