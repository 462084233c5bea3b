use serde_json::{Value, json};

use super::*;
use crate::{Error, Histogram};

/// Every name that scripts may rely on, as JSON pointers.
const NAMES: [&str; 55] = [
    "/run/id",
    "/run/started_at",
    "/run/command",
    "/run/version",
    "/run/seed",
    "/run/plan",
    "/environment/cpu_model",
    "/environment/cores",
    "/environment/kernel",
    "/environment/memory_bytes",
    "/environment/noise",
    "/environment/servers/0/allocator",
    "/cases/0/subject/name",
    "/cases/0/subject/kind",
    "/cases/0/subject/target",
    "/cases/0/subject/version",
    "/cases/0/scenario/workload",
    "/cases/0/scenario/mode",
    "/cases/0/scenario/pacing",
    "/cases/0/scenario/connections",
    "/cases/0/scenario/threads",
    "/cases/0/scenario/pipeline",
    "/cases/0/scenario/in_flight",
    "/cases/0/scenario/batch",
    "/cases/0/scenario/keys",
    "/cases/0/scenario/key_dist",
    "/cases/0/scenario/value_bytes",
    "/cases/0/scenario/latency_ns",
    "/cases/0/scenario/resp",
    "/cases/0/ops",
    "/cases/0/errors/WRONGTYPE",
    "/cases/0/duration_ns",
    "/cases/0/throughput_ops_per_s",
    "/cases/0/response_time_ns/p999",
    "/cases/0/service_time_ns/stddev",
    "/cases/0/histograms/response_time",
    "/cases/0/histograms/rounds",
    "/cases/0/series/0/p50",
    "/cases/0/series/0/p99",
    "/cases/0/outliers/severe",
    "/cases/0/cost/client_cpu_ns_per_op",
    "/cases/0/cost/server_cpu_ns_per_op",
    "/cases/0/cost/bytes_in_per_op",
    "/cases/0/cost/allocations_per_op",
    "/cases/0/parts_ns/unattributed",
    "/comparisons/0/metric",
    "/comparisons/0/ratio",
    "/comparisons/0/interval/lo",
    "/comparisons/0/minimum_detectable_effect",
    "/comparisons/0/rounds",
    "/comparisons/0/verdict",
    "/doctor/0/rule",
    "/doctor/0/severity",
    "/doctor/0/evidence",
    "/doctor/0/what_to_do",
];

/// A record with something in every part of it.
fn full() -> Record {
    let mut record = Record::new(run(), environment());
    record.cases.push(case());
    record.comparisons.push(Comparison {
        a: 0,
        b: 0,
        metric: "throughput_ops_per_s".to_owned(),
        direction: Direction::MoreIsBetter,
        ratio: 1.42,
        interval: Some(Bounds { lo: 1.38, hi: 1.47 }),
        minimum_detectable_effect: Some(0.04),
        rounds: 24,
        verdict: Verdict::Faster,
        evidence: "faster by more than 2 % in 24 of 24 rounds".to_owned(),
    });
    record.doctor.push(Finding {
        rule: Rule::GeneratorBound,
        severity: Severity::Warning,
        scope: "embedded, get".to_owned(),
        evidence: "The generator was the limit.".to_owned(),
        what_to_do: "Give it more threads.".to_owned(),
    });
    record
        .findings
        .push("embedded answered 33k GETs a second.".to_owned());
    record
}

fn run() -> Run {
    Run {
        id: "7f3a".to_owned(),
        started_at: "2026-02-03T04:05:06Z".to_owned(),
        command: "loadline run redis://user:***@localhost".to_owned(),
        version: "0.1.0".to_owned(),
        seed: u64::MAX,
        plan: json!({"rounds": 10, "nested": [{"a": null}]}),
        cut_short: true,
        duration_ns: Some(9),
        agent: Some(Membership {
            group: "nightly-7".to_owned(),
            rank: 1,
            agents: 3,
            clock_offset_ns: -7,
            clock_bound_ns: 90,
        }),
    }
}

fn environment() -> Environment {
    Environment {
        cores: Some(2),
        servers: vec![ServerEnvironment {
            subject: "embedded".to_owned(),
            settings: [("appendonly".to_owned(), "no".to_owned())].into(),
            ..ServerEnvironment::default()
        }],
        noise: Noise {
            cpu_pressure: Some(0.25),
            ..Noise::default()
        },
        ..Environment::default()
    }
}

fn case() -> Case {
    let mut histogram = Histogram::new();
    histogram.record_n(40_000, 20_000);
    let summary = histogram.summary();
    Case {
        subject: Subject {
            name: "embedded".to_owned(),
            ..Subject::default()
        },
        scenario: Scenario {
            workload: "get".to_owned(),
            pacing: Pacing::Rate(10_000.5),
            value_bytes: ValueBytes::Spread {
                min: 1,
                max: 64,
                dist: "zipf".to_owned(),
            },
            ..Scenario::default()
        },
        ops: 20_000,
        errors: [("WRONGTYPE".to_owned(), 3)].into(),
        planned: Some(20_010),
        not_sent: Some(10),
        throughput_ops_per_s: 1e5 / 3.0,
        response_time_ns: summary,
        service_time_ns: summary,
        lag_ns: Some(summary),
        hit_ratio: Some(0.999),
        rounds: vec![RoundSummary {
            ops: 20_000,
            response_time_ns_p50: Some(40_000),
            ..RoundSummary::default()
        }],
        histograms: Histograms {
            response_time: histogram.encode(),
            ..Histograms::default()
        },
        series: vec![Interval {
            ops: 5,
            p50: Some(7),
            ..Interval::default()
        }],
        parts_ns: Parts {
            encode: Some(100),
            ..Parts::default()
        },
        ..Case::default()
    }
}

fn json_of(record: &Record) -> Value {
    serde_json::from_str(&record.to_json_pretty().unwrap()).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    Record::from_json(bytes).unwrap_err().to_string()
}

#[test]
fn record_survives_writing_and_reading() {
    let record = full();
    let read = Record::from_json(record.to_json_pretty().unwrap().as_bytes()).unwrap();
    assert_eq!(read, record);
    assert_eq!(
        read.cases[0].response_histogram().unwrap().unwrap().count(),
        20_000
    );
    assert_eq!(read.errors(), 3);
}

#[test]
fn names_are_those_of_the_contract() {
    let json = json_of(&full());
    assert_eq!(json["schema"], "loadline.record/1");
    for pointer in NAMES {
        assert!(json.pointer(pointer).is_some(), "{pointer} is missing");
    }
    assert_eq!(json["comparisons"][0]["direction"], "more_is_better");
    assert_eq!(json["comparisons"][0]["verdict"], "faster");
    assert_eq!(json["doctor"][0]["severity"], "warning");
}

#[test]
fn pacing_is_a_word_or_a_rate() {
    let written = |pacing: Pacing| serde_json::to_value(pacing).unwrap();
    assert_eq!(written(Pacing::Closed), json!("closed"));
    assert_eq!(written(Pacing::Rate(250.0)), json!(250.0));
    let read = |value: Value| serde_json::from_value::<Pacing>(value).ok();
    assert_eq!(read(json!("closed")), Some(Pacing::Closed));
    assert_eq!(read(json!(250)), Some(Pacing::Rate(250.0)));
    for wrong in [json!("open"), json!(0), json!(-5.0), json!(null), json!([])] {
        assert_eq!(read(wrong.clone()), None, "{wrong}");
    }
}

#[test]
fn unknown_fields_are_ignored_and_optional_ones_may_be_missing() {
    let mut json = json_of(&full());
    json["new_in_1_7"] = json!({"a": [1, 2]});
    json["cases"][0]["new_in_1_7"] = json!("x");
    json["schema"] = json!("loadline.record/1.7");
    let case = json["cases"][0].as_object_mut().unwrap();
    for optional in [
        "errors",
        "planned",
        "not_sent",
        "lag_ns",
        "rounds",
        "histograms",
        "series",
        "cost",
        "parts_ns",
    ] {
        case.remove(optional).unwrap();
    }
    json.as_object_mut().unwrap().remove("environment").unwrap();
    let read = Record::from_json(json.to_string().as_bytes()).unwrap();
    assert_eq!((read.cases[0].ops, read.cases[0].errors.len()), (20_000, 0));
}

#[test]
fn other_major_versions_are_refused_as_such() {
    for schema in [
        "loadline.record/2",
        "loadline.record/10",
        "loadline.record/0",
        "loadline.record/",
        "loadline.record/x",
    ] {
        // The rest of a future version may be anything; the schema alone decides.
        let text = json!({"schema": schema, "cases": 7}).to_string();
        let refused = Record::from_json(text.as_bytes()).unwrap_err();
        assert!(
            matches!(&refused, Error::UnknownVersion { found, .. } if found == schema),
            "{schema}: {refused}"
        );
    }
    let refused = refusal(br#"{"schema":"loadline.record/2"}"#);
    assert_eq!(
        refused,
        "The record has the schema \"loadline.record/2\"; this program reads loadline.record/1. Read it with a Loadline of that version."
    );
}

#[test]
fn malformed_record_is_refused_with_a_sentence() {
    for (bytes, reason) in [
        (&b""[..], "not a JSON object"),
        (b"\xff\xfe\x00", "not a JSON object"),
        (b"[1, 2]", "not a JSON object"),
        (b"null", "it is JSON, but not a JSON object"),
        (
            b"{\n\"schema\": ",
            "its JSON ends in line 2 before it is complete",
        ),
        (b"{}", "no field \"schema\""),
        (b"{\"schema\": 1}", "not a string"),
        (
            b"{\"schema\": \"\\u001b[31mtool/1\"}",
            "its schema is \"[31mtool/1\"",
        ),
        (
            b"{\"schema\": \"loadline.record/1\"}",
            "does not follow its schema: missing field `run`",
        ),
    ] {
        let refused = refusal(bytes);
        assert!(refused.contains(reason), "{refused} should say {reason}");
    }
}

#[test]
fn hostile_json_is_refused_and_does_not_exhaust_the_stack() {
    let deep = "[".repeat(200_000);
    assert!(refusal(deep.as_bytes()).contains("not a JSON object"));
    let mut json = json_of(&full());
    json["run"]["plan"] = json!("@@@");
    let deep_plan = json
        .to_string()
        .replace("\"@@@\"", &format!("{deep}{}", "]".repeat(200_000)));
    assert!(refusal(deep_plan.as_bytes()).contains("recursion limit"));
    let deep_unknown = deep_plan.replace("\"plan\"", "\"unknown\"");
    assert!(
        Record::from_json(deep_unknown.as_bytes()).is_ok(),
        "what is not known is skipped"
    );
    let long_schema = json!({"schema": "x".repeat(1 << 20)}).to_string();
    assert!(refusal(long_schema.as_bytes()).len() < 200);
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let good = json_of(&full());
    let broken = |pointer: &str, literal: &str| {
        let mut json = good.clone();
        *json.pointer_mut(pointer).unwrap() = json!("@@@");
        json.to_string().replace("\"@@@\"", literal)
    };
    for (pointer, literal) in [
        ("/cases/0/ops", "-1"),
        ("/cases/0/ops", "1e400"),
        ("/cases/0/ops", "18446744073709551616"),
        ("/cases/0/ops", "1.5"),
        ("/cases/0/throughput_ops_per_s", "1e400"),
        ("/cases/0/throughput_ops_per_s", "NaN"),
        ("/cases/0/throughput_ops_per_s", "null"),
        ("/comparisons/0/verdict", "\"great\""),
        ("/cases/0/scenario/value_bytes", "\"big\""),
    ] {
        assert!(
            Record::from_json(broken(pointer, literal).as_bytes()).is_err(),
            "{pointer} {literal}"
        );
    }
}

#[test]
fn figures_below_zero_and_histograms_that_are_none_are_refused() {
    let good = json_of(&full());
    for (pointer, value, reason) in [
        ("throughput_ops_per_s", json!(-1.0), "is below zero"),
        ("cost/server_cpu_ns_per_op", json!(-3.5), "is below zero"),
        (
            "histograms/response_time",
            json!("!!!!"),
            "holds no histogram",
        ),
        (
            "histograms/service_time",
            json!("SGVsbG8="),
            "holds no histogram",
        ),
    ] {
        let mut json = good.clone();
        *json.pointer_mut(&format!("/cases/0/{pointer}")).unwrap() = value;
        let refused = refusal(json.to_string().as_bytes());
        let field = format!("\"cases[0].{}\"", pointer.replace('/', "."));
        assert!(
            refused.contains(&field) && refused.contains(reason),
            "{refused}"
        );
    }
}

#[test]
fn counts_that_overflow_when_added_do_not_panic() {
    let mut record = full();
    record.cases[0].errors = [("A".to_owned(), u64::MAX), ("B".to_owned(), u64::MAX)].into();
    record.cases.push(record.cases[0].clone());
    assert_eq!(record.errors(), u64::MAX);
}

#[test]
fn figures_that_json_cannot_carry_are_not_written() {
    for figure in [f64::NAN, f64::INFINITY] {
        let mut record = full();
        record.cases[0].throughput_ops_per_s = figure;
        assert!(matches!(record.to_json_pretty(), Err(Error::Unwritable(_))));
        let mut record = full();
        record.comparisons[0].interval = Some(Bounds {
            lo: figure,
            hi: 1.0,
        });
        assert!(
            record
                .to_json_pretty()
                .unwrap_err()
                .to_string()
                .starts_with("The record cannot be written")
        );
    }
}

#[test]
fn histogram_that_is_none_is_an_error_of_its_own() {
    let mut case = case();
    case.histograms.response_time = "garbage".to_owned();
    assert!(matches!(
        case.response_histogram(),
        Err(Error::Histogram(_))
    ));
    case.histograms.response_time.clear();
    assert!(case.response_histogram().unwrap().is_none());
}

#[test]
fn case_is_named_by_what_is_not_as_by_default() {
    let named = |pipeline, batch, latency_ns| {
        let scenario = Scenario {
            workload: "get".to_owned(),
            pipeline,
            batch,
            latency_ns,
            ..Scenario::default()
        };
        Case {
            scenario,
            ..Case::default()
        }
        .name()
    };
    assert_eq!(named(1, 1, 0), "get");
    assert_eq!(named(16, 1, 0), "get pipeline 16");
    assert_eq!(named(1, 100, 2_500_000), "get batch 100 latency 2500us");
}

/// An answer is a field of the record, as in all versions, and is read back as the same kind.
#[test]
fn answer_is_a_field_named_after_its_question() {
    let mut record = Record::new(Run::default(), Environment::default());
    record.run.plan = json!({});
    for (answer, field) in [
        (Answer::Cases, None),
        (Answer::Clients(Clients::default()), Some("clients")),
        (Answer::Engines(Engines::default()), Some("engines")),
        (Answer::Tiers(Box::default()), Some("tiers")),
        (Answer::Failover(Failover::default()), Some("failover")),
    ] {
        record.answer = answer;
        let written = record.to_json_pretty().unwrap();
        let value: Value = serde_json::from_str(&written).unwrap();
        let fields = ["capacity", "clients", "engines", "tiers", "failover"];
        let found: Vec<&str> = fields
            .into_iter()
            .filter(|name| value.get(name).is_some())
            .collect();
        assert_eq!(found, Vec::from_iter(field));
        assert_eq!(Record::from_json(written.as_bytes()).unwrap(), record);
    }
    record.answer = Answer::Sweep;
    record.run.plan = json!({ "command": "modes" });
    let written = record.to_json_pretty().unwrap();
    assert_eq!(Record::from_json(written.as_bytes()).unwrap(), record);
}

/// A question of a later version is not known here, and its cases are.
#[test]
fn answer_of_a_later_version_leaves_the_cases() {
    let record = Record::new(Run::default(), Environment::default());
    let mut value = serde_json::to_value(&record).unwrap();
    value["history"] = json!({ "points": 1 });
    let read = Record::from_json(value.to_string().as_bytes()).unwrap();
    assert_eq!(read.answer, Answer::Cases);
}
