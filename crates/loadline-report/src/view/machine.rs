//! Output for machines: a check per case for JUnit, and every figure of every case for CSV.

use loadline_measure::LatencySummary;
use loadline_measure::doctor;
use loadline_measure::record::{Case, Pacing, Record, Severity, ValueBytes};
use loadline_measure::words;

use super::groups::groups;
use crate::document::{Block, Check, CheckResult, Checks, Data, Section, Value};

/// From a case to a cell.
type Cell = fn(&Case) -> Value;

/// Every column of a case, in order.
const COLUMNS: [(&str, Cell); 48] = [
    ("subject", |case| text(&case.subject.name)),
    ("kind", |case| text(case.subject.kind.as_str())),
    ("target", |case| text(&case.subject.target)),
    ("subject_version", |case| {
        text(case.subject.version.as_deref().unwrap_or_default())
    }),
    ("workload", |case| text(&case.scenario.workload)),
    ("mode", |case| text(case.scenario.mode.as_str())),
    ("pacing", |case| {
        some(Some(if case.is_open_loop() {
            "open"
        } else {
            "closed"
        }))
    }),
    ("rate_ops_per_s", |case| match case.scenario.pacing {
        Pacing::Rate(rate) => some(Some(rate)),
        Pacing::Closed => some::<f64>(None),
    }),
    ("connections", |case| some(Some(case.scenario.connections))),
    ("threads", |case| some(Some(case.scenario.threads))),
    ("pipeline", |case| some(Some(case.scenario.pipeline))),
    ("batch", |case| some(Some(case.scenario.batch))),
    ("keys", |case| some(Some(case.scenario.keys))),
    ("key_dist", |case| text(&case.scenario.key_dist)),
    ("value_bytes_min", |case| some(Some(value_bytes(case).0))),
    ("value_bytes_max", |case| some(Some(value_bytes(case).1))),
    ("latency_ns", |case| some(Some(case.scenario.latency_ns))),
    ("resp", |case| some(Some(case.scenario.resp))),
    ("rounds", |case| some(Some(case.rounds.len()))),
    ("duration_ns", |case| some(Some(case.duration_ns))),
    ("ops", |case| some(Some(case.ops))),
    ("errors", |case| some(Some(case.error_count()))),
    ("planned", |case| some(case.planned)),
    ("not_sent", |case| some(case.not_sent)),
    ("throughput_ops_per_s", |case| {
        some(Some(case.throughput_ops_per_s))
    }),
    ("response_time_ns_mean", |case| {
        some(case.response_time_ns.mean)
    }),
    ("response_time_ns_p50", |case| {
        some(case.response_time_ns.p50)
    }),
    ("response_time_ns_p90", |case| {
        some(case.response_time_ns.p90)
    }),
    ("response_time_ns_p95", |case| {
        some(case.response_time_ns.p95)
    }),
    ("response_time_ns_p99", |case| {
        some(case.response_time_ns.p99)
    }),
    ("response_time_ns_p999", |case| {
        some(case.response_time_ns.p999)
    }),
    ("response_time_ns_max", |case| {
        some(case.response_time_ns.max)
    }),
    ("service_time_ns_mean", |case| {
        some(case.service_time_ns.mean)
    }),
    ("service_time_ns_p50", |case| some(case.service_time_ns.p50)),
    ("service_time_ns_p99", |case| some(case.service_time_ns.p99)),
    ("service_time_ns_p999", |case| {
        some(case.service_time_ns.p999)
    }),
    ("lag_ns_p50", |case| lag(case, |lag| lag.p50)),
    ("lag_ns_p99", |case| lag(case, |lag| lag.p99)),
    ("hit_ratio", |case| some(case.hit_ratio)),
    ("steady", |case| some(Some(case.steady))),
    ("client_cpu_ns_per_op", |case| {
        some(case.cost.client_cpu_ns_per_op)
    }),
    ("server_cpu_ns_per_op", |case| {
        some(case.cost.server_cpu_ns_per_op)
    }),
    ("bytes_in_per_op", |case| some(case.cost.bytes_in_per_op)),
    ("bytes_out_per_op", |case| some(case.cost.bytes_out_per_op)),
    ("in_flight", |case| some(case.little)),
    ("client_cpu_busy", |case| some(case.client_cpu_busy)),
    ("server_cpu_busy", |case| some(case.server_cpu_busy)),
    ("durability", |case| {
        text(case.scenario.durability.as_deref().unwrap_or_default())
    }),
];

/// The checks and the figures of all cases.
pub(super) fn section(record: &Record, own: Option<Checks>, verdict: &str) -> Option<Section> {
    let checks: Vec<Checks> = own.map_or_else(|| checks(record).collect(), |own| vec![own]);
    let mut blocks: Vec<Block> = checks.into_iter().map(Block::Checks).collect();
    blocks.push(Block::Data(data(record, verdict)));
    Section::new("", blocks)
}

fn data(record: &Record, verdict: &str) -> Data {
    let mut header = vec!["verdict"];
    header.extend(COLUMNS.map(|(name, _)| name));
    header.push("cut_short");
    let rows = record.cases.iter().map(|case| {
        let mut row = vec![Value::Text(verdict.to_owned())];
        row.extend(COLUMNS.map(|(_, cell)| cell(case)));
        row.push(some(Some(record.run.cut_short)));
        row
    });
    Data {
        header,
        rows: rows.collect(),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn some<T: ToString>(value: Option<T>) -> Value {
    Value::Figure(value.map(|value| value.to_string()).unwrap_or_default())
}

fn lag(case: &Case, of: fn(&LatencySummary) -> Option<u64>) -> Value {
    some(case.lag_ns.as_ref().and_then(of))
}

fn value_bytes(case: &Case) -> (u64, u64) {
    match case.scenario.value_bytes {
        ValueBytes::Fixed(size) => (size, size),
        ValueBytes::Spread { min, max, .. } => (min, max),
    }
}

/// A suite per scenario. A case fails where operations failed or the doctor found something critical in
/// it; that one target is slower than another is no failure, since judging that is the gate's work.
fn checks(record: &Record) -> impl Iterator<Item = Checks> {
    let groups = groups(record).into_iter();
    groups.map(|group| {
        let parts = std::iter::once(group.workload.to_owned()).chain(group.conditions);
        let checks = group.cases.iter().map(|(_, case)| check(record, case));
        Checks {
            name: parts.collect::<Vec<_>>().join(", "),
            checks: checks.collect(),
            shown: false,
        }
    })
}

fn check(record: &Record, case: &Case) -> Check {
    let times = &case.response_time_ns;
    let whole =
        |value: Option<u64>| value.map_or_else(|| words::TOO_FEW.to_owned(), |ns| ns.to_string());
    let reasons = reasons(record, case);
    Check {
        name: case.subject.name.clone(),
        class: case.scenario.workload.clone(),
        result: if reasons.is_empty() {
            CheckResult::Passed
        } else {
            CheckResult::Failed("critical")
        },
        message: reasons.join(" "),
        seconds: Some(case.duration_ns as f64 / 1e9),
        properties: vec![
            ("ops", case.ops.to_string()),
            ("errors", case.error_count().to_string()),
            (
                "throughput_ops_per_s",
                case.throughput_ops_per_s.to_string(),
            ),
            ("response_time_ns_p50", whole(times.p50)),
            ("response_time_ns_p99", whole(times.p99)),
            ("response_time_ns_p999", whole(times.p999)),
        ],
    }
}

/// Reasons for the failure of a case; empty if it passes.
fn reasons(record: &Record, case: &Case) -> Vec<String> {
    let scope = doctor::scope(case);
    let critical = record
        .doctor
        .iter()
        .filter(|finding| finding.severity == Severity::Critical && finding.scope == scope);
    let mut reasons: Vec<String> = critical
        .map(|finding| format!("{}: {}", finding.rule, finding.evidence))
        .collect();
    if reasons.is_empty() && case.error_count() > 0 {
        let (errors, ops) = (case.error_count(), case.ops);
        reasons.push(format!("{errors} of {ops} operations failed."));
    }
    reasons
}
