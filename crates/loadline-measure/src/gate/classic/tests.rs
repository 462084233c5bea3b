use serde_json::{Value, json};

use super::*;
use crate::gate::judgement::Outcome;
use crate::gate::reason::LimitGrounds;

/// The file as the write-up has it.
fn file() -> Value {
    json!({
        "last_updated": "2026-01-31",
        "environment": {"host": "CI", "redis": "7.2"},
        "metrics": {
            "set_latency_us": 85.0,
            "get_latency_us": 80.0,
            "del_latency_us": 82,
            "xadd_latency_us": 95.0,
            "xread_latency_us": 310.0,
            "throughput_ops_sec": 11_500,
            "pipeline_latency_per_op_us": 3.1,
            "set_p99_us": 240.0,
            "get_p99_us": 230.0
        },
        "thresholds": {
            "latency_regression_pct": 20,
            "throughput_regression_pct": 10,
            "critical_latency_ms": 10,
            "critical_throughput_min_ops_sec": 1_000
        }
    })
}

fn read(file: &Value) -> Result<Classic, String> {
    Classic::from_json(file.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Twelve rounds around a value, the outermost 4 % away from it.
fn rounds(value: f64) -> Vec<f64> {
    let steps = [-4, -3, -2, -1, -1, 0, 0, 1, 1, 2, 3, 4];
    steps
        .map(|step| value * (1.0 + f64::from(step) / 100.0))
        .to_vec()
}

/// Rounds around the numbers of the file, but for one of them.
fn measured(changed: ClassicMetric, value: f64) -> ClassicRounds {
    let mut values: BTreeMap<ClassicMetric, Vec<f64>> = read(&file())
        .unwrap()
        .metrics
        .into_iter()
        .map(|(metric, number)| (metric, rounds(number)))
        .collect();
    values.insert(changed, rounds(value));
    ClassicRounds {
        values,
        ..ClassicRounds::default()
    }
}

#[test]
fn file_is_read_as_it_is() {
    let classic = read(&file()).unwrap();
    assert_eq!(classic.metrics.len(), 9);
    for metric in ClassicMetric::ALL {
        let number = file()["metrics"][metric.key()].as_f64().unwrap();
        assert_eq!(classic.metrics[&metric], number);
        assert_eq!(serde_json::to_value(metric).unwrap(), metric.key());
    }
    let thresholds = ClassicThresholds {
        latency_regression_pct: 20.0,
        throughput_regression_pct: 10.0,
        critical_latency_ms: 10.0,
        critical_throughput_min_ops_sec: Some(1_000.0),
    };
    assert_eq!(classic.thresholds, thresholds);
    assert_eq!(classic.last_updated.as_deref(), Some("2026-01-31"));
    let least = json!({"metrics": {"set_latency_us": 1}, "later": 1});
    let least = read(&least).unwrap();
    assert_eq!(least.metrics.len(), 1);
    assert_eq!(least.thresholds.critical_throughput_min_ops_sec, None);
    assert_eq!(least.thresholds.latency_regression_pct, 20.0);
}

#[test]
fn field_that_cannot_be_is_refused_by_name() {
    for (pointer, value, reason) in [
        (
            "/metrics/set_latency_us",
            json!(0),
            "\"metrics.set_latency_us\" of the baseline holds 0, not a number from 0.001",
        ),
        (
            "/metrics/get_p99_us",
            json!("fast"),
            "\"metrics.get_p99_us\" of the baseline holds \"fast\"",
        ),
        (
            "/metrics/del_latency_us",
            json!(-3),
            "\"metrics.del_latency_us\"",
        ),
        (
            "/metrics/xadd_latency_us",
            json!(1e300),
            "\"metrics.xadd_latency_us\"",
        ),
        (
            "/metrics/xread_latency_us",
            Value::Null,
            "\"metrics.xread_latency_us\" of the baseline holds null",
        ),
        (
            "/thresholds/latency_regression_pct",
            json!(0),
            "\"thresholds.latency_regression_pct\"",
        ),
        (
            "/thresholds/throughput_regression_pct",
            json!(100),
            "\"thresholds.throughput_regression_pct\" of the baseline holds 100, not a number from 0.1 to 99.9",
        ),
        (
            "/thresholds/critical_latency_ms",
            json!([]),
            "\"thresholds.critical_latency_ms\"",
        ),
        (
            "/thresholds/critical_throughput_min_ops_sec",
            json!(true),
            "\"thresholds.critical_throughput_min_ops_sec\"",
        ),
        (
            "/thresholds",
            json!(3),
            "\"thresholds\" of the baseline holds 3, not an object",
        ),
        (
            "/metrics",
            json!({}),
            "\"metrics\" hold none of set_latency_us",
        ),
        (
            "/last_updated",
            json!(7),
            "\"last_updated\" of the baseline holds 7, not a text",
        ),
    ] {
        let mut file = file();
        *file.pointer_mut(pointer).unwrap() = value;
        let refused = read(&file).unwrap_err();
        assert!(refused.contains(reason), "{refused} should say {reason}");
    }
}

#[test]
fn malformed_classic_file_is_refused_with_a_sentence() {
    for (bytes, reason) in [
        (&b""[..], "it is not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no object \"metrics\""),
        (&[b' '; 70_000][..], "longer than 64 KiB"),
    ] {
        let refused = Classic::from_json(bytes).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn verdicts_go_by_bounds() {
    use ClassicMetric::{GetLatencyUs, SetP99Us, ThroughputOpsSec, XreadLatencyUs};
    // At 12 rounds the bounds are the second values from both ends, 3 % from the median here.
    for (metric, value, verdict) in [
        (GetLatencyUs, 80.0, RowVerdict::Equivalent),
        (GetLatencyUs, 80.0 * 1.12, RowVerdict::Equivalent),
        (GetLatencyUs, 80.0 * 1.15, RowVerdict::Slower),
        (GetLatencyUs, 80.0 * 1.22, RowVerdict::Slower),
        (GetLatencyUs, 80.0 * 1.25, RowVerdict::Warning),
        (XreadLatencyUs, 310.0 * 40.0, RowVerdict::Warning),
        (GetLatencyUs, 80.0 * 0.8, RowVerdict::Faster),
        (ThroughputOpsSec, 11_500.0 * 0.92, RowVerdict::Inconclusive),
        (ThroughputOpsSec, 11_500.0 * 0.85, RowVerdict::Warning),
        (ThroughputOpsSec, 11_500.0 * 0.45, RowVerdict::Critical),
        (ThroughputOpsSec, 11_500.0 * 1.3, RowVerdict::Faster),
        (SetP99Us, 240.0 * 1.3, RowVerdict::Warning),
    ] {
        let judgement = judge(&read(&file()).unwrap(), &measured(metric, value));
        let (case, of) = metric.metric();
        let mut rows = judgement.rows.iter();
        let row = rows
            .find(|row| row.case == case && row.metric == of && row.limit.is_none())
            .unwrap();
        assert_eq!(row.verdict, verdict, "{value}: {row:?}");
    }
}

#[test]
fn unchanged_run_raises_no_alarm_and_lists_unknown_metrics() {
    let judgement = judge(
        &read(&file()).unwrap(),
        &measured(ClassicMetric::SetP99Us, 240.0),
    );
    assert_eq!(judgement.outcome, Outcome::None, "{judgement:#?}");
    assert_eq!(judgement.policy, Policy::Classic);
    assert!(matches!(judgement.notes[..], [Reason::Numbers { .. }]));
}

/// The row that is the first reason.
fn first_reason(judgement: &Judged) -> &JudgedRow {
    match &judgement.reasons[0] {
        Reason::Row(row) => row,
        other => panic!("{other:?}"),
    }
}

#[test]
fn p99_over_ten_milliseconds_is_critical_wherever_it_is() {
    let classic = read(&file()).unwrap();
    for (p99_us, outcome) in [
        (9_000.0, Outcome::None),
        (10_100.0, Outcome::Inconclusive),
        (11_000.0, Outcome::Critical),
    ] {
        let mut rounds_of = measured(ClassicMetric::SetP99Us, 240.0);
        rounds_of.p99_us.insert("xread".to_owned(), rounds(p99_us));
        let judgement = judge(&classic, &rounds_of);
        assert_eq!(judgement.outcome, outcome, "{p99_us}: {judgement:#?}");
    }
    let judgement = judge(&classic, &measured(ClassicMetric::GetP99Us, 11_000.0));
    let row = first_reason(&judgement);
    assert_eq!(row.limit.as_deref(), Some("get.p99<=10ms"));
    let Grounds::Limit(LimitGrounds::Bounds(lo, hi)) = row.evidence else {
        panic!("{row:?}");
    };
    assert!(
        10.6e6 < lo && lo < 10.8e6 && 11.2e6 < hi && hi < 11.4e6,
        "{row:?}"
    );
}

#[test]
fn minimum_throughput_holds_at_any_baseline() {
    let mut file = file();
    file["metrics"]["throughput_ops_sec"] = json!(1_500);
    let classic = read(&file).unwrap();
    let judgement = judge(&classic, &measured(ClassicMetric::ThroughputOpsSec, 900.0));
    assert_eq!(judgement.outcome, Outcome::Critical);
    let row = first_reason(&judgement);
    assert_eq!(
        (row.case.as_str(), row.metric),
        ("sequential set", Metric::Throughput)
    );
    let below = Some(Collapse::BelowMinimum(1_000.0));
    assert!(
        matches!(row.evidence, Grounds::Number { number: 1_500.0, collapse, .. } if collapse == below),
        "{row:?}"
    );
}

#[test]
fn unmeasured_metric_is_inconclusive() {
    let classic = read(&file()).unwrap();
    let judgement = judge(&classic, &ClassicRounds::default());
    assert_eq!(judgement.outcome, Outcome::Inconclusive);
    assert_eq!(judgement.rows.len(), 9);
    let mut zero = measured(ClassicMetric::GetLatencyUs, 80.0);
    zero.values.get_mut(&ClassicMetric::GetLatencyUs).unwrap()[0] = 0.0;
    let judgement = judge(&classic, &zero);
    let row = judgement.rows.iter().find(|row| row.case == "get").unwrap();
    assert_eq!(row.verdict, RowVerdict::Inconclusive);
}

#[test]
fn throughput_is_of_the_operation_whose_time_stands_beside_it() {
    let of = |throughput: f64, set_us: Value, batched_us: Value| {
        let mut file = file();
        file["metrics"]["throughput_ops_sec"] = json!(throughput);
        for (key, value) in [
            ("set_latency_us", set_us),
            ("pipeline_latency_per_op_us", batched_us),
        ] {
            let metrics = file["metrics"].as_object_mut().unwrap();
            metrics.remove(key);
            if !value.is_null() {
                metrics.insert(key.to_owned(), value);
            }
        }
        read(&file)
            .unwrap()
            .operation(ClassicMetric::ThroughputOpsSec)
            .0
    };
    let (batched, sequential) = ("pipeline 100", "sequential set");
    assert_eq!(of(227_273.0, json!(85), json!(4.4)), batched);
    assert_eq!(of(227_273.0, Value::Null, json!(4.4)), batched);
    assert_eq!(of(11_500.0, json!(85), json!(4.4)), sequential);
    assert_eq!(of(11_500.0, Value::Null, json!(4.4)), sequential);
    assert_eq!(of(227_273.0, json!(85), Value::Null), sequential);
}

#[test]
fn pipelined_throughput_is_judged_as_such_and_named() {
    let mut file = file();
    file["metrics"]["throughput_ops_sec"] = json!(227_273);
    file["metrics"]["pipeline_latency_per_op_us"] = json!(4.4);
    let classic = read(&file).unwrap();
    let mut found = measured(ClassicMetric::ThroughputOpsSec, 100_000.0);
    found
        .values
        .insert(ClassicMetric::PipelineLatencyPerOpUs, rounds(10.0));
    let judgement = judge(&classic, &found);
    let row = first_reason(&judgement);
    assert_eq!(
        (row.case.as_str(), row.metric),
        ("pipeline 100", Metric::Throughput)
    );
    let below = Some(Collapse::BelowHalf);
    assert!(
        matches!(row.evidence, Grounds::Number { number: 227_273.0, collapse, .. } if collapse == below),
        "{row:?}"
    );
    let limits: Vec<&str> = judgement
        .rows
        .iter()
        .filter_map(|row| row.limit.as_deref())
        .collect();
    assert_eq!(limits, ["set.p99<=10ms", "get.p99<=10ms"]);
}
