use serde_json::json;

use super::*;
use crate::record::{Pacing, Run, Scenario, ServerEnvironment, Subject};

/// A case of five rounds whose median response time is `factor` times that of its reference, on a
/// machine that takes another time in every round.
fn case(workload: &str, factor: f64) -> Case {
    let rounds = [100_000.0, 300_000.0, 150_000.0, 120_000.0, 800_000.0];
    let rounds: Vec<RoundSummary> = rounds
        .iter()
        .map(|level| RoundSummary {
            ops: 10_000,
            duration_ns: (level * factor * 10_000.0) as u64,
            throughput_ops_per_s: 1e9 / (level * factor),
            response_time_ns_p50: Some((level * factor) as u64),
            server_cpu_ns_per_op: Some(5_000.0 * factor),
            reference_ns_p50: Some(*level as u64),
            ..RoundSummary::default()
        })
        .collect();
    let mut histogram = Histogram::new();
    histogram.record_n((150_000.0 * factor) as u64, 50_000);
    Case {
        subject: Subject {
            name: "a server".to_owned(),
            kind: "server".into(),
            ..Subject::default()
        },
        scenario: Scenario {
            workload: workload.to_owned(),
            ..Scenario::default()
        },
        ops: 50_000,
        duration_ns: 1_000_000_000,
        throughput_ops_per_s: 50_000.0,
        response_time_ns: histogram.summary(),
        histograms: crate::record::Histograms {
            response_time: histogram.encode(),
            ..crate::record::Histograms::default()
        },
        cost: crate::record::Cost {
            server_cpu_ns_per_op: Some(5_000.0 * factor),
            ..crate::record::Cost::default()
        },
        rounds,
        ..Case::default()
    }
}

fn record(id: &str, cases: Vec<Case>) -> Record {
    let run = Run {
        id: id.to_owned(),
        started_at: "2026-02-03T04:05:06Z".to_owned(),
        ..Run::default()
    };
    let mut record = Record::new(run, Environment::default());
    record.cases = cases;
    record
}

fn run(id: &str) -> BaselineRun {
    BaselineRun::of_record(&record(id, vec![case("get", 2.0)])).unwrap()
}

fn place() -> Environment {
    Environment {
        cpu_model: Some("Example CPU".to_owned()),
        cores: Some(2),
        kernel: Some("Linux 6.1.0".to_owned()),
        memory_bytes: Some(8 << 30),
        servers: vec![ServerEnvironment {
            version: Some("7.0.15".to_owned()),
            settings: BTreeMap::from([("appendonly".to_owned(), "no".to_owned())]),
            ..ServerEnvironment::default()
        }],
        ..Environment::default()
    }
}

fn baseline() -> Baseline {
    let limits = vec!["get.p99<10ms".parse().unwrap()];
    let plan = json!({"rounds": 5});
    let mut baseline = Baseline::new(
        "spawn:redis-server".to_owned(),
        "abc".to_owned(),
        plan,
        place(),
        limits,
    );
    for id in ["one", "two"] {
        baseline.add(run(id), &place(), "abc").unwrap();
    }
    baseline
}

#[test]
fn machine_is_divided_out_of_times_and_multiplied_into_throughputs() {
    let run = run("one");
    let metrics = &run.cases["get"].metrics;
    let ln = |metric| metrics[&metric].normalised_ln;
    assert!((ln(Metric::P50).unwrap() - 2.0_f64.ln()).abs() < 1e-4);
    assert!((ln(Metric::Throughput).unwrap() - (1e9 / 2.0_f64).ln()).abs() < 1e-4);
    assert!((ln(Metric::ServerCpu).unwrap() - 10_000.0_f64.ln()).abs() < 1e-9);
    assert_eq!(metrics[&Metric::ServerCpu].raw, 10_000.0);
    assert_eq!(metrics[&Metric::Throughput].raw, 50_000.0);
    assert_eq!(metrics[&Metric::P50].rounds, 5);
    // Rounds do not hold this percentile, so that only a limit can judge it.
    assert_eq!(ln(Metric::P95), None);
    assert!(metrics[&Metric::P95].raw > 290_000.0);
    let histogram = run.cases["get"].response_histogram().unwrap().unwrap();
    assert_eq!(histogram.count(), 50_000);
}

#[test]
fn throughput_of_a_schedule_is_not_compared() {
    let mut open = case("get", 2.0);
    open.scenario.pacing = Pacing::Rate(5e4);
    let run = BaselineRun::of_record(&record("one", vec![open])).unwrap();
    let metrics = &run.cases["get"].metrics;
    assert_eq!(metrics[&Metric::Throughput].normalised_ln, None);
    assert!(metrics[&Metric::P50].normalised_ln.is_some());
}

#[test]
fn most_rounds_without_a_value_leave_the_metric_to_limits() {
    let mut gap = case("get", 2.0);
    // A starved round is left out ...
    gap.rounds[2].response_time_ns_p50 = Some(0);
    // ... but more than half of them leave nothing to go by.
    for round in &mut gap.rounds[..3] {
        round.server_cpu_ns_per_op = None;
    }
    let run = BaselineRun::of_record(&record("one", vec![gap])).unwrap();
    let metrics = &run.cases["get"].metrics;
    assert!(metrics[&Metric::P50].normalised_ln.is_some());
    assert_eq!(metrics[&Metric::ServerCpu].normalised_ln, None);
    assert!(metrics[&Metric::Throughput].normalised_ln.is_some());
}

#[test]
fn records_that_make_no_run_are_refused_with_the_reason() {
    let get = || case("get", 2.0);
    let (mut gap, mut bare) = (get(), get());
    gap.rounds[3].reference_ns_p50 = None;
    bare.rounds.clear();
    for (cases, reason) in [
        (
            vec![gap],
            "\"get\" of the run one was measured without a reference in every round",
        ),
        (vec![bare], "without a reference in every round"),
        (vec![get(), get()], "two cases called \"get\""),
        (vec![], "the run one measured no case"),
    ] {
        let refused = BaselineRun::of_record(&record("one", cases)).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let mut cut = record("one", vec![get()]);
    cut.run.cut_short = true;
    let refused = BaselineRun::of_record(&cut).unwrap_err().to_string();
    assert!(refused.contains("the run one was cut short"), "{refused}");
    let mut hostile = record("one", vec![get()]);
    hostile.cases[0].throughput_ops_per_s = f64::NAN;
    let refused = BaselineRun::of_record(&hostile).unwrap_err().to_string();
    assert!(
        refused.contains("holds NaN, which no throughput can be"),
        "{refused}"
    );
}

#[test]
fn incompatible_runs_are_refused_with_the_difference() {
    let other = |change: fn(&mut Environment)| {
        let mut place = place();
        change(&mut place);
        baseline()
            .add(run("three"), &place, "abc")
            .unwrap_err()
            .to_string()
    };
    for (message, reason) in [
        (
            other(|place| place.cpu_model = Some("Other CPU".to_owned())),
            "The CPU model was Example CPU and is Other CPU now.",
        ),
        (
            other(|place| place.kernel = None),
            "The kernel was Linux 6.1.0 and is not known now.",
        ),
        (
            other(|place| place.servers[0].version = Some("7.2.4".to_owned())),
            "The server's version was 7.0.15 and is 7.2.4 now.",
        ),
        (
            other(|place| drop(place.servers[0].settings.remove("appendonly"))),
            "The server's setting appendonly was no and is not known now.",
        ),
        (
            other(|place| place.servers[0].config_sha256 = Some("e3b0c442".to_owned())),
            "The digest of the server's configuration file was not known and is e3b0c442 now.",
        ),
        (
            other(|place| place.servers.clear()),
            "The number of servers was 1 and is 0 now.",
        ),
        (
            other(|place| place.memory_bytes = Some(4 << 30)),
            "The memory in bytes was 8589934592 and is 4294967296 now.",
        ),
        (
            baseline()
                .add(run("three"), &place(), "xyz")
                .unwrap_err()
                .to_string(),
            "of the workload abc, the run of xyz",
        ),
        (
            baseline()
                .add(run("two"), &place(), "abc")
                .unwrap_err()
                .to_string(),
            "the run two is in it already",
        ),
    ] {
        assert!(message.contains(reason), "{message} should say {reason}");
    }
    let mut fewer = run("three");
    fewer
        .cases
        .insert("set".to_owned(), fewer.cases["get"].clone());
    let message = baseline()
        .add(fewer, &place(), "abc")
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("the new run measured the case \"set\", the runs before did not"),
        "{message}"
    );
}

#[test]
fn noise_and_a_little_memory_make_no_other_place() {
    let mut busy = place();
    busy.noise.cpu_pressure = Some(0.9);
    busy.memory_bytes = Some((8 << 30) - (100 << 20));
    let mut baseline = baseline();
    baseline.add(run("three"), &busy, "abc").unwrap();
    assert_eq!(baseline.runs.len(), 3);
}

#[test]
fn baseline_is_read_as_it_was_written() {
    let written = baseline().to_json().unwrap();
    assert!(written.ends_with("}\n"));
    assert_eq!(Baseline::from_json(written.as_bytes()).unwrap(), baseline());
}

#[test]
fn fields_and_metrics_of_later_versions_are_left_out() {
    let mut json = serde_json::to_value(baseline()).unwrap();
    json["schema"] = json!("loadline.baseline/1.4");
    json["later"] = json!([1, 2]);
    json["runs"][0]["cases"]["get"]["metrics"]["joules_per_op"] = json!({"raw": 1.0, "rounds": 5});
    let read = Baseline::from_json(json.to_string().as_bytes()).unwrap();
    assert_eq!(read.runs, baseline().runs);
}

#[test]
fn malformed_baseline_is_refused_with_a_sentence() {
    let later = json!({"schema": "loadline.baseline/2", "runs": 7}).to_string();
    let record = json!({"schema": "loadline.record/1"}).to_string();
    for (bytes, reason) in [
        (&b""[..], "not a JSON object"),
        (b"{}", "no field \"schema\""),
        (
            b"{\"schema\": 1}",
            "not a JSON object with a field \"schema\"",
        ),
        (
            later.as_bytes(),
            "its schema is \"loadline.baseline/2\", and this program reads loadline.baseline/1",
        ),
        (record.as_bytes(), "its schema is \"loadline.record/1\""),
        (
            b"{\"schema\": \"loadline.baseline/1\"}",
            "missing field `target`",
        ),
    ] {
        let refused = Baseline::from_json(bytes).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused} should say {reason}");
    }
}

#[test]
fn fields_that_cannot_be_are_refused_by_name() {
    let get = "/runs/0/cases/get";
    let p50 = "/runs/0/cases/get/metrics/response_time_ns_p50";
    let long = "x".repeat(2_000);
    for (pointer, value, reason) in [
        (
            "/target".to_owned(),
            json!(long),
            "\"target\" of the baseline is 2000 bytes long",
        ),
        (
            "/workload_hash".to_owned(),
            json!(""),
            "\"workload_hash\" of the baseline is empty",
        ),
        (
            "/runs/1/id".to_owned(),
            json!("one"),
            "\"runs[1].id\" of the baseline names a run",
        ),
        (
            format!("{get}/response_time"),
            json!("@"),
            "\"runs[0].cases.get.response_time\" of the baseline holds no histogram",
        ),
        (
            format!("{p50}/raw"),
            json!(-1.0),
            "\"runs[0].cases.get.response_time_ns_p50\" of the baseline holds -1, which no p50 can be",
        ),
        (
            format!("{p50}/normalised_ln"),
            json!(700.0),
            "holds the logarithm 700",
        ),
        (
            format!("{p50}/rounds"),
            json!(0),
            "normalised without any round",
        ),
        ("/limits/0".to_owned(), json!("p99"), "invalid limit `p99`"),
    ] {
        let mut json = serde_json::to_value(baseline()).unwrap();
        *json.pointer_mut(&pointer).unwrap() = value;
        let refused = Baseline::from_json(json.to_string().as_bytes()).unwrap_err();
        assert!(
            refused.to_string().contains(reason),
            "{refused} should say {reason}"
        );
    }
    let mut many = baseline();
    many.limits = vec!["p99<1ms".parse().unwrap(); MOST + 1];
    let refused = many.to_json().unwrap_err().to_string();
    assert!(
        refused.contains("\"limits\" of the baseline holds 1001 entries"),
        "{refused}"
    );
}
